//! Applies plans, and remembers what is attached.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use analyzer::input::Input;
use analyzer::plan::{Plan, Probe};
use analyzer::wire::FileId;

use super::kernel::Kernel;
use super::planner::Planned;
use super::recorder::Recorder;
use super::sink::AttachSummary;
use crate::budget;
use crate::host::gather::AttachPoint;
use crate::kernel::{Scope, Target};
use crate::plan::attach::AttachMode;

/// See the [module](self).
#[derive(Default)]
pub(super) struct ProbeSet {
    /// There is a budget: some probes may have to be detached for a while.
    can_pause: bool,
    own: BTreeSet<FileId>,
    files: usize,
    attached: usize,
    failed: Vec<Probe>,
    notes: Vec<String>,
}

impl ProbeSet {
    /// `can_pause`: probes may be detached for a while to keep a budget.
    pub(super) fn new(can_pause: bool) -> Self {
        Self { can_pause, ..Self::default() }
    }

    /// Attaches the probes of a plan.
    pub(super) fn apply(&mut self, planned: Planned, kernel: &mut dyn Kernel, recorder: &mut Recorder) {
        let Planned { plan, attach, notes } = planned;
        self.notes.extend(notes);
        self.own.extend(plan.files.iter().filter(|f| f.own).map(|f| f.id));
        self.files += files_with_probes(&plan);
        let paths: HashMap<FileId, PathBuf> =
            attach.iter().map(|(id, point)| (*id, point.path.clone())).collect();
        recorder.know_files(paths.clone());
        // Before the first record that names one of its probes.
        recorder.push(Input::Plan(Box::new(plan.clone())));
        let apart = if self.can_pause { may_pause(&plan) } else { BTreeSet::new() };
        let targets = attach.iter().map(|(id, point)| (*id, target(point))).collect();
        let attached = kernel.attach(&plan, &targets, &apart);
        self.attached += attached.probes;
        self.failed.extend(attached.failed.into_iter().map(|(mut probe, why)| {
            probe.reason = why;
            probe
        }));
    }

    /// Whether a file is the program or a messaging library.
    pub(super) fn is_own(&self, file: FileId) -> bool {
        self.own.contains(&file)
    }

    pub(super) fn count(&self) -> usize {
        self.attached
    }

    pub(super) fn failed(&self) -> Vec<Probe> {
        self.failed.clone()
    }

    pub(super) fn summary(&self, took: Duration) -> AttachSummary {
        AttachSummary {
            probes: self.attached,
            files: self.files,
            failed: self.failed.len(),
            took_ms: took.as_millis() as u64,
            notes: self.notes.clone(),
        }
    }
}

fn files_with_probes(plan: &Plan) -> usize {
    plan.probes.iter().map(|p| p.file).collect::<BTreeSet<_>>().len()
}

fn target(point: &AttachPoint) -> Target {
    let scopes = match point.decision.mode {
        AttachMode::LinkPerProcess => point.pids.iter().map(|pid| Scope::Process(*pid)).collect(),
        AttachMode::OneLink => vec![Scope::EveryProcess],
    };
    Target { path: point.path.clone(), scopes }
}

/// Probes that the budget may have detached for a while.
fn may_pause(plan: &Plan) -> BTreeSet<u32> {
    plan.probes.iter().filter(|probe| budget::can_pause(probe.class)).map(|probe| probe.id).collect()
}

//! Applies plans, and remembers what is attached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use analyzer::input::Input;
use analyzer::plan::{Plan, Probe, ProbePlace};
use analyzer::wire::FileId;

use super::kernel::Kernel;
use super::planner::Planned;
use super::reach::ReachedProcesses;
use super::recorder::Recorder;
use super::sink::AttachSummary;
use crate::kernel::{Scope, Target};

/// See the [module](self).
#[derive(Default)]
pub(super) struct ProbeSet {
    own: BTreeSet<FileId>,
    /// Of the C library, whose functions resize and give back blocks of their callers.
    c_library: BTreeSet<FileId>,
    /// Ids of the probes of each file.
    of_file: BTreeMap<FileId, BTreeSet<u32>>,
    files: usize,
    attached: usize,
    fast: usize,
    failed: Vec<Probe>,
    notes: Vec<String>,
}

impl ProbeSet {
    /// Attaches the probes of a plan.
    pub(super) fn apply(
        &mut self,
        planned: Planned,
        reached: &mut ReachedProcesses,
        kernel: &mut dyn Kernel,
        recorder: &mut Recorder,
    ) {
        reached.drop_files(&planned.dropped);
        let (scopes, shortfall) = reached.scopes(&planned);
        let Planned { plan, attach, mut code, dropped, notes, .. } = planned;
        self.drop_files(&dropped, kernel);
        if plan.files.is_empty() && !dropped.is_empty() {
            return;
        }
        self.notes.extend(notes);
        self.notes.extend(shortfall);
        for probe in &plan.probes {
            self.of_file.entry(probe.file).or_default().insert(probe.id);
        }
        self.own.extend(plan.files.iter().filter(|f| f.own).map(|f| f.id));
        self.c_library
            .extend(plan.probes.iter().filter(|probe| probe.is_free_of_c_library()).map(|p| p.file));
        self.files += files_with_probes(&plan);
        self.fast += plan.probes.iter().filter(|probe| probe.place == ProbePlace::Slot).count();
        recorder.know_files(attach.iter().map(|(id, point)| (*id, Arc::clone(&point.file))));
        // Before the first record that names one of its probes.
        recorder.push(Input::Plan(Box::new(plan.clone())));
        let target = |(id, scope): (FileId, Scope)| {
            let file = Arc::clone(&attach.get(&id)?.file);
            Some((id, Target { file, code: code.remove(&id).unwrap_or_default(), scope }))
        };
        let targets = scopes.into_iter().filter_map(target).collect();
        let attached = kernel.attach(&plan, &targets);
        self.attached += attached.probes;
        self.notes.extend(refused_files(&plan, &attached.failed));
        self.failed.extend(attached.failed.into_iter().map(|(mut probe, why)| {
            probe.reason = why;
            probe
        }));
    }

    /// Takes out probes that are for nothing.
    fn drop_files(&mut self, files: &BTreeSet<FileId>, kernel: &mut dyn Kernel) {
        let probes: BTreeSet<u32> = files.iter().filter_map(|id| self.of_file.remove(id)).flatten().collect();
        if !probes.is_empty() {
            self.attached = self.attached.saturating_sub(kernel.drop_probes(&probes).len());
        }
    }

    /// Whether a file is the program or a messaging library.
    pub(super) fn is_own(&self, file: FileId) -> bool {
        self.own.contains(&file)
    }

    /// Whether a file is the C library. `getline` and `reallocarray` resize blocks of their callers, and others give them back.
    pub(super) fn is_c_library(&self, file: FileId) -> bool {
        self.c_library.contains(&file)
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
            fast: self.fast,
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

/// A note about each file in which no probe could be placed.
fn refused_files(plan: &Plan, failed: &[(Probe, String)]) -> Vec<String> {
    let count =
        |id: FileId, probes: &mut dyn Iterator<Item = &Probe>| probes.filter(|p| p.file == id).count();
    let refused = plan.files.iter().filter_map(|file| {
        let (_, why) = failed.iter().find(|(probe, _)| probe.file == file.id)?;
        let all = count(file.id, &mut plan.probes.iter());
        (count(file.id, &mut failed.iter().map(|(probe, _)| probe)) == all)
            .then(|| format!("{}: no probe is placed: {why}", file.path))
    });
    refused.collect()
}

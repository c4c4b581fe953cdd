//! Facts → plan, for what is known at the start and for what is loaded later.
//!
//! Looking at a new library takes tenths of a second; so after the start a thread does it, and
//! the session goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use analyzer::plan::Plan;
use analyzer::wire::FileId;
use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, unbounded};

use super::host::Host;
use crate::host::gather::{AttachPoint, Gathered, gather_processes};
use crate::host::launched::{LibraryPaths, gather_program, program_of};
use crate::plan::attach::{AttachDecision, AttachMode};
use crate::plan::{PlanOptions, plan};

/// A plan, and what it takes to apply it.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// Probes, and names of files.
    pub plan: Plan,
    /// Where the files are, and who maps them.
    pub attach: BTreeMap<FileId, AttachPoint>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// Plans what processes map, each file once.
pub(super) trait PlanSource: Send {
    /// What these processes map and was not planned before.
    ///
    /// # Errors
    /// None of them can be looked at.
    fn processes(&mut self, pids: &[u32]) -> Result<Planned>;

    /// The same for what is loaded while the job runs. Other ranks are about to load it too, so no
    /// link is for single processes.
    ///
    /// # Errors
    /// See [`PlanSource::processes`].
    fn later(&mut self, pids: &[u32]) -> Result<Planned> {
        let mut planned = self.processes(pids)?;
        for point in planned.attach.values_mut() {
            point.decision = AttachDecision {
                mode: AttachMode::OneLink,
                reason: "loaded while the job runs: other ranks may load it next".into(),
            };
        }
        Ok(planned)
    }
}

/// Remembers what was planned already.
pub(super) struct Planner {
    options: PlanOptions,
    next_id: u32,
    known: BTreeSet<FileId>,
}

impl Planner {
    pub(super) fn new(options: PlanOptions) -> Self {
        Self { options, next_id: 1, known: BTreeSet::new() }
    }

    /// What a command will map, as far as files tell; the rest follows when it is mapped.
    pub(super) fn command(&mut self, command: &[String]) -> Result<Planned> {
        let search: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let Some(program) = program_of(command, &search) else {
            let note = "the program that the ranks will run cannot be told from the command: its start is not covered".into();
            return Ok(Planned { notes: vec![note], ..Planned::default() });
        };
        let gathered = gather_program(&program, &LibraryPaths::of_this_machine())
            .with_context(|| format!("cannot read {}", program.display()))?;
        self.plan(gathered)
    }

    fn plan(&mut self, gathered: Gathered) -> Result<Planned> {
        self.known.extend(gathered.attach.keys());
        let plan =
            plan(&gathered.facts, &self.options, self.next_id).context("cannot make the probe plan")?;
        self.next_id += plan.probes.len() as u32;
        Ok(Planned { plan, attach: gathered.attach, notes: gathered.notes })
    }
}

impl PlanSource for Planner {
    fn processes(&mut self, pids: &[u32]) -> Result<Planned> {
        let gathered = gather_processes(pids, &self.known)?;
        self.plan(gathered)
    }
}

/// A planner in a thread of its own. It ends with this.
pub(super) struct PlannerThread {
    requests: Sender<Vec<u32>>,
    results: Receiver<Planned>,
}

impl PlannerThread {
    pub(super) fn start(
        mut planner: Box<dyn PlanSource>,
        cpus: Vec<u32>,
        host: Arc<dyn Host>,
    ) -> std::io::Result<Self> {
        let (requests, request_receiver) = unbounded::<Vec<u32>>();
        let (result_sender, results) = unbounded();
        std::thread::Builder::new().name("dms-plan".into()).spawn(move || {
            host.stay_on(&cpus);
            while let Ok(mut pids) = request_receiver.recv() {
                pids.extend(request_receiver.try_iter().flatten());
                pids.sort_unstable();
                pids.dedup();
                // A process that is gone needs no probes.
                let Ok(planned) = planner.later(&pids) else { continue };
                if !planned.plan.files.is_empty() && result_sender.send(planned).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, results })
    }

    /// These processes have loaded something.
    pub(super) fn look_at(&self, pids: Vec<u32>) {
        // The thread ends only with self.
        let _ = self.requests.send(pids);
    }

    /// Plans that are ready.
    pub(super) fn ready(&self) -> Vec<Planned> {
        self.results.try_iter().collect()
    }
}

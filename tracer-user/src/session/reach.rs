//! Which files are probed in processes of the job only, and which processes these are.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::wire::FileId;

use super::host::Host;
use super::kernel::Kernel;
use super::planner::Planned;
use crate::budget::{is_of_heap, links_by_file};
use crate::kernel::Scope;
use crate::plan::attach::{
    AttachDecision, AttachMode, FileUse, JobSize, MOST_LINKS, OnlyJob, attach_modes, shortfall,
};

/// See the [module](self).
#[derive(Default)]
pub(super) struct ReachedProcesses {
    only_job: OnlyJob,
    /// What was there before anything was attached.
    job: JobSize,
    processes: BTreeSet<u32>,
    /// Links that each of them has, by file.
    links: BTreeMap<FileId, usize>,
    /// Those of the files whose probes see more than the heap.
    of_movements: BTreeSet<FileId>,
    /// Processes that ran before they had their links: since when they have them, CLOCK_MONOTONIC.
    late: BTreeMap<u32, u64>,
}

impl ReachedProcesses {
    /// Nobody yet.
    pub(super) fn new(only_job: OnlyJob) -> Self {
        Self { only_job, ..Self::default() }
    }

    /// So many processes of the job are here or about to come.
    pub(super) fn expect(&mut self, job: JobSize) {
        self.job = job;
    }

    /// Decides for whom the probes of a plan are; says so if that is not what was asked for.
    pub(super) fn scopes(&mut self, planned: &Planned) -> (BTreeMap<FileId, Scope>, Option<String>) {
        let links = links_by_file(&planned.plan);
        let facts = planned.attach.iter().map(|(id, point)| {
            let links = links.get(id).copied().unwrap_or(0);
            (*id, FileUse { strangers: point.strangers, links, is_late: planned.is_late })
        });
        let left = MOST_LINKS.saturating_sub(self.all_links());
        let job = JobSize { processes: self.processes.len().max(self.job.processes), ..self.job };
        let decided = attach_modes(&facts.collect(), job, left, self.only_job);
        let note = shortfall(self.only_job, &decided);
        let scope = |(id, decision): (FileId, AttachDecision)| match decision.mode {
            AttachMode::OneLink => (id, Scope::EveryProcess),
            AttachMode::LinkPerProcess => {
                self.links.insert(id, links.get(&id).copied().unwrap_or(0));
                let mut probes = planned.plan.probes.iter().filter(|probe| probe.file == id);
                if probes.any(|probe| !is_of_heap(probe.class)) {
                    self.of_movements.insert(id);
                }
                (id, Scope::EachReached)
            }
        };
        (decided.into_iter().map(scope).collect(), note)
    }

    /// These have no probes any more.
    pub(super) fn drop_files(&mut self, files: &BTreeSet<FileId>) {
        self.links.retain(|file, _| !files.contains(file));
        self.of_movements.retain(|file| !files.contains(file));
    }

    /// One more process has links of its own. False: there are too many, and probes that have links for single
    /// processes are not seen in it.
    pub(super) fn add(&mut self, pid: u32, kernel: &mut dyn Kernel, host: &dyn Host) -> bool {
        let has_room = self.all_links() + self.links_each() <= MOST_LINKS;
        if has_room && self.processes.insert(pid) {
            kernel.reach(pid);
            if !self.of_movements.is_empty() {
                self.late.insert(pid, host.now_ns());
            }
        }
        self.processes.contains(&pid)
    }

    /// Whether movements or calls of a process went unseen before it had its links; true once.
    pub(super) fn missed_beginning(&mut self, pid: u32) -> bool {
        self.late.remove(&pid).is_some()
    }

    /// It runs another program since then: if it had its links already, nothing of that was missed.
    pub(super) fn began_anew(&mut self, pid: u32, time_ns: u64) {
        if self.late.get(&pid).is_some_and(|since_ns| *since_ns <= time_ns) {
            self.late.remove(&pid);
        }
    }

    /// It has ended.
    pub(super) fn remove(&mut self, pid: u32, kernel: &mut dyn Kernel) {
        self.late.remove(&pid);
        if self.processes.remove(&pid) {
            kernel.leave(pid);
        }
    }

    fn links_each(&self) -> usize {
        self.links.values().sum()
    }

    fn all_links(&self) -> usize {
        self.processes.len() * self.links_each()
    }
}

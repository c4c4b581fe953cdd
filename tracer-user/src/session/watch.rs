//! Who is watched, and whose records are in which ring.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::input::{Mapping, ProcessFacts};

use super::host::Host;
use super::kernel::Kernel;
use super::probes::ProbeSet;
use super::sink::Sink;
use crate::kernel::MAX_SLOTS;

#[derive(Clone, Copy, Debug, Default)]
struct WatchedProcess {
    slot: u32,
    /// What its environment says; its children inherit that, whatever they are.
    rank: Option<u32>,
    /// It has that from a parent that has it too: a rank's child, or what a rank's script runs.
    inherited: bool,
    /// It is an MPI process of the job.
    is_rank: bool,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Watched {
    processes: BTreeMap<u32, WatchedProcess>,
    /// Rings exist for slots below this.
    made: u32,
    free: BTreeSet<u32>,
    /// The last process that had a slot for itself.
    owners: BTreeMap<u32, u32>,
    /// Processes whose own code the kernel part knows.
    told: BTreeMap<u32, Vec<(u64, u64)>>,
    /// Processes that began (or began anew) before the last settling.
    settling: BTreeSet<u32>,
    complained: bool,
}

impl Watched {
    /// Gives each process a ring of its own (or, when there are no more, has it share one).
    pub(super) fn give_slots(&mut self, pids: &[u32], kernel: &mut dyn Kernel, sink: &mut dyn Sink) {
        let without: Vec<u32> = pids.iter().copied().filter(|pid| !self.has_own_slot(*pid)).collect();
        self.make_slots(without.len().saturating_sub(self.free.len()), kernel);
        for pid in without {
            self.give_slot(pid, sink);
        }
    }

    fn has_own_slot(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|known| self.owners.get(&known.slot) == Some(&pid))
    }

    fn give_slot(&mut self, pid: u32, sink: &mut dyn Sink) {
        let known = self.processes.get(&pid).copied().unwrap_or_default();
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.complain(sink, "there are more processes than ring buffers: some share one, and its losses");
            pid % self.made.max(1)
        });
        self.processes.insert(pid, WatchedProcess { slot, ..known });
        self.owners.insert(slot, pid);
    }

    /// Has the kernel part record what the process does, from now on.
    pub(super) fn open(&mut self, pid: u32, kernel: &mut dyn Kernel, sink: &mut dyn Sink) {
        let Some(process) = self.processes.get(&pid) else { return };
        if let Err(error) = kernel.watch(pid, process.slot, None) {
            self.complain(sink, &error.to_string());
        }
        self.began_anew(pid);
    }

    /// Makes so many rings more, if there is memory and place for them.
    fn make_slots(&mut self, count: usize, kernel: &mut dyn Kernel) {
        let end = self.made.saturating_add(count as u32).min(MAX_SLOTS);
        if self.made == end {
            return;
        }
        let first = self.made;
        self.made += kernel.make_rings(first..end);
        self.free.extend(first..self.made);
    }

    fn complain(&mut self, sink: &mut dyn Sink, message: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            sink.notice(message);
        }
    }

    /// Remembers what is known of a process.
    pub(super) fn note(&mut self, facts: &ProcessFacts, is_rank: bool) {
        if let Some(process) = self.processes.get_mut(&facts.pid) {
            process.rank = facts.rank;
            process.is_rank = is_rank;
        }
    }

    /// Whether its environment speaks of another process.
    pub(super) fn has_inherited_rank(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|p| p.inherited)
    }

    /// Whether it may turn out to be a rank when it loads an MPI library.
    pub(super) fn may_become_rank(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|p| p.rank.is_some() && !p.is_rank)
    }

    /// A child is watched from its birth; it shares its parent's ring.
    pub(super) fn inherit(&mut self, parent: u32, child: u32) {
        if let Some(process) = self.processes.get(&parent).copied() {
            self.processes.entry(child).or_insert(WatchedProcess {
                inherited: process.rank.is_some(),
                is_rank: false,
                ..process
            });
        }
    }

    pub(super) fn forget(&mut self, pid: u32) {
        self.began_anew(pid);
        if let Some(gone) = self.processes.remove(&pid)
            && !self.processes.values().any(|p| p.slot == gone.slot)
        {
            self.free.insert(gone.slot);
        }
    }

    /// Processes whose end was not seen (its record was lost).
    pub(super) fn forget_the_dead(&mut self, host: &dyn Host) {
        let dead: Vec<u32> = self.pids().into_iter().filter(|pid| host.has_ended(*pid)).collect();
        for pid in dead {
            self.forget(pid);
        }
    }

    /// Another program runs in the process: what is its own is to be found out.
    pub(super) fn began_anew(&mut self, pid: u32) {
        self.told.remove(&pid);
        self.settling.remove(&pid);
    }

    /// Tells the kernel part which code's small heap blocks to record. Until it is told, it records
    /// all: so nothing is missing from the time in which libraries are still being loaded.
    pub(super) fn tell_own_code(
        &mut self,
        pid: u32,
        mappings: &[Mapping],
        kernel: &mut dyn Kernel,
        probes: &ProbeSet,
    ) {
        let Some(process) = self.processes.get(&pid) else { return };
        let own: Vec<(u64, u64)> = mappings
            .iter()
            .filter(|m| process.is_rank && m.exec && probes.is_own(m.file))
            .map(|m| (m.start, m.end))
            .collect();
        if self.told.get(&pid) != Some(&own) && kernel.watch(pid, process.slot, Some(&own)).is_ok() {
            self.told.insert(pid, own);
        }
    }

    /// Tells it again for processes that have loaded something, if it was told before.
    pub(super) fn renew_own_code(&mut self, kernel: &mut dyn Kernel, host: &dyn Host, probes: &ProbeSet) {
        for pid in self.told.keys().copied().collect::<Vec<_>>() {
            self.look_up_own_code(pid, kernel, host, probes);
        }
    }

    /// Now and then: tells it for processes that began some time ago.
    pub(super) fn settle(&mut self, kernel: &mut dyn Kernel, host: &dyn Host, probes: &ProbeSet) {
        for pid in self.pids() {
            if !self.told.contains_key(&pid) && !self.settling.insert(pid) {
                self.look_up_own_code(pid, kernel, host, probes);
            }
        }
    }

    fn look_up_own_code(&mut self, pid: u32, kernel: &mut dyn Kernel, host: &dyn Host, probes: &ProbeSet) {
        // A process that is gone runs no code.
        if let Some(mappings) = host.mappings(pid) {
            self.tell_own_code(pid, &mappings, kernel, probes);
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    /// Numbers of the rings of all processes.
    pub(super) fn slots(&self) -> BTreeSet<u32> {
        self.processes.values().map(|p| p.slot).collect()
    }

    /// Ranks with the numbers of their rings.
    pub(super) fn rank_slots(&self) -> impl Iterator<Item = (u32, u32)> {
        self.processes.iter().filter(|(_, p)| p.is_rank).map(|(pid, p)| (*pid, p.slot))
    }

    pub(super) fn is_rank(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|p| p.is_rank)
    }

    /// Whose losses a slot counts.
    pub(super) fn owner(&self, slot: u32) -> u32 {
        self.owners.get(&slot).copied().unwrap_or(0)
    }

    /// Ranks that are alive.
    pub(super) fn ranks(&self) -> Vec<u32> {
        self.processes
            .values()
            .filter(|p| p.is_rank)
            .filter_map(|p| p.rank)
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect()
    }

    /// Whether anything is alive that is a rank or may become one (by exec, say).
    pub(super) fn has_ranks(&self) -> bool {
        self.processes.values().any(|p| p.is_rank || p.rank.is_some())
    }
}

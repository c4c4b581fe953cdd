//! Who is watched, and whose records are in which ring.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::input::{Mapping, ProcessFacts};
use analyzer::wire::FileId;

use super::host::Host;
use super::kernel::Kernel;
use super::probes::ProbeSet;
use super::reach::ReachedProcesses;
use super::sink::Sink;
use crate::kernel::{MAX_SLOTS, ProcessKey};
use crate::plan::attach::OnlyJob;

#[derive(Clone, Copy, Debug, Default)]
struct WatchedProcess {
    slot: u32,
    /// With its PID, who it is; `None`: it could not be looked at when it came.
    started: Option<u64>,
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
    /// Those that have links of their own.
    pub(super) reached: ReachedProcesses,
    /// Why there are no more rings.
    no_more_rings: Option<String>,
    complained: bool,
}

impl Watched {
    /// Nobody is watched yet.
    pub(super) fn new(only_job: OnlyJob) -> Self {
        Self { reached: ReachedProcesses::new(only_job), ..Self::default() }
    }

    /// Gives each process a ring of its own (or, when there are no more, has it share one).
    pub(super) fn give_slots(&mut self, pids: &[u32], kernel: &mut dyn Kernel, sink: &mut dyn Sink) {
        let without: Vec<u32> = pids.iter().copied().filter(|pid| !self.has_own_slot(*pid)).collect();
        self.make_slots(without.len().saturating_sub(self.free.len()), kernel);
        for pid in without {
            self.give_slot(pid, sink);
        }
    }

    /// Makes a ring for the next process: making one takes several milliseconds.
    pub(super) fn reserve_slot(&mut self, kernel: &mut dyn Kernel) {
        self.make_slots(usize::from(self.free.is_empty()), kernel);
    }

    /// The process uses the ring of one of these.
    pub(super) fn share_slot(&mut self, owners: &[u32], pid: u32) {
        let owner = owners.iter().find_map(|owner| self.processes.get(owner));
        if let Some(WatchedProcess { slot, .. }) = owner.copied() {
            self.processes.entry(pid).or_insert(WatchedProcess { slot, ..WatchedProcess::default() });
        }
    }

    fn has_own_slot(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|known| self.owners.get(&known.slot) == Some(&pid))
    }

    fn give_slot(&mut self, pid: u32, sink: &mut dyn Sink) {
        let known = self.processes.get(&pid).copied().unwrap_or_default();
        let slot = self.free.pop_first().unwrap_or_else(|| {
            let why = self.no_more_rings.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let message =
                format!("there are more processes than ring buffers{why}: some share one, and its losses");
            self.complain(sink, &message);
            pid % self.made.max(1)
        });
        self.processes.insert(pid, WatchedProcess { slot, ..known });
        self.owners.insert(slot, pid);
    }

    /// Has the kernel part record what the process does, from now on. `started`: when it did, if that is known
    /// from when it was found out what it is.
    pub(super) fn open(
        &mut self,
        pid: u32,
        started: Option<u64>,
        kernel: &mut dyn Kernel,
        host: &dyn Host,
        sink: &mut dyn Sink,
    ) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let start_ticks = match started.map_or_else(|| host.start_ticks(pid), Ok) {
            Ok(start_ticks) => start_ticks,
            // One that is gone already does nothing more.
            Err(error) if error.has_ended() => return,
            Err(error) => return self.complain(sink, &format!("{error}: it is not watched")),
        };
        process.started = Some(start_ticks);
        if let Err(error) = kernel.watch(ProcessKey { pid, start_ticks }, process.slot) {
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
        let (made, refused) = kernel.make_rings(first..end);
        self.made += made;
        self.no_more_rings = refused.map(|error| error.to_string());
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

    /// A child is watched from its birth; it shares its parent's ring. It may become a rank, unless it is a rank's.
    pub(super) fn inherit(&mut self, parent: u32, child: u32, kernel: &mut dyn Kernel, host: &dyn Host) {
        if let Some(process) = self.processes.get(&parent).copied() {
            if !process.is_rank {
                self.reached.add(child, kernel, host);
            }
            self.processes.entry(child).or_insert_with(|| WatchedProcess {
                started: host.start_ticks(child).ok(),
                inherited: process.rank.is_some(),
                is_rank: false,
                ..process
            });
        }
    }

    /// A process has ended. Its PID may be another's by now, which stays watched if it is.
    pub(super) fn forget(&mut self, pid: u32, kernel: &mut dyn Kernel) {
        self.began_anew(pid);
        let Some(gone) = self.processes.remove(&pid) else { return };
        self.reached.remove(pid, kernel);
        // The kernel part does so when it sees the end; but it may not have been told of the process before that.
        if gone.started.is_some() {
            kernel.unwatch(pid, gone.started);
        }
        if !self.processes.values().any(|p| p.slot == gone.slot) {
            self.free.insert(gone.slot);
        }
    }

    /// Processes whose end was not seen (its record was lost), also where another has their PID now.
    pub(super) fn forget_the_dead(&mut self, kernel: &mut dyn Kernel, host: &dyn Host, sink: &mut dyn Sink) {
        for (pid, started) in self.keys() {
            match host.has_ended(pid, started) {
                Ok(true) => self.forget(pid, kernel),
                Ok(false) => {}
                Err(error) => self.complain(sink, &format!("{error}: its end may go unseen")),
            }
        }
    }

    /// Whether the process that is watched under this PID is still there.
    pub(super) fn is_still_there(&self, pid: u32, host: &dyn Host) -> bool {
        let started = self.processes.get(&pid).and_then(|process| process.started);
        !host.has_ended(pid, started).unwrap_or(false)
    }

    fn keys(&self) -> Vec<(u32, Option<u64>)> {
        self.processes.iter().map(|(pid, process)| (*pid, process.started)).collect()
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
        let code_of = |is_wanted: &dyn Fn(FileId) -> bool| -> Vec<(u64, u64)> {
            let code = mappings.iter().filter(|m| process.is_rank && m.exec && is_wanted(m.file));
            code.map(|m| (m.start, m.end)).collect()
        };
        let mut own = code_of(&|file| probes.is_own(file));
        // If there is room for all.
        own.extend(code_of(&|file| probes.is_c_library(file) && !probes.is_own(file)));
        if self.told.get(&pid) != Some(&own) && kernel.tell_own_code(pid, &own).is_ok() {
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

    /// Whose losses a slot counts: those of all processes that share it, or of the last one that had it.
    pub(super) fn sharers(&self, slot: u32) -> Vec<u32> {
        let sharing = self.processes.iter().filter(|(_, process)| process.slot == slot);
        let sharers: Vec<u32> = sharing.map(|(pid, _)| *pid).collect();
        if sharers.is_empty() { vec![self.owners.get(&slot).copied().unwrap_or(0)] } else { sharers }
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

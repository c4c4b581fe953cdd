//! Samples what quiet ranks are doing, in a thread of its own: they may wait for each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;

use analyzer::input::Threads;
use analyzer::pipeline::LastCall;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::host::Host;
use super::kernel::{ReadThreads, ThreadReader};
use super::schedule::SampleSchedule;

/// A thread that reads the memory of a process may wait for that process for ever.
const PATIENCE_NS: u64 = 30_000_000_000;
const FAILED: &str = "the thread that samples quiet ranks has failed: hangs are not found from now on";
const SILENT: &str = "a read of a rank's memory does not end: what quiet ranks are doing is not known, and hangs are not found";
const BACK: &str = "the read of a rank's memory has ended: hangs are found again";

/// Of more processes that cannot be read it is only said that there are some.
const MOST_NAMED: usize = 3;

/// Processes to be sampled.
struct SampleRequest {
    time_ns: u64,
    /// With what is known of their threads' last MPI calls.
    processes: BTreeMap<u32, Vec<LastCall>>,
}

/// How the thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Well,
    /// It has not answered for long.
    Silent,
    Failed,
}

/// The thread that samples, and what it is to sample. It ends with this.
pub(super) struct Sampler {
    requests: Sender<SampleRequest>,
    results: Receiver<(u64, ReadThreads)>,
    /// Never joined: it may not end.
    thread: JoinHandle<()>,
    /// It was asked then, and has not answered yet.
    busy_since_ns: Option<u64>,
    health: Health,
    /// PIDs of processes of which it was said that they cannot be read.
    unreadable: BTreeSet<u32>,
    /// What people have not been told yet.
    untold: Vec<String>,
    schedule: SampleSchedule,
    /// By slot, when its last record was written.
    last_record_ns: HashMap<u32, u64>,
    /// Everything that the budget allows has been watched since then.
    watched_since_ns: u64,
}

impl Sampler {
    /// Starts the thread on the given CPUs (empty: wherever the scheduler likes).
    ///
    /// # Errors
    /// No thread to be had.
    pub(super) fn start(
        mut reader: Box<dyn ThreadReader>,
        cpus: Vec<u32>,
        host: Arc<dyn Host>,
    ) -> std::io::Result<Self> {
        let (requests, request_receiver) = bounded::<SampleRequest>(1);
        let (result_sender, results) = bounded(1);
        let watched_since_ns = host.now_ns();
        let thread = std::thread::Builder::new().name("dms-sample".into()).spawn(move || {
            host.stay_on(&cpus);
            reader.get_ready();
            for request in request_receiver {
                let read = reader.read(request.processes);
                if result_sender.send((request.time_ns, read)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            requests,
            results,
            thread,
            busy_since_ns: None,
            health: Health::Well,
            unreadable: BTreeSet::new(),
            untold: Vec::new(),
            schedule: SampleSchedule::default(),
            last_record_ns: HashMap::new(),
            watched_since_ns,
        })
    }

    /// A record of a slot was written then.
    pub(super) fn heard(&mut self, slot: u32, time_ns: u64) {
        self.last_record_ns.insert(slot, time_ns);
    }

    /// What is watched has changed: who left no record before was perhaps not quiet.
    pub(super) fn coverage_changed(&mut self, time_ns: u64) {
        self.watched_since_ns = time_ns;
    }

    /// What was found, if it is there. Nobody waits for it.
    pub(super) fn found(&mut self) -> Option<Threads> {
        let (time_ns, ReadThreads { threads, unreadable }) = self.results.try_recv().ok()?;
        self.busy_since_ns = None;
        for (pid, reason) in unreadable {
            self.cannot_read(pid, &reason);
        }
        let threads = Threads { time_ns, threads };
        self.schedule.found(&threads);
        Some(threads)
    }

    fn cannot_read(&mut self, pid: u32, reason: &str) {
        if self.unreadable.len() > MOST_NAMED || !self.unreadable.insert(pid) {
            return;
        }
        self.untold.push(match self.unreadable.len() > MOST_NAMED {
            true => "what more processes are doing cannot be read: hangs that they take part in may not be found".into(),
            false => format!(
                "what process {pid} is doing cannot be read: {reason}; hangs that it takes part in may not be found"
            ),
        });
    }

    /// What people should know of the thread and of what it cannot read, each once.
    pub(super) fn troubles(&mut self, now_ns: u64) -> Vec<String> {
        let mut untold = std::mem::take(&mut self.untold);
        untold.extend(self.change_of_health(now_ns).map(str::to_owned));
        untold
    }

    fn change_of_health(&mut self, now_ns: u64) -> Option<&'static str> {
        let is_late = self.busy_since_ns.is_some_and(|since_ns| now_ns >= since_ns + PATIENCE_NS);
        let health = match self.thread.is_finished() {
            true => Health::Failed,
            false if is_late => Health::Silent,
            false => Health::Well,
        };
        match (std::mem::replace(&mut self.health, health), health) {
            (before, now) if before == now => None,
            (_, Health::Failed) => Some(FAILED),
            (_, Health::Silent) => Some(SILENT),
            (_, Health::Well) => Some(BACK),
        }
    }

    /// Has the ranks sampled that are due. `ranks`: each with its slot; `last_calls`: those of a process's threads.
    pub(super) fn sample(
        &mut self,
        now_ns: u64,
        ranks: impl Iterator<Item = (u32, u32)>,
        last_calls: impl Fn(u32) -> Vec<LastCall>,
    ) {
        if self.busy_since_ns.is_some() {
            return;
        }
        let since_ns = self.watched_since_ns;
        let last = |slot| self.last_record_ns.get(&slot).copied().unwrap_or(0).max(since_ns);
        let due = self.schedule.due(now_ns, ranks.map(|(pid, slot)| (pid, last(slot))));
        if due.is_empty() {
            return;
        }
        let processes = due.into_iter().map(|pid| (pid, last_calls(pid))).collect();
        let asked = self.requests.try_send(SampleRequest { time_ns: now_ns, processes });
        self.busy_since_ns = asked.is_ok().then_some(now_ns);
    }
}

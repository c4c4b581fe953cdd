//! Samples what quiet ranks are doing, in a thread of its own: they may wait for each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use analyzer::input::Threads;
use analyzer::pipeline::LastCall;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::host::Host;
use super::kernel::ThreadReader;
use super::schedule::SampleSchedule;

/// Processes to be sampled.
struct SampleRequest {
    time_ns: u64,
    /// With what is known of their threads' last MPI calls.
    processes: BTreeMap<u32, Vec<LastCall>>,
}

/// The thread that samples, and what it is to sample. It ends with this.
pub(super) struct Sampler {
    requests: Sender<SampleRequest>,
    results: Receiver<Threads>,
    /// It was asked, and has not answered yet.
    is_busy: bool,
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
        std::thread::Builder::new().name("dms-sample".into()).spawn(move || {
            host.stay_on(&cpus);
            for request in request_receiver {
                let threads = reader.read(request.processes);
                if result_sender.send(Threads { time_ns: request.time_ns, threads }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            requests,
            results,
            is_busy: false,
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

    /// What was found, if it is there.
    pub(super) fn found(&mut self) -> Option<Threads> {
        let threads = self.results.try_recv().ok()?;
        self.is_busy = false;
        self.schedule.found(&threads);
        Some(threads)
    }

    /// Has the ranks sampled that are due. `ranks`: each with its slot; `last_calls`: those of a process's threads.
    pub(super) fn sample(
        &mut self,
        now_ns: u64,
        ranks: impl Iterator<Item = (u32, u32)>,
        last_calls: impl Fn(u32) -> Vec<LastCall>,
    ) {
        if self.is_busy {
            return;
        }
        let since_ns = self.watched_since_ns;
        let last = |slot| self.last_record_ns.get(&slot).copied().unwrap_or(0).max(since_ns);
        let due = self.schedule.due(now_ns, ranks.map(|(pid, slot)| (pid, last(slot))));
        if due.is_empty() {
            return;
        }
        let processes = due.into_iter().map(|pid| (pid, last_calls(pid))).collect();
        self.is_busy = self.requests.try_send(SampleRequest { time_ns: now_ns, processes }).is_ok();
    }
}

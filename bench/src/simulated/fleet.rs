//! All nodes of a made-up job, in turn on a few threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use dmscope::cluster::bus::{Bus, Credentials, NatsBus, NatsSettings};
use dmscope::host::clock::monotonic_ns;
use live::BusServer;
use rustix::time::{ClockId, clock_gettime};

use super::counted_bus::{CountedBus, SentMessages};
use super::node::{JOB, SimulatedNode};
use super::state::{FleetJob, FleetState, ns};

/// Threads that nodes take turns on.
const DRIVERS: u32 = 2;
/// Nodes that connect at the same time.
const AT_ONCE: usize = 64;
/// Each node has its turn so often, however many there are: what it costs must not depend on them. Sessions read their rings
/// forty times as often; a thousand of them on two cores cannot: beyond what those can do turns are late, letters fewer and larger,
/// and costs no longer those of the same work.
const PASS: Duration = Duration::from_millis(200);

/// What nodes have used and sent so far.
#[derive(Clone, Copy, Debug)]
pub struct FleetUse {
    /// When.
    pub at: Instant,
    /// Processor time of all of them, without that of making records up.
    pub cpu_ns: u64,
    /// What they sent.
    pub sent: SentMessages,
}

/// See the [module](self).
pub struct Fleet {
    state: Arc<FleetState>,
    drivers: Vec<JoinHandle<Result<()>>>,
}

impl Fleet {
    /// Connects all nodes of a job.
    ///
    /// # Errors
    /// The server refuses one.
    pub fn start(job: FleetJob, server: &BusServer) -> Result<Self> {
        let state = Arc::new(FleetState {
            job,
            sent: Arc::default(),
            open: AtomicUsize::new(0),
            begins_ns: AtomicU64::new(0),
            stands_ns: AtomicU64::new(u64::MAX),
            generating_ns: AtomicU64::new(0),
            longest_pass_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let nats = NatsSettings {
            urls: vec![server.url()],
            credentials: Some(Credentials::read(&server.credentials("agent"))?),
            name: "made-up nodes".to_owned(),
            ..NatsSettings::default()
        };
        let buses = connect(job.generated.nodes, &nats, &state)?;
        let drive_some = |(first, buses): (u32, Vec<Arc<dyn Bus>>)| {
            let state = Arc::clone(&state);
            std::thread::spawn(move || {
                let numbers = (first..).step_by(DRIVERS as usize);
                let nodes = numbers.zip(buses).map(|(number, bus)| SimulatedNode::start(number, bus));
                drive(nodes.collect::<Result<_>>()?, &state)
            })
        };
        let share = |first: u32| {
            (first, buses.iter().skip(first as usize).step_by(DRIVERS as usize).cloned().collect())
        };
        let drivers = (0..DRIVERS).map(share).map(drive_some).collect();
        Ok(Self { state, drivers })
    }

    /// What the job is called.
    pub fn job(&self) -> &'static str {
        JOB
    }

    /// Waits until so many nodes have a session.
    ///
    /// # Errors
    /// They have not in time.
    pub fn wait_until_open(&self, nodes: usize, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        while self.state.open.load(Ordering::Relaxed) != nodes {
            ensure!(!self.drivers.iter().any(JoinHandle::is_finished), "a node has failed");
            let open = self.state.open.load(Ordering::Relaxed);
            ensure!(Instant::now() < until, "{open} of {nodes} nodes have a session");
            std::thread::sleep(PASS);
        }
        Ok(())
    }

    /// Data moves from a time on.
    pub fn begin(&self, after: Duration) -> Instant {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.state.begins_ns.store(monotonic_ns() + after_ns, Ordering::Relaxed);
        Instant::now() + after
    }

    /// The job comes to a stand now.
    pub fn stand(&self) -> Instant {
        self.state.stands_ns.store(monotonic_ns(), Ordering::Relaxed);
        Instant::now()
    }

    /// What they have used and sent so far.
    pub fn used(&self) -> FleetUse {
        let all_ns = ns(clock_gettime(ClockId::ProcessCPUTime));
        FleetUse {
            at: Instant::now(),
            cpu_ns: all_ns.saturating_sub(self.state.generating_ns.load(Ordering::Relaxed)),
            sent: self.state.sent.read(),
        }
    }

    /// How long a turn of all nodes took at most since this was asked last.
    pub fn take_longest_pass(&self) -> Duration {
        Duration::from_nanos(self.state.longest_pass_ns.swap(0, Ordering::Relaxed))
    }

    /// Ends them.
    ///
    /// # Errors
    /// One has failed.
    pub fn finish(mut self) -> Result<()> {
        self.state.stop.store(true, Ordering::Relaxed);
        for driver in std::mem::take(&mut self.drivers) {
            driver.join().map_err(|_| anyhow!("the thread of some nodes has failed"))??;
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
    }
}

/// A connection for each node.
fn connect(nodes: u32, nats: &NatsSettings, state: &FleetState) -> Result<Vec<Arc<dyn Bus>>> {
    let one = || -> Result<Arc<dyn Bus>> {
        let counters = Arc::clone(&state.sent);
        Ok(Arc::new(CountedBus { bus: NatsBus::connect(nats.clone())?, counters }))
    };
    let mut buses = Vec::new();
    while buses.len() < nodes as usize {
        let count = AT_ONCE.min(nodes as usize - buses.len());
        let some: Vec<Result<Arc<dyn Bus>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
            let failed = || Err(anyhow!("a thread that connects has failed"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
        });
        buses.extend(some.into_iter().collect::<Result<Vec<_>>>()?);
    }
    Ok(buses)
}

fn drive(mut nodes: Vec<SimulatedNode>, state: &FleetState) -> Result<()> {
    while !state.stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        for node in &mut nodes {
            node.step(monotonic_ns(), state)?;
        }
        let took = begun.elapsed();
        state.longest_pass_ns.fetch_max(took.as_nanos() as u64, Ordering::Relaxed);
        std::thread::sleep(PASS.saturating_sub(took));
    }
    Ok(())
}

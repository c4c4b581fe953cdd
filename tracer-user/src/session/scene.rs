//! A session on a scripted machine, from its beginning to its end, and what it told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use analyzer::finding::{Alert, Report};
use analyzer::input::{Input, Start};
use analyzer::options::Options;
use analyzer::plan::{Probe, ProbeClass};
use analyzer::tape::{Item, Reader};
use analyzer::wire::RawRecord;

use super::controller::{BudgetController, JobCpus};
use super::fake::{
    BEGIN_NS, FakeHost, FakeKernel, FakePlanner, FakeThreads, PROGRAM, Shared, Step, World, process,
};
use super::follow::{Launcher, Limits, Parts, Session};
use super::planner::{PlanSource, Planned};
use super::{AttachSummary, Outcome, Outlets, Recorded, Recorder, SessionStatus, Sink, Tape, attach_with};
use crate::budget::{Budget, HitCosts};
use crate::host::{MpiLibrary, NodeJob, RankProcess};
use crate::kernel::ProcessKey;
use crate::plan::FileSlots;
use crate::plan::attach::OnlyJob;
use crate::plan::table_slot::SlotSite;

/// Ranks 0 and 1.
pub(super) const RANKS: [u32; 2] = [100, 101];
pub(super) const LAUNCHER: u32 = 90;

/// What a session told.
#[derive(Default)]
pub(super) struct Told {
    pub notices: Vec<String>,
    pub statuses: Vec<SessionStatus>,
    pub attached: Option<AttachSummary>,
    pub report: Option<Report>,
}

impl Sink for Told {
    fn placed(&mut self, _spare_cpus: &[u32]) {}

    fn attached(&mut self, summary: &AttachSummary) {
        self.attached = Some(summary.clone());
    }

    fn notice(&mut self, message: &str) {
        self.notices.push(message.to_owned());
    }

    fn status(&mut self, status: &SessionStatus, _report: Option<&Report>) {
        self.statuses.push(status.clone());
    }

    fn alert(&mut self, _alert: &Alert) {}

    fn recorded(&mut self, _tape: &Recorded<'_>) {}

    fn report(&mut self, report: &Report) {
        self.report = Some(report.clone());
    }
}

/// A session that is over.
pub(super) struct Over {
    pub told: Told,
    /// What is on its tape.
    pub inputs: Vec<Input>,
    pub outcome: anyhow::Result<Outcome>,
    pub world: Shared,
}

impl Over {
    pub fn report(&self) -> &Report {
        self.told.report.as_ref().expect("every session ends with a report")
    }

    /// Where the first input is for which it holds.
    pub fn position(&self, wanted: impl Fn(&Input) -> bool) -> usize {
        let at = self.inputs.iter().position(wanted);
        at.unwrap_or_else(|| panic!("it is not on the tape: {:#?}", self.inputs))
    }

    /// Ranks by process, as the tape has them, with those of no rank.
    pub fn processes(&self) -> Vec<(u32, Option<u32>)> {
        let facts = self.inputs.iter().filter_map(|input| match input {
            Input::Process(facts) => Some((facts.pid, facts.rank)),
            _ => None,
        });
        facts.collect()
    }

    pub fn notices_with(&self, text: &str) -> usize {
        self.told.notices.iter().filter(|notice| notice.contains(text)).count()
    }

    /// Whether watching was paused, each time it changed, and what is off then.
    pub fn coverage(&self) -> Vec<(bool, Vec<u32>)> {
        let coverage = self.inputs.iter().filter_map(|input| match input {
            Input::Coverage(coverage) => Some((coverage.paused, coverage.off.clone())),
            _ => None,
        });
        coverage.collect()
    }
}

/// A job of two ranks on a scripted machine.
pub(super) struct Scene {
    pub world: Shared,
    pub script: Vec<Step>,
    pub budget: Option<Budget>,
    pub only_job: OnlyJob,
    /// Ranks on this node, as the launcher says.
    pub local_size: Option<u32>,
    pub duration_ns: Option<u64>,
}

impl Scene {
    pub fn new(probes: Vec<Probe>) -> Self {
        let world = Shared::default();
        {
            let mut world = world.lock();
            world.now_ns = BEGIN_NS;
            for (rank, pid) in (0..).zip(RANKS) {
                world.processes.insert(pid, process(pid, Some(rank)));
            }
            world.loaded.insert(RANKS[0], probes);
        }
        Self {
            world,
            script: Vec::new(),
            budget: None,
            only_job: OnlyJob::Auto,
            local_size: None,
            duration_ns: None,
        }
    }

    pub fn with(self, change: impl FnOnce(&mut World)) -> Self {
        change(&mut self.world.lock());
        self
    }

    pub fn records(mut self, after_ns: u64, records: impl IntoIterator<Item = RawRecord>) -> Self {
        self.script.push(Step::Records(after_ns, records.into_iter().collect()));
        self
    }

    pub fn change(mut self, change: impl FnOnce(&mut World) + 'static) -> Self {
        self.script.push(Step::Change(Box::new(change)));
        self
    }

    pub fn reader_fails(mut self) -> Self {
        self.script.push(Step::ReaderFails);
        self
    }

    pub fn until(mut self, holds: fn(&World) -> bool) -> Self {
        self.script.push(Step::Until(holds));
        self
    }

    /// The job runs already.
    pub fn run(self) -> Over {
        let job = job(self.local_size);
        self.run_with(|parts, limits, planner, planned| {
            attach_with(parts, limits, planner, planned, beginning(), BEGIN_NS, &job)
        })
    }

    /// The job is started, and its ranks are to record by themselves what its copies do.
    pub fn run_started(self) -> Over {
        self.run_with(|parts, limits, planner, mut planned| {
            let copies = planned.plan.probes.iter().filter(|probe| probe.class == ProbeClass::Copy);
            let site = |probe: &Probe| SlotSite {
                probe: probe.id,
                return_position: u64::from(probe.id),
                symbol: "memcpy".to_owned(),
            };
            let sites = copies.map(site).collect();
            planned.slots = vec![FileSlots { file: PROGRAM, sites, ..FileSlots::default() }];
            let mut session = Session::new(parts)?;
            session.start(beginning());
            session.begin_with(planned, true);
            session.open_ranks(&RANKS.map(|pid| ProcessKey { pid, start_ticks: 1 }));
            session.attached(BEGIN_NS);
            session.follow(limits, planner, Launcher::Done)
        })
    }

    fn run_with(
        self,
        go: impl FnOnce(Parts<'_>, &Limits, Box<FakePlanner>, Planned) -> anyhow::Result<Outcome>,
    ) -> Over {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.dmt");
        let stop = Arc::new(AtomicBool::new(false));
        let host = FakeHost(self.world.clone());
        let cpus = JobCpus { count: RANKS.len(), are_shared: false };
        let budget =
            self.budget.map(|budget| BudgetController::new(budget, HitCosts::default(), cpus, &host));
        let kernel =
            FakeKernel { world: self.world.clone(), script: self.script.into(), stop: Arc::clone(&stop) };
        let mut told = Told::default();
        let parts = Parts {
            probe_costs: None,
            kernel: Box::new(kernel),
            threads: Box::new(FakeThreads(self.world.clone())),
            host: Arc::new(host),
            recorder: Recorder::new(
                Options::default(),
                Outlets { tape: Some(Tape::create(path.clone()).expect("a file")), ..Outlets::default() },
                None,
            ),
            budget,
            only_job: self.only_job,
            stranger_ns: 500.0,
            spare_cpus: Vec::new(),
            sink: &mut told,
        };
        let limits = Limits { duration: self.duration_ns.map(Duration::from_nanos), stop };
        let mut planner = Box::new(FakePlanner(self.world.clone()));
        let outcome = planner.processes(&RANKS).and_then(|planned| go(parts, &limits, planner, planned));
        let inputs = inputs(&path);
        Over { told, inputs, outcome, world: self.world }
    }
}

fn beginning() -> Start {
    Start { time_ns: BEGIN_NS, job: "mpirun ./a.out".into(), ..Start::default() }
}

fn inputs(path: &std::path::Path) -> Vec<Input> {
    let file = std::fs::File::open(path).expect("the tape");
    let items = Reader::new(std::io::BufReader::new(file)).expect("a tape");
    let input = |item: Result<Item, _>| match item.expect("it can be read") {
        Item::Input(input) => input,
        Item::Damage(damage) => panic!("{damage}"),
    };
    items.map(input).collect()
}

fn job(local_size: Option<u32>) -> NodeJob {
    let rank = |(rank, pid): (u32, u32)| RankProcess {
        pid,
        namespace_pid: pid,
        pid_namespace: 1,
        mount_namespace: 1,
        rank: Some(rank),
        size: Some(2),
        local_size,
        exe: "/a.out".into(),
        command: "./a.out".into(),
        uid: 0,
        start_ticks: 1,
        library: MpiLibrary { kind: "MPICH".into(), path: "/lib/libmpich.so".into(), is_static: false },
    };
    NodeJob {
        name: None,
        allocation: None,
        pid: LAUNCHER,
        command: "mpirun ./a.out".into(),
        user: "root".into(),
        age_s: 1,
        ranks: (0..).zip(RANKS).map(rank).collect(),
    }
}

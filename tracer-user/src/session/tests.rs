//! Sessions on a scripted machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analyzer::finding::{Alert, Report};
use analyzer::input::{Input, Start};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{Probe, ProbeClass};
use analyzer::tape::{Item, Reader};
use analyzer::wire::{Body, RawRecord};

use super::controller::{BudgetController, JobCpus};
use super::fake::{
    BEGIN_NS, FakeHost, FakeKernel, FakePlanner, FakeProcess, FakeThreads, MS, S, Shared, Step, World, copy,
    map, probe, process, record,
};
use super::follow::{Limits, Parts};
use super::{AttachSummary, Outcome, Recorded, Recorder, SessionStatus, Sink, Tape, attach_with};
use crate::budget::{Budget, HitCosts};
use crate::host::{MpiLibrary, NodeJob, RankProcess};

/// Ranks 0 and 1.
const RANKS: [u32; 2] = [100, 101];
const LAUNCHER: u32 = 90;

/// What a session told.
#[derive(Default)]
struct Told {
    notices: Vec<String>,
    statuses: Vec<SessionStatus>,
    attached: Option<AttachSummary>,
    report: Option<Report>,
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
struct Over {
    told: Told,
    /// What is on its tape.
    inputs: Vec<Input>,
    outcome: Outcome,
    world: Shared,
}

impl Over {
    fn report(&self) -> &Report {
        self.told.report.as_ref().expect("every session ends with a report")
    }

    /// Where the first input is for which it holds.
    fn position(&self, wanted: impl Fn(&Input) -> bool) -> usize {
        let at = self.inputs.iter().position(wanted);
        at.unwrap_or_else(|| panic!("it is not on the tape: {:#?}", self.inputs))
    }

    /// Ranks by process, as the tape has them, with those of no rank.
    fn processes(&self) -> Vec<(u32, Option<u32>)> {
        let facts = self.inputs.iter().filter_map(|input| match input {
            Input::Process(facts) => Some((facts.pid, facts.rank)),
            _ => None,
        });
        facts.collect()
    }

    /// Whether watching was paused, each time it changed, and what is off then.
    fn coverage(&self) -> Vec<(bool, Vec<u32>)> {
        let coverage = self.inputs.iter().filter_map(|input| match input {
            Input::Coverage(coverage) => Some((coverage.paused, coverage.off.clone())),
            _ => None,
        });
        coverage.collect()
    }
}

/// A job of two ranks on a scripted machine.
struct Scene {
    world: Shared,
    script: Vec<Step>,
    budget: Option<Budget>,
    duration_ns: Option<u64>,
}

impl Scene {
    fn new(probes: Vec<Probe>) -> Self {
        let world = Shared::default();
        {
            let mut world = world.lock();
            world.now_ns = BEGIN_NS;
            for (rank, pid) in (0..).zip(RANKS) {
                world.processes.insert(pid, process(pid, Some(rank)));
            }
            world.loaded.insert(RANKS[0], probes);
        }
        Self { world, script: Vec::new(), budget: None, duration_ns: None }
    }

    fn with(self, change: impl FnOnce(&mut World)) -> Self {
        change(&mut self.world.lock());
        self
    }

    fn records(mut self, after_ns: u64, records: impl IntoIterator<Item = RawRecord>) -> Self {
        self.script.push(Step::Records(after_ns, records.into_iter().collect()));
        self
    }

    fn change(mut self, change: impl FnOnce(&mut World) + 'static) -> Self {
        self.script.push(Step::Change(Box::new(change)));
        self
    }

    fn until(mut self, holds: fn(&World) -> bool) -> Self {
        self.script.push(Step::Until(holds));
        self
    }

    fn run(self) -> Over {
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
            kernel: Box::new(kernel),
            threads: Box::new(FakeThreads(self.world.clone())),
            host: Arc::new(host),
            recorder: Recorder::new(
                Options::default(),
                Some(Tape::create(path.clone()).expect("a file")),
                None,
            ),
            budget,
            spare_cpus: Vec::new(),
            sink: &mut told,
        };
        let limits = Limits { deadline_ns: self.duration_ns.map(|ns| BEGIN_NS + ns), stop };
        let planner = Box::new(FakePlanner(self.world.clone()));
        let start = Start { time_ns: BEGIN_NS, job: "mpirun ./a.out".into(), ..Start::default() };
        let outcome = attach_with(parts, &limits, planner, start, BEGIN_NS, &job()).expect("a session");
        let inputs = inputs(&path);
        Over { told, inputs, outcome, world: self.world }
    }
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

fn job() -> NodeJob {
    let rank = |(rank, pid): (u32, u32)| RankProcess {
        pid,
        namespace_pid: pid,
        pid_namespace: 1,
        mount_namespace: 1,
        rank: Some(rank),
        size: Some(2),
        exe: "/a.out".into(),
        command: "./a.out".into(),
        uid: 0,
        start_ticks: 1,
        library: MpiLibrary { kind: "MPICH".into(), path: "/lib/libmpich.so".into(), is_static: false },
    };
    NodeJob {
        pid: LAUNCHER,
        command: "mpirun ./a.out".into(),
        user: "root".into(),
        age_s: 1,
        ranks: (0..).zip(RANKS).map(rank).collect(),
    }
}

fn exit(time_ns: u64, pid: u32) -> RawRecord {
    record(time_ns, pid, 0, Body::Exit { status: 0, at: 0 })
}

fn copy_probe() -> Vec<Probe> {
    vec![probe(1, ProbeClass::Copy)]
}

#[test]
fn what_a_session_records_gives_its_report_again() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [copy(BEGIN_NS + 2, RANKS[1], 1), copy(BEGIN_NS + 1, RANKS[0], 1)])
        .records(10 * MS, [copy(BEGIN_NS + 11 * MS, RANKS[0], 1)])
        .records(100 * MS, RANKS.map(|pid| exit(BEGIN_NS + 12 * MS, pid)))
        .run();
    let kinds: Vec<&str> = over
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Start(_) => Some("start"),
            Input::Plan(_) => Some("plan"),
            Input::Process(_) => Some("process"),
            Input::Record(_) => Some("record"),
            Input::End(_) => Some("end"),
            _ => None,
        })
        .collect();
    let records = ["record"; 5];
    assert_eq!(kinds, [&["start", "plan", "process", "process"][..], &records, &["end"]].concat());
    let ticks = over.inputs.iter().filter(|input| matches!(input, Input::Tick { .. })).count();
    assert_eq!(ticks, 1, "the clock is on the tape too");
    let mut pipeline = Pipeline::new(Options::default());
    over.inputs.iter().for_each(|input| pipeline.push(input));
    assert_eq!(&pipeline.report(), over.report());
    assert_eq!(over.report().ended.as_deref(), Some("the job ended"));
    assert_eq!(over.report().statistics.records, 5);
    assert_eq!(over.outcome, Outcome::Nothing);
}

#[test]
fn records_of_all_rings_are_on_the_tape_in_order_of_time() {
    let late = (0..50).map(|n| copy(BEGIN_NS + 2 * n, RANKS[0], 1));
    let early = (0..50).map(|n| copy(BEGIN_NS + 2 * n + 1, RANKS[1], 1));
    let over = Scene::new(copy_probe()).records(10 * MS, late.chain(early)).run();
    let times = over.inputs.iter().filter_map(|input| match input {
        Input::Record(record) => Some(record.time_ns()),
        _ => None,
    });
    let times: Vec<u64> = times.collect();
    assert!(times.len() == 100 && times.is_sorted(), "{times:?}");
}

#[test]
fn what_was_lost_is_told_before_the_records_of_its_batch() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [copy(BEGIN_NS + 1, RANKS[0], 1)])
        .change(|world| world.lose(RANKS[1], 7, 2))
        .records(10 * MS, [copy(BEGIN_NS + 11 * MS, RANKS[0], 1)])
        .run();
    let loss = over.position(|input| matches!(input, Input::Loss(_)));
    let Input::Loss(lost) = &over.inputs[loss] else { panic!("a loss") };
    assert_eq!((lost.pid, lost.movements, lost.state), (RANKS[1], 7, 2));
    assert_eq!((lost.from_ns, lost.to_ns), (BEGIN_NS + 10 * MS + 1, BEGIN_NS + 20 * MS + 1));
    let record = |time_ns| move |input: &Input| matches!(input, Input::Record(r) if r.time_ns() == time_ns);
    assert!(loss < over.position(record(BEGIN_NS + 11 * MS)));
    assert_eq!(over.told.statuses.last().map(|status| status.lost), Some(9));
    assert_eq!(over.inputs.iter().filter(|input| matches!(input, Input::Loss(_))).count(), 1);
    let statistics = &over.report().statistics;
    assert_eq!((statistics.lost_movements, statistics.lost_state), (7, 2), "the pipeline heard of it");
}

#[test]
fn a_probe_that_the_kernel_refuses_is_reported_and_the_session_goes_on() {
    let over = Scene::new(vec![probe(1, ProbeClass::Copy), probe(2, ProbeClass::Copy)])
        .with(|world| world.refused = BTreeSet::from([2]))
        .records(10 * MS, [copy(BEGIN_NS + 1, RANKS[0], 1), copy(BEGIN_NS + 2, RANKS[0], 2)])
        .run();
    let summary = over.told.attached.as_ref().expect("people hear of it");
    assert_eq!((summary.probes, summary.failed), (1, 1));
    let Some(Input::End(end)) = over.inputs.iter().rfind(|input| matches!(input, Input::End(_))) else {
        panic!("no end")
    };
    let failed: Vec<(u32, &str)> = end.failed_probes.iter().map(|p| (p.id, p.reason.as_str())).collect();
    assert_eq!(failed, [(2, "no such instruction")]);
    assert_eq!(over.told.statuses.last().map(|status| status.records), Some(1));
}

#[test]
fn at_the_end_nobody_is_watched_and_nothing_is_attached() {
    let over = Scene::new(copy_probe()).records(10 * MS, []).run();
    assert_eq!(over.report().ended.as_deref(), Some("interrupted"));
    let world = over.world.lock();
    assert!(world.watched.is_empty() && world.attached.is_empty());
}

#[test]
fn a_session_ends_when_its_duration_has_elapsed() {
    let mut scene = Scene::new(copy_probe()).records(S, []).records(S, []).records(S, []);
    scene.duration_ns = Some(2 * S);
    let over = scene.run();
    assert_eq!(over.report().ended.as_deref(), Some("duration elapsed"));
    assert_eq!(over.world.lock().now_ns, BEGIN_NS + 2 * S);
}

#[test]
fn a_process_that_a_launcher_starts_becomes_a_rank_when_it_runs_mpi() {
    let (new, t) = (200, BEGIN_NS);
    let fork = record(t + 1, LAUNCHER, 0, Body::Fork { child: new });
    let exec = record(t + 11 * MS, new, 0, Body::Exec);
    let over = Scene::new(copy_probe())
        .with(|world| {
            world.starters = vec![LAUNCHER];
            world.processes.insert(LAUNCHER, process(LAUNCHER, None));
            world.processes.insert(new, FakeProcess { runs_mpi: false, ..process(new, Some(2)) });
        })
        .records(10 * MS, [fork])
        .records(10 * MS, [exec])
        .change(move |world| world.processes.get_mut(&new).expect("it is there").runs_mpi = true)
        .records(10 * MS, [map(t + 21 * MS, new)])
        .records(10 * MS, [copy(t + 31 * MS, new, 1)])
        .records(S, [])
        .run();
    // Of the launcher; of the ranks; after the exec, when it is not known yet whether it runs MPI; and when it does.
    let own = |pid| over.processes().into_iter().filter(|p| p.0 == pid).map(|p| p.1).collect::<Vec<_>>();
    assert_eq!(own(LAUNCHER), [None]);
    assert_eq!(own(new), [Some(2), Some(2)]);
    assert_eq!(over.told.statuses.last().map(|status| status.ranks.clone()), Some(vec![0, 1, 2]));
    let exec_at = over.position(|input| matches!(input, Input::Record(r) if *r == exec));
    let facts_at = over.position(|input| matches!(input, Input::Process(facts) if facts.pid == new));
    assert!(exec_at < facts_at, "facts of the new program come after the record of its start");
}

#[test]
fn a_child_of_a_rank_is_watched_but_is_no_rank() {
    let child = 300;
    let over = Scene::new(copy_probe())
        .with(|world| {
            // It has its parent's environment, and runs a script.
            let script = FakeProcess { runs_mpi: false, ..process(child, Some(0)) };
            world.processes.insert(child, script);
        })
        .records(10 * MS, [record(BEGIN_NS + 1, RANKS[0], 0, Body::Fork { child })])
        .records(10 * MS, [record(BEGIN_NS + 11 * MS, child, 0, Body::Exec)])
        .records(10 * MS, [copy(BEGIN_NS + 21 * MS, child, 1)])
        .records(S, [])
        .run();
    assert!(over.processes().contains(&(child, None)), "{:?}", over.processes());
    assert_eq!(over.told.statuses.last().map(|status| status.ranks.clone()), Some(vec![0, 1]));
    over.position(|input| matches!(input, Input::Record(r) if r.pid() == child && r.probe() == 1));
}

#[test]
fn a_rank_that_came_while_probes_were_attached_is_watched_too() {
    let late = 102;
    let over = Scene::new(copy_probe())
        .with(|world| {
            world.processes.insert(late, process(late, Some(2)));
            world.late_ranks = vec![RANKS[0], late];
        })
        .records(10 * MS, [copy(BEGIN_NS + 1, late, 1)])
        .run();
    assert_eq!(over.processes(), [(RANKS[0], Some(0)), (RANKS[1], Some(1)), (late, Some(2))]);
    over.position(|input| matches!(input, Input::Record(r) if r.pid() == late));
}

#[test]
fn a_session_ends_with_its_job_even_if_the_records_of_that_were_lost() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [exit(BEGIN_NS + 1, RANKS[0])])
        .change(|world| {
            world.processes.clear();
            world.lose(RANKS[1], 0, 1);
        })
        .records(S, [])
        .records(S, [])
        .run();
    assert_eq!(over.report().ended.as_deref(), Some("the job ended"));
}

#[test]
fn processes_share_rings_when_there_are_no_more_and_people_hear_of_it_once() {
    let over = Scene::new(copy_probe())
        .with(|world| {
            world.most_rings = Some(1);
            world.late_ranks = vec![102];
            world.processes.insert(102, process(102, Some(2)));
        })
        .records(10 * MS, [copy(BEGIN_NS + 1, RANKS[0], 1), copy(BEGIN_NS + 2, RANKS[1], 1)])
        .run();
    assert_eq!(over.told.notices.len(), 1, "{:?}", over.told.notices);
    assert_eq!(over.told.statuses.last().map(|status| status.records), Some(2));
}

#[test]
fn the_kernel_is_told_where_a_ranks_own_code_lies() {
    let over = Scene::new(copy_probe()).records(10 * MS, []).run();
    let world = over.world.lock();
    assert_eq!(world.own_code.get(&RANKS[0]), Some(&vec![(0x40_0000, 0x50_0000)]));
}

#[test]
fn what_is_loaded_while_the_job_runs_is_planned_and_attached() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [])
        .change(|world| {
            world.loaded.insert(RANKS[1], vec![probe(2, ProbeClass::Copy)]);
        })
        .records(10 * MS, [map(BEGIN_NS + 11 * MS, RANKS[1])])
        .until(|world| world.attached.contains(&2))
        .change(|world| world.now_ns = BEGIN_NS + 500 * S)
        .records(10 * MS, [copy(BEGIN_NS + 500 * S, RANKS[1], 2)])
        .run();
    let planned = over.position(|input| matches!(input, Input::Plan(plan) if plan.probes[0].id == 2));
    let hit = over.position(|input| matches!(input, Input::Record(r) if r.probe() == 2));
    assert!(planned < hit);
    assert_eq!(over.told.statuses.last().map(|status| status.probes), Some(2));
}

#[test]
fn a_quiet_rank_is_sampled_and_what_it_does_is_on_the_tape() {
    let over = Scene::new(copy_probe())
        .records(900 * MS, [copy(BEGIN_NS + 800 * MS, RANKS[0], 1)])
        .records(200 * MS, [])
        .until(|world| !world.sampled.is_empty())
        .records(100 * MS, [])
        .until(|world| world.sampled.len() >= 2)
        .records(2 * S, [])
        .run();
    let sampled = over.world.lock().sampled.clone();
    assert_eq!(sampled[..2], [RANKS[1], RANKS[0]], "the one that was quiet for a second comes first");
    let at = over.position(|input| matches!(input, Input::Threads(_)));
    let Input::Threads(threads) = &over.inputs[at] else { panic!("threads") };
    assert_eq!(threads.threads[0].pid, RANKS[1]);
}

/// A millisecond in which each rank hits a probe so often that it does nothing else.
fn storm(from_ns: u64, probe: u32) -> Vec<RawRecord> {
    let hits = (0..1400).map(|hit| copy(from_ns + hit * 700, RANKS[0], probe));
    hits.chain((0..1400).map(|hit| copy(from_ns + hit * 700 + 1, RANKS[1], probe))).collect()
}

/// A storm for so many ms.
fn storm_scene(length_ms: u64) -> Scene {
    let probes = vec![probe(1, ProbeClass::Copy), probe(2, ProbeClass::Error), probe(3, ProbeClass::Alloc)];
    let mut scene = Scene::new(probes);
    scene.budget = Some(Budget { share: 0.01 });
    for ms in 0..length_ms {
        scene = scene.records(MS, storm(BEGIN_NS + ms * MS, 1));
    }
    scene
}

#[test]
fn only_probes_that_may_pause_are_attached_apart_and_only_with_a_budget() {
    let apart = |budget| {
        let mut scene = storm_scene(0);
        scene.budget = budget;
        scene.run().world.lock().apart.clone()
    };
    assert_eq!(apart(Some(Budget { share: 0.01 })), BTreeSet::from([1]));
    assert_eq!(apart(None), BTreeSet::new());
}

#[test]
fn a_storm_pauses_what_is_expensive_and_leaves_the_rest_attached() {
    let over = storm_scene(30).run_until_paused();
    assert_eq!(over.coverage(), [(true, vec![])]);
    let records = over.told.statuses.last().map(|status| status.records);
    assert!(records < Some(30 * 2800), "nothing is recorded of what is detached: {records:?}");
}

#[test]
fn watching_goes_on_when_the_allowance_is_whole_again() {
    let over = storm_scene(30)
        .until(|world| !world.paused)
        .change(|world| assert_eq!(world.attached, BTreeSet::from([1, 2, 3])))
        .records(10 * MS, [])
        .run();
    assert_eq!(over.coverage(), [(true, vec![]), (false, vec![])]);
    let Some(Input::Coverage(resumed)) = over.inputs.iter().rfind(|i| matches!(i, Input::Coverage(_))) else {
        panic!("coverage")
    };
    let quiet_ns = resumed.time_ns - BEGIN_NS;
    assert!(
        (S..7 * S).contains(&quiet_ns),
        "an allowance takes a second, a debt at most five more: {quiet_ns}"
    );
}

#[test]
fn nobody_is_sampled_in_a_pause() {
    let over = storm_scene(30).until(|world| !world.paused).run();
    let coverage_at: Vec<u64> = over
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Coverage(coverage) => Some(coverage.time_ns),
            _ => None,
        })
        .collect();
    assert!(coverage_at[1] > coverage_at[0] + S, "long enough to be quiet");
    assert_eq!(over.world.lock().sampled, [0u32; 0]);
}

impl Scene {
    fn run_until_paused(self) -> Over {
        self.change(|world| {
            assert!(world.paused);
            assert_eq!(world.attached, BTreeSet::from([2, 3]));
        })
        .run()
    }
}

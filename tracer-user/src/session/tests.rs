//! Sessions on a scripted machine.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{Probe, ProbeClass};
use analyzer::queue_state;
use analyzer::wire::{Body, Header, QueueChange, RawRecord, Record};

use super::Outcome;
use super::fake::{BEGIN_NS, FakeProcess, MS, PROGRAM, S, copy, map, probe, process, record};
use super::scene::{LAUNCHER, Over, RANKS, Scene};
use crate::budget::Budget;
use crate::kernel::Scope;
use crate::plan::attach::{MOST_LINKS, OnlyJob, StrangerCount};

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
    assert_eq!(over.outcome.as_ref().ok(), Some(&Outcome::Nothing));
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
fn who_is_at_the_other_end_of_a_queue_pair_in_use_is_asked_and_is_on_the_tape_at_the_time_of_the_answer() {
    let in_use = QueueChange { state: queue_state::IN_USE, queue: 17, psn: 3, ..QueueChange::default() };
    let header = Header { time_ns: BEGIN_NS + 1, pid: RANKS[0], tid: RANKS[0], probe: 1 };
    let over = Scene::new(copy_probe())
        .records(10 * MS, [Record { header, body: Body::Queue(in_use) }.encode()])
        .records(10 * MS, [copy(BEGIN_NS + 11 * MS, RANKS[0], 1)])
        .run();
    let queues = over.inputs.iter().filter_map(|input| match input {
        Input::Record(raw) => match Record::decode(raw).ok()? {
            Record { header, body: Body::Queue(queue) } => Some((header.time_ns, queue)),
            _ => None,
        },
        _ => None,
    });
    let queues: Vec<_> = queues.collect();
    let found = QueueChange { state: queue_state::FOUND_CONNECTED, peer: 3, psn: 0, ..in_use };
    assert!(queues.len() == 2 && queues[0].1 == in_use && queues[1].1 == found, "{queues:?}");
    assert!(queues[1].0 >= BEGIN_NS + 10 * MS, "{queues:?}");
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
fn what_strangers_run_into_is_told_from_the_moment_on_from_which_the_job_is_watched() {
    let over = Scene::new(copy_probe())
        .with(|world| {
            world.stranger_hits = 90;
            world.strangers = StrangerCount { all: 12, of_other_users: 9 };
        })
        .change(|world| world.stranger_hits += 1000)
        .records(500 * MS, [])
        .run();
    let cost = over.report().statistics.strangers.clone().expect("it is told at the end");
    assert_eq!((cost.processes, cost.of_other_users, cost.all_hits()), (12, 9, 1000));
    assert_eq!((cost.cost_ns, cost.counted_ns), (500_000, 500 * MS));
    assert_eq!(over.told.statuses.last().map(|status| status.stranger_hits), Some(1000));
    let Some(Input::End(end)) = over.inputs.last() else { panic!("no end: {:?}", over.inputs) };
    assert_eq!(end.strangers.as_ref(), Some(&cost), "a tape has it too");
}

#[test]
fn ranks_among_strangers_have_links_of_their_own_until_they_end() {
    let scene = || Scene::new(copy_probe()).with(|world| world.strangers.all = 3);
    let copies = || RANKS.map(|pid| copy(BEGIN_NS + 1, pid, 1));
    let over = scene().records(10 * MS, copies()).records(10 * MS, [exit(BEGIN_NS + 2, RANKS[0])]).run();
    assert_eq!(over.report().statistics.movements, 2);
    let world = over.world.lock();
    assert_eq!((world.scope, &world.reached), (Some(Scope::EachReached), &BTreeSet::from([RANKS[1]])));
    let never = Scene { only_job: OnlyJob::Never, ..scene() }.records(10 * MS, copies()).run();
    assert_eq!(never.world.lock().scope, Some(Scope::EveryProcess));
    assert_eq!(never.report().statistics.movements, 2);
}

#[test]
fn ranks_that_are_about_to_come_count_when_it_is_decided_for_whom_links_are() {
    let scene = || Scene::new(copy_probe()).with(|world| world.strangers.all = 3);
    let scope = |scene: Scene| scene.run().world.lock().scope;
    assert_eq!(scope(Scene { local_size: Some(2), ..scene() }), Some(Scope::EachReached));
    assert_eq!(scope(Scene { local_size: Some(3), ..scene() }), Some(Scope::EveryProcess));
}

#[test]
fn what_a_launcher_starts_has_links_of_its_own_before_it_is_a_rank_and_a_ranks_child_has_none() {
    let (begun, child) = (110, 120);
    let fork = |parent, child| record(BEGIN_NS + 1, parent, 0, Body::Fork { child });
    // Before anybody has looked into the rings.
    let exec = record(BEGIN_NS + 2, begun, 0, Body::Exec);
    let over = Scene { only_job: OnlyJob::Always, ..Scene::new(copy_probe()) }
        .with(|world| {
            world.starters = vec![LAUNCHER];
            world.processes.insert(LAUNCHER, process(LAUNCHER, None));
            world.processes.insert(begun, process(begun, Some(2)));
            world.processes.insert(child, process(child, None));
        })
        .records(10 * MS, [fork(LAUNCHER, begun), fork(RANKS[0], child), exec])
        .change(move |world| {
            assert_eq!(world.reached, BTreeSet::from([RANKS[0], RANKS[1], begun]));
        })
        .records(10 * MS, [map(BEGIN_NS + 11 * MS, begun)])
        .records(10 * MS, [copy(BEGIN_NS + 11 * MS, begun, 1), copy(BEGIN_NS + 11 * MS, child, 1)])
        .run();
    assert_eq!(over.report().statistics.movements, 1);
    // What it did before is a gap of it, and of nobody else.
    let is_gap =
        |input: &&Input| matches!(input, Input::Loss(loss) if loss.pid == begun && loss.movements > 0);
    assert_eq!(over.inputs.iter().filter(is_gap).count(), 1);
    assert!(over.told.notices.is_empty(), "{:?}", over.told.notices);
}

#[test]
fn a_rank_that_has_its_links_before_it_runs_its_program_has_no_gap() {
    let begun = 110;
    let over = Scene { only_job: OnlyJob::Always, ..Scene::new(copy_probe()) }
        .with(|world| {
            world.starters = vec![LAUNCHER];
            world.processes.insert(LAUNCHER, process(LAUNCHER, None));
            world.processes.insert(begun, process(begun, Some(2)));
        })
        .records(10 * MS, [record(BEGIN_NS + 1, LAUNCHER, 0, Body::Fork { child: begun })])
        .records(10 * MS, [record(BEGIN_NS + 11 * MS, begun, 0, Body::Exec)])
        .records(10 * MS, [map(BEGIN_NS + 21 * MS, begun), copy(BEGIN_NS + 21 * MS, begun, 1)])
        .run();
    assert_eq!(over.report().statistics.movements, 1);
    assert!(!over.inputs.iter().any(|input| matches!(input, Input::Loss(_))));
}

#[test]
fn a_rank_for_which_there_are_too_many_links_already_is_a_gap_and_people_hear_of_it() {
    let late: Vec<u32> = (200..200 + MOST_LINKS as u32).collect();
    let scene = Scene { only_job: OnlyJob::Always, ..Scene::new(copy_probe()) };
    let over = scene
        .with(|world| {
            for &pid in &late {
                world.processes.insert(pid, process(pid, Some(pid)));
            }
            world.late_ranks = late.clone();
        })
        .run();
    assert_eq!(over.notices_with("--only-job never"), 1);
    let losses = over.inputs.iter().filter(|input| matches!(input, Input::Loss(_))).count();
    // A copy has two links, once it is known whether it is expensive.
    let reached = over.world.lock().reached.len();
    assert_eq!((reached, losses), (MOST_LINKS / 2, RANKS.len() + late.len() - reached));
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
fn a_pid_that_is_another_processs_now_is_not_watched_any_more() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [copy(BEGIN_NS + 1, RANKS[1], 1)])
        .change(|world| world.processes.entry(RANKS[1]).or_default().start_ticks = 2)
        .records(S, [])
        .change(|world| assert_eq!(world.watched.keys().copied().collect::<Vec<_>>(), [RANKS[0]]))
        .records(S, [copy(BEGIN_NS + 1500 * MS, RANKS[1], 1)])
        .run();
    assert_eq!(over.told.statuses.last().map(|status| status.ranks.clone()), Some(vec![0]));
    let of_rank = |input: &&Input| matches!(input, Input::Record(r) if r.pid() == RANKS[1]);
    assert_eq!(over.inputs.iter().filter(of_rank).count(), 1);
}

#[test]
fn a_late_end_does_not_unwatch_the_process_that_has_the_pid_now() {
    let child = 200;
    let over = Scene::new(copy_probe())
        .change(move |world| {
            world.processes.insert(child, process(child, None));
        })
        .records(10 * MS, [record(BEGIN_NS + 1, RANKS[0], 0, Body::Fork { child })])
        .change(move |world| {
            // It has ended, and another child of the rank has its PID, before the session hears of the end.
            world.processes.entry(child).or_default().start_ticks = 2;
            world.started.insert(child, 2);
        })
        .records(10 * MS, [exit(BEGIN_NS + 11 * MS, RANKS[1])])
        .change(move |world| assert!(world.watched.contains_key(&child)))
        .records(S, [])
        .change(move |world| {
            assert!(world.watched.contains_key(&child), "the kernel part watches the new one")
        })
        .run();
    assert_eq!(over.report().ended.as_deref(), Some("interrupted"));
}

#[test]
fn a_process_that_cannot_be_looked_at_has_not_ended_and_people_hear_of_it() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [])
        .change(|world| world.processes.entry(RANKS[1]).or_default().is_unreadable = true)
        .records(S, [])
        .records(S, [copy(BEGIN_NS + 1500 * MS, RANKS[1], 1)])
        .run();
    assert_eq!(over.told.statuses.last().map(|status| status.ranks.clone()), Some(vec![0, 1]));
    assert!(
        over.told.notices.iter().any(|notice| notice.contains("Too many open files")),
        "{:?}",
        over.told.notices
    );
    over.position(|input| matches!(input, Input::Record(r) if r.pid() == RANKS[1]));
}

#[test]
fn a_process_that_made_calls_and_ended_before_it_could_be_looked_at_is_told_of() {
    let (new, t) = (200, BEGIN_NS);
    let call = Body::Call { return_address: 0x40_0010, args: [0; 6], nested: false };
    let run = |is_there: bool| {
        Scene::new(vec![probe(1, ProbeClass::Call), probe(2, ProbeClass::CallResults)])
            .with(|world| {
                world.starters = vec![LAUNCHER];
                world.processes.insert(LAUNCHER, process(LAUNCHER, None));
                if is_there {
                    world.processes.insert(new, process(new, Some(2)));
                }
            })
            .records(10 * MS, [record(t + 1, LAUNCHER, 0, Body::Fork { child: new })])
            .records(10 * MS, [record(t + 11 * MS, new, 0, Body::Exec), map(t + 12 * MS, new)])
            .records(10 * MS, [record(t + 21 * MS, new, 1, call), exit(t + 22 * MS, new)])
            .records(S, [])
            .run()
    };
    for (is_there, told) in [(true, false), (false, true)] {
        let over = run(is_there);
        over.position(|input| matches!(input, Input::Record(r) if r.pid() == new && r.probe() == 1));
        let notices = &over.told.notices;
        assert_eq!(notices.iter().any(|n| n.contains("made MPI calls, 1 had ended")), told, "{notices:?}");
    }
}

#[test]
fn what_a_process_maps_that_cannot_be_read_is_a_gap() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [])
        .change(|world| world.processes.entry(RANKS[1]).or_default().is_unreadable = true)
        .records(10 * MS, [record(BEGIN_NS + 11 * MS, RANKS[1], 0, Body::Exec)])
        .records(S, [])
        .run();
    let loss = over.position(|input| matches!(input, Input::Loss(_)));
    assert!(matches!(&over.inputs[loss], Input::Loss(loss) if loss.pid == RANKS[1] && loss.state > 0));
    assert!(over.told.notices.iter().any(|notice| notice.contains("not known")), "{:?}", over.told.notices);
}

#[test]
fn a_file_that_cannot_be_opened_is_told_and_is_a_gap_of_those_who_map_it_at_the_start_and_later() {
    let over = Scene::new(copy_probe())
        .with(|world| world.blind.extend([RANKS[0]]))
        .records(10 * MS, [])
        .change(|world| world.blind.extend([RANKS[1]]))
        .records(10 * MS, [map(BEGIN_NS + 11 * MS, RANKS[1])])
        .until(|world| world.now_ns > BEGIN_NS + 5 * S)
        .run();
    assert_eq!(over.notices_with("not opened"), 2, "{:?}", over.told.notices);
    let lost = over.inputs.iter().filter_map(|input| match input {
        Input::Loss(loss) => Some((loss.pid, loss.movements)),
        _ => None,
    });
    assert_eq!(lost.collect::<Vec<_>>(), [(RANKS[0], 1), (RANKS[1], 1)]);
    let statistics = &over.report().statistics;
    assert_eq!(statistics.lost_movements, 2, "the pipeline heard of it");
}

#[test]
fn without_the_planning_thread_the_session_goes_on_and_what_is_loaded_is_a_gap() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [])
        .change(|world| world.planner_fails = true)
        .records(10 * MS, [map(BEGIN_NS + 11 * MS, RANKS[1])])
        .until(|world| world.now_ns > BEGIN_NS + 5 * S)
        .records(10 * MS, [map(BEGIN_NS + 5 * S, RANKS[1])])
        .records(S, [copy(BEGIN_NS + 6 * S, RANKS[0], 1)])
        .run();
    assert_eq!(over.notices_with("plans probes has failed"), 1, "{:?}", over.told.notices);
    let loss = over.position(|input| matches!(input, Input::Loss(_)));
    assert!(matches!(&over.inputs[loss], Input::Loss(loss) if loss.pid == RANKS[1] && loss.movements > 0));
    over.position(|input| matches!(input, Input::Record(r) if r.time_ns() == BEGIN_NS + 6 * S));
}

#[test]
fn without_the_sampling_thread_the_session_goes_on_and_people_hear_what_is_missing() {
    let over = Scene::new(copy_probe())
        .with(|world| world.sampler_fails = true)
        .until(|world| world.now_ns > BEGIN_NS + 5 * S)
        .records(10 * MS, [copy(BEGIN_NS + 5 * S, RANKS[0], 1)])
        .run();
    assert_eq!(over.notices_with("hangs are not found from now on"), 1, "{:?}", over.told.notices);
    assert_eq!(over.told.statuses.last().map(|status| status.records), Some(1));
}

#[test]
fn what_a_process_does_that_cannot_be_read_is_told_once() {
    let why = "the process that read it was ended by signal 9";
    let over = Scene::new(copy_probe())
        .with(|world| world.unreadable = BTreeMap::from([(RANKS[1], why.to_owned())]))
        .until(|world| world.now_ns > BEGIN_NS + 30 * S)
        .run();
    assert_eq!(over.notices_with(why), 1, "{:?}", over.told.notices);
    assert_eq!(over.notices_with(&format!("process {}", RANKS[1])), 1, "{:?}", over.told.notices);
    let threads = over.inputs.iter().filter_map(|input| match input {
        Input::Threads(threads) => Some(&threads.threads),
        _ => None,
    });
    let read: BTreeSet<u32> = threads.flatten().map(|thread| thread.pid).collect();
    assert_eq!(read, BTreeSet::from([RANKS[0]]), "the others are read as before");
}

#[test]
fn nobody_waits_for_a_sample_that_does_not_come() {
    let over = Scene::new(copy_probe())
        .with(|world| world.sampler_is_stuck = true)
        .until(|world| world.now_ns > BEGIN_NS + 25 * S)
        .records(10 * MS, [copy(BEGIN_NS + 25 * S, RANKS[0], 1)])
        .until(|world| world.now_ns > BEGIN_NS + 40 * S)
        .change(|world| world.sampler_is_stuck = false)
        .until(|world| !world.sampled.is_empty())
        .until(|world| world.now_ns > BEGIN_NS + 60 * S)
        .run();
    assert_eq!(over.notices_with("does not end"), 1, "{:?}", over.told.notices);
    assert_eq!(over.notices_with("hangs are found again"), 1, "{:?}", over.told.notices);
    over.position(|input| matches!(input, Input::Threads(_)));
}

#[test]
fn without_the_reading_thread_the_session_ends_with_its_report_and_an_error() {
    let over =
        Scene::new(copy_probe()).records(10 * MS, [copy(BEGIN_NS + 1, RANKS[0], 1)]).reader_fails().run();
    let error = over.outcome.as_ref().expect_err("it cannot go on").to_string();
    assert!(error.contains("nothing is recorded any more"), "{error}");
    let of: BTreeSet<u32> = over
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Loss(loss) => Some(loss.pid),
            _ => None,
        })
        .collect();
    assert_eq!(of, BTreeSet::from(RANKS));
    assert!(over.report().ended.as_deref().is_some_and(|ended| ended.contains("failed")));
    assert_eq!(over.world.lock().attached, BTreeSet::new());
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
fn probes_of_a_file_that_was_written_anew_are_taken_out_and_it_is_said() {
    let over = Scene::new(copy_probe())
        .records(10 * MS, [])
        .change(|world| {
            world.rewritten.insert(PROGRAM);
        })
        .records(10 * MS, [map(BEGIN_NS + 11 * MS, RANKS[1])])
        .until(|world| world.attached.is_empty())
        .change(|world| world.now_ns = BEGIN_NS + 500 * S)
        .records(10 * MS, [])
        .run();
    assert_eq!(over.told.notices, ["written anew"]);
    assert_eq!(over.told.statuses.last().map(|status| status.probes), Some(0));
    let plans = over.inputs.iter().filter(|input| matches!(input, Input::Plan(_))).count();
    assert_eq!(plans, 1, "nothing was planned anew");
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

/// What a storm comes to when what it hits has been detached.
fn run_until_paused(scene: Scene) -> Over {
    scene
        .change(|world| {
            assert!(world.paused);
            assert_eq!(world.attached, BTreeSet::from([2, 3]));
        })
        .run()
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
fn a_storm_pauses_what_is_expensive_and_leaves_the_rest_attached() {
    let over = run_until_paused(storm_scene(30));
    assert_eq!(over.coverage(), [(true, vec![])]);
    let records = over.told.statuses.last().map(|status| status.records);
    assert!(records < Some(30 * 2800), "nothing is recorded of what is detached: {records:?}");
}

#[test]
fn a_budget_is_kept_before_all_ranks_were_looked_at() {
    let over = storm_scene(30).run();
    let paused = over.position(|input| matches!(input, Input::Coverage(coverage) if coverage.paused));
    let last_rank = over.position(|input| matches!(input, Input::Process(facts) if facts.pid == RANKS[1]));
    assert!(paused < last_rank, "{paused} {last_rank}");
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

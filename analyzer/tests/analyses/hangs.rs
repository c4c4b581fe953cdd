//! Ranks that do not go on are found, with the ones at fault; those that only take long are not.

use crate::common::{Trace, facts, pid};
use crate::sampled_jobs::*;
use analyzer::finding::{Alert, Evidence, Fault, Finding, Hang, Report, Severity, StuckState, Verdict};
use analyzer::input::{CommunicatorFacts, Coverage, Input, PendingRequest};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::process::Who;
use analyzer::tape::{Item, Reader, Writer};
use analyzer::wire::Body;

/// The same, watched only for a while before each look.
fn in_bursts(inputs: &[Input], burst_ns: u64) -> Vec<Input> {
    let coverage =
        |time_ns, paused| Input::Coverage(Box::new(Coverage { time_ns, paused, ..Coverage::default() }));
    let mut all = Vec::new();
    for input in inputs {
        match input {
            Input::Threads(threads) => {
                all.push(coverage(threads.time_ns.saturating_sub(burst_ns), false));
                all.push(input.clone());
                all.push(coverage(threads.time_ns + 1, true));
            }
            other => all.push(other.clone()),
        }
    }
    all
}

#[test]
fn a_deadlock_is_found_in_spite_of_pauses_once_enough_of_it_was_watched() {
    let looked = |seconds| looked_at(&[receive(1, 5), receive(0, 5)], seconds);
    let found = |seconds, burst_ns| faults(&run(&in_bursts(&looked(seconds), burst_ns)));
    assert_eq!(found(7, S / 5), []);
    assert_eq!(found(12, S / 5), [(Fault::Deadlock, Severity::Warning, vec![0, 1])]);
    assert_eq!(found(7, S / 2), [(Fault::Deadlock, Severity::Warning, vec![0, 1])]);
}

#[test]
fn a_deadlock_is_found_after_a_few_looks_and_not_before() {
    let ranks = [receive(1, 0), receive(0, 0), barrier()];
    assert_eq!(faults(&run(&looked_at(&ranks, 2))), []);
    let report = run(&looked_at(&ranks, 4));
    assert_eq!(faults(&report), [(Fault::Deadlock, Severity::Warning, vec![0, 1])]);
    let Evidence::Hang(hang) = &report.findings[0].evidence else { panic!("{report:#?}") };
    let call = hang.ranks[0].call.as_ref().expect("it is in a call");
    assert_eq!(call.function, "MPI_Recv");
    let shown: Vec<String> = call.arguments.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(shown, ["count 1", "source 1", "tag 0", "comm MPI_COMM_WORLD"]);
    assert!(
        report.findings[0].summary.contains("rank 0 in MPI_Recv(count 1, source 1"),
        "{}",
        report.findings[0].summary
    );
}

#[test]
fn a_script_that_has_started_a_rank_is_not_taken_for_it() {
    for comes_first in [true, false] {
        let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 6);
        for rank in 0..2 {
            let mut script = facts(rank, 2, 0);
            (script.pid, script.namespace_pid) = (70 + rank, 70 + rank);
            let known = inputs.iter().rposition(|input| matches!(input, Input::Process(_)));
            let at = if comes_first { 1 } else { known.expect("ranks are known") + 1 };
            inputs.insert(at, Input::Process(Box::new(script)));
        }
        assert_eq!(faults(&run(&inputs)), [(Fault::Deadlock, Severity::Warning, vec![0, 1])]);
    }
    // Two that call are of two worlds.
    let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 6);
    let mut other = facts(0, 2, 0);
    (other.pid, other.namespace_pid) = (70, 70);
    inputs.insert(1, Input::Process(Box::new(other)));
    for input in &mut inputs {
        if let Input::Threads(threads) = input {
            let mut same = threads.threads[0].clone();
            (same.pid, same.tid) = (70, 70);
            threads.threads.push(same);
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn the_alert_is_raised_once() {
    let mut pipeline = Pipeline::new(Options::default());
    let mut alerts = 0;
    for input in looked_at(&[receive(1, 0), receive(0, 0)], 20) {
        pipeline.push(&input);
        alerts += pipeline.take_alerts().len();
    }
    assert_eq!(alerts, 1);
}

#[test]
fn whoever_waits_for_one_that_computes_is_left_alone() {
    assert_eq!(faults(&run(&looked_at(&[At::Computes, receive(0, 0), barrier(), receive(ANY, -1)], 60))), []);
}

#[test]
fn who_opens_an_epoch_waits_for_ranks_of_its_group_and_for_any_of_the_window_if_that_is_not_known() {
    let window =
        CommunicatorFacts { handle: WINDOW, context_id: CommunicatorFacts::WINDOW, members: vec![0, 1, 2] };
    let group = CommunicatorFacts { handle: GROUP, context_id: CommunicatorFacts::GROUP, members: vec![0] };
    let ranks = |known| [receive(1, 0), At::Start(known), At::Computes];
    let of = |known| faults(&run(&looked_at(&ranks(known), 4)));
    assert_eq!(of(vec![window.clone(), group]), [(Fault::Deadlock, Severity::Warning, vec![0, 1])]);
    assert_eq!(of(vec![window]), []);
}

#[test]
fn a_rank_that_was_seen_to_move_is_not_stuck() {
    let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 4);
    let mut t = Trace::new(2, false);
    t.now_ns += 4 * S;
    let probe = t.probe("MPI_Recv", analyzer::plan::ProbeClass::Call);
    t.inputs.clear();
    t.record(0, probe, Body::Call { return_address: 0, args: [0; 6], nested: false });
    inputs.extend(t.inputs);
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn a_thread_that_had_no_processor_time_had_no_chance_to_go_on() {
    let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 6);
    for input in &mut inputs {
        if let Input::Threads(threads) = input {
            threads.threads.iter_mut().for_each(|thread| thread.ran_ns = 0);
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn arguments_that_are_not_known_accuse_nobody() {
    let unknown = At::Call("MPI_Recv", vec![None; 12]);
    assert_eq!(faults(&run(&looked_at(&[unknown.clone(), receive(0, 0)], 6))), []);
    let other = At::Call("MPI_Recv", vec![None, word(1), word(5), word(1), word(0), Some(0x8400_0001)]);
    assert_eq!(faults(&run(&looked_at(&[other, receive(0, 0)], 6))), []);
}

#[test]
fn a_rank_of_another_node_may_always_move() {
    let mut inputs = looked_at(&[receive(1, 0), receive(2, 0)], 6);
    for input in &mut inputs {
        if let Input::Process(facts) = input {
            facts.size = Some(3);
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn one_that_sleeps_or_is_stopped_is_told_of_after_a_while_as_a_notice() {
    assert_eq!(faults(&run(&looked_at(&[At::Stopped, receive(0, 0)], 6))), []);
    let found = faults(&run(&looked_at(&[At::Stopped, receive(0, 0)], 15)));
    assert_eq!(found, [(Fault::Stopped, Severity::Notice, vec![0])]);
    let found = faults(&run(&looked_at(&[At::Sleeps, barrier()], 15)));
    assert_eq!(found, [(Fault::Outside, Severity::Notice, vec![0])]);
}

#[test]
fn a_rank_that_died_is_named_as_the_cause() {
    let mut inputs = looked_at(&[At::Computes, receive(0, 0)], 5);
    let mut t = Trace::new(2, false);
    t.inputs.clear();
    t.record(0, 0, Body::Exit { status: 11, at: 0 });
    inputs.extend(t.inputs);
    let report = run(&inputs);
    assert_eq!(faults(&report), [(Fault::Crash, Severity::Warning, vec![0])]);
    let Evidence::Hang(hang) = &report.findings[0].evidence else { panic!("{report:#?}") };
    assert_eq!(hang.ranks[0].state, StuckState::Died);
}

/// Two ranks that wait for each other, and how the session ends: with which status each rank does, and whether rank 0 was seen to
/// make another call before. What is told at the end, and what was withdrawn.
fn ended_in_a_deadlock(statuses: [u32; 2], goes_on: bool) -> (Vec<Fault>, usize) {
    let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 4);
    let mut t = Trace::new(2, false);
    t.now_ns += 4 * S;
    let probe = t.probe("MPI_Recv", ProbeClass::Call);
    let Some(Input::Plan(plan)) = t.inputs.pop() else { panic!("a plan") };
    t.inputs.clear();
    t.inputs.push(Input::Plan(plan));
    if goes_on {
        t.record(0, probe, Body::Call { return_address: 0, args: [0; 6], nested: false });
    }
    for (rank, status) in (0..).zip(statuses) {
        t.record(rank, 0, Body::Exit { status, at: 0 });
        t.tick();
    }
    inputs.extend(t.end());
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    let withdrawn =
        pipeline.take_alerts().iter().filter(|alert| matches!(alert, Alert::Withdrawn { .. })).count();
    (faults(&pipeline.report()).into_iter().map(|(fault, ..)| fault).collect(), withdrawn)
}

#[test]
fn a_hang_whose_ranks_are_killed_in_it_is_told_to_the_end() {
    const SIGKILL: u32 = 9;
    const SIGTERM: u32 = 15;
    assert_eq!(ended_in_a_deadlock([SIGTERM, SIGTERM], false), (vec![Fault::Deadlock], 0));
    // Why somebody was killed is not known: that is told too.
    assert_eq!(ended_in_a_deadlock([SIGKILL, SIGTERM], false), (vec![Fault::Deadlock, Fault::Crash], 0));
    // It went on, or came to its end.
    assert!(!ended_in_a_deadlock([SIGTERM, SIGTERM], true).0.contains(&Fault::Deadlock));
    assert!(!ended_in_a_deadlock([0, SIGTERM], false).0.contains(&Fault::Deadlock));
    assert!(!ended_in_a_deadlock([SIGTERM, 0], false).0.contains(&Fault::Deadlock));
}

#[test]
fn a_status_is_a_death_before_the_end_of_the_program_and_its_verdict_after_it() {
    let found = |last_call| {
        let mut t = Trace::new(2, false);
        let probe = t.probe(last_call, analyzer::plan::ProbeClass::Call);
        t.record(0, probe, Body::Call { return_address: 0, args: [0; 6], nested: false });
        t.record(0, 0, Body::Exit { status: 1 << 8, at: 0 });
        t.tick();
        faults(&run(&t.inputs))
    };
    assert_eq!(found("MPI_Finalize"), []);
    assert_eq!(found("MPI_Barrier"), [(Fault::Crash, Severity::Notice, vec![0])]);
}

#[test]
fn what_a_target_lies_about_does_no_harm() {
    let lies = At::Call("MPI_Waitall", vec![Some(u64::MAX); 12]);
    let report = run(&looked_at(&[lies, At::Call("MPI_Nothing", vec![]), receive(i32::MAX, -7)], 6));
    assert_eq!(faults(&report), []);
    let text = analyzer::render::report(&report, analyzer::render::Style::default());
    assert!(!text.is_empty());
}

#[test]
fn a_tape_gives_the_same_hang() {
    let mut inputs = looked_at(&[receive(1, 0), receive(0, 0)], 5);
    inputs.insert(1, Input::Process(Box::new(facts(0, 2, S))));
    let mut writer = Writer::new(Vec::new());
    for input in &inputs {
        writer.push(input).expect("memory takes all");
    }
    let tape = writer.finish().expect("memory takes all");
    let read: Vec<Input> = Reader::new(tape.as_slice())
        .expect("a tape")
        .filter_map(|item| if let Item::Input(input) = item.expect("whole") { Some(input) } else { None })
        .collect();
    assert_eq!(faults(&run(&read)), faults(&run(&inputs)));
}

const FIRST_REQUEST: u64 = 0xac00_0000;

/// Puts requests into all calls of this function, of which it is known whether they are done.
fn with_requests(inputs: &mut [Input], function: &str, complete: &[Option<bool>]) {
    for input in inputs {
        let Input::Threads(threads) = input else { continue };
        for call in threads.threads.iter_mut().filter_map(|thread| thread.call.as_mut()) {
            let requests = (FIRST_REQUEST..).zip(complete).map(|(handle, &complete)| PendingRequest {
                handle,
                complete,
                ..PendingRequest::default()
            });
            if call.function == function {
                call.requests = requests.collect();
            }
        }
    }
}

/// Rank 0 has begun to receive from these ranks and waits; the others are at their end.
fn waits_for_receives(sources: &[i32], function: &'static str, complete: &[Option<bool>]) -> Vec<Input> {
    let waits = At::Call(function, vec![word(sources.len() as i32), Some(0x2000)]);
    let finalize = || At::Call("MPI_Finalize", vec![]);
    let mut inputs = looked_at(&[waits, finalize(), finalize()], 12);
    with_requests(&mut inputs, function, complete);
    let mut t = Trace::new(3, false);
    let begun = t.inputs.len();
    for (&source, handle) in sources.iter().zip(FIRST_REQUEST..) {
        let probe = t.probe("MPI_Irecv", ProbeClass::Call);
        let args = [0x1000, 1, 5, u64::from(source as u32), 7, WORLD];
        t.record(0, probe, Body::Call { return_address: 0, args, nested: false });
        t.record(0, probe, Body::Made { handle });
    }
    let plans = t.inputs[begun..].iter().filter(|input| matches!(input, Input::Plan(_)));
    let mut all: Vec<Input> = inputs[..begun].to_vec();
    all.extend(plans.cloned());
    all.extend(t.inputs[begun..].iter().filter(|input| !matches!(input, Input::Plan(_))).cloned());
    all.extend_from_slice(&inputs[begun..]);
    all
}

#[test]
fn a_request_stands_for_the_call_that_made_it() {
    let report = run(&waits_for_receives(&[1, 2], "MPI_Waitall", &[Some(true), Some(false)]));
    assert_eq!(faults(&report), [(Fault::MissingMessage, Severity::Warning, vec![0, 2])]);
    let summary = &report.findings[0].summary;
    assert!(
        summary.contains("request MPI_Irecv(count 1, source 2, tag 7, comm MPI_COMM_WORLD)"),
        "{summary}"
    );
    // Without its maker it may be anything.
    let mut inputs = waits_for_receives(&[1, 2], "MPI_Waitall", &[Some(true), Some(false)]);
    inputs.retain(|input| !matches!(input, Input::Record(_)));
    let report = run(&inputs);
    assert_eq!(faults(&report), [(Fault::UnknownHang, Severity::Notice, vec![0, 1, 2])]);
    assert_eq!(hang(&report).unknown, ["the requests of rank 0 in MPI_Waitall"]);
}

#[test]
fn a_call_that_has_nothing_to_wait_for_and_does_not_return_is_the_librarys_fault() {
    let wait = || At::Call("MPI_Waitall", vec![word(2), Some(0x2000)]);
    let mut inputs = looked_at(&[wait(), wait()], 12);
    with_requests(&mut inputs, "MPI_Waitall", &[Some(true), Some(true)]);
    let report = run(&inputs);
    assert_eq!(faults(&report), [(Fault::UnknownHang, Severity::Notice, vec![0, 1])]);
    assert_eq!(hang(&report).complete, [Who::Rank(0), Who::Rank(1)]);
    assert_eq!(hang(&report).unknown, <[&str; 0]>::default());
    let steps = &report.findings[0].next_steps;
    assert!(
        steps.len() == 1 && steps[0].contains("known faults of this version of the MPI library"),
        "{steps:?}"
    );
    // One of them is not known to be.
    with_requests(&mut inputs, "MPI_Waitall", &[Some(true), None]);
    let report = run(&inputs);
    assert!(hang(&report).complete.is_empty() && !hang(&report).unknown.is_empty());
    assert!(report.findings[0].next_steps.iter().any(|step| step.contains("--returns all")));
}

fn hang(report: &Report) -> &Hang {
    report.findings.iter().find_map(Finding::hang).unwrap_or_else(|| panic!("{report:#?}"))
}

#[test]
fn a_hang_that_is_too_large_to_be_analysed_is_said_to_be_that() {
    // Each names another root: every one of them is held against every other.
    let other_root = |root| At::Call("MPI_Bcast", vec![None, word(1), None, word(root), Some(WORLD)]);
    let ranks: Vec<At> = (0..5000).map(other_root).collect();
    let report = run(&looked_at(&ranks, 4));
    assert_eq!(faults(&report), [(Fault::NotAnalysed, Severity::Notice, vec![])]);
    let finding = &report.findings[0];
    assert_eq!((finding.verdict, finding.id.as_str()), (Verdict::Inconclusive, "hang-not-analysed"));
    assert!(finding.summary.starts_with("Too large to analyse within the time"), "{}", finding.summary);
    assert!(finding.summary.contains("5000 ranks"), "{}", finding.summary);
}

/// A message that is about to arrive, and does not.
fn lost_on_the_way() -> [At; 3] {
    let send = At::Call("MPI_Ssend", vec![None, word(1), None, word(1), word(0), Some(WORLD)]);
    [send, receive(0, 0), barrier()]
}

#[test]
fn a_job_whose_ranks_are_all_in_mpi_and_do_not_move_is_never_called_fine() {
    assert_eq!(faults(&run(&looked_at(&lost_on_the_way(), 10))), []);
    let report = run(&looked_at(&lost_on_the_way(), 12));
    assert_eq!(faults(&report), [(Fault::UnknownHang, Severity::Notice, vec![0, 1, 2])]);
    let finding = &report.findings[0];
    assert_eq!((finding.verdict, finding.id.as_str()), (Verdict::Inconclusive, "hang-unknown"));
    assert!(
        finding.summary.starts_with(
            "Hang of unknown cause: no rank has moved for ten seconds or more: rank 0 in MPI_Ssend"
        ),
        "{}",
        finding.summary
    );
    let calls = hang(&report).groups.iter().filter_map(|group| group.call.as_ref());
    let calls: Vec<&str> = calls.map(|call| call.function.as_str()).collect();
    assert_eq!(calls, ["MPI_Ssend", "MPI_Recv", "MPI_Barrier"]);
    let value = serde_json::to_value(finding).expect("a finding is JSON");
    assert_eq!(value["evidence"]["kind"], "hang");
    assert_eq!(value["evidence"]["fault"], "unknown_hang");
}

#[test]
fn a_hang_of_unknown_cause_is_told_once_and_gives_way_to_a_cause() {
    let mut pipeline = Pipeline::new(Options::default());
    let mut told = Vec::new();
    let mut push = |inputs: &[Input]| {
        for input in inputs {
            pipeline.push(input);
            told.extend(pipeline.take_alerts());
        }
    };
    push(&looked_at(&lost_on_the_way(), 20));
    let mut more = looked_at(&[receive(1, 0), receive(0, 0), barrier()], 40);
    let begin = more.iter().position(|input| matches!(input, Input::Threads(_))).expect("somebody looked");
    for input in &mut more {
        match input {
            Input::Threads(threads) => threads.time_ns += 20 * S,
            Input::Tick { time_ns } => *time_ns += 20 * S,
            _ => {}
        }
    }
    push(&more[begin..]);
    let told: Vec<String> = told
        .iter()
        .map(|alert| match alert {
            Alert::Raised(finding) => finding.id.clone(),
            Alert::Withdrawn { id, .. } => format!("not {id}"),
        })
        .collect();
    assert_eq!(told, ["hang-unknown", "hang-deadlock-0-1", "not hang-unknown"]);
}

#[test]
fn a_hang_of_unknown_cause_is_told_when_its_time_has_come_and_not_at_the_next_sample() {
    let inputs = looked_at(&lost_on_the_way(), 6);
    let sampled = |input: &Input| match input {
        Input::Threads(threads) => Some(threads.time_ns),
        _ => None,
    };
    let first_ns = inputs.iter().find_map(sampled).expect("somebody looked");
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.push(&Input::Tick { time_ns: first_ns + 9 * S });
    assert_eq!(pipeline.take_alerts().len(), 0);
    pipeline.push(&Input::Tick { time_ns: first_ns + 10 * S });
    let told = pipeline.take_alerts();
    assert!(matches!(&told[..], [Alert::Raised(finding)] if finding.id == "hang-unknown"), "{told:?}");
}

#[test]
fn while_one_rank_computes_sleeps_or_waits_for_a_file_no_unknown_hang_is_told() {
    let file = || At::Call("MPI_File_write_all", vec![None, None, None, None, None]);
    let accept = || At::Call("MPI_Comm_accept", vec![None, None, None, Some(WORLD), None]);
    for other in [At::Computes, At::Sleeps, At::Stopped, file(), accept()] {
        let [send, receive, _] = lost_on_the_way();
        let found = faults(&run(&looked_at(&[send, receive, other], 30)));
        assert!(found.iter().all(|(fault, ..)| *fault != Fault::UnknownHang), "{found:?}");
    }
    // A rank of another node may move.
    let mut inputs = looked_at(&lost_on_the_way(), 30);
    for input in &mut inputs {
        if let Input::Process(facts) = input {
            facts.size = Some(4);
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn ranks_that_ended_do_not_keep_the_others_from_hanging() {
    let mut inputs = looked_at(&lost_on_the_way(), 4);
    let mut t = Trace::new(3, false);
    t.inputs.clear();
    t.now_ns += 4 * S;
    t.record(2, 0, Body::Exit { status: 0, at: 0 });
    inputs.extend(t.inputs);
    for input in looked_at(&lost_on_the_way()[..2], 14) {
        if let Input::Threads(mut threads) = input {
            threads.time_ns += 4 * S;
            let time_ns = threads.time_ns;
            inputs.extend([Input::Threads(threads), Input::Tick { time_ns }]);
        }
    }
    assert_eq!(faults(&run(&inputs)), [(Fault::UnknownHang, Severity::Notice, vec![0, 1])]);
}

#[test]
fn of_several_requests_one_that_is_certainly_not_done_is_enough_for_who_waits_for_all() {
    let mut inputs = waits_for_receives(&[1, 2], "MPI_Waitall", &[Some(false), Some(false), Some(false)]);
    assert_eq!(faults(&run(&inputs)), [(Fault::MissingMessage, Severity::Warning, vec![0, 1, 2])]);
    // Of who waits for any of them, the one that is not known may be what comes.
    inputs = waits_for_receives(&[1, 2], "MPI_Waitany", &[Some(false), Some(false), Some(false)]);
    assert_eq!(faults(&run(&inputs)), [(Fault::UnknownHang, Severity::Notice, vec![0, 1, 2])]);
}

#[test]
fn what_may_be_done_already_is_not_sure_to_be_waited_for() {
    let named = |complete| faults(&run(&waits_for_receives(&[1, 2], "MPI_Waitall", complete)));
    assert_eq!(named(&[None, None]), [(Fault::MissingMessage, Severity::Warning, vec![0, 1, 2])]);
    let mut inputs = waits_for_receives(&[1, 2], "MPI_Waitall", &[None, None]);
    for input in &mut inputs {
        if let Input::Threads(threads) = input {
            threads.threads.retain(|thread| thread.pid != pid(1));
        }
    }
    // Rank 1 may still send, and that may be all that is missing.
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn who_asks_again_and_again_waits_too_but_that_takes_longer_to_tell() {
    let inputs = waits_for_receives(&[2], "MPI_Test", &[Some(false)]);
    let report = run(&inputs);
    assert_eq!(faults(&report), [(Fault::MissingMessage, Severity::Notice, vec![0, 2])]);
    let looks: Vec<usize> = (0..inputs.len()).filter(|&at| matches!(inputs[at], Input::Threads(_))).collect();
    assert_eq!(faults(&run(&inputs[..looks[7]])), []);
}

#[test]
fn a_rank_that_asks_now_and_then_and_computes_is_left_alone() {
    let mut inputs = waits_for_receives(&[2], "MPI_Test", &[Some(false)]);
    for (number, input) in inputs.iter_mut().enumerate() {
        if let Input::Threads(threads) = input
            && number % 4 < 2
        {
            threads.threads[0].call = None;
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

#[test]
fn the_odd_one_of_a_collective_call_is_named_when_all_have_come() {
    let reduce = || At::Call("MPI_Allreduce", vec![None, None, None, None, word(1), Some(WORLD)]);
    let ranks = [barrier(), reduce(), barrier()];
    let mut inputs = looked_at(&ranks, 5);
    assert_eq!(faults(&run(&inputs)), [(Fault::MismatchedCollective, Severity::Warning, vec![1])]);
    // Of the third it is not known yet that it has come.
    for input in &mut inputs {
        if let Input::Threads(threads) = input {
            threads.threads.truncate(2);
        }
    }
    assert_eq!(faults(&run(&inputs)), []);
}

/// How many ranks wait, each time that a hang is raised: first two of them hang, and some seconds later the others wait for these.
fn raised_with(others: u32) -> Vec<usize> {
    let of_two = |rest: At| -> Vec<At> {
        let others = std::iter::repeat_n(rest, others as usize);
        [receive(1, 0), receive(0, 0)].into_iter().chain(others).collect()
    };
    let alone = looked_at(&of_two(At::Computes), 6);
    let later = looked_at(&of_two(barrier()), 6);
    let mut pipeline = Pipeline::new(Options::default());
    alone.iter().for_each(|input| pipeline.push(input));
    let first_ns = later.iter().find_map(Input::time_ns).unwrap_or_default();
    for input in &later {
        match input {
            Input::Threads(threads) => {
                let mut threads = (**threads).clone();
                threads.time_ns += 6 * S - first_ns + 1_000_000;
                threads.threads.iter_mut().for_each(|thread| thread.ran_ns += 3 * S);
                pipeline.push(&Input::Threads(Box::new(threads)));
            }
            Input::Tick { time_ns } => pipeline.push(&Input::Tick { time_ns: time_ns + 6 * S }),
            _ => {}
        }
    }
    let waiting = |alert: Alert| match alert {
        Alert::Raised(finding) => Some(finding.hang()?.who_waits().len()),
        Alert::Withdrawn { .. } => None,
    };
    pipeline.take_alerts().into_iter().filter_map(waiting).collect()
}

#[test]
fn a_hang_is_told_again_when_many_more_ranks_are_in_it() {
    assert_eq!(raised_with(8), [0]);
    assert_eq!(raised_with(200), [0, 200]);
}

//! Jobs with a bug, and jobs without one.

use crate::common;
use crate::common::{Trace, segment_at};
use analyzer::finding::{ComparedBy, Evidence, Finding, Report, Severity, Verdict};
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::process::Who;
use analyzer::render::{self, Style};
use analyzer::wire::{Body, CallContext};

fn run(inputs: &[Input]) -> Report {
    run_with(inputs, Options::default())
}

fn run_with(inputs: &[Input], options: Options) -> Report {
    let mut pipeline = Pipeline::new(options);
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn warnings(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.severity == Severity::Warning).collect()
}

/// What is staged when it goes wrong: so many bytes, in a buffer of their own or where they always are.
#[derive(Clone, Copy)]
struct Staged {
    len_bytes: u64,
    elsewhere: bool,
}

const AS_USUAL: Staged = Staged { len_bytes: 64, elsewhere: false };

/// Rank 0 sends to rank 1 by a bounce buffer on each side. `misplaced`: what is sent begins 24 times 24 bytes below the data, for want of
/// a parenthesis.
fn send(t: &mut Trace, step: u64, misplaced: Option<Staged>, calls: [&str; 2]) {
    let (x, a) = (t.heap(0, "user send buffer"), t.heap(0, "bounce buffers"));
    let (b, y) = (t.heap(1, "receive bounce buffers"), t.heap(1, "user receive buffer"));
    let slot = 4096 * (1 + step % 8);
    let sent = if misplaced.is_some() { a + slot - 24 * 24 } else { a + slot };
    t.call(0, calls[0], "main: send");
    let Staged { len_bytes, elsewhere } = misplaced.unwrap_or(AS_USUAL);
    let staged = if elsewhere { t.heap(0, "another buffer") } else { a + slot };
    t.copy(0, "stage", x, staged, len_bytes);
    t.copy(0, "write", sent, segment_at(0) + slot, 64);
    t.call(1, calls[1], "main: receive");
    t.copy(1, "read", segment_at(1) + slot, b + slot, 64);
    t.copy(1, "deliver", b + slot, y, 64);
}

/// What the two ranks call.
const CALLS: [&str; 2] = ["MPI_Send", "MPI_Recv"];

fn figure_two(bugs: u64) -> Vec<Input> {
    figure_two_in(bugs, AS_USUAL, CALLS)
}

/// The same in other calls, and where something else is staged when it goes wrong.
fn figure_two_in(bugs: u64, staged: Staged, calls: [&str; 2]) -> Vec<Input> {
    let mut t = Trace::new(2, true);
    for step in 0..400 {
        let is_misplaced = bugs > 0 && step % 100 == 50 && step / 100 < bugs;
        send(&mut t, step, is_misplaced.then_some(staged), calls);
    }
    t.end()
}

#[test]
fn the_broken_chain_of_figure_two_is_the_first_warning() {
    let report = run(&figure_two(3));
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    let finding = &report.findings[0];
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    let Evidence::OddChain(chain) = &finding.evidence else { panic!("not a chain: {finding:?}") };
    assert_eq!((chain.odd.chains, chain.frequent.chains), (3, 397));
    assert_eq!((chain.odd.ops.len(), chain.frequent.ops.len()), (3, 4));
    assert_eq!(chain.abnormality, 0.8859);
    assert_eq!((chain.context.matched, chain.context.known), (3, 3));
    assert_eq!(finding.who, [Who::Rank(0), Who::Rank(1)]);
}

/// What a library moves there is its own: it computes with it, so that chains end and begin.
#[test]
fn a_chain_that_breaks_where_communicators_are_made_is_no_warning() {
    check_warned_of_alone_in("MPI_Bcast", "MPI_Comm_split");
}

/// Lengths and displacements are worked out where they are given from, and kept.
#[test]
fn a_chain_that_breaks_where_datatypes_are_made_is_no_warning() {
    check_warned_of_alone_in("MPI_Send", "MPI_Type_indexed");
}

/// What is read from a window may have been stored there by the program, which no probe sees.
#[test]
fn a_chain_that_begins_with_what_was_read_from_a_window_is_no_warning() {
    check_warned_of_alone_in("MPI_Put", "MPI_Get_accumulate");
}

/// The same broken chain is a warning in one call, and a notice in another one.
fn check_warned_of_alone_in(call: &'static str, other: &'static str) {
    check_no_warning(3, AS_USUAL, [other; 2]);
    let report = run(&figure_two_in(3, AS_USUAL, [call; 2]));
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
}

/// A broken chain that is a notice.
fn check_no_warning(bugs: u64, staged: Staged, calls: [&str; 2]) {
    let report = run(&figure_two_in(bugs, staged, calls));
    assert_eq!(warnings(&report).len(), 0, "{:#?}", report.findings);
    assert_eq!(report.findings[0].severity, Severity::Notice);
}

/// What was staged and not sent is not what should have been sent: it is a message of its own.
#[test]
fn what_is_left_unread_beside_a_chain_in_another_buffer_and_of_another_size_is_another_message() {
    for len_bytes in [8, 100] {
        check_no_warning(3, Staged { len_bytes, elsewhere: true }, CALLS);
    }
    // A wrong address may lead to another buffer, and a header may have been put before.
    for staged in [Staged { elsewhere: true, ..AS_USUAL }, Staged { len_bytes: 24, ..AS_USUAL }] {
        let report = run(&figure_two_in(3, staged, CALLS));
        assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    }
}

/// Rank 1 sends something onto the stack of rank 0, which passes it on, and in four of 400 steps something else of its stack.
fn passed_on_from_stack(len_bytes: u64) -> Report {
    let mut t = Trace::new(2, true);
    let (got, other) = (common::STACK_AT + 0x100, common::STACK_AT + 0x800);
    for step in 0..400 {
        let slot = 4096 * (1 + step % 8);
        let back = 0x8_0000 + slot;
        let (x, y) = (t.heap(1, "user send buffer"), t.heap(1, "user receive buffer"));
        t.call(1, "MPI_Send", "main: send");
        let b = t.heap(1, "receive bounce buffers");
        t.copy(1, "write", x, segment_at(1) + slot, len_bytes);
        t.call(0, "MPI_Recv", "main: receive");
        t.copy(0, "read", segment_at(0) + slot, got, len_bytes);
        t.call(0, "MPI_Send", "main: pass on");
        t.copy(0, "write", if step % 100 == 50 { other } else { got }, segment_at(0) + back, len_bytes);
        t.call(1, "MPI_Recv", "main: receive");
        t.copy(1, "read", segment_at(1) + back, b + slot, len_bytes);
        t.copy(1, "deliver", b + slot, y, len_bytes);
    }
    run(&t.end())
}

/// It was worked out there, as far as anybody can tell.
#[test]
fn a_number_from_a_stack_that_no_copy_wrote_is_no_warning() {
    let report = passed_on_from_stack(8);
    assert_eq!((warnings(&report).len(), report.findings.len()), (0, 1), "{:#?}", report.findings);
    assert_eq!(warnings(&passed_on_from_stack(64)).len(), 1, "an array that no copy wrote is one");
}

/// Rank 0 receives what rank 1 sends, and keeps it; in four of 400 steps it keeps something else from near there.
fn kept_from(at: impl Fn(&mut Trace) -> u64) -> Report {
    let mut t = Trace::new(2, true);
    for step in 0..400 {
        let slot = 4096 * (1 + step % 8);
        let (x, a, y) = (t.heap(1, "user send buffer"), t.heap(1, "bounce buffers"), t.heap(0, "kept"));
        let got = at(&mut t);
        t.call(1, "MPI_Send", "main: send");
        t.copy(1, "stage", x, a + slot, 64);
        t.copy(1, "write", a + slot, segment_at(1) + slot, 64);
        t.call(0, "MPI_Recv", "main: receive");
        t.copy(0, "read", segment_at(0) + slot, got, 64);
        t.copy(0, "keep", if step % 100 == 50 { got + 0x400 } else { got }, y, 64);
    }
    run(&t.end())
}

/// The program used it, as far as anybody can tell.
#[test]
fn what_was_received_onto_a_stack_and_not_copied_on_is_no_warning() {
    let report = kept_from(|_| common::STACK_AT + 0x100);
    assert_eq!((warnings(&report).len(), report.findings.len()), (0, 1), "{:#?}", report.findings);
    assert_eq!(
        warnings(&kept_from(|t| t.heap(0, "receive bounce buffers"))).len(),
        1,
        "in a buffer it is one"
    );
}

/// Rank 0 sends to rank 1, which sends it back; in four of 400 steps rank 0 takes it later than usual, when it is overwritten, and rank 1 then reads
/// what no copy wrote.
fn sent_back() -> Vec<Input> {
    let mut t = Trace::new(2, true);
    for step in 0..400 {
        let slot = 4096 * (1 + step % 8);
        let (x, y, z) = (t.heap(0, "sent"), t.heap(1, "received"), t.heap(0, "sent back"));
        t.copy(0, "write", x, segment_at(0) + slot, 64);
        t.copy(1, "read", segment_at(1) + slot, y, 64);
        t.copy(1, "write back", y, segment_at(1) + 0x4_0000 + slot, 64);
        if step % 100 == 50 {
            t.copy(1, "read back", segment_at(1) + 0x8_0000, y, 64);
        } else {
            t.copy(0, "read back", segment_at(0) + 0x4_0000 + slot, z, 64);
        }
    }
    t.end()
}

#[test]
fn what_another_process_was_to_do_is_not_looked_for_in_this_one() {
    let report = run(&sent_back());
    assert_eq!(warnings(&report).len(), 0, "{:#?}", report.findings);
    assert!(
        !report.findings.is_empty(),
        "it is a notice: {}",
        render::report(&report, Style { all: true, ..Style::default() })
    );
}

/// Rank 1 reads long messages out of the memory of rank 0, which copies them to where they are sent from: now and then it then has another place
/// read. `receives`: it has not copied but received what it does not send on.
fn read_out_of_another_process(receives: bool) -> Report {
    let mut t = Trace::new(3, true);
    for step in 0..400 {
        let slot = 65536 * (1 + step % 8);
        let (x, a) = (t.heap(0, "computed"), t.heap(0, "slots") + slot);
        let (b, y) = (t.heap(1, "received"), t.heap(1, "kept"));
        if receives {
            pull(&mut t, 0, a, 2, x);
        } else {
            t.copy(0, "stage", x, a, 60_000);
        }
        let sent = if step % 40 == 20 { a + 65536 * 16 } else { a };
        pull(&mut t, 1, b, 0, sent);
        t.copy(1, "keep", b, y, 60_000);
    }
    run(&t.end())
}

fn pull(t: &mut Trace, rank: u32, to: u64, of: u32, from: u64) {
    let context = CallContext::default();
    let (len_bytes, remote_pid) = (60_000, common::pid(of));
    let body =
        Body::Cross { local: to, remote: from, len_bytes, remote_pid, segment: 0, write: false, context };
    t.record(rank, 0, body);
}

#[test]
fn what_is_read_out_of_another_buffer_of_a_process_than_it_has_just_filled_is_a_warning() {
    let report = read_out_of_another_process(false);
    let warnings = warnings(&report);
    let [warning] = &warnings[..] else { panic!("{:#?}", report.findings) };
    assert!(
        warning.summary.starts_with("Wrong buffer forwarded 10 times to rank 1: "),
        "{}",
        warning.summary
    );
    assert_eq!(warning.who, [0, 1].map(Who::Rank), "the one whose buffer it is too");
    let text = render::report(&report, Style::default());
    let beside = "in 10 of 10 instances the process whose memory that was had just run";
    assert!(text.contains(beside) && text.contains("Set a breakpoint there on rank 0."), "{text}");
}

#[test]
fn what_a_process_received_and_did_not_send_on_is_no_warning() {
    let report = read_out_of_another_process(true);
    assert_eq!((warnings(&report).len(), report.findings.is_empty()), (0, false), "{:#?}", report.findings);
}

#[test]
fn where_copies_are_not_watched_nothing_is_said_about_data() {
    let faulty = figure_two(4);
    assert_eq!(warnings(&run(&faulty)).len(), 1);
    let mut calls_only = faulty;
    for input in &mut calls_only {
        if let Input::Plan(plan) = input {
            plan.probes
                .iter_mut()
                .filter(|probe| probe.class == ProbeClass::Copy)
                .for_each(|probe| probe.class = ProbeClass::Alloc);
        }
    }
    let report = run(&calls_only);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let text = render::report(&report, Style::default());
    assert!(text.contains("Copies of memory were not watched: nothing is said about data."), "{text}");
    assert!(report.statistics.movements > 0);
}

#[test]
fn the_same_job_without_the_bug_has_no_finding() {
    let report = run(&figure_two(0));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.thresholds.warm);
}

/// Every rank sends a message to its right neighbour; `storm` is a rank that asks again and again.
fn ring_of_eight(storm: impl Fn(u64) -> Option<u32>) -> Vec<Input> {
    ring_of_eight_by(|_, _| false, storm)
}

/// The same; `unexpected` messages of a rank are set aside by the receiver's library until they are asked for.
fn ring_of_eight_by(unexpected: impl Fn(u64, u32) -> bool, storm: impl Fn(u64) -> Option<u32>) -> Vec<Input> {
    let mut t = Trace::new(8, true);
    for step in 0..400u64 {
        for rank in 0..8u32 {
            let slot = 4096 * u64::from(rank);
            let (x, y) = (t.heap(rank, "send"), t.heap((rank + 1) % 8, "receive"));
            t.call(rank, "MPI_Sendrecv", "main: exchange");
            t.copy(rank, "write", x, segment_at(rank) + slot, 64);
            let segment = segment_at((rank + 1) % 8) + slot;
            if unexpected(step, rank) {
                let aside = t.heap((rank + 1) % 8, "aside");
                t.copy((rank + 1) % 8, "set aside", segment, aside, 64);
                t.copy((rank + 1) % 8, "deliver late", aside, y, 64);
            } else {
                t.copy((rank + 1) % 8, "read", segment, y, 64);
            }
            let requests = if storm(step) == Some(rank) { 40 } else { u64::from(step % 50 == 0) };
            for _ in 0..requests {
                connect(&mut t, rank);
            }
        }
        t.now_ns += 1_000_000;
    }
    t.end()
}

fn connect(t: &mut Trace, rank: u32) {
    let request = t.heap(rank, "connection request");
    t.call(rank, "MPI_Test", "library: connect");
    t.copy(rank, "post request", request, segment_at(rank) + 0x8_0000 + u64::from(rank) * 64, 32);
}

fn first_rank(report: &Report) -> (&Finding, &analyzer::finding::OddRank) {
    let finding = report.findings.first().expect("a finding");
    let Evidence::OddRank(rank) = &finding.evidence else { panic!("not a rank: {finding:#?}") };
    (finding, rank)
}

#[test]
fn a_rank_in_a_storm_is_named() {
    let report = run(&ring_of_eight(|_| Some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    assert_eq!((rank.who, rank.part, rank.nearest), (Who::Rank(5), 1, 2));
    assert!(rank.share > 0.9 && rank.peers_share < 0.05, "{rank:#?}");
    assert_eq!(rank.group.ops[0].calls[0].function, "MPI_Test");
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn a_storm_at_the_end_is_found_in_the_last_part() {
    let report = run(&ring_of_eight(|step| (step >= 399).then_some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(rank.who, Who::Rank(5));
    assert!(rank.part > 1, "{rank:#?}");
}

#[test]
fn a_ring_without_a_storm_has_no_finding() {
    let report = run(&ring_of_eight(|_| None));
    assert_eq!(report.findings, []);
    assert_eq!(report.thresholds.compared_ranks.len(), 8);
}

#[test]
fn a_storm_is_found_among_ranks_whose_messages_go_different_ways() {
    let by_chance = |step: u64, rank: u32| step * 7 % 8 < u64::from(rank);
    let report = run(&ring_of_eight_by(by_chance, |_| Some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Warning, Who::Rank(5)));
    assert_eq!(rank.compared_by, ComparedBy::Beginnings);
}

#[test]
fn a_rank_whose_messages_go_another_way_is_a_notice() {
    let report = run(&ring_of_eight_by(|_, rank| rank == 3, |_| None));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Notice, Who::Rank(3)));
    assert_eq!(rank.compared_by, ComparedBy::WholeChains);
}

#[test]
fn what_a_score_alone_speaks_for_is_one_line_of_text_unless_all_is_asked_for() {
    let report = run(&ring_of_eight_by(|_, rank| rank == 3, |_| None));
    let alone = report.findings.iter().filter(|finding| finding.is_score_alone()).count();
    assert!(alone > 0 && alone == report.findings.len(), "{:#?}", report.findings);
    let (text, all) = (
        render::report(&report, Style::default()),
        render::report(&report, Style { all: true, ..Style::default() }),
    );
    let first = text.lines().next();
    assert_eq!(first, Some("Nothing odd was found."));
    assert!(
        text.lines().nth(1).is_some_and(|line| line.starts_with(&format!("{alone} rare path"))),
        "{text}"
    );
    assert!(!text.contains(&report.findings[0].id) && all.contains(&report.findings[0].id), "{all}");
}

/// The root of a broadcast sends more than half of what it sends to others in work that is its own.
#[test]
fn a_rank_that_does_work_of_its_own_is_no_warning_for_doing_less_of_the_rest() {
    let mut t = Trace::new(8, true);
    for step in 0..400u64 {
        for rank in 0..8 {
            let data = t.heap(rank, "data");
            let slot = 4096 * u64::from(rank) + 64 * (step % 8);
            t.call(rank, "MPI_Isend", "main: ring");
            t.copy(rank, "write", data, segment_at(rank) + slot, 64);
            let times = if rank == 0 { 2 } else { 0 };
            for to in 1..=times {
                let root = t.heap(rank, "what all are told");
                t.call(rank, "MPI_Bcast", "main: tell");
                t.copy(rank, "tell", root, segment_at(rank) + 0x8_0000 + to * 64, 8);
            }
        }
        t.tick();
    }
    let report = run(&t.end());
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Notice, Who::Rank(0)), "{finding:#?}");
    assert_eq!(rank.group.ops[0].calls[0].function, "MPI_Bcast");
}

#[test]
fn a_subset_of_the_ranks_can_be_compared_alone() {
    let options = Options { ranks: Some(vec![0, 1, 2, 3]), ..Options::default() };
    let report = run_with(&ring_of_eight(|_| Some(5)), options);
    assert_eq!(report.findings, []);
    assert_eq!(report.thresholds.compared_ranks, [0, 1, 2, 3].map(Who::Rank));
}

#[test]
fn a_token_that_goes_round_for_ever_is_not_odd() {
    let mut t = Trace::new(4, true);
    for step in 0..4000u64 {
        let (rank, next) = ((step % 4) as u32, ((step + 1) % 4) as u32);
        let (from, to) = (t.heap(rank, "token"), t.heap(next, "token"));
        let slot = 4096 * u64::from(rank);
        t.copy(rank, "write", from, segment_at(rank) + slot, 64);
        t.copy(next, "read", segment_at(next) + slot, to, 64);
        if step % 100 == 0 {
            t.tick();
        }
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
    assert!(report.statistics.pending_operations < 20);
}

#[test]
fn a_master_and_its_workers_are_not_odd() {
    let mut t = Trace::new(8, true);
    for step in 0..600u64 {
        let worker = 1 + (step % 7) as u32;
        let (task, got) = (t.heap(0, "tasks"), t.heap(worker, "task"));
        let (result, all) = (t.heap(worker, "result"), t.heap(0, "results"));
        let slot = 4096 * u64::from(worker);
        t.copy(0, "write", task, segment_at(0) + slot, 64);
        t.copy(worker, "read", segment_at(worker) + slot, got, 64);
        t.copy(worker, "write", result, segment_at(worker) + slot + 2048, 64);
        t.copy(0, "read", segment_at(0) + slot + 2048, all, 64);
        t.now_ns += 100_000;
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
}

#[test]
fn two_user_buffers_through_one_staging_path_are_not_odd() {
    let mut t = Trace::new(2, true);
    for step in 0..600u64 {
        let user = if step % 10 == 0 { "rare user buffer" } else { "user buffer" };
        let (x, a, y) = (t.heap(0, user), t.heap(0, "staging"), t.heap(1, "receive"));
        let slot = 4096 * (step % 8);
        t.copy(0, "stage", x, a + slot, 64);
        t.copy(0, "write", a + slot, segment_at(0) + slot, 64);
        t.copy(1, "read", segment_at(1) + slot, y, 64);
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
}

#[test]
fn headers_that_join_no_chain_are_not_odd() {
    let mut t = Trace::new(2, true);
    for step in 0..600u64 {
        let (x, h, y) = (t.heap(0, "user"), t.heap(0, "header"), t.heap(1, "receive"));
        let slot = 4096 * (step % 8);
        t.copy(0, "header", h, segment_at(0) + slot, 14);
        t.copy(0, "write", x, segment_at(0) + slot + 14, 64);
        t.copy(1, "read", segment_at(1) + slot + 14, y, 64);
    }
    let report = run(&t.end());
    assert_eq!(report.findings, []);
    assert_eq!(report.statistics.groups, 2);
}

#[test]
fn a_late_attach_does_not_look_like_broken_chains() {
    let inputs = figure_two(0);
    // Cut off before the end and after the beginning: messages are under way at both.
    for skip in 0..60 {
        let mut cut = Trace::new(2, false).inputs;
        let is_fact = |i: &Input| matches!(i, Input::Plan(_)) || is_allocation(i);
        let (facts, records): (Vec<_>, Vec<_>) = inputs.iter().skip(4).cloned().partition(is_fact);
        cut.extend(facts);
        cut.extend(records.into_iter().skip(skip));
        let report = run(&cut);
        assert!(report.findings.is_empty(), "{skip}: {:#?}", report.findings);
    }
}

fn is_allocation(input: &Input) -> bool {
    let Input::Record(raw) = input else { return false };
    matches!(analyzer::wire::Record::decode(raw).map(|r| r.body), Ok(analyzer::wire::Body::Alloc { .. }))
}

#[test]
fn a_run_is_held_against_a_good_one() {
    let mut good = Pipeline::new(Options::default());
    figure_two(0).iter().for_each(|input| good.push(input));
    let reference = good.into_reference();
    let json = serde_json::to_string(&reference).expect("a reference has a JSON form");
    let reference = serde_json::from_str(&json).expect("and is read back");
    // Here the bug is so common that it would be the usual way of this run.
    let mut t = Trace::new(2, true);
    (0..50).for_each(|step| send(&mut t, step, Some(AS_USUAL), CALLS));
    let options = Options { reference: Some(reference), ..Options::default() };
    let report = run_with(&t.end(), options);
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    let Evidence::OddChain(chain) = &report.findings[0].evidence else { panic!("not a chain") };
    assert_eq!((chain.odd.chains, chain.frequent.reference_chains), (50, 400));
    assert_eq!((chain.rareness, chain.context.matched), (1.0, 50));
}

#[test]
fn an_alert_is_raised_once_and_withdrawn_when_the_odd_becomes_usual() {
    let mut t = Trace::new(2, true);
    for step in 0..2000 {
        send(&mut t, step, (step == 399 || step > 600).then_some(AS_USUAL), CALLS);
        if step % 50 == 0 {
            t.tick();
        }
    }
    let mut pipeline = Pipeline::new(Options::default());
    let mut log = Vec::new();
    for input in t.end() {
        pipeline.push(&input);
        log.extend(pipeline.take_alerts().into_iter().map(|alert| match alert {
            analyzer::finding::Alert::Raised(f) => ("raised", f.id),
            analyzer::finding::Alert::Withdrawn { id, .. } => ("withdrawn", id),
        }));
    }
    let told: Vec<&str> = log.iter().map(|l| l.0).collect();
    assert_eq!(told, ["raised", "withdrawn"], "{log:?}");
    assert_eq!(log[0].1, log[1].1);
}

#[test]
fn names_of_places_come_last_and_change_the_words_only() {
    use analyzer::input::{Frame, Symbol};
    let mut pipeline = Pipeline::new(Options::default());
    figure_two(3).iter().for_each(|input| pipeline.push(input));
    let mut report = pipeline.report();
    let wanted = pipeline.wanted_symbols();
    assert!(!wanted.is_empty());
    let symbol = |&(file, offset_bytes): &(_, u64)| Symbol {
        file,
        offset_bytes,
        frames: vec![Frame {
            function: format!("f{offset_bytes:x}"),
            source: Some("/src/a.c".into()),
            line: Some(3),
        }],
    };
    pipeline.push(&Input::Symbols(wanted.iter().map(symbol).collect()));
    assert_eq!(pipeline.report(), report);
    assert_eq!(pipeline.wanted_symbols(), []);
    report.symbolize(pipeline.symbols());
    assert!(report.findings[0].summary.contains("f1030 (a.c:3)"), "{}", report.findings[0].summary);
    let text = analyzer::render::report(&report, analyzer::render::Style::default());
    assert!(text.contains("576 bytes below") && !text.contains("libmpi.so+"), "{text}");
}

#[test]
fn facts_that_are_told_again_leave_heap_blocks_known() {
    let mut inputs = figure_two(3);
    // In the middle of the run: what the ranks map is read again, with nothing new in it.
    let middle = inputs.len() / 2;
    let time_ns = inputs[..middle]
        .iter()
        .rev()
        .find_map(|input| if let Input::Record(record) = input { Some(record.time_ns()) } else { None })
        .expect("there are records");
    for rank in 0..2 {
        inputs.insert(middle, Input::Process(Box::new(common::facts(rank, 2, time_ns))));
    }
    let told_again = run(&inputs);
    assert_eq!(told_again.statistics.groups, run(&figure_two(3)).statistics.groups);
}

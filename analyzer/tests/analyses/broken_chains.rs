//! Chains that broke, in which data went another way than usual, and chains that only look so.

use crate::common;
use crate::common::{Trace, segment_at};
use analyzer::finding::{Evidence, Finding, Report, Severity, Verdict};
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::process::Who;
use analyzer::render::{self, Style};
use analyzer::wire::{Body, CallContext};

pub fn run(inputs: &[Input]) -> Report {
    run_with(inputs, Options::default())
}

pub fn run_with(inputs: &[Input], options: Options) -> Report {
    let mut pipeline = Pipeline::new(options);
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

pub fn warnings(report: &Report) -> Vec<&Finding> {
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

/// One message of figure two, with its bug or without.
pub fn send_one(t: &mut Trace, step: u64, has_bug: bool) {
    send(t, step, has_bug.then_some(AS_USUAL), CALLS);
}

pub fn figure_two(bugs: u64) -> Vec<Input> {
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

/// Records change places over a temporary, one of which was moved before in most cases, as a sort of them has it: `sends`: and one is sent.
fn sorted(sends: bool) -> Report {
    let mut t = Trace::new(2, true);
    let (records, temporary) = (t.heap(0, "records"), common::STACK_AT + 0x100);
    for step in 0..400 {
        let at = |record: u64| records + 64 * (step % 100) + 8 * record;
        t.leave(0);
        let moved = if step % 100 == 50 { at(3) } else { at(1) };
        t.copy(0, "keep", at(0), temporary, 8);
        t.copy(0, "put back", temporary, at(1), 8);
        if sends {
            t.call(0, "MPI_Send", "main: send");
        }
        t.copy(0, "move", moved, at(2), 8);
    }
    run(&t.end())
}

#[test]
fn what_a_program_moves_for_itself_is_no_warning() {
    let has_odd_chain = |report: &Report| {
        report.findings.iter().any(|finding| matches!(finding.evidence, Evidence::OddChain(_)))
    };
    let (alone, sent) = (sorted(false), sorted(true));
    assert!(has_odd_chain(&alone) && has_odd_chain(&sent), "{alone:#?} {sent:#?}");
    assert_eq!((warnings(&alone).len(), warnings(&sent).len()), (0, 1), "{:#?}", sent.findings);
}

/// An array grows from block to block; now and then into one in which a call has left something, and then another one grows.
fn grown(call: &'static str) -> Report {
    let mut t = Trace::new(2, true);
    let blocks = t.heap(0, "blocks");
    for step in 0..400 {
        let at = |block: u64| blocks + 64 * (step % 100) + 8 * block;
        let is_other = step % 100 == 50;
        if is_other {
            t.call(0, call, "main: call");
            t.copy(0, "leave", common::STACK_AT + 0x100, at(0), 8);
        }
        t.leave(0);
        (0..4).for_each(|block| t.copy(0, "grow", at(block), at(block + 1), 8));
        let (from, to) = if is_other { (at(6), at(7)) } else { (at(4), at(5)) };
        t.copy(0, "grow", from, to, 8);
    }
    run(&t.end())
}

#[test]
fn what_a_program_grows_where_the_library_left_something_is_no_warning() {
    let (made, received) = (grown("MPI_Comm_split"), grown("MPI_Recv"));
    assert_eq!((warnings(&made).len(), made.findings.len()), (0, 1), "{:#?}", made.findings);
    assert_eq!(warnings(&received).len(), 1, "{:#?}", received.findings);
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

/// Rank 1 sends something onto the stack of rank 0, which passes it on, and in four of 400 steps something else of its stack. `is_staged`: rank 0
/// has copied it there itself.
fn passed_on_from_stack(len_bytes: u64, is_staged: bool) -> Report {
    let mut t = Trace::new(2, true);
    let (got, other) = (common::STACK_AT + 0x100, common::STACK_AT + 0x800);
    for step in 0..400 {
        let slot = 4096 * (1 + step % 8);
        let back = 0x8_0000 + slot;
        let (x, y) = (t.heap(1, "user send buffer"), t.heap(1, "user receive buffer"));
        if is_staged {
            let kept = t.heap(0, "kept");
            t.leave(0);
            t.copy(0, "stage", kept, got, len_bytes);
        } else {
            t.call(1, "MPI_Send", "main: send");
            t.copy(1, "write", x, segment_at(1) + slot, len_bytes);
            t.call(0, "MPI_Recv", "main: receive");
            t.copy(0, "read", segment_at(0) + slot, got, len_bytes);
        }
        t.call(0, "MPI_Send", "main: pass on");
        t.copy(0, "write", if step % 100 == 50 { other } else { got }, segment_at(0) + back, len_bytes);
        t.call(1, "MPI_Recv", "main: receive");
        let b = t.heap(1, "receive bounce buffers");
        t.copy(1, "read", segment_at(1) + back, b + slot, len_bytes);
        t.copy(1, "deliver", b + slot, y, len_bytes);
    }
    run(&t.end())
}

/// It was worked out there, as far as anybody can tell.
#[test]
fn a_number_from_a_stack_that_no_copy_wrote_is_no_warning() {
    let report = passed_on_from_stack(8, true);
    assert_eq!((warnings(&report).len(), report.findings.len()), (0, 1), "{:#?}", report.findings);
    assert_eq!(warnings(&passed_on_from_stack(64, true)).len(), 1, "an array that no copy wrote is one");
}

/// Another variable may lie where something was received.
#[test]
fn what_is_sent_from_a_stack_where_something_was_received_is_no_warning() {
    for len_bytes in [8, 64] {
        let report = passed_on_from_stack(len_bytes, false);
        assert_eq!((warnings(&report).len(), report.findings.len()), (0, 1), "{:#?}", report.findings);
    }
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

//! Calls that fail are told of: as a fault if their rank ends in them, as a notice if the program goes on.

use crate::common::{PROGRAM, PROGRAM_AT, Trace};
use analyzer::finding::{CallError, Evidence, Fault, Finding, Hang, Report, Severity};
use analyzer::input::{Coverage, Input, MpiKind};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::{MpiObjects, Plan, PlannedFile, ProbeClass};
use analyzer::process::Who;
use analyzer::tape::{Item, Reader, Writer};
use analyzer::wire::Body;

const WORLD: u64 = 0x4400_0000;
const SIGKILL: u32 = 9;
const SIGTERM: u32 = 15;
const EXIT_1: u32 = 1 << 8;
/// Codes of MPICH: the class is in the lowest seven bits.
const TRUNCATED: u64 = 0x0800_000e;
const INVALID_RANK: u64 = 0x0400_0106;
const NO_SUCH_FILE: u64 = 0x0800_0025;
const ANY_SOURCE: i32 = -2;

struct Job {
    t: Trace,
}

impl Job {
    fn new(ranks: u32) -> Self {
        let mut t = Trace::new(ranks, false);
        let mpi = Some(MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None });
        let file = PlannedFile { id: PROGRAM, path: "/bin/job".into(), mpi, ..PlannedFile::default() };
        t.inputs.push(Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
        // Its end is watched, whether it comes or not.
        t.probe("MPI_Finalize", ProbeClass::CallResults);
        Self { t }
    }

    /// A call at the `place`-th place of the program.
    fn call(&mut self, rank: u32, function: &str, args: [u64; 6], place: u64) -> u64 {
        let probe = self.t.probe(function, ProbeClass::Call);
        let return_address = PROGRAM_AT + 0x5000 + place * 16;
        self.t.record(rank, probe, Body::Call { return_address, args, nested: false });
        return_address
    }

    fn receive(&mut self, rank: u32, source: i32, place: u64) -> u64 {
        self.call(rank, "MPI_Recv", [0x1000, 8, 5, u64::from(source as u32), 1, WORLD], place)
    }

    fn send(&mut self, rank: u32, dest: u64) -> u64 {
        self.call(rank, "MPI_Send", [0x1000, 8, 5, dest, 1, WORLD], 1)
    }

    /// The library is told of an error by a call that returns to an address.
    fn error(&mut self, rank: u32, code: u64, name: &str, return_address: u64) {
        let mut bytes = [0; 40];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let mut args = [code; 6];
        for (word, chunk) in args[1..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        }
        let probe = self.t.probe("MPIR_Err_return_comm", ProbeClass::Error);
        self.t.record(rank, probe, Body::Call { return_address, args, nested: true });
    }

    fn error_returns(&mut self, rank: u32) {
        let probe = self.t.probe("MPIR_Err_return_comm", ProbeClass::Error);
        self.t.record(rank, probe, Body::Done);
    }

    fn finalize(&mut self, rank: u32) {
        let probe = self.t.probe("MPI_Finalize", ProbeClass::CallResults);
        let return_address = PROGRAM_AT + 0x9000;
        self.t.record(rank, probe, Body::Call { return_address, args: [0; 6], nested: false });
        let (argument, bytes, word) = (0xff, 0, 0);
        self.t.record(rank, probe, Body::Return { serial: 1, code: 0, argument, bytes, word });
    }

    fn exit(&mut self, rank: u32, status: u32) {
        self.t.record(rank, 0, Body::Exit { status, at: 0 });
    }

    fn report(&mut self) -> Report {
        self.t.tick();
        run(&self.t.inputs)
    }
}

fn run(inputs: &[Input]) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn hang(finding: &Finding) -> &Hang {
    match &finding.evidence {
        Evidence::Hang(hang) => hang,
        other => panic!("{other:#?}"),
    }
}

fn told(report: &Report) -> Vec<(Fault, Severity, Vec<Who>)> {
    let told = |finding: &Finding| (hang(finding).fault, finding.severity, finding.who.clone());
    report.findings.iter().map(told).collect()
}

fn ranks(ranks: &[u32]) -> Vec<Who> {
    ranks.iter().map(|&rank| Who::Rank(rank)).collect()
}

fn class(name: &str) -> CallError {
    CallError::Class(name.to_owned())
}

#[test]
fn a_truncated_message_names_receiver_and_sender_although_the_receiver_is_killed_last() {
    let mut job = Job::new(3);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    [0, 2, 1].iter().for_each(|&rank| job.exit(rank, SIGKILL));
    let report = job.report();
    assert_eq!(told(&report), [(Fault::Truncated, Severity::Warning, ranks(&[0, 1]))]);
    let first = &hang(&report.findings[0]).ranks[0];
    assert_eq!((first.who, &first.error), (Who::Rank(1), &Some(class("MPI_ERR_TRUNCATE"))));
    let call = first.call.as_ref().expect("it was seen");
    assert_eq!((call.function.as_str(), call.place.offset_bytes), ("MPI_Recv", 0x5000 + 7 * 16 - 1));
    assert_eq!(
        report.findings[0].summary,
        "Message truncation (MPI_ERR_TRUNCATE): rank 1 in MPI_Recv(count 8, source 0, tag 1, comm \
         MPI_COMM_WORLD) called at job+0x506f, which reported MPI_ERR_TRUNCATE; rank 0 sent it; it was killed by \
         SIGKILL; rank 2 ended after that."
    );
}

#[test]
fn a_message_from_anybody_names_the_receiver_alone() {
    let mut job = Job::new(2);
    let at = job.receive(1, ANY_SOURCE, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    job.exit(1, 14 << 8);
    assert_eq!(told(&job.report()), [(Fault::Truncated, Severity::Warning, ranks(&[1]))]);
}

#[test]
fn a_call_with_wrong_arguments_names_the_rank_that_made_it() {
    let mut job = Job::new(2);
    let at = job.send(1, 2);
    job.error(1, INVALID_RANK, "internal_Send", at);
    job.exit(1, 6 << 8);
    job.exit(0, SIGTERM);
    let report = job.report();
    assert_eq!(told(&report), [(Fault::InvalidCall, Severity::Warning, ranks(&[1]))]);
    assert!(report.findings[0].summary.contains("dest 2, tag 1"), "{}", report.findings[0].summary);
}

#[test]
fn ranks_that_fail_alike_at_the_same_place_are_named_together() {
    let mut job = Job::new(3);
    for rank in 0..3 {
        let at = job.send(rank, 9);
        job.error(rank, INVALID_RANK, "internal_Send", at);
    }
    (0..3).for_each(|rank| job.exit(rank, SIGKILL));
    assert_eq!(told(&job.report()), [(Fault::InvalidCall, Severity::Warning, ranks(&[0, 1, 2]))]);
}

#[test]
fn too_much_data_in_a_collective_call_names_the_root_as_well() {
    let mut job = Job::new(3);
    let at = job.call(1, "MPI_Bcast", [0x1000, 8, 5, 0, WORLD, 0], 3);
    job.error(1, TRUNCATED, "internal_Bcast", at);
    (0..3).for_each(|rank| job.exit(rank, SIGKILL));
    assert_eq!(told(&job.report()), [(Fault::MismatchedCollective, Severity::Warning, ranks(&[0, 1]))]);
}

#[test]
fn what_is_not_to_be_had_is_told_as_a_crash_with_the_error() {
    let mut job = Job::new(2);
    let at = job.call(1, "MPI_File_open", [WORLD, 0, 0, 0, 0, 0], 3);
    job.error(1, NO_SUCH_FILE, "internal_File_open", at);
    job.exit(1, EXIT_1);
    let report = job.report();
    assert_eq!(told(&report), [(Fault::Crash, Severity::Warning, ranks(&[1]))]);
    assert!(report.findings[0].summary.contains("MPI_ERR_NO_SUCH_FILE"), "{}", report.findings[0].summary);
}

#[test]
fn of_a_call_that_was_not_seen_to_begin_only_the_name_is_told() {
    let mut job = Job::new(2);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Test", at);
    job.exit(1, EXIT_1);
    let report = job.report();
    assert_eq!(told(&report), [(Fault::Truncated, Severity::Warning, ranks(&[1]))]);
    let call = hang(&report.findings[0]).ranks[0].call.clone().expect("its name is known");
    assert_eq!((call.function.as_str(), call.place.module.as_str()), ("MPI_Test", ""));
}

#[test]
fn an_error_that_the_program_goes_on_after_is_one_notice_with_a_count() {
    let mut job = Job::new(2);
    for _ in 0..5 {
        let at = job.send(1, 2);
        job.error(1, INVALID_RANK, "internal_Send", at);
        job.error_returns(1);
    }
    let report = job.report();
    let [finding] = report.findings.as_slice() else { panic!("{:#?}", report.findings) };
    let Evidence::ErrorReturned(returned) = &finding.evidence else { panic!("{finding:#?}") };
    assert_eq!(
        (finding.severity, returned.count, &returned.error),
        (Severity::Notice, 5, &class("MPI_ERR_RANK"))
    );
    assert_eq!(
        finding.summary,
        "A call failed 5 times and the program went on: rank 1 in MPI_Send(count 8, dest 2, tag 1, comm \
         MPI_COMM_WORLD) called at job+0x500f, which reported MPI_ERR_RANK."
    );
}

#[test]
fn a_rank_that_crashes_after_an_error_that_it_went_on_after_has_crashed() {
    const SIGSEGV: u32 = 11;
    let mut job = Job::new(2);
    let at = job.send(1, 2);
    job.error(1, INVALID_RANK, "internal_Send", at);
    job.error_returns(1);
    job.exit(1, SIGSEGV);
    assert_eq!(told_of_deaths(&job.report()), [Fault::Crash]);
    // It jumped out of its error handler.
    let mut job = Job::new(2);
    let at = job.send(1, 2);
    job.error(1, INVALID_RANK, "internal_Send", at);
    job.send(1, 0);
    job.exit(1, SIGSEGV);
    assert_eq!(told_of_deaths(&job.report()), [Fault::Crash]);
}

fn told_of_deaths(report: &Report) -> Vec<Fault> {
    let fault = |finding: &Finding| match &finding.evidence {
        Evidence::Hang(hang) => Some(hang.fault),
        _ => None,
    };
    report.findings.iter().filter_map(fault).collect()
}

#[test]
fn an_error_whose_end_may_have_been_lost_ends_nobody() {
    let mut job = Job::new(2);
    let at = job.send(1, 2);
    job.error(1, INVALID_RANK, "internal_Send", at);
    job.t.lose_calls(1, 1);
    job.exit(1, EXIT_1);
    assert_eq!(told_of_deaths(&job.report()), [Fault::Crash]);
}

#[test]
fn nobody_is_named_while_a_rank_with_an_earlier_error_may_still_die() {
    let mut job = Job::new(2);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    job.exit(0, SIGKILL);
    assert_eq!(told(&job.report()), []);
    job.exit(1, SIGKILL);
    assert_eq!(told(&job.report()), [(Fault::Truncated, Severity::Warning, ranks(&[0, 1]))]);
    // Its error handler does not come back.
    let mut job = Job::new(2);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    job.exit(0, SIGKILL);
    job.t.tick();
    job.t.now_ns += 2_000_000_000;
    assert_eq!(told(&job.report()), [(Fault::Crash, Severity::Warning, ranks(&[0]))]);
}

#[test]
fn a_call_after_mpi_finalize_is_told_if_the_rank_ends_by_it() {
    let late = |status| {
        let mut job = Job::new(2);
        job.finalize(1);
        job.call(1, "MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 4);
        job.exit(1, status);
        job.report()
    };
    let report = late(EXIT_1);
    assert_eq!(told(&report), [(Fault::InvalidCall, Severity::Warning, ranks(&[1]))]);
    assert!(
        report.findings[0].summary.contains("called at job+0x503f, after MPI_Finalize"),
        "{}",
        report.findings[0].summary
    );
    assert_eq!(told(&late(0)), []);
}

#[test]
fn a_rank_that_ends_well_without_mpi_finalize_is_told_as_a_notice() {
    let mut job = Job::new(2);
    job.send(1, 0);
    job.finalize(0);
    job.exit(1, 0);
    job.exit(0, 0);
    let report = job.report();
    assert_eq!(told(&report), [(Fault::Crash, Severity::Notice, ranks(&[1]))]);
    assert_eq!(report.findings[0].summary, "Rank 1 ended with status 0, without MPI_Finalize.");
}

#[test]
fn ranks_of_which_not_all_is_known_may_have_finalized() {
    let without = |change: &dyn Fn(&mut Job)| {
        let mut job = Job::new(2);
        job.send(1, 0);
        change(&mut job);
        job.exit(1, 0);
        told(&job.report()).len()
    };
    assert_eq!(without(&|_| {}), 1);
    assert_eq!(without(&|job| job.t.lose_calls(1, 1)), 0);
    assert_eq!(without(&|job| job.t.lose_calls(0, 1)), 0);
    assert_eq!(without(&|job| job.t.record(1, 0, Body::Exec)), 0);
    assert_eq!(without(&|job| job.t.inputs.push(pause(job.t.now_ns))), 0);
    let mut quiet = Job::new(2);
    quiet.exit(1, 0);
    assert_eq!(told(&quiet.report()), []);
}

#[test]
fn who_gives_up_is_named_with_its_call_although_others_are_ended_first() {
    let aborted = |code: u64| {
        let mut job = Job::new(3);
        job.call(2, "MPI_Abort", [WORLD, code, 0, 0, 0, 0], 4);
        [0, 1, 2].iter().for_each(|&rank| job.exit(rank, if rank == 2 { 4 << 8 } else { SIGKILL }));
        job.report()
    };
    let report = aborted(4);
    assert_eq!(told(&report), [(Fault::Crash, Severity::Warning, ranks(&[2]))]);
    let said = &report.findings[0].summary;
    assert!(said.contains("rank 2 in MPI_Abort") && said.contains("error code 4"), "{said}");
    assert_eq!(told(&aborted(0)), [(Fault::Crash, Severity::Notice, ranks(&[2]))]);
    let next = &report.findings[0].next_steps;
    assert_eq!(next[..], ["Rank 2 gave up there: the condition before that call says what it met."]);
}

#[test]
fn of_ranks_that_fail_together_it_is_told_how_each_ended() {
    let aborted = |statuses: [u32; 2]| {
        let mut job = Job::new(2);
        (0..2).for_each(|rank| _ = job.call(rank, "MPI_Abort", [WORLD, 2, 0, 0, 0, 0], 4));
        (0..).zip(statuses).for_each(|(rank, status)| job.exit(rank, status));
        let report = job.report();
        assert_eq!(told(&report), [(Fault::Crash, Severity::Warning, ranks(&[0, 1]))]);
        let next = &report.findings[0].next_steps;
        assert_eq!(next[..], ["Ranks 0-1 gave up there: the condition before that call says what they met."]);
        report.findings[0].summary.clone()
    };
    let each = aborted([SIGTERM, 2 << 8]);
    assert!(each.ends_with("; rank 0 was killed by SIGTERM, rank 1 ended with status 2."), "{each}");
    let alike = aborted([SIGKILL, SIGKILL]);
    assert!(alike.ends_with("; they were killed by SIGKILL."), "{alike}");
}

#[test]
fn an_error_that_made_the_program_give_up_is_what_is_told() {
    let mut job = Job::new(2);
    let at = job.send(1, 2);
    job.error(1, INVALID_RANK, "internal_Send", at);
    job.call(1, "MPI_Abort", [WORLD, 1, 0, 0, 0, 0], 4);
    job.exit(1, EXIT_1);
    assert_eq!(told(&job.report()), [(Fault::InvalidCall, Severity::Warning, ranks(&[1]))]);
}

#[test]
fn ranks_whose_end_is_not_watched_may_have_finalized() {
    let mut t = Trace::new(1, false);
    let probe = t.probe("MPI_Send", ProbeClass::Call);
    t.record(0, probe, Body::Call { return_address: PROGRAM_AT, args: [0; 6], nested: false });
    let mut job = Job { t };
    job.exit(0, 0);
    assert_eq!(told(&job.report()), []);
}

#[test]
fn a_pause_does_not_end_the_error_that_a_rank_is_in() {
    let mut job = Job::new(2);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    job.t.inputs.push(pause(job.t.now_ns));
    job.exit(1, EXIT_1);
    assert_eq!(told(&job.report()), [(Fault::Truncated, Severity::Warning, ranks(&[0, 1]))]);
}

fn pause(time_ns: u64) -> Input {
    Input::Coverage(Box::new(Coverage { time_ns, paused: true, ..Coverage::default() }))
}

#[test]
fn a_tape_gives_the_same() {
    let mut job = Job::new(3);
    let at = job.send(2, 7);
    job.error(2, INVALID_RANK, "internal_Send", at);
    job.error_returns(2);
    let at = job.receive(1, 0, 7);
    job.error(1, TRUNCATED, "internal_Recv", at);
    [0, 2, 1].iter().for_each(|&rank| job.exit(rank, SIGKILL));
    let report = job.report();
    let mut writer = Writer::new(Vec::new());
    job.t.inputs.iter().for_each(|input| writer.push(input).expect("memory takes all"));
    let tape = writer.finish().expect("memory takes all");
    let read: Vec<Input> = Reader::new(tape.as_slice())
        .expect("a tape")
        .filter_map(|item| if let Item::Input(input) = item.expect("whole") { Some(input) } else { None })
        .collect();
    assert_eq!(report.findings.len(), 2);
    assert_eq!(run(&read), report);
    let json = serde_json::to_string(&report).expect("it can be written");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("and read"), report);
}

#[test]
fn what_a_hostile_program_makes_the_library_say_does_no_harm() {
    let mut job = Job::new(2);
    for (code, name) in [(0, "MPI_Send"), (u64::MAX, "\u{1b}[2J"), (1, ""), (TRUNCATED, "MPI_<script>")] {
        let at = job.send(1, 2);
        job.error(1, code, name, at);
        job.error(1, code, name, 0);
        job.error_returns(0);
        job.error_returns(1);
    }
    let text = analyzer::render::report(&job.report(), analyzer::render::Style::default());
    assert!(!text.contains('\u{1b}') && !text.contains('<'), "{text}");
}

//! Tapes of older versions stay readable: each format version has one in `tests/golden`.

use std::path::PathBuf;

use analyzer::input::{
    Coverage, HitKind, HitPrice, Input, Loss, OwnTime, ProbeCosts, ProgramRuns, Quantiles, UnrecordedHits,
};
use analyzer::tape::{Item, RankAnswers, RankMessages, Reader, ReplayableRank, VERSION, Writer};
use analyzer::wire::{Body, Header, Record};

use crate::session::{small_session, small_session_of_nodes};

fn path(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/golden/session-v{version}.dmt"))
}

fn read(version: u32) -> Vec<Input> {
    let path = path(version);
    let tape = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let items = Reader::new(&tape[..]).expect("a tape");
    let input = |item| match item {
        Ok(Item::Input(input)) => input,
        other => panic!("{other:?}"),
    };
    items.map(input).collect()
}

/// Lost calls were not told apart from lost movements: any record may have been of a call, or of the life of its process.
fn as_before_version_8(mut inputs: Vec<Input>) -> Vec<Input> {
    for input in &mut inputs {
        if let Input::Loss(loss) = input {
            *loss = Loss { movements: 0, calls: loss.movements, ..*loss };
        }
    }
    inputs
}

#[test]
fn the_golden_tape_of_version_1_is_read() {
    assert_eq!(read(1), as_before_version_8(small_session().concat()));
}

#[test]
fn the_golden_tape_of_version_2_is_read() {
    assert_eq!(read(2), as_before_version_8(small_session_of_nodes().concat()));
}

#[test]
fn the_golden_tape_of_version_3_is_read() {
    assert_eq!(read(3), as_before_version_8(session_with_answers()));
}

#[test]
fn the_golden_tape_of_version_4_is_read() {
    assert_eq!(read(4), as_before_version_8(session_with_messages()));
}

#[test]
fn the_golden_tape_of_version_5_is_read() {
    assert_eq!(read(5), as_before_version_8(session_with_costs()));
}

#[test]
fn the_golden_tape_of_version_6_is_read() {
    assert_eq!(read(6), as_before_version_8(session_with_own_time()));
}

#[test]
fn the_golden_tape_of_version_7_is_read() {
    assert_eq!(read(7), as_before_version_8(session_with_threads()));
}

#[test]
fn the_golden_tape_of_version_8_is_read() {
    assert_eq!(read(8), session_with_pauses());
}

/// That of version 7, and a pause of movements alone.
fn session_with_pauses() -> Vec<Input> {
    let mut inputs = session_with_threads();
    let end = inputs.pop().expect("an end");
    let coverage = |time_ns, paused| Coverage { time_ns, paused, keeps_calls: paused, off: vec![3] };
    let covered = [(5_960, true), (5_970, false)]
        .map(|(time_ns, paused)| Input::Coverage(Box::new(coverage(time_ns, paused))));
    inputs.extend(covered.into_iter().chain([end]));
    inputs
}

/// That of version 6, and a thread that a process has created.
fn session_with_threads() -> Vec<Input> {
    let mut inputs = session_with_own_time();
    let end = inputs.pop().expect("an end");
    let header = Header { time_ns: 5_950, pid: 10, tid: 10, probe: 0 };
    let body = Body::Thread { child: 12, in_call: true };
    inputs.extend([Input::Record(Record { header, body }.encode()), end]);
    inputs
}

/// That of version 5, and what dmscope itself takes from ranks.
fn session_with_own_time() -> Vec<Input> {
    let mut inputs = session_with_costs();
    let end = inputs.pop().expect("an end");
    let costs = ProbeCosts { own_time: OwnTime::Recorded, time_ns: 5_800, ..ProbeCosts::default() };
    let header = Header { time_ns: 5_900, pid: 10, tid: 11, probe: 0 };
    let body = Body::HeldUp { waited_ns: 70, own_ns: 60, moved: true, slept: true };
    let held_up = Input::Record(Record { header, body }.encode());
    inputs.extend([Input::ProbeCosts(Box::new(costs)), held_up, end]);
    inputs
}

/// That of version 4, and what hits of probes cost.
fn session_with_costs() -> Vec<Input> {
    let mut inputs = session_with_messages();
    let end = inputs.pop().expect("an end");
    let quantiles = |p50| Quantiles { p5: p50 - 10, p25: p50 - 5, p50, p75: p50 + 5, p95: p50 + 100 };
    let price = HitPrice {
        kind: HitKind::CallResults,
        between_bytes: 1 << 18,
        hits: 360,
        before: quantiles(700),
        inside: quantiles(900),
        after: quantiles(400),
    };
    let runs = ProgramRuns { program: "dms_call".into(), runs: 12, run_ns: 3400 };
    let (hits, program_runs) = (vec![price], vec![runs]);
    let costs =
        ProbeCosts { node: 1, time_ns: 5_600, job_cpus: 2, hits, program_runs, ..ProbeCosts::default() };
    let unrecorded =
        UnrecordedHits { pid: 10, from_ns: 5_000, to_ns: 5_700, lost: 1, declined: 70, refused: 3 };
    inputs.extend([Input::ProbeCosts(Box::new(costs)), Input::Unrecorded(unrecorded), end]);
    inputs
}

/// That of version 3, messages, and what a rank that runs alone needs.
fn session_with_messages() -> Vec<Input> {
    let mut inputs = session_with_answers();
    let end = inputs.pop().expect("an end");
    let messages = RankMessages { rank: 1, offset_bytes: 9, bytes: vec![3, 0, 0xff] };
    let contents = RankAnswers { rank: 1, offset_bytes: 0, polls: 2, bytes: vec![5, 3, 1, 2, 3] };
    inputs.extend([Input::Messages(Box::new(messages)), Input::Contents(Box::new(contents)), end]);
    inputs
}

/// That of version 2, and what a replay needs.
fn session_with_answers() -> Vec<Input> {
    let mut inputs = small_session_of_nodes().concat();
    let end = inputs.pop().expect("an end");
    let library = "MPICH".to_owned();
    let rank = ReplayableRank { rank: 1, size: 2, library, ..ReplayableRank::default() };
    let answers = RankAnswers { rank: 1, offset_bytes: 7, polls: 300, bytes: vec![1, 2, 0xff] };
    inputs.extend([Input::ReplayableRank(Box::new(rank)), Input::Answers(Box::new(answers)), end]);
    inputs
}

/// Only for a new format version: `cargo test -p dmscope-analyzer --test tape -- --ignored`
#[test]
#[ignore = "writes the golden tape of this version"]
fn write_the_golden_tape() {
    let mut writer = Writer::new(Vec::new());
    for input in session_with_pauses() {
        writer.push(&input).expect("memory takes everything");
    }
    std::fs::write(path(VERSION), writer.finish().expect("memory takes everything"))
        .expect("a writable tree");
}

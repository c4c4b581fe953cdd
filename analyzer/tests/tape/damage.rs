//! Changed, cut, foreign and hostile tapes.

use analyzer::input::{Input, Symbol};
use analyzer::tape::{Cause, Reader, TapeError, VERSION, Weight, symbols};
use proptest::prelude::*;

use crate::session::{copy, small_session};
use crate::{frame_ends, read, tape_of, without_losses};

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_the_middle_cost_only_the_frame_they_hit(
        junk in prop::collection::vec(any::<u8>(), 0..300),
        from in 0_usize..2_000,
        removed in 0_usize..200,
    ) {
        let groups = small_session();
        let mut tape = tape_of(&groups);
        let from = from % tape.len();
        let to = tape.len().min(from + removed);
        tape.splice(from..to, junk);
        let ends = frame_ends(&groups);
        let starts = [16].into_iter().chain(ends.iter().copied());
        let whole = groups.iter().zip(starts.zip(&ends)).filter(|(_, (start, end))| **end <= from || *start >= to);
        let expected: Vec<_> = whole.flat_map(|(group, _)| without_losses(group)).collect();
        prop_assume!(!expected.is_empty());
        // Removing and inserting the same bytes leaves more frames whole: contained, not equal.
        let got = without_losses(&read(&tape).inputs);
        let mut rest = got.iter();
        prop_assert!(expected.iter().all(|input| rest.any(|other| other == input)), "{:?}", got);
    }
}

fn all_symbols(tape: &[u8]) -> Vec<Symbol> {
    let mut all = Vec::new();
    symbols(tape, |symbols| {
        all.extend_from_slice(symbols);
        true
    })
    .expect("it is a tape");
    all
}

#[test]
fn every_flipped_byte_costs_only_its_frame_and_is_told() {
    let groups = small_session();
    let tape = tape_of(&groups);
    let ends = frame_ends(&groups);
    for at in 0..tape.len() {
        let mut bytes = tape.clone();
        bytes[at] ^= 0x41;
        let read = read(&bytes);
        assert!(read.error.is_none(), "byte {at}: {:?}", read.error);
        let hit = if at < 16 { groups.len() } else { ends.partition_point(|end| *end <= at) };
        let outside = groups.iter().enumerate().filter(|(index, _)| *index != hit);
        let expected: Vec<_> = outside.flat_map(|(_, group)| without_losses(group)).collect();
        assert_eq!(without_losses(&read.inputs), expected, "byte {at}");

        let [damage] = read.damages[..] else { panic!("byte {at}: {:?}", read.damages) };
        assert_eq!(damage.cause, Cause::Damaged, "byte {at}");
        let start = if at < 16 {
            0
        } else if hit == 0 {
            16
        } else {
            ends[hit - 1]
        };
        let end = if at < 16 { 16 } else { ends[hit] };
        assert_eq!((damage.position_bytes, damage.skipped_bytes), (start as u64, (end - start) as u64));
        if let Some(group) = groups.get(hit).filter(|_| hit + 1 < groups.len()) {
            let weight = group.iter().map(Weight::of).fold(Weight::default(), Weight::plus);
            assert_eq!(damage.missing, Some(weight), "byte {at}");
        }
    }
}

#[test]
fn a_cut_tape_is_read_up_to_the_cut() {
    let groups = small_session();
    let tape = tape_of(&groups);
    let ends = frame_ends(&groups);
    for cut in 0..tape.len() {
        let read = read(&tape[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        match (&read.error, cut, whole) {
            (Some(TapeError::Empty), 0, 0) | (Some(TapeError::NoFrame), 1.., 0) => continue,
            (None, _, 1..) => {}
            (error, ..) => panic!("cut at {cut}: {error:?}"),
        }
        assert_eq!(without_losses(&read.inputs), without_losses(&groups[..whole].concat()), "cut at {cut}");
        let [damage] = read.damages[..] else { panic!("cut at {cut}: {:?}", read.damages) };
        let at_a_boundary = ends[whole - 1] == cut;
        assert_eq!(damage.cause, if at_a_boundary { Cause::Unfinished } else { Cause::Cut }, "cut at {cut}");
        assert_eq!(damage.skipped_bytes as usize, cut - ends[whole - 1]);
    }
}

#[test]
fn missing_records_reach_the_pipeline_as_losses_of_the_processes_seen() {
    let groups = small_session();
    let ends = frame_ends(&groups);
    let mut tape = tape_of(&groups);
    tape[ends[1] + 80] ^= 1;
    let read = read(&tape);
    let losses = read.inputs.iter().filter_map(|input| match input {
        Input::Loss(loss) => Some(*loss),
        _ => None,
    });
    let losses: Vec<_> = losses.collect();
    // The frame had six copies, one of them late, and one record of an unknown kind.
    assert_eq!(losses.iter().map(|loss| loss.pid).collect::<Vec<_>>(), [10, 11, 10]);
    assert_eq!((losses[0].calls, losses[0].state), (3, 1));
    // The next frame has symbols only: its time is that of the last input before it.
    assert_eq!((losses[0].from_ns, losses[0].to_ns), (2_200, 3_040));
    assert_eq!(losses[0].calls + losses[1].calls, 6);
}

#[test]
fn facts_and_losses_weigh_as_state_when_they_are_missing() {
    let weight = |group: &[Input]| group.iter().map(Weight::of).fold(Weight::default(), Weight::plus);
    let groups = small_session();
    // A start, two processes and a plan.
    assert_eq!(weight(&groups[0]), Weight { inputs: 4, movements: 0, state: 3 });
    // Five copies, a heap block and a tick.
    assert_eq!(weight(&groups[1]), Weight { inputs: 7, movements: 5, state: 1 });
    assert_eq!(weight(&groups[5]), Weight { inputs: 1, movements: 0, state: 1 });
}

#[test]
fn processes_known_from_their_records_alone_are_told_of_losses() {
    let groups = [vec![copy(100, 21, 0), copy(110, 22, 0)], vec![copy(200, 21, 0)], vec![copy(300, 21, 0)]];
    let mut tape = tape_of(&groups);
    tape[frame_ends(&groups)[0] + 70] ^= 1;
    let pids: Vec<_> = read(&tape).inputs.iter().filter_map(loss_pid).collect();
    assert_eq!(pids, [21, 22]);
}

fn loss_pid(input: &Input) -> Option<u32> {
    if let Input::Loss(loss) = input { Some(loss.pid) } else { None }
}

#[test]
fn a_frame_behind_much_junk_is_found_wherever_it_begins() {
    // Reads have fixed sizes: the frame's magic must be seen also where it is split between two.
    const READ_BYTES: usize = 256 << 10;
    let groups = small_session();
    let tape = tape_of(&groups);
    let at = frame_ends(&groups)[0];
    for junk in READ_BYTES - at - 4..=READ_BYTES - at {
        let bytes = [&tape[..at], &vec![0xaa; junk], &tape[at..]].concat();
        let read = read(&bytes);
        assert_eq!(read.inputs, groups.concat(), "{junk} bytes of junk");
        assert_eq!(read.damages[0].skipped_bytes, junk as u64);
    }
}

#[test]
fn foreign_and_newer_files_are_refused_with_what_to_do() {
    let error = |bytes: &[u8]| Reader::new(bytes).map(|_| ()).expect_err("not a tape").to_string();
    assert!(error(b"").contains("empty"));
    assert!(error(b"\x7fELF\x02\x01\x01 and so on, for more than a header").contains("--record"));
    assert!(error(b"hello").contains("--record"));
    assert!(error(&tape_of(&[])[..9]).contains("no whole frame"));
    let mut newer = tape_of(&small_session());
    newer[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let crc = crc32c::crc32c(&newer[..12]);
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(error(&newer).contains(&format!("format version {}", VERSION + 1)));
}

#[test]
fn a_frame_that_comes_twice_is_read_once() {
    let groups = small_session();
    let ends = frame_ends(&groups);
    let tape = tape_of(&groups);
    let again = [&tape[..ends[2]], &tape[ends[1]..]].concat();
    let read = read(&again);
    assert_eq!(read.inputs, groups.concat());
    assert_eq!(read.damages.len(), 1);
    assert_eq!(read.damages[0].missing, Some(Weight::default()));
}

#[test]
fn a_length_that_lies_is_damage_and_costs_no_memory() {
    let groups = small_session();
    let ends = frame_ends(&groups);
    let tape = tape_of(&groups);
    for (field, value) in [(12, 60 << 20), (16, 0_u32), (16, 60 << 20), (8, 0), (8, 60_000)] {
        let mut bytes = tape.clone();
        let header = &mut bytes[ends[0]..ends[0] + 68];
        header[field..field + 4].copy_from_slice(&value.to_le_bytes());
        let crc = crc32c::crc32c(&header[..64]);
        header[64..].copy_from_slice(&crc.to_le_bytes());
        let read = read(&bytes);
        assert!(read.error.is_none());
        assert!(read.inputs.ends_with(&groups[2..].concat()), "field {field} = {value}");
        assert_eq!(read.damages.len(), 1, "field {field} = {value}: {:?}", read.damages);
    }
}

#[test]
fn symbols_are_found_without_reading_records() {
    let groups = small_session();
    let tape = tape_of(&groups);
    let Input::Symbols(expected) = &groups[3][0] else { panic!("the fourth group has the symbols") };
    assert_eq!(&all_symbols(&tape), expected);
    let mut damaged = tape.clone();
    damaged[frame_ends(&groups)[1] + 70] ^= 1;
    assert_eq!(&all_symbols(&damaged), expected);
}

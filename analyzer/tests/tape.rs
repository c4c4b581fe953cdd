//! Tapes: what goes in comes out, whatever happens to the file or the disk.

mod inputs;

use std::io;

use analyzer::input::Input;
use analyzer::tape::{Cause, Damage, Item, Reader, TapeError, VERSION, Weight, WriteError, Writer, symbols};
use inputs::{any_input, copy, small_session};
use proptest::prelude::*;

/// Writes groups of inputs, each flushed.
fn tape_of(groups: &[Vec<Input>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for group in groups {
        for input in group {
            writer.push(input).expect("memory takes everything");
        }
        writer.flush().expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

/// All that a tape gives, and the damage it tells of.
struct Read {
    inputs: Vec<Input>,
    damages: Vec<Damage>,
    error: Option<TapeError>,
}

fn read(tape: &[u8]) -> Read {
    let mut read = Read { inputs: Vec::new(), damages: Vec::new(), error: None };
    let items = match Reader::new(tape) {
        Ok(reader) => reader,
        Err(error) => return Read { error: Some(error), ..read },
    };
    for item in items {
        match item {
            Ok(Item::Input(input)) => read.inputs.push(input),
            Ok(Item::Damage(damage)) => read.damages.push(damage),
            Err(error) => read.error = Some(error),
        }
    }
    read
}

/// Byte ranges of the frames that [`tape_of`] makes of these groups, one each.
fn frame_ends(groups: &[Vec<Input>]) -> Vec<usize> {
    (1..=groups.len()).map(|n| tape_of(&groups[..n]).len()).collect()
}

/// The inputs without losses: those are made up at damage.
fn without_losses(inputs: &[Input]) -> Vec<Input> {
    inputs.iter().filter(|input| !matches!(input, Input::Loss(_))).cloned().collect()
}

fn lost_movements(inputs: &[Input]) -> u64 {
    inputs.iter().map(|input| if let Input::Loss(loss) = input { loss.movements } else { 0 }).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_input_comes_back_as_it_was(
        groups in prop::collection::vec(prop::collection::vec(any_input(), 0..40), 0..6),
    ) {
        let all = groups.concat();
        let read = read(&tape_of(&groups));
        if all.is_empty() {
            prop_assert!(matches!(read.error, Some(TapeError::NoFrame)), "{:?}", read.error);
        } else {
            prop_assert!(read.error.is_none());
            prop_assert_eq!(&read.inputs, &all);
            let ended = matches!(all.last(), Some(Input::End(_)));
            let causes: Vec<_> = read.damages.iter().map(|damage| damage.cause).collect();
            prop_assert_eq!(causes, if ended { vec![] } else { vec![Cause::Unfinished] });
        }
    }

    #[test]
    fn positions_number_the_inputs(
        groups in prop::collection::vec(prop::collection::vec(any_input(), 1..20), 1..5),
    ) {
        let tape = tape_of(&groups);
        let mut reader = Reader::new(&tape[..]).expect("a whole tape");
        let mut expected = 0;
        while let Some(Ok(Item::Input(_))) = reader.next() {
            prop_assert_eq!(reader.position(), expected);
            expected += 1;
        }
        prop_assert_eq!(expected as usize, groups.concat().len());
    }

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
    assert_eq!((losses[0].movements, losses[0].state), (3, 1));
    // The next frame has symbols only: its time is that of the last input before it.
    assert_eq!((losses[0].from_ns, losses[0].to_ns), (2_200, 3_040));
    assert_eq!(losses[0].movements + losses[1].movements, 6);
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
    assert!(error(&newer).contains("format version 2"));
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
    assert_eq!(&symbols(&tape[..]).expect("a whole tape"), expected);
    let mut damaged = tape.clone();
    damaged[frame_ends(&groups)[1] + 70] ^= 1;
    assert_eq!(&symbols(&damaged[..]).expect("a damaged tape"), expected);
}

/// A disk of limited size.
struct Disk {
    bytes: Vec<u8>,
    size: usize,
}

impl io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.size.saturating_sub(self.bytes.len()).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn cut_back(disk: &mut Disk, len_bytes: u64) -> io::Result<()> {
    disk.bytes.truncate(len_bytes as usize);
    Ok(())
}

/// Writes groups to a disk that is full at `size` bytes and has room again before group `relief`.
fn write_to_full_disk(groups: &[Vec<Input>], writer: Writer<Disk>, relief: usize) -> (Vec<u8>, u64, usize) {
    let mut writer = writer;
    let mut errors = 0;
    for (index, group) in groups.iter().enumerate() {
        if index == relief {
            writer.sink_mut().size = usize::MAX;
        }
        for input in group {
            errors += usize::from(writer.push(input).is_err());
        }
        errors += usize::from(writer.flush().is_err());
    }
    let dropped = writer.dropped_inputs();
    (std::mem::take(&mut writer.sink_mut().bytes), dropped, errors)
}

#[test]
fn a_disk_full_at_any_byte_leaves_whole_frames_only() {
    let groups = small_session();
    let ends = frame_ends(&groups);
    let length = tape_of(&groups).len();
    for size in 0..=length {
        let writer = Writer::with_cut_back(Disk { bytes: Vec::new(), size }, cut_back);
        let (bytes, dropped, errors) = write_to_full_disk(&groups, writer, usize::MAX);
        let whole = ends.iter().filter(|end| **end <= size).count();
        let expected = if whole > 0 {
            ends[whole - 1]
        } else if size >= 16 {
            16
        } else {
            0
        };
        assert_eq!(bytes.len(), expected, "full at {size}");
        assert_eq!(errors == 0, size == length, "full at {size}");
        assert_eq!(dropped, 0, "all of it fits into the backlog");
    }
}

#[test]
fn what_waited_is_written_when_there_is_room_again() {
    let groups = small_session();
    let whole = tape_of(&groups);
    for size in 0..whole.len() {
        let writer = Writer::with_cut_back(Disk { bytes: Vec::new(), size }, cut_back);
        let (bytes, dropped, _) = write_to_full_disk(&groups, writer, groups.len() - 1);
        assert_eq!((bytes == whole, dropped), (true, 0), "full at {size}");

        // A pipe cannot be cut back: what is left of a frame is skipped by the reader.
        let writer = Writer::new(Disk { bytes: Vec::new(), size });
        let (bytes, ..) = write_to_full_disk(&groups, writer, groups.len() - 1);
        let read = read(&bytes);
        assert!(read.error.is_none(), "full at {size}");
        assert_eq!(read.inputs, groups.concat(), "full at {size}");
    }
}

#[test]
fn records_given_up_on_a_full_disk_are_losses_for_the_pipeline() {
    let groups = small_session();
    let all = groups.concat();
    let length = tape_of(&groups).len();
    let mut gaps = 0;
    for size in 0..length {
        let disk = Disk { bytes: Vec::new(), size };
        let writer = Writer::with_cut_back(disk, cut_back).backlog_limit_bytes(300);
        let (bytes, dropped, errors) = write_to_full_disk(&groups, writer, groups.len() - 1);
        assert!(errors > 0 || size >= frame_ends(&groups)[groups.len() - 2]);
        let read = read(&bytes);
        assert!(read.error.is_none(), "full at {size}");
        let missing: u64 = read.damages.iter().map(|d| d.missing.expect("the end is there").inputs).sum();
        assert_eq!(missing, dropped, "full at {size}");
        assert!(read.damages.iter().all(|damage| damage.cause == Cause::NotWritten));
        let present = without_losses(&read.inputs);
        let absent = all.iter().filter(|input| matches!(input, Input::Record(_)) && !present.contains(input));
        assert!(lost_movements(&read.inputs) + 2 >= absent.count() as u64, "full at {size}");
        gaps += read.damages.len();
    }
    assert!(gaps > 0, "the backlog was never full: the test tests nothing");
}

#[test]
fn memory_is_bounded_while_the_disk_is_full() {
    let disk = Disk { bytes: Vec::new(), size: 0 };
    let mut writer = Writer::with_cut_back(disk, cut_back).backlog_limit_bytes(10_000);
    let mut waiting = 0;
    for time_ns in 0..300_000 {
        match writer.push(&copy(time_ns, 10, time_ns << 20 ^ time_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15))) {
            Ok(()) => {}
            Err(WriteError::Io { waiting_bytes, .. }) => waiting = waiting.max(waiting_bytes),
            Err(error) => panic!("{error}"),
        }
    }
    assert!((1..=10_000).contains(&waiting), "{waiting}");
    assert!(writer.dropped_inputs() >= 3 << 16, "{}", writer.dropped_inputs());
}

#[test]
fn an_input_too_large_for_a_frame_is_refused_and_counted() {
    let mut groups = small_session();
    let Input::Start(start) = &mut groups[0][0] else { panic!("the first input is the start") };
    start.job = "x".repeat(40 << 20);
    let mut writer = Writer::new(Vec::new());
    assert!(matches!(writer.push(&groups[0][0]), Err(WriteError::TooLarge { .. })));
    writer.push(&groups[0][1]).expect("the others go on");
    assert_eq!(writer.dropped_inputs(), 1);
    let read = read(&writer.finish().expect("memory takes everything"));
    assert_eq!(read.inputs, groups[0][1..2]);
    assert_eq!(read.damages[0].missing.map(|missing| missing.inputs), Some(1));
}

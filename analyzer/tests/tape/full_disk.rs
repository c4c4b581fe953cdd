//! Sinks that refuse.

use std::io;

use analyzer::input::Input;
use analyzer::tape::{Cause, Item, Reader, WriteError, Writer};

use crate::session::{copy, small_session};
use crate::{frame_ends, read, tape_of, without_losses};

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

fn lost_records(inputs: &[Input]) -> u64 {
    inputs.iter().map(|input| if let Input::Loss(loss) = input { loss.calls } else { 0 }).sum()
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
    let ends = frame_ends(&groups);
    let length = tape_of(&groups).len();
    let mut gaps = 0;
    for size in 0..length {
        let disk = Disk { bytes: Vec::new(), size };
        let writer = Writer::with_cut_back(disk, cut_back).backlog_limit_bytes(300);
        let (bytes, dropped, errors) = write_to_full_disk(&groups, writer, groups.len() - 1);
        assert!(errors > 0 || size >= ends[groups.len() - 2]);
        let read = read(&bytes);
        assert!(read.error.is_none(), "full at {size}");
        let missing: u64 = read.damages.iter().map(|d| d.missing.expect("the end is there").inputs).sum();
        assert_eq!(missing, dropped, "full at {size}");
        assert!(read.damages.iter().all(|damage| damage.cause == Cause::NotWritten));
        let present = without_losses(&read.inputs);
        let absent = all.iter().filter(|input| matches!(input, Input::Record(_)) && !present.contains(input));
        assert!(lost_records(&read.inputs) + 2 >= absent.count() as u64, "full at {size}");
        gaps += read.damages.len();
    }
    assert!(gaps > 0, "the backlog was never full: the test tests nothing");
}

#[test]
fn what_could_not_be_taken_back_at_first_is_taken_back_later() {
    fn cut_back_with_room(disk: &mut Disk, len_bytes: u64) -> io::Result<()> {
        if disk.size != usize::MAX {
            return Err(io::ErrorKind::Other.into());
        }
        cut_back(disk, len_bytes)
    }
    let groups = small_session();
    let whole = tape_of(&groups);
    for size in 0..whole.len() {
        let writer = Writer::with_cut_back(Disk { bytes: Vec::new(), size }, cut_back_with_room);
        let (bytes, ..) = write_to_full_disk(&groups, writer, groups.len() - 1);
        assert!(bytes == whole, "full at {size}");
    }
}

#[test]
fn facts_are_kept_when_records_are_given_up() {
    let groups = small_session();
    let records_only = [&groups[1], &groups[2], &groups[4], &groups[6]].map(Clone::clone);
    let full = [records_only.as_slice(), &[groups[0].clone()]].concat();
    let disk = Disk { bytes: Vec::new(), size: 16 };
    let facts_bytes = tape_of(&groups[..1]).len();
    let writer = Writer::with_cut_back(disk, cut_back).backlog_limit_bytes(facts_bytes);
    let (bytes, dropped, _) = write_to_full_disk(&[full, vec![groups[7].clone()]].concat(), writer, 5);
    assert!(dropped > 0, "the backlog was never full: the test tests nothing");
    let read = read(&bytes);
    assert!(groups[0].iter().all(|fact| read.inputs.contains(fact)));
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
    writer.push(&groups[0][1]).expect("memory takes everything");
    assert!(matches!(writer.push(&groups[0][0]), Err(WriteError::TooLarge { .. })));
    writer.push(&groups[0][2]).expect("the others go on");
    assert_eq!(writer.dropped_inputs(), 1);
    let tape = writer.finish().expect("memory takes everything");
    let items: Vec<_> = Reader::new(&tape[..]).expect("a tape").map_while(Result::ok).collect();
    let [Item::Input(before), Item::Damage(damage), Item::Input(after), _] = &items[..] else {
        panic!("{items:?}");
    };
    assert_eq!((before, after), (&groups[0][1], &groups[0][2]));
    assert_eq!(damage.missing.map(|missing| missing.inputs), Some(1));
}

#[test]
fn what_waits_for_room_is_counted() {
    let groups = small_session();
    let ends = frame_ends(&groups);
    // Room for the first two frames and half of the third.
    let disk = Disk { bytes: Vec::new(), size: (ends[1] + ends[2]) / 2 };
    let mut writer = Writer::with_cut_back(disk, cut_back);
    for group in &groups {
        group.iter().for_each(|input| drop(writer.push(input)));
        drop(writer.flush());
    }
    let behind: usize = groups[2..].iter().map(Vec::len).sum();
    assert_eq!((writer.waiting_inputs(), writer.dropped_inputs()), (behind as u64, 0));
    writer.sink_mut().size = usize::MAX;
    writer.flush().expect("there is room again");
    assert_eq!(writer.waiting_inputs(), 0);
}

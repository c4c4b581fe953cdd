//! What ranks have recorded of their calls, as any bytes: what a replay is to answer, the order of all ranks' calls, and what a rank that
//! runs alone gets. None of it panics or takes long; what was written is read as it was.

#![no_main]

use dmscope_fuzz::bytes::Bytes;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;
use replay::contents::{ContentReader, ContentStop, ContentWriter, FRAMES, FrameOrder, FrameSplitter};
use replay::total_order::{end_of, positions_of};
use replay::{AskedFor, Due, Playback, TurnDue};

/// A rank replays bytes as its record.
fn play(record: &[u8], mut asks: Bytes<'_>) {
    let polls = u64::from(asks.next() & 3);
    if let Ok(positions) = positions_of(record) {
        let _ = end_of(&[positions.clone(), vec![u64::MAX]]);
        assert!(positions.is_sorted());
    }
    let Ok(mut playback) = Playback::new(record.to_vec(), polls) else { return };
    while let Some(kind) = asks.byte() {
        match kind & 7 {
            0..=2 => {
                playback.call(u32::from(kind >> 3), [asks.next().into(), 0, 0]);
                let Some(asked) = AskedFor::of_number(asks.next() % 7) else { continue };
                match playback.due(asked, u32::from(asks.next() & 7)) {
                    Ok(Due::Answer(_) | Due::NoInVain) => {}
                    Ok(Due::Anything) | Err(_) => break,
                }
            }
            3 => _ = playback.clock(kind >> 3),
            4 => _ = playback.posted(),
            5 => _ = playback.position(),
            6 => {
                let name = u64::from(kind >> 3);
                let thread = if name == 0 { 0 } else { playback.thread(name) };
                playback.speak(thread);
                if playback.turn() == TurnDue::Now {
                    playback.turn_taken();
                }
            }
            _ => _ = playback.is_over(),
        }
    }
    let _ = playback.end();
    assert!(playback.played() <= playback.answers());
}

/// A rank runs alone on bytes as the contents of its calls.
fn run_alone(record: &[u8], mut asks: Bytes<'_>) {
    let mut reader =
        if asks.next() & 1 == 0 { ContentReader::default() } else { ContentReader::ignoring_data() };
    while let Some(kind) = asks.byte() {
        let (call, number) = (u32::from(kind >> 4), i64::from(asks.next() & 3));
        let result = match kind & 3 {
            0 => reader.call(record, call, &[number], (kind & 4 == 0).then_some(0)),
            1 if kind & 8 == 0 => reader.is_no(record, call, &[number]).map(drop),
            1 => {
                let _ = (reader.has_another(record, call, &[number]), reader.has_polls());
                reader.pass_polls(record)
            }
            2 => reader.numbers(record, &mut [0, 0][..number as usize & 1 + 1]),
            _ => reader.bytes(record).map(|range| assert!(record.get(range).is_some())),
        };
        if matches!(result, Err(ContentStop::Damaged)) {
            break;
        }
    }
    let _ = reader.end(record);
}

/// What a rank has written is what it gets alone, to its end.
fn write_and_read(bytes: &[u8]) {
    let (mut writer, mut reader) = (ContentWriter::default(), ContentReader::default());
    let mut record = Vec::new();
    for part in bytes.chunks(4) {
        match *part {
            [0..128, call, number, sum] => {
                let numbers = [i64::from(number as i8)];
                writer.call(call.into(), &numbers, Some(sum.into()), &mut record);
                writer.numbers(&numbers, &mut record);
                writer.head(part.len() as u64, &mut record);
                record.extend_from_slice(part);
            }
            [_, call, ..] => writer.no(call.into(), &[], &mut record),
            _ => {}
        }
    }
    writer.end(&mut record);
    for part in bytes.chunks(4) {
        match *part {
            [0..128, call, number, sum] => {
                let (numbers, mut read) = ([i64::from(number as i8)], [0]);
                reader.call(&record, call.into(), &numbers, Some(sum.into())).expect("it was written");
                reader.numbers(&record, &mut read).expect("it was written");
                assert_eq!(read, numbers);
                assert_eq!(&record[reader.bytes(&record).expect("it was written")], part);
            }
            [_, call, ..] => assert_eq!(reader.is_no(&record, call.into(), &[]), Ok(true)),
            _ => {}
        }
    }
    assert_eq!(reader.end(&record), Ok(()));
}

/// Bytes are taken apart as frames of threads, which get them and no others, in the order that is read again.
fn take_apart(record: &[u8], piece: usize) {
    let (mut splitter, mut given) = (FrameSplitter::default(), 0);
    let framed = [&[FRAMES][..], record].concat();
    for bytes in framed.chunks(piece.max(1)) {
        let taken: Result<(), ()> = splitter.take(bytes, |_, these| {
            given += these.len();
            Ok(())
        });
        assert!(taken.is_ok() && given <= record.len());
    }
    let mut order = FrameOrder::from_bytes(&splitter.order_bytes()).expect("it was written");
    for (place, bytes) in splitter.order() {
        assert_eq!(order.turn(), Some(*place as usize));
        order.has_read(*place as usize, *bytes);
    }
    assert_eq!(order.turn(), None);
    let _ = FrameOrder::from_bytes(record);
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let which = bytes.next();
    let (record, asks) = bytes.0.split_at(bytes.0.len() / 2);
    within_a_second(|| match which & 3 {
        0 => play(record, Bytes(asks)),
        1 => run_alone(record, Bytes(asks)),
        2 => take_apart(bytes.0, usize::from(which >> 2)),
        _ => write_and_read(bytes.0),
    });
});

//! What ranks have written down of their messages, as any bytes and as entries that lie: looking for races, and going the other way at
//! each of them, neither panics nor takes long; what is told to ranks is read as it was written.

#![no_main]

use dmscope_fuzz::bytes::Bytes;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;
use replay::RankCut;
use replay::messages::{CollectiveOrder, MessageEnvelope, MessageJournal, Pattern, PreparedOperation};
use replay::races::Races;

const RANKS: u32 = 3;

fn optional(byte: u8) -> Option<u32> {
    (byte & 7 != 7).then_some(u32::from(byte & 3))
}

fn envelope(byte: u8) -> Option<MessageEnvelope> {
    (byte & 0x80 == 0)
        .then_some(MessageEnvelope { source: u32::from(byte & 3), tag: u32::from(byte >> 3 & 3) })
}

/// One entry that a rank could have written, whether it fits to others or not.
fn entry(bytes: &mut Bytes<'_>, journal: &mut MessageJournal, out: &mut Vec<u8>) {
    let kind = bytes.next();
    if kind & 0x10 == 0 {
        journal.call();
    }
    let comm = journal.comm(u64::from(bytes.next() & 1), out);
    let (dest, tag, request) =
        (u32::from(bytes.next() & 3), u32::from(bytes.next() & 3), u64::from(bytes.next() & 7));
    let pattern = Pattern { comm, source: optional(bytes.next()), tag: optional(bytes.next()) };
    let site = journal.site(dest.into(), 1, out, || (String::new(), 0));
    match kind & 15 {
        0 | 1 => journal.send(comm, dest, tag, kind & 0x20 != 0, false, out),
        2 => {
            journal.send(comm, dest, tag, kind & 0x20 != 0, true, out);
            journal.sent(request);
        }
        3 | 4 => journal.received(site, pattern, kind & 0x20 != 0, envelope(bytes.next()), out),
        5 | 6 => journal.posted(site, pattern, request, out),
        7 => journal.prepare(request, PreparedOperation::Receive { site, pattern }),
        8 => journal.start(request, out),
        9 => journal.forget(request),
        10 | 11 => journal.done(request, envelope(bytes.next()), out),
        12 => journal.decided(request, envelope(bytes.next()), out),
        13 => journal.choice(site, &[request, request + 1, request + 2], &[dest], out),
        14 => _ = journal.new_comm(request & 1, &[0, 1, 2], &[], out),
        _ => {
            let order = CollectiveOrder::of_number(u64::from(tag)).unwrap_or(CollectiveOrder::Unknown);
            journal.collective(order, comm, optional(bytes.next()), out);
        }
    }
}

fn journals(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut bytes = Bytes(bytes);
    if bytes.next() & 7 == 0 {
        let part = bytes.0.len() / RANKS as usize + 1;
        return bytes.0.chunks(part).map(<[u8]>::to_vec).collect();
    }
    let mut all: Vec<(MessageJournal, Vec<u8>)> = (0..RANKS).map(|_| Default::default()).collect();
    for (journal, out) in &mut all {
        let group: Vec<u32> = (0..RANKS).collect();
        journal.new_comm(0, &group, &[], out);
    }
    while let Some(rank) = bytes.byte() {
        let (journal, out) = &mut all[rank as usize % RANKS as usize];
        entry(&mut bytes, journal, out);
    }
    all.into_iter().map(|(_, out)| out).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let journals = journals(bytes);
    let journals: Vec<&[u8]> = journals.iter().map(Vec::as_slice).collect();
    within_a_second(|| {
        let Ok(races) = Races::find(&journals) else { return };
        for race in races.found.iter().take(10) {
            let drawn = races.diagram(race);
            assert!(drawn.messages.iter().all(|message| message.from.max(message.to) < drawn.calls.len() as u32));
            for cut in races.cut(race, race.others[0]) {
                assert_eq!(RankCut::of_text(&cut.to_text()), Some(cut));
            }
        }
    });
});

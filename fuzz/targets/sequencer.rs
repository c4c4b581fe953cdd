//! Any pushes and clock readings: nothing is lost, and times go backwards only if marked late.

#![no_main]

use analyzer::input::Input;
use analyzer::sequencer::{Sequenced, Sequencer};
use analyzer::wire::RawRecord;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

const MAX_HELD: usize = 16;

#[derive(Default)]
struct Checked {
    given: usize,
    late: u64,
    last_ns: u64,
}

impl Checked {
    fn check(&mut self, next: Sequenced<'_>) {
        self.given += 1;
        match next {
            Sequenced::Record(record) => {
                assert!(record.time_ns() >= self.last_ns);
                self.last_ns = record.time_ns();
            }
            Sequenced::Input(Input::LateRecord(record)) => {
                assert!(record.time_ns() < self.last_ns);
                self.late += 1;
            }
            Sequenced::Input(other) => panic!("the sequencer made up {other:?}"),
        }
    }
}

/// Small times near each other, or as large as there are.
fn time_of(byte: u8) -> u64 {
    if byte == 0xff { u64::MAX } else { u64::from(byte) }
}

fn run(bytes: &[u8]) {
    let mut sequencer = Sequencer::new(10, MAX_HELD);
    let mut checked = Checked::default();
    let mut pushed = 0;
    for step in bytes.chunks_exact(2) {
        if step[0] & 0x80 == 0 {
            let record = RawRecord::from_words(&[time_of(step[1]), 1, 1]).expect("three words are a record");
            let count = 1 + usize::from(step[0] >> 5);
            sequencer.push(u16::from(step[0] % 8), vec![record; count]);
            pushed += count;
        } else {
            sequencer.advance(time_of(step[1]), |next| checked.check(next));
            assert!(sequencer.held_records() <= MAX_HELD);
        }
    }
    sequencer.finish(|next| checked.check(next));
    assert_eq!(checked.given, pushed);
    assert_eq!(checked.late, sequencer.late_records());
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

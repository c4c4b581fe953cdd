//! A tape of any content: reading neither panics nor runs for ever, positions go forward only,
//! and what was read, written again, reads the same.
//!
//! Checksums would keep a fuzzer out of all that lies behind them. So the input is a list of pieces
//! from which a tape is made (see `pieces`): raw bytes, or frames whose checksums are right.

#![no_main]

use analyzer::input::Input;
use analyzer::tape::{Item, Reader, Writer, symbols};
use dmscope_fuzz::pieces;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

fn read(tape: &[u8]) -> Vec<Input> {
    let Ok(mut reader) = Reader::new(tape) else { return Vec::new() };
    let mut inputs = Vec::new();
    let mut position = 0;
    while let Some(item) = reader.next() {
        match item {
            Ok(Item::Input(input)) => inputs.push(input),
            Ok(Item::Damage(damage)) => {
                assert!(damage.position_bytes + damage.skipped_bytes <= tape.len() as u64);
                let _ = damage.to_string();
            }
            Err(error) => {
                let _ = error.to_string();
                assert!(reader.next().is_none(), "something follows an error");
                break;
            }
        }
        assert!(reader.position() >= position, "a position went backwards");
        position = reader.position();
    }
    inputs
}

fn write(inputs: &[Input]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for input in inputs {
        writer.push(input).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

fn run(bytes: &[u8]) {
    let tape = pieces::tape_of(bytes);
    let _ = symbols(&tape[..], |_| true);
    let inputs = read(&tape);
    if inputs.is_empty() {
        return;
    }
    assert!(read(&write(&inputs)) == inputs, "written again, it reads differently");
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

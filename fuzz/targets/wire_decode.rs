//! A record of any bytes: decoding does not panic, and what was decoded comes back.

#![no_main]

use analyzer::wire::{RawRecord, Record};
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

fn run(bytes: &[u8]) {
    let Some(raw) = RawRecord::from_bytes(bytes) else { return };
    let _ = format!("{raw:?}");
    let Ok(record) = Record::decode(&raw) else { return };
    let again = record.encode();
    // Records of older tapes may lack the last words.
    assert!(again.words().len() >= raw.words().len());
    assert_eq!(Record::decode(&again), Ok(record));
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

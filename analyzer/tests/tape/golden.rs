//! Tapes of older versions stay readable: each format version has one in `tests/golden`.

use std::path::PathBuf;

use analyzer::input::Input;
use analyzer::tape::{Item, Reader, VERSION, Writer};

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

#[test]
fn the_golden_tape_of_version_1_is_read() {
    assert_eq!(read(1), small_session().concat());
}

#[test]
fn the_golden_tape_of_version_2_is_read() {
    assert_eq!(read(2), small_session_of_nodes().concat());
}

/// Only for a new format version: `cargo test -p dmscope-analyzer --test tape -- --ignored`
#[test]
#[ignore = "writes the golden tape of this version"]
fn write_the_golden_tape() {
    let mut writer = Writer::new(Vec::new());
    for group in small_session_of_nodes() {
        for input in &group {
            writer.push(input).expect("memory takes everything");
        }
        writer.flush().expect("memory takes everything");
    }
    std::fs::write(path(VERSION), writer.finish().expect("memory takes everything"))
        .expect("a writable tree");
}

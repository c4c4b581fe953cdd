//! Lines of `/proc/PID/maps`, whose names a process chooses.

#![no_main]

use dmscope::host::mappings::{code_files, parse_maps};
use dmscope::host::processes::library_among;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

fn run(bytes: &[u8]) {
    let mappings = parse_maps(bytes);
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(mappings.len() <= lines);
    let files = code_files(&mappings);
    assert!(files.iter().all(|file| file.id.inode != 0));
    let _ = library_among(&files);
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

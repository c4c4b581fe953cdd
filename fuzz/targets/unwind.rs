//! Unwind tables of a hostile file, with hostile registers and memory: each frame has a caller, or none can be found.

#![no_main]

use dmscope::elf;
use dmscope::stacks::{Image, Registers};
use dmscope_fuzz::elf_file::contents;
use dmscope_fuzz::limits::within_a_second;
use dmscope_fuzz::memory::RepeatedMemory;
use libfuzzer_sys::fuzz_target;

const HEAD_BYTES: usize = 16 * 8;
/// Frames of one stack at most, as a sample has.
const MOST_FRAMES: usize = 128;
/// Places that a walk begins at.
const MOST_PLACES: usize = 8;

fn run(bytes: &[u8]) {
    let Some((head, file)) = bytes.split_at_checked(HEAD_BYTES) else { return };
    let Some(contents) = contents(file) else { return };
    let places: Vec<u64> = match elf::parse(&contents) {
        Ok(facts) => facts.functions.iter().map(|f| f.vaddr.wrapping_add(u64::from(head[0]))).collect(),
        Err(_) => return,
    };
    let Some(image) = Image::from_contents(contents) else { return };
    let word = |n: usize| head[8 * n..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let memory = RepeatedMemory::of(head);
    let _ = image.mpi_facts(word(1));
    for (bias, vaddr) in places.into_iter().take(MOST_PLACES).flat_map(|vaddr| [(0, vaddr), (word(2), vaddr)]) {
        let mut frame = Registers::new(std::array::from_fn(word), vaddr.wrapping_add(bias));
        for called in std::iter::once(false).chain(std::iter::repeat_n(true, MOST_FRAMES)) {
            let Ok((caller, function)) = image.caller(bias, &frame, called, &memory) else { break };
            let _ = (image.mpi_entry(function), image.called_before(caller.registers.pc.wrapping_sub(bias)));
            frame = caller.registers;
        }
    }
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

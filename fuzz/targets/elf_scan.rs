//! A program file of any bytes, whole or with holes: everything that is asked of one gives an answer.

#![no_main]

use dmscope::elf::{self, Contents, ElfFacts};
use dmscope_fuzz::elf_file::contents;
use dmscope_fuzz::limits::within_a_second;
use libfuzzer_sys::fuzz_target;

/// Functions asked about: enough, and a hostile table may name millions.
const MAX_FUNCTIONS: usize = 16;

fn run(bytes: &[u8]) {
    let _ = elf::instruction_len(bytes);
    let _ = elf::emulated(bytes);
    let Some(contents) = contents(bytes) else { return };
    let Ok(facts) = elf::parse(&contents) else { return };
    ask(&facts, &contents);
}

fn ask(facts: &ElfFacts<'_>, contents: &Contents) {
    let _ = elf::scan_copies(facts);
    let _ = elf::datatypes(facts);
    let _ = (elf::mpi_objects(facts, true), elf::mpi_objects(facts, false));
    let starts = facts.code.iter().map(|range| range.vaddr);
    let named = facts.functions.iter().map(|function| function.vaddr);
    let asked: Vec<u64> = named.chain(starts).take(MAX_FUNCTIONS).collect();
    let _ = elf::callers(facts, &asked);
    for vaddr in asked {
        let _ = facts.offset_of(vaddr).and_then(|offset_bytes| facts.vaddr_of(offset_bytes));
        let _ = elf::convertor_base_offset(facts, vaddr);
        let _ = elf::success_places(facts, vaddr, 1);
        let Some(body) = facts.body(vaddr) else { continue };
        let middle = vaddr.wrapping_add(body.len() as u64 / 2);
        let _ = elf::entry_place(body, vaddr, elf::Wanted { arguments: 3, returns: false });
        let _ = elf::place_before_call(body, vaddr, middle);
        for place in [vaddr.wrapping_add(5), middle, vaddr.wrapping_add(body.len() as u64)] {
            let _ = elf::called_before(facts, place);
            let _ = elf::held_arguments(facts, vaddr, place);
            let _ = elf::passed_arguments(facts, place);
        }
    }
    assert!(contents.held_bytes() <= 1 << 30, "more is held than is read of a file");
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

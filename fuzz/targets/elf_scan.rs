//! A program file of any bytes: everything that is asked of one gives an answer.

#![no_main]

// By path: as a dependency, tracer-user would bring the BPF programs and libbpf along.
#[path = "../../tracer-user/src/elf/mod.rs"]
#[allow(dead_code, unused_imports)]
mod elf;

use libfuzzer_sys::fuzz_target;

/// Functions asked about: enough, and a hostile table may name millions.
const MAX_FUNCTIONS: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let _ = elf::instruction_len(bytes);
    let _ = elf::emulated(bytes);
    let Ok(facts) = elf::parse(bytes) else { return };
    let _ = elf::scan_copies(&facts);
    let starts = facts.code.iter().map(|range| range.vaddr);
    let named = facts.functions.iter().map(|function| function.vaddr);
    for vaddr in named.chain(starts).take(MAX_FUNCTIONS) {
        let _ = facts.offset_of(vaddr).and_then(|offset_bytes| facts.vaddr_of(offset_bytes));
        let _ = elf::convertor_base_offset(&facts, vaddr);
        let _ = elf::success_places(&facts, vaddr, 1);
        if let Some(body) = facts.body(vaddr) {
            let _ = elf::entry_place(body, vaddr, elf::Wanted { arguments: 3, returns: false });
            let _ = elf::place_before_call(body, vaddr, vaddr.wrapping_add(body.len() as u64 / 2));
        }
    }
});

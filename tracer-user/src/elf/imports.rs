//! How a file reaches functions of other files: slots of the global offset table, and the
//! stubs of the procedure linkage table that jump through them.

use std::collections::HashMap;

use iced_x86::Mnemonic;
use object::LittleEndian;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym};

use super::code::{CodeRange, Sections};
use super::decode::{decoder, slot_of};
use super::functions::Functions;

#[derive(Default)]
pub(super) struct Links<'d> {
    pub imports: Vec<&'d str>,
    pub slots: HashMap<u64, &'d str>,
    pub stubs: HashMap<u64, &'d str>,
}

pub(super) fn read<'d>(
    endian: LittleEndian,
    bytes: &'d [u8],
    sections: &Sections<'d>,
    code: &[CodeRange<'d>],
    functions: &Functions<'d>,
) -> Links<'d> {
    let slots = slots(endian, bytes, sections, functions);
    Links { imports: imports(endian, bytes, sections), stubs: stubs(code, &slots), slots }
}

fn imports<'d>(endian: LittleEndian, bytes: &'d [u8], sections: &Sections<'d>) -> Vec<&'d str> {
    let Ok(symbols) = sections.symbols(endian, bytes, elf::SHT_DYNSYM) else { return Vec::new() };
    symbols
        .iter()
        .filter(|s| s.is_undefined(endian))
        .filter_map(|s| s.name(endian, symbols.strings()).ok().and_then(|n| str::from_utf8(n).ok()))
        .filter(|n| !n.is_empty())
        .collect()
}

/// Slots by address, from all relocations that fill one with a function's address. Those of
/// static programs name no symbol, only the resolver.
fn slots<'d>(
    endian: LittleEndian,
    bytes: &'d [u8],
    sections: &Sections<'d>,
    functions: &Functions<'d>,
) -> HashMap<u64, &'d str> {
    let mut slots = HashMap::new();
    let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM).ok();
    for section in sections.iter() {
        let Ok(Some((relocations, _))) = section.rela(endian, bytes) else { continue };
        for relocation in relocations {
            let name = match relocation.r_type(endian, false) {
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => symbols.as_ref().and_then(|table| {
                    let index = relocation.symbol(endian, false)?;
                    let symbol = table.symbol(index).ok()?;
                    str::from_utf8(symbol.name(endian, table.strings()).ok()?).ok()
                }),
                elf::R_X86_64_IRELATIVE => {
                    functions.at(relocation.r_addend(endian) as u64).map(|resolver| resolver.name)
                }
                _ => None,
            };
            if let Some(name) = name {
                slots.insert(relocation.r_offset(endian), name);
            }
        }
    }
    slots
}

/// Stubs by address. A stub is `jmp *slot(%rip)`, with `endbr64` before it if the file asks
/// for indirect branch tracking; calls go to its first instruction.
fn stubs<'d>(code: &[CodeRange<'d>], slots: &HashMap<u64, &'d str>) -> HashMap<u64, &'d str> {
    let mut stubs = HashMap::new();
    for range in code.iter().filter(|c| c.is_plt()) {
        let mut landing = None;
        for instruction in &mut decoder(range.bytes, range.vaddr) {
            let here = instruction.ip();
            if instruction.mnemonic() == Mnemonic::Endbr64 {
                landing = Some(here);
                continue;
            }
            let jumps = instruction.mnemonic() == Mnemonic::Jmp;
            if let Some(name) = slot_of(&instruction).filter(|_| jumps).and_then(|s| slots.get(&s)) {
                stubs.insert(here, *name);
                if let Some(landing) = landing {
                    stubs.insert(landing, *name);
                }
            }
            landing = None;
        }
    }
    stubs
}

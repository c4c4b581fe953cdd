//! How a file reaches functions of other files: slots of the global offset table, and the
//! stubs of the procedure linkage table that jump through them.

use std::collections::HashMap;

use iced_x86::Mnemonic;
use object::LittleEndian;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym, SymbolTable};

use super::code::{CodeRange, LoadedHeader, Sections};
use super::contents::Contents;
use super::decode::{decoder, slot_of};
use super::error::ElfError;
use super::functions::Functions;
use super::work::WorkLeft;

/// What fills a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// The linker, at the first call perhaps.
    Call,
    /// The linker, when the file is loaded: its code may read the address as well.
    Address,
    /// A function of the file, which chooses by the processor.
    Chosen,
}

/// By address: the function that it will point to, and what fills it.
type FoundSlots<'d> = (HashMap<u64, &'d str>, HashMap<u64, SlotKind>);

#[derive(Default)]
pub(super) struct Links<'d> {
    pub imports: Vec<&'d str>,
    pub slots: HashMap<u64, &'d str>,
    pub slot_kinds: HashMap<u64, SlotKind>,
    pub stubs: HashMap<u64, &'d str>,
}

pub(super) fn read<'d>(
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &Sections<'d>,
    code: &[CodeRange<'d>],
    functions: &Functions<'d>,
    work: &mut WorkLeft,
) -> Result<Links<'d>, ElfError> {
    let (slots, slot_kinds) = slots(endian, contents, sections, functions, work)?;
    let (imports, stubs) = (imports(endian, contents, sections, work)?, stubs(code, &slots));
    Ok(Links { imports, stubs, slots, slot_kinds })
}

fn imports<'d>(
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &Sections<'d>,
    work: &mut WorkLeft,
) -> Result<Vec<&'d str>, ElfError> {
    let Ok(symbols) = sections.symbols(endian, contents, elf::SHT_DYNSYM) else { return Ok(Vec::new()) };
    let mut imports = Vec::new();
    for symbol in symbols.iter().filter(|s| s.is_undefined(endian)) {
        imports.extend(work.name(endian, symbol, symbols.strings())?.filter(|name| !name.is_empty()));
    }
    Ok(imports)
}

/// Slots by address, from all relocations that fill one with a function's address. Those of
/// static programs name no symbol, only the resolver.
fn slots<'d>(
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &Sections<'d>,
    functions: &Functions<'d>,
    work: &mut WorkLeft,
) -> Result<FoundSlots<'d>, ElfError> {
    let (mut slots, mut kinds) = (HashMap::new(), HashMap::new());
    let symbols = sections.symbols(endian, contents, elf::SHT_DYNSYM).ok();
    for section in sections.iter() {
        let Ok(Some((relocations, _))) = section.rela(endian, contents) else { continue };
        work.spend(size_of_val(relocations) as u64)?;
        for relocation in relocations {
            let name = match relocation.r_type(endian, false) {
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => {
                    let symbol = |table: &SymbolTable<'d, LoadedHeader, &'d Contents>| {
                        table.symbol(relocation.symbol(endian, false)?).ok()
                    };
                    match symbols.as_ref().and_then(|table| Some((symbol(table)?, table.strings()))) {
                        Some((symbol, strings)) => work.name(endian, symbol, strings)?,
                        None => None,
                    }
                }
                elf::R_X86_64_IRELATIVE => {
                    functions.at(relocation.r_addend(endian) as u64).map(|resolver| resolver.name)
                }
                _ => None,
            };
            if let Some(name) = name {
                slots.insert(relocation.r_offset(endian), name);
                let kind = match relocation.r_type(endian, false) {
                    elf::R_X86_64_JUMP_SLOT => SlotKind::Call,
                    elf::R_X86_64_GLOB_DAT => SlotKind::Address,
                    _ => SlotKind::Chosen,
                };
                kinds.insert(relocation.r_offset(endian), kind);
            }
        }
    }
    Ok((slots, kinds))
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

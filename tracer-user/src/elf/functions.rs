//! Which functions a file defines, and where functions start and end.
//!
//! Stripped files name only what they export; the start of every other function is in the
//! search table of `.eh_frame_hdr`.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::{ProgramHeader, Sym};

use super::code::{CodeRange, Sections};

/// A function that the file defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its address in the file's own count.
    pub vaddr: u64,
    /// How long it is; 0: the file does not say.
    pub len_bytes: u64,
    /// Other files can call it.
    pub exported: bool,
    /// The address is not the function, but the resolver that chooses it.
    pub ifunc: bool,
}

/// Functions of one file.
#[derive(Clone, Debug, Default)]
pub struct Functions<'d> {
    by_address: Vec<Function<'d>>,
    by_name: HashMap<&'d str, usize>,
    starts: Vec<u64>,
    ends: Vec<u64>,
}

impl<'d> Functions<'d> {
    pub(super) fn read(
        endian: LittleEndian,
        bytes: &'d [u8],
        sections: &Sections<'d>,
        program_headers: &[elf::ProgramHeader64<LittleEndian>],
        code: &[CodeRange<'d>],
    ) -> Self {
        let mut all = exported(endian, bytes, sections);
        all.extend(local(endian, bytes, sections));
        all.sort_by_key(|f| (f.vaddr, f.name, !f.exported));
        all.dedup_by_key(|f| (f.vaddr, f.name));
        // Of several names, the one which other files know comes first, then the plainest.
        let plainness = |name: &str| name.len() - name.trim_start_matches('_').len();
        all.sort_by_key(|f| (f.vaddr, !f.exported, plainness(f.name), f.name));
        let mut by_name = HashMap::new();
        for (index, function) in all.iter().enumerate() {
            let known = by_name.entry(function.name).or_insert(index);
            if function.exported && !all[*known].exported {
                *known = index;
            }
        }
        let mut starts = unwind_starts(endian, bytes, program_headers);
        starts.extend(all.iter().map(|f| f.vaddr));
        starts.retain(|s| code.iter().any(|c| c.range().contains(s)));
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<u64> = code.iter().map(|c| c.range().end).collect();
        ends.sort_unstable();
        Self { by_address: all, by_name, starts, ends }
    }

    /// All of them, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Function<'d>> {
        self.by_address.iter()
    }

    /// The function of that name; an exported one if there are several.
    pub fn named(&self, name: &str) -> Option<&Function<'d>> {
        self.by_name.get(name).map(|i| &self.by_address[*i])
    }

    /// The function that starts there.
    pub fn at(&self, vaddr: u64) -> Option<&Function<'d>> {
        let index = self.by_address.partition_point(|f| f.vaddr < vaddr);
        self.by_address.get(index).filter(|f| f.vaddr == vaddr)
    }

    /// Start of the function that holds an address, if any starts before it.
    pub fn start_of(&self, vaddr: u64) -> Option<u64> {
        let index = self.starts.partition_point(|s| *s <= vaddr);
        index.checked_sub(1).map(|i| self.starts[i])
    }

    /// Where the function that starts at `start` must have ended: the next one, or the section's end.
    pub fn end_of(&self, start: u64) -> Option<u64> {
        let next = self.starts.get(self.starts.partition_point(|s| *s <= start)).copied();
        let section = self.ends.get(self.ends.partition_point(|e| *e <= start)).copied();
        match (next, section) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

fn as_function<'d>(
    endian: LittleEndian,
    symbol: &elf::Sym64<LittleEndian>,
    name: Option<&'d str>,
    exported: bool,
) -> Option<Function<'d>> {
    let ifunc = symbol.st_type() == elf::STT_GNU_IFUNC;
    if symbol.is_undefined(endian) || !(ifunc || symbol.st_type() == elf::STT_FUNC) {
        return None;
    }
    let (vaddr, len_bytes) = (symbol.st_value(endian), symbol.st_size(endian));
    Some(Function { name: name?, vaddr, len_bytes, exported, ifunc })
}

/// Functions of `.dynsym`, the default version of each.
fn exported<'d>(endian: LittleEndian, bytes: &'d [u8], sections: &Sections<'d>) -> Vec<Function<'d>> {
    let Ok(symbols) = sections.symbols(endian, bytes, elf::SHT_DYNSYM) else { return Vec::new() };
    let versions = sections.versions(endian, bytes).ok().flatten();
    let is_default = |index: SymbolIndex| {
        versions.as_ref().is_none_or(|v| !v.version_index(endian, index).contains(elf::VERSYM_HIDDEN))
    };
    symbols
        .enumerate()
        .filter(|(index, _)| is_default(*index))
        .filter_map(|(_, symbol)| {
            let name = symbol.name(endian, symbols.strings()).ok().and_then(|n| str::from_utf8(n).ok());
            as_function(endian, symbol, name, true)
        })
        .collect()
}

/// Functions of `.symtab`, which stripped files do not have.
fn local<'d>(endian: LittleEndian, bytes: &'d [u8], sections: &Sections<'d>) -> Vec<Function<'d>> {
    let Ok(symbols) = sections.symbols(endian, bytes, elf::SHT_SYMTAB) else { return Vec::new() };
    symbols
        .iter()
        .filter_map(|symbol| {
            let name = symbol.name(endian, symbols.strings()).ok().and_then(|n| str::from_utf8(n).ok());
            // `memcpy@@GLIBC_2.14` and `memcpy` are one function.
            as_function(endian, symbol, name.map(|n| n.split('@').next().unwrap_or(n)), false)
        })
        .collect()
}

/// First addresses of the sorted table in `.eh_frame_hdr` (the form that every linker writes).
fn unwind_starts(
    endian: LittleEndian,
    bytes: &[u8],
    program_headers: &[elf::ProgramHeader64<LittleEndian>],
) -> Vec<u64> {
    const VERSION_AND_ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let Some(header) = program_headers.iter().find(|p| p.p_type(endian) == elf::PT_GNU_EH_FRAME) else {
        return Vec::new();
    };
    let Ok(table) = header.data(endian, bytes) else { return Vec::new() };
    let base = header.p_vaddr(endian);
    let (Some(encodings), Some(count)) = (table.get(..4), table.get(8..12)) else { return Vec::new() };
    if encodings != VERSION_AND_ENCODINGS {
        return Vec::new();
    }
    let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
    let (entries, _) = table[12..].as_chunks::<8>();
    entries
        .iter()
        .take(count)
        .map(|e| base.wrapping_add_signed(i64::from(i32::from_le_bytes([e[0], e[1], e[2], e[3]]))))
        .collect()
}

//! Which functions a file defines, and where functions start and end.
//!
//! Stripped files name only what they export; the start of every other function is in the
//! search table of `.eh_frame_hdr`.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::{ProgramHeader, Sym};

use super::code::{CodeRange, Sections, range_at};
use super::contents::Contents;
use super::error::ElfError;
use super::work::WorkLeft;

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

/// How names of Open MPI's objects begin.
const MPI_DATA: &str = "ompi_";

/// Functions of one file.
#[derive(Clone, Debug, Default)]
pub struct Functions<'d> {
    by_address: Vec<Function<'d>>,
    by_name: HashMap<&'d str, usize>,
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Data of MPI libraries that has a name, by name.
    mpi_data: HashMap<&'d str, u64>,
}

impl<'d> Functions<'d> {
    /// Functions without names.
    #[cfg(test)]
    pub(super) fn of_starts(starts: Vec<u64>) -> Self {
        Self { starts, ..Self::default() }
    }

    pub(super) fn read(
        endian: LittleEndian,
        contents: &'d Contents,
        sections: &Sections<'d>,
        program_headers: &[elf::ProgramHeader64<LittleEndian>],
        code: &[CodeRange<'d>],
        work: &mut WorkLeft,
    ) -> Result<Self, ElfError> {
        let mut symbols = SymbolTables { endian, contents, sections, work, mpi_data: HashMap::new() };
        let mut all = symbols.exported()?;
        all.extend(symbols.local()?);
        let mpi_data = symbols.mpi_data;
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
        let mut starts = unwind_starts(endian, contents, program_headers, work)?;
        starts.extend(all.iter().map(|f| f.vaddr));
        starts.retain(|s| range_at(code, *s).is_some());
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<u64> = code.iter().map(|c| c.range().end).collect();
        ends.sort_unstable();
        Ok(Self { by_address: all, by_name, starts, ends, mpi_data })
    }

    /// Address of data of an MPI library.
    pub fn mpi_data(&self, name: &str) -> Option<u64> {
        self.mpi_data.get(name).copied()
    }

    /// All of it that is known by name.
    pub fn all_mpi_data(&self) -> impl Iterator<Item = (&'d str, u64)> {
        self.mpi_data.iter().map(|(name, vaddr)| (*name, *vaddr))
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

/// The symbol tables of a file.
struct SymbolTables<'s, 'd> {
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &'s Sections<'d>,
    work: &'s mut WorkLeft,
    /// Found beside the functions; what other files can see counts first.
    mpi_data: HashMap<&'d str, u64>,
}

impl<'d> SymbolTables<'_, 'd> {
    /// Functions of `.dynsym`, the default version of each.
    fn exported(&mut self) -> Result<Vec<Function<'d>>, ElfError> {
        let (endian, contents) = (self.endian, self.contents);
        let Ok(symbols) = self.sections.symbols(endian, contents, elf::SHT_DYNSYM) else {
            return Ok(Vec::new());
        };
        let versions = self.sections.versions(endian, contents).ok().flatten();
        let is_default = |index: SymbolIndex| {
            versions.as_ref().is_none_or(|v| !v.version_index(endian, index).contains(elf::VERSYM_HIDDEN))
        };
        let mut functions = Vec::new();
        for (index, symbol) in symbols.enumerate() {
            let name = self.work.name(endian, symbol, symbols.strings())?;
            self.note_data(symbol, name);
            if is_default(index) {
                functions.extend(as_function(endian, symbol, name, true));
            }
        }
        Ok(functions)
    }

    /// Functions of `.symtab`, which stripped files do not have.
    fn local(&mut self) -> Result<Vec<Function<'d>>, ElfError> {
        let endian = self.endian;
        let Ok(symbols) = self.sections.symbols(endian, self.contents, elf::SHT_SYMTAB) else {
            return Ok(Vec::new());
        };
        let mut functions = Vec::new();
        for symbol in symbols.iter() {
            let name = self.work.name(endian, symbol, symbols.strings())?;
            self.note_data(symbol, name);
            // `memcpy@@GLIBC_2.14` and `memcpy` are one function.
            let name = name.map(|n| n.split('@').next().unwrap_or(n));
            functions.extend(as_function(endian, symbol, name, false));
        }
        Ok(functions)
    }

    fn note_data(&mut self, symbol: &elf::Sym64<LittleEndian>, name: Option<&'d str>) {
        if let Some(name) = name.filter(|name| name.starts_with(MPI_DATA))
            && !symbol.is_undefined(self.endian)
        {
            self.mpi_data.entry(name).or_insert(symbol.st_value(self.endian));
        }
    }
}

/// First addresses of the sorted table in `.eh_frame_hdr` (the form that every linker writes).
fn unwind_starts(
    endian: LittleEndian,
    contents: &Contents,
    program_headers: &[elf::ProgramHeader64<LittleEndian>],
    work: &mut WorkLeft,
) -> Result<Vec<u64>, ElfError> {
    const VERSION_AND_ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    let Some(header) = program_headers.iter().find(|p| p.p_type(endian) == elf::PT_GNU_EH_FRAME) else {
        return Ok(Vec::new());
    };
    let Ok(table) = header.data(endian, contents) else { return Ok(Vec::new()) };
    let base = header.p_vaddr(endian);
    let (Some(encodings), Some(count)) = (table.get(..4), table.get(8..12)) else { return Ok(Vec::new()) };
    if encodings != VERSION_AND_ENCODINGS {
        return Ok(Vec::new());
    }
    let count = u32::from_le_bytes([count[0], count[1], count[2], count[3]]) as usize;
    let (entries, _) = table[12..].as_chunks::<8>();
    let entries = &entries[..count.min(entries.len())];
    work.spend(size_of_val(entries) as u64)?;
    let start =
        |e: &[u8; 8]| base.wrapping_add_signed(i64::from(i32::from_le_bytes([e[0], e[1], e[2], e[3]])));
    Ok(entries.iter().map(start).collect())
}

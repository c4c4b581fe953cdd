//! Reading the tables of an ELF file.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::code::{CodeRange, LoadedHeader, Sections, Segment, code_ranges};
use super::functions::{Function, Functions};
use super::imports;

/// Why a file has no facts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Not ELF, not 64 bits, not x86-64.
    #[error("not an x86-64 ELF file")]
    Foreign,
    /// It says it is, but its tables cannot be read.
    #[error("damaged ELF file: {0}")]
    Damaged(String),
}

impl From<object::read::Error> for ElfError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// What the file is loaded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// A program that ld.so completes.
    Program,
    /// A program that is complete in itself.
    StaticProgram,
    /// A library.
    Library,
}

/// Facts of one file. Addresses are those of the file (before relocation).
#[derive(Clone, Debug)]
pub struct ElfFacts<'d> {
    /// What it is.
    pub kind: ElfKind,
    /// Hexadecimal GNU build id.
    pub build_id: Option<String>,
    /// The name it goes by as a library.
    pub soname: Option<&'d str>,
    /// Libraries it names (DT_NEEDED), in order.
    pub needed: Vec<&'d str>,
    /// DT_RUNPATH, else DT_RPATH.
    pub run_path: Option<&'d str>,
    /// Loaded parts.
    pub segments: Vec<Segment>,
    /// Sections with instructions.
    pub code: Vec<CodeRange<'d>>,
    /// Defined functions and where functions start.
    pub functions: Functions<'d>,
    /// Names that other files must define.
    pub imports: Vec<&'d str>,
    /// Address of a slot of the global offset table → function that it will point to.
    pub slots: HashMap<u64, &'d str>,
    /// Address of a stub → function that it jumps to.
    pub stubs: HashMap<u64, &'d str>,
}

impl<'d> ElfFacts<'d> {
    /// Where an address is in the file.
    pub fn offset_of(&self, vaddr: u64) -> Option<u64> {
        let within = |s: &Segment| Some((*s, vaddr.checked_sub(s.vaddr).filter(|d| *d < s.len_bytes)?));
        let (segment, distance_bytes) = self.segments.iter().find_map(within)?;
        segment.offset_bytes.checked_add(distance_bytes)
    }

    /// Where an offset of the file is mapped to as instructions.
    pub fn vaddr_of(&self, offset_bytes: u64) -> Option<u64> {
        let within =
            |s: &Segment| Some((*s, offset_bytes.checked_sub(s.offset_bytes).filter(|d| *d < s.len_bytes)?));
        let (segment, distance_bytes) = self.segments.iter().filter(|s| s.exec).find_map(within)?;
        segment.vaddr.checked_add(distance_bytes)
    }

    /// Instructions from an address up to the end of its section.
    pub fn code_from(&self, vaddr: u64) -> Option<&'d [u8]> {
        let range = self.code.iter().find(|c| c.range().contains(&vaddr))?;
        range.bytes.get((vaddr - range.vaddr) as usize..)
    }

    /// Instructions of the function that starts at `start`.
    pub fn body(&self, start: u64) -> Option<&'d [u8]> {
        let code = self.code_from(start)?;
        let len_bytes = self.functions.end_of(start).map_or(code.len(), |end| (end - start) as usize);
        Some(&code[..len_bytes.min(code.len())])
    }

    /// Start of the function that an address is in.
    pub fn start_of(&self, vaddr: u64) -> Option<u64> {
        let range = self.code.iter().find(|c| c.range().contains(&vaddr))?;
        let start = self.functions.start_of(vaddr).unwrap_or(range.vaddr);
        Some(start.max(range.vaddr))
    }

    /// The function of that name which the linker would take.
    pub fn function(&self, name: &str) -> Option<&Function<'d>> {
        self.functions.named(name)
    }

    /// Whether it asks other files for one of these.
    pub fn imports_any(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.imports.iter().any(|name| wanted(name))
    }

    /// What a call to `target` reaches: an imported function (through its stub), or one of this file.
    pub fn callee(&self, target: u64) -> Option<&'d str> {
        self.stubs.get(&target).copied().or_else(|| self.functions.at(target).map(|f| f.name))
    }
}

/// Reads the tables of a file.
///
/// # Errors
/// Another kind of file, or tables that point nowhere.
pub fn parse(bytes: &[u8]) -> Result<ElfFacts<'_>, ElfError> {
    let header = LoadedHeader::parse(bytes).map_err(|_| ElfError::Foreign)?;
    let endian = header.endian().map_err(|_| ElfError::Foreign)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(ElfError::Foreign);
    }
    let program_headers = header.program_headers(endian, bytes)?;
    let sections = header.sections(endian, bytes)?;
    let segments: Vec<Segment> = program_headers
        .iter()
        .filter(|p| p.p_type(endian) == elf::PT_LOAD)
        .map(|p| Segment {
            vaddr: p.p_vaddr(endian),
            offset_bytes: p.p_offset(endian),
            len_bytes: p.p_filesz(endian),
            exec: p.p_flags(endian).contains(elf::PF_X),
        })
        .collect();
    let code = code_ranges(endian, bytes, &sections, &segments);
    let functions = Functions::read(endian, bytes, &sections, program_headers, &code);
    let links = imports::read(endian, bytes, &sections, &code, &functions);
    let dynamic = dynamic_strings(endian, bytes, &sections);
    let has = |kind| program_headers.iter().any(|p| p.p_type(endian) == kind);
    let kind = match (has(elf::PT_INTERP), has(elf::PT_DYNAMIC), dynamic.soname) {
        (true, _, None) => ElfKind::Program,
        (false, false, _) => ElfKind::StaticProgram,
        (false, true, None) if dynamic.pie => ElfKind::StaticProgram,
        _ => ElfKind::Library,
    };
    Ok(ElfFacts {
        kind,
        build_id: build_id(endian, bytes, program_headers),
        soname: dynamic.soname,
        needed: dynamic.needed,
        run_path: dynamic.run_path,
        segments,
        code,
        functions,
        imports: links.imports,
        slots: links.slots,
        stubs: links.stubs,
    })
}

#[derive(Default)]
struct DynamicStrings<'d> {
    soname: Option<&'d str>,
    needed: Vec<&'d str>,
    run_path: Option<&'d str>,
    pie: bool,
}

fn dynamic_strings<'d>(endian: LittleEndian, bytes: &'d [u8], sections: &Sections<'d>) -> DynamicStrings<'d> {
    let mut found = DynamicStrings::default();
    let Ok(Some((entries, link))) = sections.dynamic(endian, bytes) else { return found };
    let Ok(strings) = sections.strings(endian, bytes, link) else { return found };
    let text = |entry: &elf::Dyn64<LittleEndian>| {
        entry.string(endian, strings).ok().and_then(|s| str::from_utf8(s).ok())
    };
    let mut rpath = None;
    for entry in entries {
        match entry.tag(endian) {
            elf::DT_NULL => break,
            elf::DT_NEEDED => found.needed.extend(text(entry)),
            elf::DT_SONAME => found.soname = text(entry),
            elf::DT_RUNPATH => found.run_path = text(entry),
            elf::DT_RPATH => rpath = text(entry),
            elf::DT_FLAGS_1 => found.pie = entry.val(endian) & 0x0800_0000 != 0,
            _ => {}
        }
    }
    found.run_path = found.run_path.or(rpath);
    found
}

fn build_id(
    endian: LittleEndian,
    bytes: &[u8],
    program_headers: &[elf::ProgramHeader64<LittleEndian>],
) -> Option<String> {
    for header in program_headers {
        let Ok(Some(mut notes)) = header.notes(endian, bytes) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(note.desc().iter().map(|b| format!("{b:02x}")).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one executable segment and no sections.
    fn file_of_segment(vaddr: u64, offset_bytes: u64, len_bytes: u64) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for half in [3_u16, 62, 1, 0] {
            file.extend_from_slice(&half.to_le_bytes());
        }
        for word in [0_u64, 64, 0] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        for half in [0_u16, 0, 64, 56, 1, 64, 0, 0] {
            file.extend_from_slice(&half.to_le_bytes());
        }
        file.extend_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
        for word in [offset_bytes, vaddr, vaddr, len_bytes, len_bytes, 4096] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file
    }

    #[test]
    fn addresses_and_offsets_are_told_apart_by_the_segment() {
        let file = file_of_segment(0x4000, 0x1000, 0x200);
        let facts = parse(&file).expect("a small file");
        assert_eq!(facts.offset_of(0x4010), Some(0x1010));
        assert_eq!(facts.vaddr_of(0x1010), Some(0x4010));
        assert_eq!((facts.offset_of(0x3fff), facts.offset_of(0x4200)), (None, None));
        assert_eq!((facts.vaddr_of(0xfff), facts.vaddr_of(0x1200)), (None, None));
    }

    #[test]
    fn a_segment_that_claims_all_addresses_does_not_hold_those_before_it() {
        let file = file_of_segment(0xc000_0000_0000_0000, 0x2000_0000_0000_0000, u64::MAX);
        let facts = parse(&file).expect("a hostile file");
        assert_eq!(facts.offset_of(0x1000), None);
        assert_eq!(facts.vaddr_of(0x1000), None);
    }
}

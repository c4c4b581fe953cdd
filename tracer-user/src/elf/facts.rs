//! Reading the tables of an ELF file.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::code::{CodeRange, LoadedHeader, Sections, Segment, code_ranges, range_at};
use super::contents::{Contents, LONGEST_NAME_BYTES};
use super::error::ElfError;
use super::functions::{Function, Functions};
use super::imports::{self, SlotKind};
use super::work::WorkLeft;

/// The kernel loads no program with more (its headers must fit into 64 KiB).
const MOST_SEGMENTS: usize = 1170;
/// Longer notes are not looked through for the build id, which comes first.
const LONGEST_NOTES_BYTES: u64 = 64 << 10;
/// No linker writes a longer one.
const LONGEST_BUILD_ID_BYTES: usize = 64;

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
    /// Address of a slot → what fills it.
    pub slot_kinds: HashMap<u64, SlotKind>,
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
        let range = range_at(&self.code, vaddr)?;
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
        let range = range_at(&self.code, vaddr)?;
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
pub fn parse(contents: &Contents) -> Result<ElfFacts<'_>, ElfError> {
    let header = LoadedHeader::parse(contents).map_err(|_| ElfError::Foreign)?;
    let endian = header.endian().map_err(|_| ElfError::Foreign)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(ElfError::Foreign);
    }
    let program_headers = header.program_headers(endian, contents)?;
    let sections = header.sections(endian, contents)?;
    let mut work = WorkLeft::default();
    work.spend((sections.len() * size_of::<elf::SectionHeader64<LittleEndian>>()) as u64)?;
    if program_headers.len() > MOST_SEGMENTS {
        return Err(ElfError::TooMuch);
    }
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
    let code = code_ranges(endian, contents, &sections, &segments);
    let functions = Functions::read(endian, contents, &sections, program_headers, &code, &mut work)?;
    let links = imports::read(endian, contents, &sections, &code, &functions, &mut work)?;
    let dynamic = dynamic_strings(endian, contents, &sections, &mut work)?;
    let has = |kind| program_headers.iter().any(|p| p.p_type(endian) == kind);
    let kind = match (has(elf::PT_INTERP), has(elf::PT_DYNAMIC), dynamic.soname) {
        (true, _, None) => ElfKind::Program,
        (false, false, _) => ElfKind::StaticProgram,
        (false, true, None) if dynamic.pie => ElfKind::StaticProgram,
        _ => ElfKind::Library,
    };
    Ok(ElfFacts {
        kind,
        build_id: build_id(endian, contents, program_headers),
        soname: dynamic.soname,
        needed: dynamic.needed,
        run_path: dynamic.run_path,
        segments,
        code,
        functions,
        imports: links.imports,
        slots: links.slots,
        slot_kinds: links.slot_kinds,
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

fn dynamic_strings<'d>(
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &Sections<'d>,
    work: &mut WorkLeft,
) -> Result<DynamicStrings<'d>, ElfError> {
    let mut found = DynamicStrings::default();
    let Ok(Some((entries, link))) = sections.dynamic(endian, contents) else { return Ok(found) };
    let Ok(strings) = sections.strings(endian, contents, link) else { return Ok(found) };
    let text = |entry: &elf::Dyn64<LittleEndian>| {
        entry.string(endian, strings).ok().and_then(|s| str::from_utf8(s).ok())
    };
    work.spend(entries.len() as u64 * LONGEST_NAME_BYTES)?;
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
    Ok(found)
}

fn build_id(
    endian: LittleEndian,
    contents: &Contents,
    program_headers: &[elf::ProgramHeader64<LittleEndian>],
) -> Option<String> {
    for header in program_headers.iter().filter(|header| header.p_filesz(endian) <= LONGEST_NOTES_BYTES) {
        let Ok(Some(mut notes)) = header.notes(endian, contents) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return Some(
                    note.desc().iter().take(LONGEST_BUILD_ID_BYTES).map(|b| format!("{b:02x}")).collect(),
                );
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, file_of};
    use super::*;

    #[test]
    fn addresses_and_offsets_are_told_apart_by_the_segment() {
        let file = file_of(&[Load { vaddr: 0x4000, offset_bytes: 0x1000, len_bytes: 0x200 }]);
        let file = file.into();
        let facts = parse(&file).expect("a small file");
        assert_eq!(facts.offset_of(0x4010), Some(0x1010));
        assert_eq!(facts.vaddr_of(0x1010), Some(0x4010));
        assert_eq!((facts.offset_of(0x3fff), facts.offset_of(0x4200)), (None, None));
        assert_eq!((facts.vaddr_of(0xfff), facts.vaddr_of(0x1200)), (None, None));
    }

    #[test]
    fn a_segment_that_claims_all_addresses_does_not_hold_those_before_it() {
        let all = u64::MAX;
        let (vaddr, offset_bytes) = (0xc000_0000_0000_0000, 0x2000_0000_0000_0000);
        let file = file_of(&[Load { vaddr, offset_bytes, len_bytes: all }]);
        let file = file.into();
        let facts = parse(&file).expect("a hostile file");
        assert_eq!(facts.offset_of(0x1000), None);
        assert_eq!(facts.vaddr_of(0x1000), None);
    }

    #[test]
    fn segments_of_the_same_bytes_are_looked_at_once() {
        let load = |vaddr| Load { vaddr, offset_bytes: 0, len_bytes: 4096 };
        let overlapping: Vec<Load> = (0..20).map(|n| load(0x40_0000 + n)).collect();
        let apart: Vec<Load> = (0..20).map(|n| load(0x40_0000 + 0x10_0000 * n)).collect();
        for segments in [overlapping, apart] {
            let mut file = file_of(&segments);
            file.resize(4096, 0);
            let file = file.into();
            let facts = parse(&file).expect("a hostile file");
            let looked_at: usize = facts.code.iter().map(|range| range.bytes.len()).sum();
            assert!((4000..=4096).contains(&looked_at), "{looked_at}");
        }
    }

    #[test]
    fn more_segments_than_the_kernel_loads_are_refused() {
        let load = Load { vaddr: 0, offset_bytes: 0, len_bytes: 1 };
        let file = file_of(&vec![load; MOST_SEGMENTS + 1]).into();
        assert_eq!(parse(&file).unwrap_err(), ElfError::TooMuch);
    }
}

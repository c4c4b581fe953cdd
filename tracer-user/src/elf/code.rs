//! Where a file has instructions.

use object::LittleEndian;
use object::elf;
use object::read::elf::{SectionHeader, SectionTable};

pub(super) type LoadedHeader = elf::FileHeader64<LittleEndian>;
pub(super) type Sections<'d> = SectionTable<'d, LoadedHeader>;

/// A part of the file that is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address as the file counts them.
    pub vaddr: u64,
    /// Where it is in the file.
    pub offset_bytes: u64,
    /// How much of it is in the file.
    pub len_bytes: u64,
    /// Executable.
    pub exec: bool,
}

/// A section with instructions.
#[derive(Clone, Copy, Debug)]
pub struct CodeRange<'d> {
    /// Section name.
    pub name: &'d str,
    /// Address of the first byte.
    pub vaddr: u64,
    /// The instructions.
    pub bytes: &'d [u8],
}

impl CodeRange<'_> {
    /// The addresses it covers.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.vaddr..self.vaddr.saturating_add(self.bytes.len() as u64)
    }

    /// Holds stubs that jump to other files, not functions of its own.
    pub fn is_plt(&self) -> bool {
        self.name.starts_with(".plt") || self.name == ".iplt"
    }
}

/// Executable sections; the executable segments where the section table was stripped.
pub(super) fn code_ranges<'d>(
    endian: LittleEndian,
    bytes: &'d [u8],
    sections: &Sections<'d>,
    segments: &[Segment],
) -> Vec<CodeRange<'d>> {
    let mut code: Vec<CodeRange> = sections
        .iter()
        .filter(|s| s.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0)
        .filter_map(|s| {
            let name = sections.section_name(endian, s).ok().and_then(|n| str::from_utf8(n).ok())?;
            Some(CodeRange { name, vaddr: s.sh_addr(endian), bytes: s.data(endian, bytes).ok()? })
        })
        .filter(|c| c.vaddr.checked_add(c.bytes.len() as u64).is_some())
        .collect();
    if code.is_empty() {
        code = segments
            .iter()
            .filter(|s| s.exec)
            .filter_map(|s| {
                let start = usize::try_from(s.offset_bytes).ok()?;
                let end = start.checked_add(usize::try_from(s.len_bytes).ok()?)?;
                s.vaddr.checked_add(s.len_bytes)?;
                Some(CodeRange { name: "", vaddr: s.vaddr, bytes: bytes.get(start..end)? })
            })
            .collect();
    }
    code.sort_by_key(|c| c.vaddr);
    code
}

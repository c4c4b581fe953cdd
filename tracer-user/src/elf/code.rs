//! Where a file has instructions.

use object::elf;
use object::read::elf::{SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef};

use super::contents::Contents;

pub(super) type LoadedHeader = elf::FileHeader64<LittleEndian>;
pub(super) type Sections<'d> = SectionTable<'d, LoadedHeader, &'d Contents>;

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

/// Executable sections; the executable segments where the section table was stripped. In order of address; no address is
/// in two of them, and all of them together are not more than what is there.
pub(super) fn code_ranges<'d>(
    endian: LittleEndian,
    contents: &'d Contents,
    sections: &Sections<'d>,
    segments: &[Segment],
) -> Vec<CodeRange<'d>> {
    let mut code: Vec<CodeRange> = sections
        .iter()
        .filter(|s| s.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 != 0)
        .filter_map(|s| {
            let name = sections.section_name(endian, s).ok().and_then(|n| str::from_utf8(n).ok())?;
            Some(CodeRange { name, vaddr: s.sh_addr(endian), bytes: s.data(endian, contents).ok()? })
        })
        .filter(|c| c.vaddr.checked_add(c.bytes.len() as u64).is_some())
        .collect();
    if code.is_empty() {
        code = segments
            .iter()
            .filter(|s| s.exec)
            .filter_map(|s| {
                s.vaddr.checked_add(s.len_bytes)?;
                let bytes = contents.read_bytes_at(s.offset_bytes, s.len_bytes).ok()?;
                Some(CodeRange { name: "", vaddr: s.vaddr, bytes })
            })
            .collect();
    }
    code.sort_by_key(|c| c.vaddr);
    apart(code, contents.held_bytes())
}

/// What is left of ranges in order of address when each address is taken once, and no more than `most_bytes`.
fn apart(ranges: Vec<CodeRange<'_>>, most_bytes: u64) -> Vec<CodeRange<'_>> {
    let (mut end, mut left_bytes) = (0_u64, most_bytes);
    let mut rest = |range: CodeRange<'_>| {
        let taken = usize::try_from(end.saturating_sub(range.vaddr)).ok()?;
        let bytes = range.bytes.get(taken..).filter(|bytes| !bytes.is_empty())?;
        left_bytes = left_bytes.checked_sub(bytes.len() as u64)?;
        end = range.range().end;
        Some(taken)
    };
    let mut all = ranges;
    all.retain_mut(|range| match rest(*range) {
        Some(taken) => {
            (range.vaddr, range.bytes) = (range.vaddr + taken as u64, &range.bytes[taken..]);
            true
        }
        None => false,
    });
    all
}

/// The range that holds an address.
pub(super) fn range_at<'c, 'd>(code: &'c [CodeRange<'d>], vaddr: u64) -> Option<&'c CodeRange<'d>> {
    let at = code.partition_point(|range| range.range().end <= vaddr);
    code.get(at).filter(|range| range.range().contains(&vaddr))
}

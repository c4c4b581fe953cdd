//! How long an element of a datatype is, and what it is: of those that MPI has from the beginning.

use rustc_hash::FxHashMap;

use super::handles::Libraries;
use crate::tape::plan::{Datatype, DatatypeGroup, MpiKind};
use crate::tape::wire::FileId;

/// What one element of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Element {
    pub group: DatatypeGroup,
    pub size_bytes: u8,
}

impl Element {
    /// Whether it is the same, in memory at least: a complex number is two others.
    pub fn can_be_read_as(self, other: Self) -> bool {
        let is_half = |part: Self, whole: Self| {
            (part.group, whole.group) == (DatatypeGroup::FloatingPoint, DatatypeGroup::Complex)
                && u16::from(part.size_bytes) * 2 == u16::from(whole.size_bytes)
        };
        self == other || is_half(self, other) || is_half(other, self)
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = match self.group {
            DatatypeGroup::Integer => "integer",
            DatatypeGroup::FloatingPoint => "floating-point number",
            DatatypeGroup::Complex => "complex number",
        };
        write!(f, "{}-byte {group}", self.size_bytes)
    }
}

/// Those of a process.
#[derive(Debug, Default)]
pub(crate) struct Datatypes {
    /// By handle: size in bytes, and group.
    objects: FxHashMap<u64, (u8, Option<DatatypeGroup>)>,
}

/// MPICH: which kind of object a handle stands for, and that it is there from the beginning.
const MPICH_KIND: u64 = 0xff00_0000;
const MPICH_BUILTIN: u64 = 0x4c00_0000;

impl Datatypes {
    /// Of a process that has mapped these files; `code_start`: where a file's first byte would be.
    pub fn new(libraries: &Libraries, code_start: impl Fn(FileId) -> Option<u64>) -> Self {
        let mapped = libraries.datatypes().filter_map(|(file, known)| Some((code_start(file)?, known)));
        let objects = mapped.flat_map(|(start, known)| {
            let what = |known: &Datatype| (known.size_bytes, known.group);
            known.iter().map(move |datatype| (start.wrapping_add(datatype.object), what(datatype)))
        });
        Self { objects: objects.collect() }
    }

    /// Bytes of an element; `None`: a type that the program has made, or one that has gaps.
    pub fn size_bytes(&self, kind: MpiKind, handle: u64) -> Option<u64> {
        match kind {
            MpiKind::OpenMpi => self.objects.get(&handle).map(|(size, _)| u64::from(*size)),
            MpiKind::Mpich if handle & MPICH_KIND == MPICH_BUILTIN => Some(handle >> 8 & 0xff),
            MpiKind::Mpich => None,
        }
        .filter(|size| *size > 0)
    }

    /// What an element is, if both are known.
    pub fn element(&self, kind: MpiKind, handle: u64) -> Option<Element> {
        let size_bytes = u8::try_from(self.size_bytes(kind, handle)?).ok()?;
        Some(Element { group: self.group(kind, handle)?, size_bytes })
    }

    /// The group of an element, if that is known and it is longer than a byte.
    pub fn group(&self, kind: MpiKind, handle: u64) -> Option<DatatypeGroup> {
        match kind {
            MpiKind::OpenMpi => self.objects.get(&handle).and_then(|(_, group)| *group),
            MpiKind::Mpich if handle & MPICH_KIND == MPICH_BUILTIN => mpich_group(handle as u8),
            MpiKind::Mpich => None,
        }
    }
}

/// By the number of a datatype, which is the last byte of its handle: `mpi.h` of MPICH 3 and 4.
fn mpich_group(number: u8) -> Option<DatatypeGroup> {
    Some(match number {
        // MPI_SHORT to MPI_LONG_LONG_INT, MPI_UNSIGNED_LONG_LONG; MPI_INTEGER, MPI_INTEGER2 to 8.
        0x03..=0x09 | 0x19 | 0x1b | 0x2f..=0x31 => DatatypeGroup::Integer,
        // MPI_INT16_T to 64, MPI_UINT16_T to 64; MPI_AINT, MPI_OFFSET, MPI_COUNT.
        0x38..=0x3a | 0x3c..=0x3e | 0x43..=0x45 => DatatypeGroup::Integer,
        // MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE; MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, 8 and 16; MPIX_C_FLOAT16.
        0x0a..=0x0c | 0x1c | 0x1f | 0x27 | 0x29 | 0x2b | 0x46 => DatatypeGroup::FloatingPoint,
        // MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, 16 and 32; those of C++ and of C.
        0x1e | 0x22 | 0x28 | 0x2a | 0x2c | 0x34..=0x36 | 0x40..=0x42 => DatatypeGroup::Complex,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_mpich_say_what_an_element_is() {
        let none = Datatypes::default();
        let group = |handle| none.group(MpiKind::Mpich, handle);
        // MPI_INT, MPI_UNSIGNED_LONG_LONG, MPI_DOUBLE, MPI_REAL, MPI_C_DOUBLE_COMPLEX.
        assert_eq!(group(0x4c00_0405), Some(DatatypeGroup::Integer));
        assert_eq!(group(0x4c00_0819), Some(DatatypeGroup::Integer));
        assert_eq!(group(0xdead_0000_4c00_080b), Some(DatatypeGroup::FloatingPoint));
        assert_eq!(group(0x4c00_041c), Some(DatatypeGroup::FloatingPoint));
        assert_eq!(group(0x4c00_1041), Some(DatatypeGroup::Complex));
        // MPI_CHAR, MPI_BYTE, MPI_LOGICAL, MPI_2INT, MPI_DATATYPE_NULL, one that the program made.
        for handle in [0x4c00_0101, 0x4c00_010d, 0x4c00_041d, 0x4c00_0816, 0x0c00_0000, 0xcc00_0005] {
            assert_eq!(group(handle), None, "{handle:#x}");
        }
    }

    #[test]
    fn handles_of_mpich_say_how_long_an_element_is() {
        let none = Datatypes::default();
        let size = |handle| none.size_bytes(MpiKind::Mpich, handle);
        // MPI_INT, MPI_DOUBLE, MPI_CHAR; what is above a handle in a register does not count.
        assert_eq!(size(0x4c00_0405), Some(4));
        assert_eq!(size(0xdead_0000_4c00_080b), Some(8));
        assert_eq!(size(0x4c00_0101), Some(1));
        // MPI_DATATYPE_NULL, MPI_FLOAT_INT, one that the program made.
        assert_eq!(size(0x0c00_0000), None);
        assert_eq!(size(0x8c00_0000), None);
        assert_eq!(size(0xcc00_0000), None);
        assert_eq!(size(0x4c00_0000), None);
    }
}

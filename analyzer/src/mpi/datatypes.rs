//! How long an element of a datatype is: of those that MPI has from the beginning.

use rustc_hash::FxHashMap;

use super::handles::Libraries;
use crate::tape::plan::MpiKind;
use crate::tape::wire::FileId;

/// Those of a process.
#[derive(Debug, Default)]
pub(crate) struct Datatypes {
    /// By handle.
    objects: FxHashMap<u64, u8>,
}

impl Datatypes {
    /// Of a process that has mapped these files; `code_start`: where a file's first byte would be.
    pub fn new(libraries: &Libraries, code_start: impl Fn(FileId) -> Option<u64>) -> Self {
        let mapped = libraries.datatypes().filter_map(|(file, known)| Some((code_start(file)?, known)));
        let objects = mapped.flat_map(|(start, known)| {
            known.iter().map(move |datatype| (start.wrapping_add(datatype.object), datatype.size_bytes))
        });
        Self { objects: objects.collect() }
    }

    /// Bytes of an element; `None`: a type that the program has made, or one that has gaps.
    pub fn size_bytes(&self, kind: MpiKind, handle: u64) -> Option<u64> {
        /// MPICH: which kind of object it is, that it is there from the beginning, and its size.
        const KIND: u64 = 0xff00_0000;
        const BUILTIN: u64 = 0x4c00_0000;
        match kind {
            MpiKind::OpenMpi => self.objects.get(&handle).map(|size| u64::from(*size)),
            MpiKind::Mpich if handle as u32 as u64 & KIND == BUILTIN => Some(handle >> 8 & 0xff),
            MpiKind::Mpich => None,
        }
        .filter(|size| *size > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

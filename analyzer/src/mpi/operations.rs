//! Reduction operations that MPI has from the beginning.

use rustc_hash::FxHashMap;

use super::handles::Libraries;
use crate::tape::plan::MpiKind;
use crate::tape::wire::FileId;

/// In the order of MPICH's handles.
const NAMES: [&str; 14] = [
    "MPI_MAX",
    "MPI_MIN",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_LAND",
    "MPI_BAND",
    "MPI_LOR",
    "MPI_BOR",
    "MPI_LXOR",
    "MPI_BXOR",
    "MPI_MINLOC",
    "MPI_MAXLOC",
    "MPI_REPLACE",
    "MPI_NO_OP",
];

/// One of them, the same in all processes: its place among the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReductionOp(usize);

impl ReductionOp {
    /// As the standard calls it.
    pub fn name(self) -> &'static str {
        NAMES[self.0]
    }

    /// That of a name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(Self)
    }
}

/// Those of a process.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    /// By handle, where handles are addresses.
    objects: FxHashMap<u64, ReductionOp>,
}

impl Operations {
    /// Of a process that has mapped these files; `code_start`: where a file's first byte would be.
    pub fn new(libraries: &Libraries, code_start: impl Fn(FileId) -> Option<u64>) -> Self {
        let mapped = libraries.operations().filter_map(|(file, known)| Some((code_start(file)?, known)));
        let objects = mapped.flat_map(|(start, known)| {
            let one = move |(object, name): (u64, &str)| {
                Some((start.wrapping_add(object), ReductionOp::named(name)?))
            };
            known.iter().map(|known| (known.object, &known.name[..])).filter_map(one)
        });
        Self { objects: objects.collect() }
    }

    /// What a handle stands for; `None`: it may be one that the program has made.
    pub fn get(&self, kind: MpiKind, handle: u64) -> Option<ReductionOp> {
        /// MPICH: of the first name.
        const MPICH_FIRST: u64 = 0x5800_0001;
        match kind {
            MpiKind::OpenMpi => self.objects.get(&handle).copied(),
            MpiKind::Mpich => {
                let at = usize::try_from((handle & u64::from(u32::MAX)).checked_sub(MPICH_FIRST)?).ok()?;
                (at < NAMES.len()).then_some(ReductionOp(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::plan::{NamedObject, Plan, PlannedFile};

    #[test]
    fn operations_of_open_mpi_are_where_its_objects_are() {
        let file = FileId { dev: 1, inode: 2 };
        let object = |object, name: &str| NamedObject { object, name: name.to_owned() };
        let operations = vec![object(0x40, "MPI_SUM"), object(0x80, "MPI_OF_TOMORROW")];
        let planned = PlannedFile { id: file, operations, ..PlannedFile::default() };
        let mut libraries = Libraries::default();
        libraries.learn(&Plan { files: vec![planned], ..Plan::default() });
        let operations = Operations::new(&libraries, |of| (of == file).then_some(0x7000));
        let name = |handle| operations.get(MpiKind::OpenMpi, handle).map(ReductionOp::name);
        assert_eq!([0x7040, 0x7080, 0x40].map(name), [Some("MPI_SUM"), None, None]);
    }

    #[test]
    fn operations_of_mpich_are_numbered() {
        let name = |handle| Operations::default().get(MpiKind::Mpich, handle).map(ReductionOp::name);
        let handles = [0x5800_0001, 0x5800_000e, 0x5800_000f, 0x5800_0000, 0x9800_0001, 0x7_5800_0003];
        let names = [Some("MPI_MAX"), Some("MPI_NO_OP"), None, None, None, Some("MPI_SUM")];
        assert_eq!(handles.map(name), names, "the upper half of a register is not part of it");
    }
}

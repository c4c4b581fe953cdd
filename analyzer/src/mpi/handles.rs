//! Handles that libraries have from the beginning.

use std::collections::BTreeMap;

use crate::tape::input::MpiFacts;
use crate::tape::plan::MpiKind;
use crate::tape::plan::{Datatype, NamedObject, Plan, PlannedFile};
use crate::tape::wire::FileId;

/// `MPI_COMM_WORLD` of MPICH.
const MPICH_WORLD: u64 = 0x4400_0000;

/// MPI libraries of a session, and programs with copies of their objects.
#[derive(Default)]
pub(crate) struct Libraries {
    /// With whether it is a program's own file.
    files: BTreeMap<FileId, (PlannedFile, bool)>,
}

/// Of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Builtin {
    pub kind: MpiKind,
    comm_world: u64,
    complete_request: Option<u64>,
}

impl Libraries {
    /// Takes what a plan says of its files.
    pub fn learn(&mut self, plan: &Plan) {
        let has_objects = |file: &&PlannedFile| {
            file.mpi.is_some() || !file.datatypes.is_empty() || !file.operations.is_empty()
        };
        let with_mpi = plan.files.iter().filter(has_objects);
        self.files.extend(with_mpi.map(|file| (file.id, (file.clone(), file.own))));
    }

    /// Whether a file is an MPI library.
    pub fn is_library(&self, file: FileId) -> bool {
        self.files.get(&file).is_some_and(|(_, own)| !own)
    }

    /// Datatypes whose addresses are handles, by file.
    pub fn datatypes(&self) -> impl Iterator<Item = (FileId, &[Datatype])> {
        self.files.values().map(|(file, _)| (file.id, &file.datatypes[..]))
    }

    /// Reduction operations whose addresses are handles, by file.
    pub fn operations(&self) -> impl Iterator<Item = (FileId, &[NamedObject])> {
        self.files.values().map(|(file, _)| (file.id, &file.operations[..]))
    }

    /// Handles of a process that has mapped these files; `code_start`: where a file's first byte would be.
    pub fn builtin(&self, code_start: impl Fn(FileId) -> Option<u64>) -> Option<Builtin> {
        let mapped =
            || self.files.values().filter_map(|(file, own)| Some((file.mpi?, *own, code_start(file.id)?)));
        let (objects, _, _) = mapped().find(|(_, own, _)| !own).or_else(|| mapped().next())?;
        if objects.kind == MpiKind::Mpich {
            return Some(Builtin { kind: MpiKind::Mpich, comm_world: MPICH_WORLD, complete_request: None });
        }
        let world = |own: bool| {
            mapped()
                .filter(|m| m.1 == own)
                .find_map(|(objects, _, start)| Some(start.wrapping_add(objects.comm_world?)))
        };
        let complete_request =
            mapped().find_map(|(objects, _, start)| Some(start.wrapping_add(objects.complete_request?)));
        // A program's copy is the one that everybody uses.
        let comm_world = world(true).or_else(|| world(false))?;
        Some(Builtin { kind: MpiKind::OpenMpi, comm_world, complete_request })
    }
}

impl Builtin {
    /// The same, for whoever reads arguments.
    pub fn facts(&self) -> MpiFacts {
        MpiFacts { kind: self.kind, comm_world: Some(self.comm_world) }
    }

    /// Whether a communicator's handle is that of MPI_COMM_WORLD.
    pub fn is_world(&self, handle: u64) -> bool {
        self.comm_world == self.handle(handle)
    }

    /// A handle as it is passed in a register.
    pub fn handle(&self, word: u64) -> u64 {
        match self.kind {
            MpiKind::OpenMpi => word,
            MpiKind::Mpich => word & u64::from(u32::MAX),
        }
    }

    /// Whether a request stands for something that was complete when it began: several may have the same.
    pub fn is_complete_at_once(&self, request: u64) -> bool {
        /// Bits that say how MPICH keeps an object; and: as a variable of its own.
        const KEPT: u64 = 3 << 30;
        const AS_VARIABLE: u64 = 1 << 30;
        match self.kind {
            MpiKind::OpenMpi => self.complete_request == Some(request),
            MpiKind::Mpich => request & KEPT == AS_VARIABLE,
        }
    }

    /// The color of a split by a type, if it is one whose members are known: those that share memory, or nobody.
    pub fn color_of_type(&self, split_type: i32) -> Option<i32> {
        let shared = match self.kind {
            MpiKind::OpenMpi => 0,
            MpiKind::Mpich => 1,
        };
        [shared, UNDEFINED].into_iter().find(|known| *known == split_type)
    }

    /// Whether hints may change who is in a communicator: MPICH divides a node further if they say so.
    pub fn may_divide(&self, info: u64) -> bool {
        const MPICH_NO_INFO: u64 = 0x1c00_0000;
        self.kind == MpiKind::Mpich && self.handle(info) != MPICH_NO_INFO
    }

    /// Whether a communicator's handle is known to be that of none.
    pub fn is_no_communicator(&self, handle: u64) -> bool {
        const MPICH_NONE: u64 = 0x0400_0000;
        self.kind == MpiKind::Mpich && handle == MPICH_NONE
    }

    /// Handles in memory.
    pub fn handles<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
        let size = match self.kind {
            MpiKind::OpenMpi => 8,
            MpiKind::Mpich => 4,
        };
        bytes.chunks_exact(size).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        })
    }

    /// The one at a position.
    pub fn handle_at(&self, bytes: &[u8], at: usize) -> Option<u64> {
        self.handles(bytes).nth(at)
    }

    /// Whether a buffer is MPI_IN_PLACE.
    pub fn is_in_place(&self, buffer: u64) -> bool {
        buffer
            == match self.kind {
                MpiKind::OpenMpi => 1,
                MpiKind::Mpich => u64::MAX,
            }
    }

    /// What MPI_ANY_SOURCE is.
    pub fn any_source(&self) -> i32 {
        match self.kind {
            MpiKind::OpenMpi => -1,
            MpiKind::Mpich => -2,
        }
    }

    /// Whether a lock on a window is MPI_LOCK_SHARED.
    pub fn is_shared_lock(&self, kind: u32) -> bool {
        kind == match self.kind {
            MpiKind::OpenMpi => 2,
            MpiKind::Mpich => 235,
        }
    }

    /// What MPI_PROC_NULL is.
    pub fn proc_null(&self) -> i32 {
        match self.kind {
            MpiKind::OpenMpi => -2,
            MpiKind::Mpich => -1,
        }
    }
}

/// What MPI_UNDEFINED is, in both libraries.
pub(crate) const UNDEFINED: i32 = -32766;
/// What MPI_ANY_TAG is, in both libraries.
pub(crate) const ANY_TAG: i32 = -1;

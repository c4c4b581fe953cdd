//! The MPI library of a process: what its memory tells.

use std::collections::HashMap;
use std::ops::Range;

use analyzer::input::{CommunicatorFacts, Mapping, MpiFacts, MpiKind, PendingRequest};
use analyzer::wire::FileId;

use super::mpich::{self, Mpich};
use super::open_mpi::OpenMpi;
use crate::host::memory::RemoteMemory;

/// A rank, as far as its library's objects are looked for in it.
#[derive(Clone, Copy)]
pub struct RankIdentity<'a> {
    /// In MPI_COMM_WORLD, and that one's size; `None`: its environment does not say.
    pub place: Option<(u32, u32)>,
    /// What it maps, in order of address.
    pub mappings: &'a [Mapping],
    /// What is there.
    pub memory: &'a dyn RemoteMemory,
}

/// A library whose objects are where they are expected.
pub enum Library<'a> {
    /// Open MPI 4.
    OpenMpi(OpenMpi<'a>),
    /// MPICH 4.
    Mpich(Mpich<'a>),
}

impl Library<'_> {
    /// Communicators, but for MPI_COMM_WORLD: at least those that are named by their handles.
    pub fn communicators(&self, named: &[u64]) -> Vec<CommunicatorFacts> {
        match self {
            Self::OpenMpi(library) => {
                named.iter().filter_map(|handle| library.communicator(*handle)).collect()
            }
            Self::Mpich(library) => library.communicators(named),
        }
    }

    /// A window, if it is one.
    pub fn window(&self, handle: u64) -> Option<CommunicatorFacts> {
        match self {
            Self::OpenMpi(library) => library.window(handle),
            Self::Mpich(library) => library.window(handle),
        }
    }

    /// A group, if it is one that is found.
    pub fn group(&self, handle: u64) -> Option<CommunicatorFacts> {
        match self {
            Self::OpenMpi(library) => library.group(handle),
            Self::Mpich(_) => None,
        }
    }
}

/// What is known of a request.
pub fn request(library: Option<&Library<'_>>, handle: u64) -> PendingRequest {
    match library {
        Some(Library::OpenMpi(library)) => library.request(handle),
        Some(Library::Mpich(library)) => library.request(handle),
        None => PendingRequest { handle, ..PendingRequest::default() },
    }
}

/// Where MPI_COMM_WORLD lies in files of MPICH: behind the beginning of their data.
#[derive(Default)]
pub struct Worlds {
    distances: HashMap<FileId, u64>,
}

impl Worlds {
    /// The library of a rank; `file`: where its calls are. `inner`: words that a call and what it calls have.
    pub fn library<'a>(
        &mut self,
        rank: RankIdentity<'a>,
        file: FileId,
        mpi: MpiFacts,
        inner: &'a [u64],
    ) -> Option<Library<'a>> {
        let (number, size) = rank.place?;
        match mpi.kind {
            MpiKind::OpenMpi => {
                OpenMpi::checked(rank.memory, mpi.comm_world?, number, size).map(Library::OpenMpi)
            }
            MpiKind::Mpich => {
                let world = self.world(rank, file, (number, size))?;
                Mpich::checked(rank.memory, world, (number, size), inner).map(Library::Mpich)
            }
        }
    }

    fn world(&mut self, rank: RankIdentity<'_>, file: FileId, (number, size): (u32, u32)) -> Option<u64> {
        let data = data(rank.mappings, file)?;
        if let Some(distance) = self.distances.get(&file) {
            return data.start.checked_add(*distance);
        }
        let found = mpich::find_world(rank.memory, data.clone(), number, size)?;
        self.distances.insert(file, found - data.start);
        Some(found)
    }
}

/// What follows the last mapping of a file's code: its data, and memory that belongs to it.
fn data(mappings: &[Mapping], file: FileId) -> Option<Range<u64>> {
    let last_code = mappings.iter().rposition(|m| m.file == file && m.exec)?;
    let mut end = mappings[last_code].end;
    for mapping in &mappings[last_code + 1..] {
        let belongs = mapping.file == file || mapping.file.inode == 0 && mapping.start == end;
        if !belongs {
            break;
        }
        end = mapping.end;
    }
    Some(mappings[last_code].end..end)
}

//! What looking at stacks needs of one file.

use std::collections::BTreeMap;

use analyzer::input::{Mapping, MpiFacts, MpiKind};
use analyzer::plan::MpiObjects;

use super::registers::Registers;
use super::unwind::{Caller, Tables, UnwindError};
use crate::elf::{self, Held, MAX_ARGUMENTS, Segment};
use crate::host::files::open_mapped;
use crate::host::mappings::code_files;
use crate::host::memory::RemoteMemory;
use crate::mpi_runtime::MPICH_WORLD;
use crate::plan::mpi_entry_points;

/// A program or library that threads run code of.
pub struct Image {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
    tables: Option<Tables>,
    /// Entry points of MPI: name as in the standard, by address.
    entries: BTreeMap<u64, String>,
    objects: Option<MpiObjects>,
}

impl Image {
    /// Reads the file of a mapping; `None`: it cannot be read, or is no program or library.
    pub fn of(pid: u32, mapping: &Mapping) -> Option<Self> {
        let file = code_files(std::slice::from_ref(mapping)).pop()?;
        Self::from_bytes(open_mapped(pid, &file).ok()?.read_image().ok()?)
    }

    /// The same from what is in the file.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let facts = elf::parse(&bytes).ok()?;
        let entries: BTreeMap<u64, String> =
            mpi_entry_points(&facts).into_iter().map(|(vaddr, name)| (vaddr, name.to_owned())).collect();
        let segments = facts.segments.clone();
        let tables = Tables::find(&bytes);
        let objects = elf::mpi_objects(&bytes, &segments, !entries.is_empty());
        Some(Self { segments, tables, entries, objects, bytes })
    }

    /// The address, as the file counts them, of code at an offset.
    pub fn vaddr_of(&self, offset_bytes: u64) -> Option<u64> {
        let within = |s: &&Segment| {
            s.exec && (s.offset_bytes..s.offset_bytes.saturating_add(s.len_bytes)).contains(&offset_bytes)
        };
        let segment = self.segments.iter().find(within)?;
        segment.vaddr.checked_add(offset_bytes - segment.offset_bytes)
    }

    /// The caller of a frame in this file, and the address of the frame's function in the file.
    pub fn caller(
        &self,
        bias: u64,
        frame: &Registers,
        called: bool,
        memory: &dyn RemoteMemory,
    ) -> Result<(Caller, u64), UnwindError> {
        self.tables.ok_or(UnwindError::NoTable)?.caller(&self.bytes, bias, frame, called, memory)
    }

    /// The MPI call that the function at an address is.
    pub fn mpi_entry(&self, vaddr: u64) -> Option<&str> {
        self.entries.get(&vaddr).map(String::as_str)
    }

    /// The MPI call that the instruction before a place calls.
    pub fn called_before(&self, vaddr: u64) -> Option<String> {
        let facts = elf::parse(&self.bytes).ok()?;
        let name = elf::called_before(&facts, vaddr)?;
        let name = name.strip_prefix('P').unwrap_or(name);
        name.starts_with("MPI_").then(|| name.to_owned())
    }

    /// Where a function of this file keeps its arguments at a place.
    pub fn held_arguments(&self, entry: u64, at: u64) -> Option<[Held; MAX_ARGUMENTS]> {
        elf::held_arguments(&elf::parse(&self.bytes).ok()?, entry, at)
    }

    /// What it says about the MPI library; `code_start`: where its first byte would be if all of it were mapped as its code is.
    pub fn mpi_facts(&self, code_start: u64) -> Option<MpiFacts> {
        let objects = self.objects?;
        let comm_world = match objects.kind {
            MpiKind::Mpich => Some(MPICH_WORLD),
            MpiKind::OpenMpi => objects.comm_world.map(|distance| code_start.wrapping_add(distance)),
        };
        Some(MpiFacts { kind: objects.kind, comm_world })
    }
}

//! What looking at stacks needs of one file.

use std::collections::BTreeMap;
use std::fs::File;

use analyzer::input::{MpiFacts, MpiKind};
use analyzer::plan::MpiObjects;

use super::registers::Registers;
use super::unwind::{Caller, Tables, UnwindError};
use crate::elf::{self, Contents, Held, MAX_ARGUMENTS, PassedArgument, REGISTER_ARGUMENTS, Segment};
use crate::host::files::StampedFile;
use crate::host::memory::RemoteMemory;
use crate::mpi_runtime::MPICH_WORLD;
use crate::plan::mpi_entry_points;

/// A program or library that threads run code of.
pub struct Image {
    /// Held open, so that its number does not become another file's; none: it is no file.
    file: Option<StampedFile>,
    contents: Contents,
    segments: Vec<Segment>,
    tables: Option<Tables>,
    /// Entry points of MPI: name as in the standard, by address.
    entries: BTreeMap<u64, String>,
    objects: Option<MpiObjects>,
}

impl Image {
    /// Reads an open file; `None`: it cannot be read, or is no program or library.
    pub fn of(file: File) -> Option<Self> {
        let file = StampedFile::of(file).ok()?;
        let image = Self::from_contents(file.read_image().ok()?)?;
        Some(Self { file: Some(file), ..image })
    }

    /// What is kept of it in memory.
    pub fn held_bytes(&self) -> u64 {
        self.contents.held_bytes()
    }

    /// Whether the file may be another one than what was read.
    pub fn may_have_changed(&self) -> bool {
        self.file.as_ref().is_some_and(StampedFile::may_have_changed)
    }

    /// The same from what is in the file.
    pub fn from_contents(contents: Contents) -> Option<Self> {
        let facts = elf::parse(&contents).ok()?;
        let entries: BTreeMap<u64, String> =
            mpi_entry_points(&facts).into_iter().map(|(vaddr, name)| (vaddr, name.to_owned())).collect();
        let segments = facts.segments.clone();
        let tables = Tables::find(&contents);
        let objects = elf::mpi_objects(&facts, !entries.is_empty());
        Some(Self { file: None, segments, tables, entries, objects, contents })
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
        self.tables.ok_or(UnwindError::NoTable)?.caller(&self.contents, bias, frame, called, memory)
    }

    /// The MPI call that the function at an address is.
    pub fn mpi_entry(&self, vaddr: u64) -> Option<&str> {
        self.entries.get(&vaddr).map(String::as_str)
    }

    /// The MPI call that the instruction before a place calls.
    pub fn called_before(&self, vaddr: u64) -> Option<String> {
        let facts = elf::parse(&self.contents).ok()?;
        mpi_call_before(&facts, vaddr).map(str::to_owned)
    }

    /// What the call that returns to a place was given, if it is a call of this MPI function.
    pub fn passed_arguments(
        &self,
        function: &str,
        return_vaddr: u64,
    ) -> Option<[Option<PassedArgument>; REGISTER_ARGUMENTS]> {
        let facts = elf::parse(&self.contents).ok()?;
        (mpi_call_before(&facts, return_vaddr)? == function).then_some(())?;
        elf::passed_arguments(&facts, return_vaddr)
    }

    /// Where a function of this file keeps its arguments at a place.
    pub fn held_arguments(&self, entry: u64, at: u64) -> Option<[Held; MAX_ARGUMENTS]> {
        elf::held_arguments(&elf::parse(&self.contents).ok()?, entry, at)
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

/// The MPI call that the instruction before a place calls.
fn mpi_call_before<'d>(facts: &elf::ElfFacts<'d>, vaddr: u64) -> Option<&'d str> {
    let name = elf::called_before(facts, vaddr)?;
    let name = name.strip_prefix('P').unwrap_or(name);
    name.starts_with("MPI_").then_some(name)
}

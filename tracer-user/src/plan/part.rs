//! What each planner is given and gives.

use analyzer::plan::{Datatype, LeftOut, MpiObjects, NamedObject, Probe, ProbeClass, ProbePlace};

use super::facts::FileImage;
use super::role::FileRole;
use crate::elf::{self, ElfFacts};

/// A file with what is known of it.
pub(crate) struct File<'a> {
    pub image: &'a FileImage,
    pub elf: ElfFacts<'a>,
    pub role: FileRole,
}

impl File<'_> {
    pub fn probe(
        &self,
        class: ProbeClass,
        function: &str,
        site: u64,
        at: u64,
        place: ProbePlace,
    ) -> Option<Probe> {
        Some(Probe {
            id: 0,
            file: self.image.id,
            offset_bytes: self.elf.offset_of(at)?,
            site_offset_bytes: self.elf.offset_of(site)?,
            class,
            function: function.to_owned(),
            place,
            stack_bytes: 0,
            argument: 0,
            results: None,
            reason: String::new(),
        })
    }

    /// Programs may have copies of the library's objects.
    pub fn mpi_objects(&self) -> Option<MpiObjects> {
        let is_mpi = self.role.is_mpi();
        (is_mpi || self.role.is_own()).then(|| elf::mpi_objects(&self.elf, is_mpi)).flatten()
    }

    pub fn datatypes(&self) -> Vec<Datatype> {
        if self.may_have_objects() { elf::datatypes(&self.elf) } else { Vec::new() }
    }

    pub fn operations(&self) -> Vec<NamedObject> {
        if self.may_have_objects() { elf::operations(&self.elf) } else { Vec::new() }
    }

    fn may_have_objects(&self) -> bool {
        self.role.is_mpi() || self.role.is_own()
    }

    pub fn left_out(&self, at: Option<u64>, what: impl Into<String>, reason: impl Into<String>) -> LeftOut {
        LeftOut {
            file: self.image.id,
            offset_bytes: at.and_then(|vaddr| self.elf.offset_of(vaddr)),
            what: what.into(),
            reason: reason.into(),
        }
    }
}

/// Probes without numbers, and what is left out.
#[derive(Default)]
pub(crate) struct PlanPart {
    pub probes: Vec<Probe>,
    pub left_out: Vec<LeftOut>,
}

impl PlanPart {
    pub fn append(&mut self, mut other: Self) {
        self.probes.append(&mut other.probes);
        self.left_out.append(&mut other.left_out);
    }
}

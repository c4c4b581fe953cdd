//! Probes at the functions that give out and take back heap blocks.

use std::collections::BTreeSet;

use analyzer::plan::{FREE_WITH_HEADER, Probe, ProbeClass};

use super::part::{File, PlanPart};
use super::role::FileRole;
use super::role::file_name;
use super::tables::{ALLOCATORS, Allocator};
use crate::elf::{NoPlace, Wanted, entry_place};

pub(super) fn plan(files: &[File<'_>]) -> PlanPart {
    let mut part = PlanPart::default();
    let providers: Vec<&File<'_>> = files.iter().filter(|f| provides(f)).collect();
    // Whoever else defines malloc stands in front of the C library's.
    let chosen = providers.iter().find(|f| !is_c_library(f)).or(providers.first()).copied();
    for file in providers {
        if Some(file.image.id) == chosen.map(|c| c.image.id) {
            plan_file(file, &mut part);
        } else {
            part.left_out.push(file.left_out(
                None,
                "malloc and its like",
                "another file of the job defines them in its place",
            ));
        }
    }
    part
}

fn provides(file: &File<'_>) -> bool {
    let visible = |name| {
        file.elf.function(name).is_some_and(|f| {
            f.exported || matches!(file.role, FileRole::Mpi { program: true } | FileRole::Program)
        })
    };
    visible("malloc") && visible("free") && !file_name(&file.image.path).starts_with("ld-")
}

fn is_c_library(file: &File<'_>) -> bool {
    let name = file_name(&file.image.path);
    name.starts_with("libc.so") || name.starts_with("libc-")
}

fn plan_file(file: &File<'_>, part: &mut PlanPart) {
    let mut seen = BTreeSet::new();
    for allocator in &ALLOCATORS {
        let Some(function) = file.elf.function(allocator.name).filter(|f| !f.ifunc) else { continue };
        if !seen.insert(function.vaddr) {
            continue;
        }
        match at_entry(file, allocator, function.vaddr) {
            Ok(probe) => part.probes.push(probe),
            Err(error) => {
                let reason = error.to_string();
                part.left_out.push(file.left_out(Some(function.vaddr), allocator.name, reason));
            }
        }
    }
}

fn at_entry(file: &File<'_>, allocator: &Allocator, vaddr: u64) -> Result<Probe, NoPlace> {
    let (class, reason) = if allocator.gives {
        (ProbeClass::Alloc, "first emulated instruction with the return address on top of the stack")
    } else {
        (ProbeClass::Free, "first emulated instruction, argument intact")
    };
    let body = file.elf.body(vaddr).ok_or(NoPlace::NoCode)?;
    let found =
        entry_place(body, vaddr, Wanted { arguments: allocator.arguments, returns: allocator.gives })?;
    let probe = file.probe(class, allocator.name, vaddr, found.vaddr, found.place);
    let mut probe = probe.ok_or(NoPlace::NoCode)?;
    probe.stack_bytes = found.stack_bytes;
    probe.reason = reason.into();
    probe.argument = if !allocator.gives && is_c_library(file) { FREE_WITH_HEADER } else { 0 };
    Ok(probe)
}

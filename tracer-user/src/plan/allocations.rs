//! Probes at the functions that give out and take back heap blocks.

use std::collections::BTreeSet;

use analyzer::plan::ProbeClass;

use super::role::file_name;
use super::tables::ALLOCATORS;
use super::{File, Part, Role};
use crate::elf::{Wanted, entry_place};

pub(super) fn plan(files: &[File<'_>]) -> Part {
    let mut part = Part::default();
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
        file.elf
            .function(name)
            .is_some_and(|f| f.exported || matches!(file.role, Role::Mpi { program: true } | Role::Program))
    };
    visible("malloc") && visible("free") && !file_name(&file.image.path).starts_with("ld-")
}

fn is_c_library(file: &File<'_>) -> bool {
    let name = file_name(&file.image.path);
    name.starts_with("libc.so") || name.starts_with("libc-")
}

fn plan_file(file: &File<'_>, part: &mut Part) {
    let mut seen = BTreeSet::new();
    for (name, arguments, returns) in ALLOCATORS {
        let Some(function) = file.elf.function(name).filter(|f| !f.ifunc) else { continue };
        if !seen.insert(function.vaddr) {
            continue;
        }
        let class = if returns { ProbeClass::Alloc } else { ProbeClass::Free };
        let body = file.elf.body(function.vaddr).unwrap_or_default();
        match entry_place(body, function.vaddr, Wanted { arguments, returns }) {
            Ok(found) => {
                let Some(mut probe) = file.probe(class, name, function.vaddr, found.vaddr, found.place)
                else {
                    continue;
                };
                probe.stack_bytes = found.stack_bytes;
                probe.argument = u64::from(!returns && is_c_library(file));
                probe.reason = if returns {
                    "first emulated instruction with the return address on top of the stack".into()
                } else {
                    "first emulated instruction, argument intact".into()
                };
                part.probes.push(probe);
            }
            Err(error) => part.left_out.push(file.left_out(Some(function.vaddr), name, error.to_string())),
        }
    }
}

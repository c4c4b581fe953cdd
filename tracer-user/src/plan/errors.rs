//! Probes at the functions that MPI calls report their errors through: never hit in a program without errors.

use analyzer::plan::{LeftOut, Probe, ProbeClass, ProbePlace};

use super::part::{File, PlanPart};
use super::tables::{ERROR_FUNCTIONS, ErrorFunction};
use crate::elf::{NoPlace, emulated, instruction_len};

pub(super) fn plan(file: &File<'_>) -> PlanPart {
    let mut part = PlanPart::default();
    if !file.role.is_mpi() {
        return part;
    }
    for function in &ERROR_FUNCTIONS {
        let Some(known) = file.elf.function(function.name) else { continue };
        match probe(file, function, known.vaddr) {
            Ok(probe) => part.probes.push(probe),
            Err(left_out) => part.left_out.push(left_out),
        }
    }
    part
}

/// At the first instruction whatever it costs: all arguments are there, and the return can be hooked.
fn probe(file: &File<'_>, function: &ErrorFunction, vaddr: u64) -> Result<Probe, LeftOut> {
    let none = || file.left_out(Some(vaddr), function.name, NoPlace::NoCode.to_string());
    let place = file.elf.body(vaddr).and_then(place_of_first).ok_or_else(none)?;
    let mut probe = file.probe(ProbeClass::Error, function.name, vaddr, vaddr, place).ok_or_else(none)?;
    probe.argument = function.form;
    probe.reason = "entry and return of what failing calls go through: not hit unless one fails".into();
    Ok(probe)
}

/// How the kernel runs the first instruction under a probe, if it does.
fn place_of_first(code: &[u8]) -> Option<ProbePlace> {
    emulated(code.get(..instruction_len(code)?)?)
}

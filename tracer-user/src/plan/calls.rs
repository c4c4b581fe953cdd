//! Probes at MPI's entry points.

use std::collections::BTreeMap;

use analyzer::calls::{self, CallRow, Form};
use analyzer::input::MpiKind;
use analyzer::plan::{LeftOut, Probe, ProbeClass, Results};
use serde::{Deserialize, Serialize};

use super::facts::PlanOptions;
use super::part::{File, PlanPart};
use super::results::Returns;
use super::results::{REGISTERS, results};
use super::tables::{CallClass, class_of};
use crate::elf::{ElfFacts, EntryPlace, NoPlace, Wanted, entry_place};

/// Entry points of an MPI library: name as in the standard, and address. Each address once.
pub fn mpi_entry_points<'f>(elf: &'f ElfFacts<'_>) -> BTreeMap<u64, &'f str> {
    let mut entries = BTreeMap::new();
    for function in elf.functions.iter() {
        let Some(name) = standard_name(function.name) else { continue };
        entries.entry(function.vaddr).or_insert(name);
        // Libraries built without aliases have every call twice.
        if let Some(plain) = elf.function(name) {
            entries.entry(plain.vaddr).or_insert(name);
        }
    }
    entries
}

/// The standard's name of a call, by that of its profiling interface. Libraries have some calls as extensions before they
/// take the version of the standard that has them: persistent collective calls in Open MPI 4.
fn standard_name(function: &str) -> Option<&str> {
    if function.starts_with("PMPI_") {
        return Some(&function[1..]);
    }
    let extension = function.strip_prefix("PMPIX_")?;
    let row = calls::row(&format!("MPI_{extension}")).filter(|row| row.form == Form::Persistent)?;
    Some(&row.name)
}

pub(super) fn plan(file: &File<'_>, options: &PlanOptions) -> PlanPart {
    let mut part = PlanPart::default();
    if !file.role.is_mpi() {
        return part;
    }
    let mut local = 0;
    for (vaddr, name) in mpi_entry_points(&file.elf) {
        match class_of(name) {
            CallClass::Polling if options.returns != Returns::All || calls::row(name).is_none() => {}
            class if !class.is_default() && !options.local_calls => local += 1,
            _ => match probe(file, name, vaddr, options.returns) {
                Ok(probe) => part.probes.push(probe),
                Err(left_out) => part.left_out.push(left_out),
            },
        }
    }
    if local > 0 {
        part.left_out.push(file.left_out(
            None,
            format!("{local} MPI calls that move nothing"),
            "they only read or set what the process itself knows",
        ));
    }
    part
}

fn probe(file: &File<'_>, name: &str, vaddr: u64, returns: Returns) -> Result<Probe, LeftOut> {
    match returns {
        // They are rare, and much depends on them: what is called after the end is an error, and which communicator a
        // collective call is on is known from the calls that made it.
        Returns::None if calls::row(name).is_some_and(CallRow::always_returns) => {
            with_results(file, name, vaddr).map_or_else(|| at_entry(file, name, vaddr), Ok)
        }
        Returns::All => with_results(file, name, vaddr).map_or_else(|| at_entry(file, name, vaddr), Ok),
        Returns::None => at_entry(file, name, vaddr),
    }
}

/// The probe at the entry and the return of a call, if it has a place for that.
fn with_results(file: &File<'_>, name: &str, vaddr: u64) -> Option<Probe> {
    let results = match calls::row(name) {
        Some(row) => results(row, mpi_kind(&file.elf)?),
        // It has none; but then no call is ever taken to be still going on when it is over.
        None => Results::default(),
    };
    let body = file.elf.body(vaddr)?;
    let found = entry_place(body, vaddr, Wanted { arguments: 6, returns: true }).ok()?;
    let mut probe = file.probe(ProbeClass::CallResults, name, vaddr, found.vaddr, found.place)?;
    probe.results = Some(results);
    probe.reason = "entry and return: first instruction that the kernel emulates, arguments intact".into();
    Some(probe)
}

/// Libraries that are built alike have handles and statuses of the same size.
fn mpi_kind(elf: &ElfFacts<'_>) -> Option<MpiKind> {
    let has = |name| elf.function(name).is_some();
    match (has("ompi_mpi_init"), has("MPIX_Comm_agree")) {
        (true, _) => Some(MpiKind::OpenMpi),
        (_, true) => Some(MpiKind::Mpich),
        _ => None,
    }
}

/// What the kernel part is told to record of a call, besides its arguments in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedOfCall {
    /// The argument (from 0) that points to where a handle is stored, and whether that is half a word.
    pub made: Option<(u8, bool)>,
    /// So many arguments on the stack.
    pub stack_arguments: u8,
}

impl WantedOfCall {
    /// As `MADE_*` and `STACK_SHIFT` in `calls.h` have it.
    const MADE: u64 = 31;
    const HALF: u64 = 32;
    const STACK_SHIFT: u32 = 6;

    fn told(self) -> u64 {
        let made =
            self.made.map_or(0, |(at, is_half)| (u64::from(at) + 1) | if is_half { Self::HALF } else { 0 });
        made | u64::from(self.stack_arguments) << Self::STACK_SHIFT
    }

    /// The same, backwards.
    pub fn of(told: u64) -> Self {
        let made = (told & Self::MADE).checked_sub(1).map(|at| (at as u8, told & Self::HALF != 0));
        Self { made, stack_arguments: (told >> Self::STACK_SHIFT) as u8 }
    }
}

/// The probe at the entry of one call.
fn at_entry(file: &File<'_>, name: &str, vaddr: u64) -> Result<Probe, LeftOut> {
    let none = |error: NoPlace| file.left_out(Some(vaddr), name, error.to_string());
    let (found, lost) = cheapest(file, vaddr).map_err(none)?;
    let mut probe = file
        .probe(ProbeClass::Call, name, vaddr, found.vaddr, found.place)
        .ok_or_else(|| none(NoPlace::NoCode))?;
    probe.stack_bytes = found.stack_bytes;
    let row = calls::row(name);
    let made = row.and_then(|row| made(row, mpi_kind(&file.elf)?, lost));
    probe.argument = WantedOfCall { made, stack_arguments: row.map_or(0, stack_arguments) }.told();
    probe.reason = "first instruction that the kernel emulates, arguments intact".into();
    if lost > 0 {
        probe.reason = format!(
            "first instruction that the kernel emulates; argument registers from number {} on are overwritten there",
            7 - lost
        );
    }
    Ok(probe)
}

/// Where a call stores a handle, and whether that is half a word. `lost`: registers of arguments, from the last on, that do not
/// hold them.
fn made(row: &CallRow, kind: MpiKind, lost: usize) -> Option<(u8, bool)> {
    let at = row.made().filter(|at| !(REGISTERS - lost..REGISTERS).contains(at))?;
    Some((u8::try_from(at).ok()?, kind == MpiKind::Mpich))
}

/// How many arguments on the stack are recorded: those of collective calls, whose communicator is mostly there.
fn stack_arguments(row: &CallRow) -> u8 {
    const MOST: usize = 5;
    let wanted = if row.is_collective() { row.arguments_used().saturating_sub(REGISTERS) } else { 0 };
    if wanted > MOST { 0 } else { wanted as u8 }
}

/// A cheap place with as many of the six argument registers intact as possible, and how many
/// are not. Calls rarely have six; the first ones (buffer, count, type, peer) count most.
fn cheapest(file: &File<'_>, vaddr: u64) -> Result<(EntryPlace, usize), NoPlace> {
    let body = file.elf.body(vaddr).ok_or(NoPlace::NoCode)?;
    let mut result = Err(NoPlace::NoCode);
    for lost in 0..=3 {
        result = entry_place(body, vaddr, Wanted { arguments: 6 - lost, returns: false }).map(|p| (p, lost));
        if !matches!(result, Err(NoPlace::Overwritten)) {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_that_are_calls_of_the_standard_have_its_names() {
        assert_eq!(standard_name("PMPI_Comm_size"), Some("MPI_Comm_size"));
        assert_eq!(standard_name("PMPIX_Allreduce_init"), Some("MPI_Allreduce_init"));
        assert_eq!(standard_name("PMPIX_Query_cuda_support"), None);
        assert_eq!(standard_name("PMPIX_Comm_agree"), None);
        assert_eq!(standard_name("MPI_Send"), None);
    }

    #[test]
    fn what_the_kernel_part_is_told_is_understood_backwards() {
        for made in [None, Some((0, false)), Some((6, true)), Some((12, false))] {
            for stack_arguments in [0, 3, 5] {
                let wanted = WantedOfCall { made, stack_arguments };
                assert_eq!(WantedOfCall::of(wanted.told()), wanted);
            }
        }
    }

    #[test]
    fn of_collective_calls_arguments_on_the_stack_are_recorded() {
        let of = |name| calls::row(name).map(stack_arguments);
        assert_eq!(of("MPI_Reduce"), Some(1));
        assert_eq!(of("MPI_Allgather"), Some(1));
        assert_eq!(of("MPI_Gatherv"), Some(3));
        assert_eq!(of("MPI_Ialltoallw"), Some(3));
        assert_eq!(of("MPI_Allreduce"), Some(0));
        assert_eq!(of("MPI_Sendrecv"), Some(0));
        assert!(calls::rows().filter(|row| row.is_collective()).all(|row| {
            row.arguments_used() <= REGISTERS || row.always_returns() || stack_arguments(row) > 0
        }));
    }
}

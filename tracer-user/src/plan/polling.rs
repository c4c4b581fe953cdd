//! Probes where polling calls know that their answer is yes.

use analyzer::plan::{Probe, ProbeClass};
use globset::Glob;

use super::calls::mpi_entry_points;
use super::facts::PlanOptions;
use super::part::{File, PlanPart};
use super::results::Returns;
use super::tables::{POLLING_CALLS, PollingCall};
use crate::elf::{self, ElfFacts, PollingAnswer, SuccessPlaces, Wanted, entry_place, success_places};

pub(super) fn plan(files: &[File<'_>], options: &PlanOptions) -> PlanPart {
    let mut part = PlanPart::default();
    // Else their returns are seen, with all that they answer.
    if options.returns == Returns::All {
        return part;
    }
    for mpi in files.iter().filter(|f| f.role.is_mpi()) {
        let entries = mpi_entry_points(&mpi.elf);
        for call in &POLLING_CALLS {
            for (vaddr, _) in entries.iter().filter(|(_, name)| **name == call.name) {
                plan_call(files, mpi, call, *vaddr, &mut part);
            }
        }
    }
    part
}

fn plan_call(files: &[File<'_>], mpi: &File<'_>, call: &PollingCall, entry: u64, part: &mut PlanPart) {
    match at_success(files, mpi, call, entry) {
        Ok(probes) => part.probes.extend(probes),
        Err(reason) => at_return(mpi, call, entry, &reason, part),
    }
}

/// Probes that are passed only when the answer is yes.
fn at_success(
    files: &[File<'_>],
    mpi: &File<'_>,
    call: &PollingCall,
    entry: u64,
) -> Result<Vec<Probe>, String> {
    let mut workers = behind(files, call);
    if workers.is_empty() {
        workers.push((mpi, mpi.elf.function(call.name).map_or(call.name, |f| f.name), entry, call.answer));
    }
    let mut probes = Vec::new();
    for (file, name, vaddr, argument) in workers {
        let found = match success_places(&file.elf, vaddr, argument) {
            PollingAnswer::Places(found) => found,
            PollingAnswer::NeverStores => return Err(format!("{name} does not store the answer itself")),
            PollingAnswer::Unclear(reason) => return Err(format!("{name}: {reason}")),
        };
        if let Some(shared) = shared(&file.elf, vaddr, &found.through) {
            return Err(format!(
                "{name}: the answer is stored in a function at {shared:#x} that others call too"
            ));
        }
        let reason = reason(name, &found);
        for (at, place) in found.places {
            let mut probe = file
                .probe(ProbeClass::PollSuccess, call.name, vaddr, at, place)
                .ok_or_else(|| format!("{name}: its code is not in the file"))?;
            probe.reason.clone_from(&reason);
            probes.push(probe);
        }
    }
    Ok(probes)
}

fn reason(name: &str, found: &SuccessPlaces) -> String {
    let mut reason = format!("{name} comes here only after it stored yes");
    if found.places.len() > 1 {
        reason.push_str(&format!(" (one of {} such places)", found.places.len()));
    }
    for at in &found.unseen {
        reason.push_str(&format!("; a yes to an empty question, stored at {at:#x}, is not seen"));
    }
    reason
}

/// The first function of `through` that is called from elsewhere than the polling function and
/// the others of `through`.
fn shared(elf: &ElfFacts<'_>, polling: u64, through: &[u64]) -> Option<u64> {
    let callers = elf::callers(elf, through);
    let known = |caller: &u64| *caller == polling || through.contains(caller);
    callers.into_iter().find(|(_, from)| !from.iter().all(known)).map(|(function, _)| function)
}

/// Functions of the job's communication libraries that do the work of a polling call.
fn behind<'f>(files: &'f [File<'_>], call: &PollingCall) -> Vec<(&'f File<'f>, &'f str, u64, usize)> {
    let mut found = Vec::new();
    for (pattern, argument) in call.behind {
        let Ok(glob) = Glob::new(pattern) else { continue };
        let glob = glob.compile_matcher();
        for file in files.iter().filter(|f| f.role.copies_are_watched()) {
            let matching = file.elf.functions.iter().filter(|f| f.exported && glob.is_match(f.name));
            found.extend(matching.map(|f| (file, f.name, f.vaddr, *argument)));
        }
    }
    found
}

/// The question itself is probed, entry and return; the kernel part reads the answer.
fn at_return(mpi: &File<'_>, call: &PollingCall, entry: u64, why: &str, part: &mut PlanPart) {
    let body = mpi.elf.body(entry).unwrap_or_default();
    let probe = entry_place(body, entry, Wanted { arguments: call.answer + 1, returns: true })
        .map_err(|e| e.to_string())
        .and_then(|found| {
            mpi.probe(ProbeClass::PollReturn, call.name, entry, found.vaddr, found.place)
                .ok_or("its code is not in the file".to_owned())
        });
    match probe {
        Ok(mut probe) => {
            probe.argument = call.answer as u64;
            probe.reason = format!("no place that only a yes reaches: {why}");
            part.probes.push(probe);
        }
        Err(error) => part.left_out.push(mpi.left_out(Some(entry), call.name, format!("{error}; and {why}"))),
    }
}

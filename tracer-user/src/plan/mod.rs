//! Which places of which files are probed, and why: pure, from facts.
//!
//! The plan itself is [`analyzer::plan::Plan`]. Nothing here reads files or processes; the
//! same facts always give the same plan.

mod allocations;
pub mod attach;
mod calls;
pub mod code;
mod copies;
mod earlier;
mod engine;
pub mod engines;
mod errors;
mod facts;
mod heap;
mod packs;
mod part;
mod polling;
mod results;
mod role;
pub mod slots;
pub mod table_slot;
pub mod tables;
mod verbs;

use std::sync::atomic::{AtomicUsize, Ordering};

use analyzer::plan::{LeftOut, Plan, PlannedFile};
use analyzer::wire::FileId;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::elf::{self, CopyScan};
pub use calls::{WantedOfCall, mpi_entry_points};
pub use earlier::EarlierPlans;
pub use engine::Engine;
pub use facts::{BoundCopy, FileImage, PlanFacts, PlanOptions, VerbsFunction, VerbsTable};
use part::{File, PlanPart};
pub use results::Returns;
pub use role::FileRole;
pub(crate) use role::{compiled, defines_mpi, file_name, is_communication_library};
pub use table_slot::FileSlots;

/// Why there is no plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// A library pattern of the user's.
    #[error("not a pattern for library names: {0}")]
    BadPattern(String),
}

/// Decides what is probed. Probes get numbers from `first_id` on, in order of file and offset.
/// Facts of a single library that was loaded later give its part alone.
///
/// # Errors
/// A pattern of the user's that cannot be read.
pub fn plan(facts: &PlanFacts, options: &PlanOptions, first_id: u32) -> Result<Plan, PlanError> {
    plan_with_slots(facts, options, &EarlierPlans::up_to(first_id)).map(|(plan, _)| plan)
}

/// The same, with the slots through which calls can be recorded without the kernel, if they are wanted.
///
/// # Errors
/// See [`plan`].
pub fn plan_with_slots(
    facts: &PlanFacts,
    options: &PlanOptions,
    earlier: &EarlierPlans,
) -> Result<(Plan, Vec<FileSlots>), PlanError> {
    let named = globs(&options.libraries)?;
    let parsed = in_parallel(&facts.files, |image| elf::parse(&image.contents));
    let mut total = PlanPart::default();
    let mut files = Vec::new();
    for (image, elf) in facts.files.iter().zip(parsed) {
        match elf {
            Ok(elf) => {
                let role = role::role_of(image, &elf, &named);
                files.push(File { image, elf, role });
            }
            Err(error) => total.left_out.push(LeftOut {
                file: image.id,
                offset_bytes: None,
                what: image.path.clone(),
                reason: error.to_string(),
            }),
        }
    }
    total.left_out.extend(facts.unreadable.iter().map(|(path, reason)| LeftOut {
        file: FileId::default(),
        offset_bytes: None,
        what: path.clone(),
        reason: reason.clone(),
    }));
    for part in in_parallel(&files, |file| calls::plan(file, options)) {
        total.append(part);
    }
    files.iter().for_each(|file| total.append(errors::plan(file)));
    if options.copies {
        total.append(verbs::plan(&files, &facts.verbs));
    }
    let packs = packs::plan(&files);
    let scan = |file: &File<'_>| {
        // Slots of calls are looked for in the same files.
        let scan = || if options.copies { elf::scan_copies(&file.elf) } else { CopyScan::default() };
        file.role.copies_are_watched().then(scan)
    };
    // One large library takes longest to scan: the polling calls are analysed beside it.
    let (polls, scans) = std::thread::scope(|scope| {
        let polls = scope.spawn(|| polling::plan(&files, options));
        let scans = in_parallel(&files, scan);
        (joined(polls), scans)
    });
    total.append(polls);
    if options.copies {
        total.append(copies::plan(&files, &scans, &packs, facts.bound_copy));
        total.append(packs.part);
    }
    if options.allocations {
        total.append(allocations::plan(&files));
    }
    let mut plan = numbered(total, &files, earlier.next_id());
    if options.engine != Engine::Fast {
        return Ok((plan, Vec::new()));
    }
    let mut slots = slots::find(&files, &scans, &plan, &earlier.calls);
    if !slots.is_empty() {
        let next_id = earlier.next_id() + plan.probes.len() as u32;
        let has_named = !options.libraries.is_empty();
        heap::find(&files, &mut plan, next_id, &earlier.heap, has_named, &mut slots);
    }
    Ok((plan, slots))
}

/// One plan of all parts: in order, each place of a class once.
fn numbered(part: PlanPart, files: &[File<'_>], first_id: u32) -> Plan {
    let PlanPart { mut probes, mut left_out } = part;
    let order = |id: &FileId| files.iter().position(|f| f.image.id == *id).unwrap_or(usize::MAX);
    probes.sort_by_cached_key(|p| (order(&p.file), p.offset_bytes, p.class, p.function.clone()));
    probes.dedup_by_key(|p| (p.file, p.offset_bytes, p.class));
    left_out.sort_by_cached_key(|l| (order(&l.file), l.offset_bytes, l.what.clone()));
    for (id, probe) in (first_id..).zip(&mut probes) {
        probe.id = id;
    }
    let files = files
        .iter()
        .map(|f| PlannedFile {
            id: f.image.id,
            path: f.image.path.clone(),
            build_id: f.elf.build_id.clone(),
            role: f.role.to_string(),
            own: f.role.is_own(),
            mpi: f.mpi_objects(),
            datatypes: f.datatypes(),
            operations: f.operations(),
        })
        .collect();
    Plan { files, probes, left_out }
}

fn globs(patterns: &[String]) -> Result<GlobSet, PlanError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|e| PlanError::BadPattern(e.to_string()))?);
    }
    set.build().map_err(|e| PlanError::BadPattern(e.to_string()))
}

/// A sentence about patterns of the user's that no file of a job matches, if there are any. `paths`: of its files.
pub fn unmatched_libraries(patterns: &[String], paths: &[&str]) -> Option<String> {
    let is_unmatched = |pattern: &&str| {
        // What is no pattern is refused elsewhere.
        let matcher = Glob::new(pattern).ok().map(|glob| glob.compile_matcher());
        let matches = |path: &&str| {
            matcher.as_ref().is_none_or(|matcher| matcher.is_match(file_name(path)) || matcher.is_match(path))
        };
        !paths.iter().any(matches)
    };
    let unmatched: Vec<&str> = patterns.iter().map(String::as_str).filter(is_unmatched).collect();
    let is_any = !unmatched.is_empty();
    is_any.then(|| format!("no library of the job matches {} so far (--library)", unmatched.join(", ")))
}

/// The same work for each item, on as many threads as there are processors (at most eight).
fn in_parallel<'t, T: Sync, R: Send>(items: &'t [T], work: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8).min(items.len());
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some((n, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, items.get(n)?)))
        {
            done.push((n, work(item)));
        }
        done
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut all = take();
        for worker in workers {
            all.extend(joined(worker));
        }
        all
    });
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

/// What a thread made; its panic becomes the caller's.
fn joined<R>(thread: std::thread::ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_no_file_of_the_job_matches_are_named() {
        let said = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            unmatched_libraries(&patterns, &["/usr/lib/libfoo.so.1", "/opt/bar/libbar.so (deleted)"])
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["libfoo*", "/opt/bar/*", "libbar.so"]), None);
        let unmatched = said(&["nosuch*", "libfoo*", "other"]);
        assert_eq!(
            unmatched.as_deref(),
            Some("no library of the job matches nosuch*, other so far (--library)")
        );
    }
}

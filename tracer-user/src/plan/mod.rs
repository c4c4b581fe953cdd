//! Which places of which files are probed, and why: pure, from facts.
//!
//! The plan itself is [`analyzer::plan::Plan`]. Nothing here reads files or processes; the
//! same facts always give the same plan.

mod allocations;
pub mod attach;
mod calls;
mod copies;
mod errors;
mod packs;
mod polling;
mod results;
mod role;
pub mod tables;

use std::sync::atomic::{AtomicUsize, Ordering};

use analyzer::plan::{Datatype, LeftOut, MpiObjects, Place, Plan, PlannedFile, Probe, ProbeClass};
use analyzer::wire::FileId;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::elf::{self, ElfFacts};
pub use calls::mpi_entry_points;
pub use results::Returns;
pub use role::Role;
pub(crate) use role::{compiled, file_name, is_communication_library};

/// A program or library, as it is mapped or would be.
#[derive(Clone, Debug, Default)]
pub struct FileImage {
    /// Who it is.
    pub id: FileId,
    /// Path as the job sees it.
    pub path: String,
    /// The program of a rank (not one of its libraries).
    pub is_program: bool,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The function that calls of memcpy reach in a running process: the C library chooses one
/// by the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundCopy {
    /// The file that it is in.
    pub file: FileId,
    /// Where its first instruction is in that file.
    pub offset_bytes: u64,
}

/// What a plan is made from.
#[derive(Clone, Debug, Default)]
pub struct PlanFacts {
    /// Files that the ranks map (or will map), in the order in which they should be listed.
    pub files: Vec<FileImage>,
    /// What memcpy is bound to, if a running process shows it.
    pub bound_copy: Option<BoundCopy>,
    /// Files that should be there and could not be read: path and reason.
    pub unreadable: Vec<(String, String)>,
}

/// What the user chooses.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Globs over file names: libraries whose copies are watched although they do not call MPI.
    pub libraries: Vec<String>,
    /// MPI calls that only read the process's own memory as well.
    pub local_calls: bool,
    /// What is recorded of MPI calls when they return.
    pub returns: Returns,
    /// Copies of memory.
    pub copies: bool,
    /// Heap blocks.
    pub allocations: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            libraries: Vec::new(),
            local_calls: false,
            returns: Returns::default(),
            copies: true,
            allocations: true,
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// A library pattern of the user's.
    #[error("not a pattern for library names: {0}")]
    BadPattern(String),
}

/// A file with what is known of it.
pub(crate) struct File<'a> {
    image: &'a FileImage,
    elf: ElfFacts<'a>,
    role: Role,
}

impl File<'_> {
    fn probe(&self, class: ProbeClass, function: &str, site: u64, at: u64, place: Place) -> Option<Probe> {
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
    fn mpi_objects(&self) -> Option<MpiObjects> {
        let is_mpi = self.role.is_mpi();
        (is_mpi || self.role.is_own())
            .then(|| elf::mpi_objects(&self.image.bytes, &self.elf.segments, is_mpi))
            .flatten()
    }

    fn datatypes(&self) -> Vec<Datatype> {
        if !self.role.is_mpi() && !self.role.is_own() {
            return Vec::new();
        }
        elf::datatypes(&self.image.bytes, &self.elf.segments)
    }

    fn left_out(&self, at: Option<u64>, what: impl Into<String>, reason: impl Into<String>) -> LeftOut {
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
pub(crate) struct Part {
    probes: Vec<Probe>,
    left_out: Vec<LeftOut>,
}

impl Part {
    fn append(&mut self, mut other: Self) {
        self.probes.append(&mut other.probes);
        self.left_out.append(&mut other.left_out);
    }
}

/// Decides what is probed. Probes get numbers from `first_id` on, in order of file and offset.
/// Facts of a single library that was loaded later give its part alone.
///
/// # Errors
/// A pattern of the user's that cannot be read.
pub fn plan(facts: &PlanFacts, options: &PlanOptions, first_id: u32) -> Result<Plan, PlanError> {
    let named = globs(&options.libraries)?;
    let parsed = in_parallel(&facts.files, |image| elf::parse(&image.bytes));
    let mut total = Part::default();
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
    let packs = packs::plan(&files);
    let scan = |file: &File<'_>| {
        (options.copies && file.role.copies_are_watched()).then(|| elf::scan_copies(&file.elf))
    };
    // One large library takes longest to scan: the polling calls are analysed beside it.
    let (polls, scans) = std::thread::scope(|scope| {
        let polls = scope.spawn(|| polling::plan(&files, options));
        let scans = in_parallel(&files, scan);
        (joined(polls), scans)
    });
    total.append(polls);
    total.append(copies::plan(&files, &scans, &packs, facts.bound_copy));
    total.append(packs.part);
    if options.allocations {
        total.append(allocations::plan(&files));
    }
    Ok(numbered(total, &files, first_id))
}

/// One plan of all parts: in order, each place of a class once.
fn numbered(part: Part, files: &[File<'_>], first_id: u32) -> Plan {
    let Part { mut probes, mut left_out } = part;
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

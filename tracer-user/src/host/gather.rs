//! Facts for the plan of a running job.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use analyzer::input::Mapping;
use analyzer::wire::FileId;

use super::error::{JobError, read_error};
use super::files::open_mapped;
use super::jobs::NodeJob;
use super::mappings::{MappedFile, code_files, parse_maps};
use super::processes::all_pids;
use crate::elf;
use crate::plan::attach::{AttachDecision, attach_mode};
use crate::plan::{BoundCopy, FileImage, PlanFacts};

/// Facts of a job, and what it takes to attach to its files.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// For the planner.
    pub facts: PlanFacts,
    /// For each file, how the kernel finds it, and who maps it.
    pub attach: BTreeMap<FileId, AttachPoint>,
    /// What people should know: files replaced since they were mapped, and the like.
    pub notes: Vec<String>,
}

/// How the probes of a file are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachPoint {
    /// A path that leads to the very file that is mapped, as long as the process lives.
    pub path: PathBuf,
    /// Traced processes that map it.
    pub pids: Vec<u32>,
    /// One link, or one for each process.
    pub decision: AttachDecision,
}

/// Reads everything that the plan of a job is made from. Each file is read once, however many
/// ranks map it.
///
/// # Errors
/// No rank of the job can be read.
pub fn gather(job: &NodeJob) -> Result<Gathered, JobError> {
    let pids: Vec<u32> = job.ranks.iter().map(|r| r.pid).collect();
    gather_processes(&pids, &BTreeSet::new())
}

/// [`gather`] for processes by number, leaving out files that are `known` already.
///
/// # Errors
/// None of them can be read.
pub fn gather_processes(pids: &[u32], known: &BTreeSet<FileId>) -> Result<Gathered, JobError> {
    let mut users: BTreeMap<FileId, Vec<u32>> = BTreeMap::new();
    let mut gathered = Gathered::default();
    let mut first_error = None;
    let mut read_any = false;
    for pid in pids {
        let mappings = match read_maps(*pid) {
            Ok(mappings) => mappings,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        read_any = true;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        for file in code_files(&mappings).into_iter().filter(|f| !known.contains(&f.id)) {
            let pids = users.entry(file.id).or_default();
            pids.push(*pid);
            if pids.len() == 1 {
                let is_program = program.to_string_lossy().trim_end_matches(" (deleted)") == file.path;
                read_file(*pid, &file, is_program, &mut gathered);
            }
        }
        if gathered.facts.bound_copy.is_none() {
            gathered.facts.bound_copy = bound_copy(*pid, &mappings, &gathered.facts.files);
        }
    }
    if !read_any && let Some(error) = first_error {
        return Err(error);
    }
    if users.is_empty() {
        return Ok(gathered);
    }
    let strangers = strangers(&users, pids);
    for (id, point) in &mut gathered.attach {
        point.pids = users.remove(id).unwrap_or_default();
        point.decision = attach_mode(point.pids.len(), strangers.get(id).copied().unwrap_or(0));
    }
    Ok(gathered)
}

/// Mappings of a process now.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub fn read_maps(pid: u32) -> Result<Vec<Mapping>, JobError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| read_error(pid, &e))?;
    Ok(parse_maps(&text))
}

fn read_file(pid: u32, file: &MappedFile, is_program: bool, gathered: &mut Gathered) {
    let opened = match open_mapped(pid, file) {
        Ok(opened) => opened,
        Err(error) => {
            gathered.facts.unreadable.push((file.path.clone(), error.to_string()));
            return;
        }
    };
    if opened.replaced {
        gathered.notes.push(format!(
            "{} was replaced or deleted after process {pid} had loaded it: the loaded file is watched",
            file.path
        ));
    }
    match opened.read_image() {
        Ok(bytes) => {
            let path = file.path.clone();
            gathered.facts.files.push(FileImage { id: file.id, path, is_program, bytes });
            let decision = attach_mode(1, 0);
            gathered.attach.insert(file.id, AttachPoint { path: opened.path, pids: Vec::new(), decision });
        }
        Err(error) => gathered.facts.unreadable.push((file.path.clone(), error.to_string())),
    }
}

/// How many processes that are not traced run code from each file.
fn strangers(files: &BTreeMap<FileId, Vec<u32>>, traced: &[u32]) -> HashMap<FileId, usize> {
    let traced: HashSet<u32> = traced.iter().copied().collect();
    let mut counts = HashMap::new();
    for pid in all_pids().into_iter().filter(|pid| !traced.contains(pid)) {
        for file in code_files(&read_maps(pid).unwrap_or_default()) {
            if files.contains_key(&file.id) {
                *counts.entry(file.id).or_default() += 1;
            }
        }
    }
    counts
}

/// What memcpy is bound to in a process: the first slot for it that is bound already.
fn bound_copy(pid: u32, mappings: &[Mapping], files: &[FileImage]) -> Option<BoundCopy> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    for image in files {
        let Ok(elf) = elf::parse(&image.bytes) else { continue };
        let slots = elf.slots.iter().filter(|(_, name)| matches!(**name, "memcpy" | "memmove"));
        for (slot, _) in slots {
            let Some(address) = loaded_address(&elf, image.id, mappings, *slot) else { continue };
            let mut bytes = [0; 8];
            if memory.read_exact_at(&mut bytes, address).is_err() {
                continue;
            }
            if let Some(bound) = place_of(mappings, u64::from_le_bytes(bytes)).filter(|b| b.file != image.id)
            {
                return Some(bound);
            }
        }
    }
    None
}

/// Where an address of a file is in a process that maps it.
fn loaded_address(elf: &elf::ElfFacts<'_>, file: FileId, mappings: &[Mapping], vaddr: u64) -> Option<u64> {
    let code = elf.segments.iter().find(|s| s.exec)?;
    let mapping = mappings.iter().find(|m| m.exec && m.file == file)?;
    // The first executable segment is mapped from the page that it starts in.
    let bias = mapping
        .start
        .wrapping_sub(mapping.offset_bytes)
        .wrapping_sub(code.vaddr.wrapping_sub(code.offset_bytes));
    Some(bias.wrapping_add(vaddr))
}

/// File and offset of a code address.
fn place_of(mappings: &[Mapping], address: u64) -> Option<BoundCopy> {
    let mapping =
        mappings.iter().find(|m| m.exec && (m.start..m.end).contains(&address) && m.file.inode != 0)?;
    Some(BoundCopy { file: mapping.file, offset_bytes: address - mapping.start + mapping.offset_bytes })
}

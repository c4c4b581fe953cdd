//! Facts for the plan of a running job.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use analyzer::input::Mapping;
use analyzer::wire::FileId;

use super::error::{JobError, read_error};
use super::files::{OpenedFile, open_mapped};
use super::jobs::NodeJob;
use super::mappings::{self, MappedFile, code_files};
use super::memory_child::{is_given_up, read_memory};
use super::parsing::{FileParser, FoundFile, PlanRequest, PlannedCode};
use super::processes::{all_pids, has_ended, start_ticks};
use super::unseen_work::unseen_work;
use super::verbs::{find_tables, is_provider};
use super::verbs_devices::{DeviceTables, device_tables};
use crate::plan::attach::StrangerCount;
use crate::plan::{BoundCopy, EarlierPlans, PlanOptions, VerbsTable};

/// Facts of a job, and what it takes to attach to its files.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// What there is to plan, in the order in which it should be listed.
    pub files: Vec<FoundFile>,
    /// What memcpy is bound to, if a running process shows it.
    pub bound_copy: Option<BoundCopy>,
    /// Functions of RDMA providers among the files.
    pub verbs: Vec<VerbsTable>,
    /// Processes that map a provider, and have opened no device of it yet: it is not among the files.
    pub opening: BTreeSet<u32>,
    /// Files that should be there and could not be opened: path and reason.
    pub unreadable: Vec<(String, String)>,
    /// Traced processes that map such a file: what it moves is not seen.
    pub blind: BTreeSet<u32>,
    /// What of them is not seen for other reasons, for people.
    pub unseen: BTreeSet<&'static str>,
    /// The files, and who maps them.
    pub attach: BTreeMap<FileId, AttachPoint>,
    /// What people should know: files replaced since they were mapped, and the like.
    pub notes: Vec<String>,
}

impl Gathered {
    /// The plan of what was found.
    ///
    /// # Errors
    /// There is none: why.
    pub fn plan(
        &self,
        options: &PlanOptions,
        earlier: &EarlierPlans,
        parser: &mut dyn FileParser,
    ) -> Result<PlannedCode, String> {
        let (bound_copy, unreadable) = (self.bound_copy, self.unreadable.clone());
        let (options, earlier, verbs) = (options.clone(), earlier.clone(), self.verbs.clone());
        parser.plan(&self.files, PlanRequest { options, earlier, bound_copy, verbs, unreadable })
    }
}

/// A file, and who runs it.
#[derive(Clone, Debug)]
pub struct AttachPoint {
    /// The very file that was looked at: it is not opened again.
    pub file: Arc<OpenedFile>,
    /// Traced processes that map it.
    pub pids: Vec<u32>,
    /// Others that map it.
    pub strangers: StrangerCount,
}

/// Reads everything that the plan of a job is made from. Each file is read once, however many
/// ranks map it.
///
/// # Errors
/// No rank of the job can be read.
pub fn gather(job: &NodeJob, parser: &mut dyn FileParser) -> Result<Gathered, JobError> {
    let pids: Vec<u32> = job.ranks.iter().map(|r| r.pid).collect();
    gather_processes(&pids, &BTreeSet::new(), parser)
}

/// [`gather`] for processes by number, leaving out files that are `known` already.
///
/// # Errors
/// None of them can be read.
pub fn gather_processes(
    pids: &[u32],
    known: &BTreeSet<FileId>,
    parser: &mut dyn FileParser,
) -> Result<Gathered, JobError> {
    let mut users: BTreeMap<FileId, Vec<u32>> = BTreeMap::new();
    let mut gathered = Gathered::default();
    let mut slots = CopySlots { parser, known: HashMap::new() };
    let mut first_error = None;
    let mut read_any = false;
    for pid in pids {
        let mappings = match read_maps(*pid) {
            Ok(mappings) => mappings,
            Err(error) => {
                if !error.has_ended() {
                    gathered.notes.push(format!("{error}: what only it maps is not watched"));
                }
                first_error.get_or_insert(error);
                continue;
            }
        };
        read_any = true;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let unseen = unseen_work(*pid, &mappings);
        if !unseen.is_empty() {
            gathered.unseen.extend(unseen);
            gathered.blind.insert(*pid);
        }
        let unopened = look_for_tables(*pid, &mappings, known, &mut gathered);
        let is_new = |file: &MappedFile| !known.contains(&file.id) && !unopened.contains(&file.id);
        for file in code_files(&mappings).into_iter().filter(is_new) {
            let pids = users.entry(file.id).or_default();
            let is_program = program.to_string_lossy().trim_end_matches(" (deleted)") == file.path;
            if !pids.is_empty() || read_file(*pid, &file, is_program, &mut gathered) {
                pids.push(*pid);
            }
        }
        if gathered.bound_copy.is_none() {
            gathered.bound_copy = slots.bound_copy(*pid, &mappings, &gathered.files);
        }
    }
    if !read_any && let Some(error) = first_error {
        return Err(error);
    }
    if users.is_empty() {
        return Ok(gathered);
    }
    let unread = users.iter().filter(|(id, _)| !gathered.attach.contains_key(id));
    let blind = unread.flat_map(|(_, pids)| pids.iter().copied());
    gathered.blind.extend(blind.filter(|pid| !has_ended(*pid, None).unwrap_or(false)));
    for (id, point) in &mut gathered.attach {
        point.pids = users.remove(id).unwrap_or_default();
    }
    count_strangers(&mut gathered.attach, pids, &pids.iter().filter_map(|pid| user(*pid)).collect());
    Ok(gathered)
}

/// Of a process that is not read any more.
const UNREAD: &str =
    "the memory of a rank cannot be read in time: what it sends and receives by RDMA is not seen";

/// Finds the tables of the providers that a process maps; gives back those in which none leads yet. Once one has been found,
/// others are there for nothing: UCX maps all that are installed.
fn look_for_tables(
    pid: u32,
    mappings: &[Mapping],
    known: &BTreeSet<FileId>,
    gathered: &mut Gathered,
) -> BTreeSet<FileId> {
    let providers = code_files(mappings).into_iter().filter(|file| is_provider(&file.path));
    let providers: BTreeSet<FileId> = providers.map(|file| file.id).collect();
    let is_found = |gathered: &Gathered, id: &FileId| {
        known.contains(id) || gathered.verbs.iter().any(|table| table.file == *id)
    };
    if !providers.is_empty() && !providers.iter().any(|id| is_found(gathered, id)) {
        let found = find_tables(pid, mappings, &providers);
        let completed = if found.is_empty() { found } else { completed(found, &mut gathered.notes) };
        gathered.verbs.extend(completed);
        let is_unknown = !providers.iter().any(|id| is_found(gathered, id));
        if is_unknown && start_ticks(pid).is_ok_and(|started| is_given_up(pid, started)) {
            gathered.unseen.insert(UNREAD);
            gathered.blind.insert(pid);
        } else if is_unknown {
            gathered.opening.insert(pid);
        }
    }
    providers.into_iter().filter(|id| !is_found(gathered, id)).collect()
}

/// Functions of objects that a process has not made yet are known from this machine's own, if it runs the same provider.
fn completed(mut found: Vec<VerbsTable>, notes: &mut Vec<String>) -> Vec<VerbsTable> {
    let known = device_tables().unwrap_or_else(|why| {
        notes.push(why);
        DeviceTables::default()
    });
    for table in &mut found {
        let same = known.tables.iter().filter(|(_, known)| known.file == table.file);
        table.functions.extend(same.flat_map(|(_, known)| &known.functions));
    }
    found
}

/// Mappings of a process now.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub fn read_maps(pid: u32) -> Result<Vec<Mapping>, JobError> {
    mappings::read(pid).map_err(|e| read_error(pid, &e))
}

/// Whether the process still maps it: one that could not be opened since it is not mapped any more is nobody's loss.
fn read_file(pid: u32, file: &MappedFile, is_program: bool, gathered: &mut Gathered) -> bool {
    let opened = match open_mapped(pid, file) {
        Ok(opened) => opened,
        Err(error) => {
            let mappings = read_maps(pid).unwrap_or_default();
            let is_mapped = code_files(&mappings).iter().any(|mapped| mapped.id == file.id);
            gathered.unreadable.extend(is_mapped.then(|| (file.path.clone(), error.to_string())));
            return is_mapped;
        }
    };
    if opened.replaced {
        gathered.notes.push(format!(
            "{} was replaced or deleted after process {pid} had loaded it: the loaded file is watched",
            file.path
        ));
    }
    let (path, opened) = (file.path.clone(), Arc::new(opened));
    gathered.files.push(FoundFile { id: file.id, path, is_program, file: Arc::clone(&opened) });
    let strangers = StrangerCount::default();
    gathered.attach.insert(file.id, AttachPoint { file: opened, pids: Vec::new(), strangers });
    true
}

/// Files that any process runs code from.
pub fn mapped_files() -> BTreeSet<FileId> {
    let files = all_pids().into_iter().flat_map(|pid| code_files(&read_maps(pid).unwrap_or_default()));
    files.map(|file| file.id).collect()
}

/// Counts how many processes that are not traced run code from each file. `users`: those of the job.
pub(super) fn count_strangers(
    files: &mut BTreeMap<FileId, AttachPoint>,
    traced: &[u32],
    users: &HashSet<u32>,
) {
    // We are no stranger to ourselves.
    let known: HashSet<u32> = traced.iter().copied().chain([std::process::id()]).collect();
    for pid in all_pids().into_iter().filter(|pid| !known.contains(pid)) {
        let is_other_user = user(pid).is_some_and(|user| !users.contains(&user));
        for file in code_files(&read_maps(pid).unwrap_or_default()) {
            if let Some(point) = files.get_mut(&file.id) {
                point.strangers.all += 1;
                point.strangers.of_other_users += usize::from(is_other_user);
            }
        }
    }
}

/// Whose process it is; of one that must not be looked at, root's.
fn user(pid: u32) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Slots for memcpy of files, each file looked at once.
struct CopySlots<'p> {
    parser: &'p mut dyn FileParser,
    known: HashMap<FileId, Vec<u64>>,
}

impl CopySlots<'_> {
    /// What memcpy is bound to in a process: the first slot for it that is bound already.
    fn bound_copy(&mut self, pid: u32, mappings: &[Mapping], files: &[FoundFile]) -> Option<BoundCopy> {
        for found in files {
            let Some(first_byte) = first_byte(found.id, mappings) else { continue };
            let summary = || self.parser.summary(&found.file).unwrap_or_default().copy_slots;
            for slot in self.known.entry(found.id).or_insert_with(summary) {
                let address = first_byte.wrapping_add(*slot);
                // Where one cannot be read, or not in time, the next one would not either.
                let bound = place_of(mappings, word(pid, address)?);
                if let Some(bound) = bound.filter(|bound| bound.file != found.id) {
                    return Some(bound);
                }
            }
        }
        None
    }
}

fn word(pid: u32, address: u64) -> Option<u64> {
    let bytes = read_memory(pid, start_ticks(pid).ok()?, address, address.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Where the first byte of a file would be in a process if all were mapped as its first code is.
fn first_byte(file: FileId, mappings: &[Mapping]) -> Option<u64> {
    let mapping = mappings.iter().find(|m| m.exec && m.file == file)?;
    Some(mapping.start.wrapping_sub(mapping.offset_bytes))
}

/// File and offset of a code address.
fn place_of(mappings: &[Mapping], address: u64) -> Option<BoundCopy> {
    let mapping =
        mappings.iter().find(|m| m.exec && (m.start..m.end).contains(&address) && m.file.inode != 0)?;
    Some(BoundCopy { file: mapping.file, offset_bytes: address - mapping.start + mapping.offset_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_mapped_any_more_is_no_file_that_cannot_be_read() {
        let pid = std::process::id();
        let mapped = code_files(&read_maps(pid).expect("our own")).remove(0);
        let mut gathered = Gathered::default();
        assert!(read_file(pid, &mapped, false, &mut gathered));
        let nobodys = FileId { dev: u32::MAX, inode: 1 };
        let gone = MappedFile { id: nobodys, path: "/nowhere".to_owned(), start: 1, end: 2, ..mapped };
        assert!(!read_file(pid, &gone, false, &mut gathered));
        assert_eq!((gathered.files.len(), gathered.unreadable.len()), (1, 0));
    }
}

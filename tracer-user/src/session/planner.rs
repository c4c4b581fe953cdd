//! Facts → plan, for what is known at the start and for what is loaded later.
//!
//! Looking at a new library takes tenths of a second; so after the start a thread does it, and
//! the session goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use analyzer::plan::Plan;
use analyzer::wire::FileId;
use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, unbounded};

use super::host::Host;
use crate::host::JobError;
use crate::host::capabilities::with_own_file_rights;
use crate::host::files::OpenedFile;
use crate::host::gather::{AttachPoint, Gathered, gather_processes, mapped_files};
use crate::host::launched::{LibraryPaths, gather_program, program_of, search_path};
use crate::host::parsing::{ParsingChild, PlannedCode};
use crate::kernel::not_possible;
use crate::plan::code::{Instructions, is_unchanged};
use crate::plan::slots::NO_SLOTS;
use crate::plan::{EarlierPlans, Engine, FileSlots, PlanOptions, unmatched_libraries};

/// A plan, and what it takes to apply it.
#[derive(Debug, Default)]
pub(super) struct Planned {
    /// Probes, and names of files.
    pub plan: Plan,
    /// The files, and who maps them.
    pub attach: BTreeMap<FileId, AttachPoint>,
    /// Their instructions at the places of probes.
    pub code: BTreeMap<FileId, Instructions>,
    /// Slots through which calls can be recorded without the kernel.
    pub slots: Vec<FileSlots>,
    /// They were loaded while the job ran.
    pub is_late: bool,
    /// Files whose probes are for nothing: they were written anew, or nobody maps them any more.
    pub dropped: BTreeSet<FileId>,
    /// What people should know.
    pub notes: Vec<String>,
    /// What they should know at once.
    pub warnings: Vec<String>,
    /// Processes that map what cannot be read: what it moves is not seen.
    pub blind: BTreeSet<u32>,
}

impl Planned {
    pub(super) fn is_empty(&self) -> bool {
        let Self { plan, dropped, warnings, blind, .. } = self;
        plan.files.is_empty() && dropped.is_empty() && warnings.is_empty() && blind.is_empty()
    }
}

/// Plans what processes map, each file once.
pub(super) trait PlanSource: Send {
    /// What these processes map and was not planned before.
    ///
    /// # Errors
    /// None of them can be looked at.
    fn processes(&mut self, pids: &[u32]) -> Result<Planned>;

    /// The same for what is loaded while the job runs: other ranks are about to load it too.
    ///
    /// # Errors
    /// See [`PlanSource::processes`].
    fn later(&mut self, pids: &[u32]) -> Result<Planned> {
        let mut planned = self.processes(pids)?;
        // There is no summary for them any more.
        planned.warnings.append(&mut planned.notes);
        planned.is_late = true;
        Ok(planned)
    }

    /// Processes that are about to show more than they did when they were looked at.
    fn unfinished(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Remembers what was planned already.
pub(super) struct Planner {
    parser: ParsingChild,
    options: PlanOptions,
    earlier: EarlierPlans,
    known: BTreeMap<FileId, KnownFile>,
    told: ToldOnce,
    /// Processes that map an RDMA provider, and had opened no device of it when they were looked at.
    opening: BTreeSet<u32>,
    /// So many may be known before it is looked whether all of them are mapped.
    most_known: usize,
}

/// A file that was planned, and its instructions at the places of probes. It is held open, so that its number does not
/// become another file's.
struct KnownFile {
    file: Arc<OpenedFile>,
    code: Instructions,
}

impl KnownFile {
    /// Without probes there is nothing to compare, and to plan it again is cheap.
    fn was_written_anew(&self) -> bool {
        let is_changed = |(at, seen): (&u64, &Vec<u8>)| !is_unchanged(Some(seen), &self.file.code_at(*at));
        self.file.may_have_changed() && (self.code.is_empty() || self.code.iter().any(is_changed))
    }
}

/// What is in the way again and again, and was told of.
#[derive(Default)]
struct ToldOnce {
    /// Paths of files that could not be opened.
    files: BTreeSet<String>,
    /// Other reasons for which something is not seen.
    reasons: BTreeSet<&'static str>,
    /// Processes that map one of them, or of which something is not seen for such a reason.
    processes: BTreeSet<u32>,
    /// There was a plan before.
    has_planned: bool,
    /// It is known, or will be, whether anything goes through slots.
    has_told_of_slots: bool,
}

impl ToldOnce {
    /// A sentence about files that cannot be opened, if there are new ones. `files`: path and reason.
    fn files(&mut self, files: &[(String, String)]) -> Option<String> {
        let mut new = files.iter().filter(|(path, _)| self.files.insert(path.clone()));
        let (_, first) = new.next()?;
        let what = match new.count() {
            0 => "what a file of the job moves is not seen".to_owned(),
            more => format!("what {} files of the job move is not seen, the first of them", more + 1),
        };
        // Of every process that maps them.
        self.processes.clear();
        Some(format!("{what}: {first}"))
    }

    /// Reasons that are new.
    fn reasons(&mut self, reasons: &BTreeSet<&'static str>) -> Vec<String> {
        let new =
            reasons.iter().filter(|reason| self.reasons.insert(reason)).map(|reason| (*reason).to_owned());
        let new: Vec<String> = new.collect();
        if !new.is_empty() {
            self.processes.clear();
        }
        new
    }

    /// A sentence about the first plan, if it has no slots though they were wished for.
    fn no_slots(&mut self, options: &PlanOptions, has_slots: bool) -> Option<String> {
        self.has_planned = true;
        let is_first = !std::mem::replace(&mut self.has_told_of_slots, true);
        (is_first && options.engine == Engine::Fast && !has_slots).then(|| not_possible(NO_SLOTS))
    }

    /// Those that are new.
    fn processes(&mut self, pids: &BTreeSet<u32>) -> BTreeSet<u32> {
        pids.iter().copied().filter(|pid| self.processes.insert(*pid)).collect()
    }
}

const MOST_KNOWN: usize = 256;

impl Planner {
    pub(super) fn new(options: PlanOptions) -> Self {
        Self {
            parser: ParsingChild::default(),
            options,
            earlier: EarlierPlans::default(),
            known: BTreeMap::new(),
            told: ToldOnce::default(),
            opening: BTreeSet::new(),
            most_known: MOST_KNOWN,
        }
    }

    /// Gets ready to plan in another thread than this one, for as long as this one lives.
    pub(super) fn get_ready(&mut self) {
        self.parser.start();
    }

    /// What a command will map, as far as files tell; the rest follows when it is mapped.
    pub(super) fn command(&mut self, command: &[String]) -> Result<Planned> {
        // Of its program alone little goes through slots; it is told later.
        self.told.has_told_of_slots = true;
        let Some(program) = program_of(command, &search_path()) else {
            let note = "the program that the ranks will run cannot be told from the command: its start is not covered".into();
            return Ok(Planned { notes: vec![note], ..Planned::default() });
        };
        let libraries = LibraryPaths::of_this_machine();
        let gathered = with_own_file_rights(|| gather_program(&program, &libraries, &mut self.parser))
            .with_context(|| format!("cannot read {}", program.display()))?;
        self.plan(gathered)
    }

    fn plan(&mut self, gathered: Gathered) -> Result<Planned> {
        let planned = gathered.plan(&self.options, &self.earlier, &mut self.parser);
        let code = planned.as_ref().map(|planned| planned.code.iter().cloned().collect());
        let code: BTreeMap<FileId, Instructions> = code.unwrap_or_default();
        // Also if there is no plan: what is in the way would be so again.
        for (id, point) in &gathered.attach {
            let code = code.get(id).cloned().unwrap_or_default();
            self.known.insert(*id, KnownFile { file: Arc::clone(&point.file), code });
        }
        let planned = planned.map_err(|why| anyhow!("cannot make the probe plan: {why}"))?;
        let PlannedCode { plan, slots, .. } = planned;
        self.earlier.add(&plan, &slots);
        let mut warnings: Vec<String> = self.told.files(&gathered.unreadable).into_iter().collect();
        warnings.extend(self.told.reasons(&gathered.unseen));
        if !self.told.has_planned {
            let paths: Vec<&str> = gathered.files.iter().map(|file| file.path.as_str()).collect();
            warnings.extend(unmatched_libraries(&self.options.libraries, &paths));
        }
        warnings.extend(self.told.no_slots(&self.options, !slots.is_empty()));
        let blind = self.told.processes(&gathered.blind);
        let Gathered { attach, notes, .. } = gathered;
        Ok(Planned { plan, attach, code, slots, notes, warnings, blind, ..Planned::default() })
    }

    /// Forgets files that were written anew since they were planned, with a note about each.
    fn forget_changed(&mut self) -> (BTreeSet<FileId>, Vec<String>) {
        let changed = self.known.extract_if(.., |_, known| known.was_written_anew());
        changed
            .map(|(id, known)| {
                let path = known.file.path.display();
                (id, format!("{path} was written anew while it was traced: it is looked at again"))
            })
            .unzip()
    }

    /// Forgets files that no process maps any more, once there are many.
    fn forget_unmapped(&mut self) -> BTreeSet<FileId> {
        if self.known.len() < self.most_known {
            return BTreeSet::new();
        }
        let mapped = mapped_files();
        let dropped = self.known.extract_if(.., |id, _| !mapped.contains(id)).map(|(id, _)| id).collect();
        self.most_known = MOST_KNOWN.max(2 * self.known.len());
        dropped
    }
}

impl PlanSource for Planner {
    fn processes(&mut self, pids: &[u32]) -> Result<Planned> {
        let (mut dropped, mut troubles) = self.forget_changed();
        dropped.extend(self.forget_unmapped());
        let known = self.known.keys().copied().collect();
        let gathered = gather_processes(pids, &known, &mut self.parser).map_err(anyhow::Error::from);
        pids.iter().for_each(|pid| _ = self.opening.remove(pid));
        if let Ok(gathered) = &gathered {
            self.opening.extend(&gathered.opening);
        }
        let planned = match gathered.and_then(|gathered| self.plan(gathered)) {
            Ok(planned) => planned,
            Err(error) if dropped.is_empty() => return Err(error),
            // Probes that are for nothing go all the same.
            Err(error) => {
                troubles.extend((!has_ended(&error)).then(|| not_watched(&error)));
                Planned::default()
            }
        };
        troubles.extend(planned.warnings);
        Ok(Planned { dropped, warnings: troubles, ..planned })
    }

    fn unfinished(&self) -> Vec<u32> {
        self.opening.iter().copied().collect()
    }
}

/// Devices are opened soon after their provider is mapped, or never.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const RAREST_LOOK: Duration = Duration::from_secs(5);

struct NextLook {
    pids: Vec<u32>,
    /// Somebody waits for it.
    is_request: bool,
}

/// The processes that are looked at next: those that have loaded something, or, each time after longer, those of which more is
/// to come. `None`: the session is over.
fn next_look(
    requests: &Receiver<Vec<u32>>,
    unfinished: Vec<u32>,
    patience: &mut Duration,
) -> Option<NextLook> {
    let asked = |pids| NextLook { pids, is_request: true };
    if unfinished.is_empty() {
        *patience = FIRST_LOOK;
        return requests.recv().ok().map(asked);
    }
    match requests.recv_timeout(*patience) {
        Ok(pids) => {
            *patience = FIRST_LOOK;
            Some(asked(pids))
        }
        Err(RecvTimeoutError::Timeout) => {
            *patience = (2 * *patience).min(RAREST_LOOK);
            Some(NextLook { pids: unfinished, is_request: false })
        }
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

/// A planner in a thread of its own. It ends with this.
pub(super) struct PlannerThread {
    requests: Sender<Vec<u32>>,
    results: Receiver<Result<Planned>>,
    /// Requests that were made, and those to which there was an answer, if there was anything to say.
    asked: usize,
    answered: Arc<AtomicUsize>,
    has_failed: bool,
}

/// What a planning thread has come to.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Plans.
    pub planned: Vec<Planned>,
    /// What people should know: what could not be planned.
    pub troubles: Vec<String>,
}

impl PlannerThread {
    pub(super) fn start(
        mut planner: Box<dyn PlanSource>,
        cpus: Vec<u32>,
        host: Arc<dyn Host>,
    ) -> std::io::Result<Self> {
        let (requests, request_receiver) = unbounded::<Vec<u32>>();
        let (result_sender, results) = unbounded();
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&answered);
        std::thread::Builder::new().name("dms-plan".into()).spawn(move || {
            host.stay_on(&cpus);
            let mut patience = FIRST_LOOK;
            while let Some(look) = next_look(&request_receiver, planner.unfinished(), &mut patience) {
                let more: Vec<Vec<u32>> = request_receiver.try_iter().collect();
                let requests = usize::from(look.is_request) + more.len();
                let mut pids: Vec<u32> = look.pids.into_iter().chain(more.into_iter().flatten()).collect();
                pids.sort_unstable();
                pids.dedup();
                let planned = planner.later(&pids);
                if !planned.as_ref().is_ok_and(Planned::is_empty) && result_sender.send(planned).is_err() {
                    return;
                }
                counted.fetch_add(requests, Ordering::Release);
            }
        })?;
        Ok(Self { requests, results, asked: 0, answered, has_failed: false })
    }

    /// Whether all that was loaded is planned, and was taken; or nobody plans any more.
    pub(super) fn is_idle(&self) -> bool {
        let is_answered = self.answered.load(Ordering::Acquire) == self.asked && self.results.is_empty();
        self.has_failed || is_answered
    }

    /// These processes have loaded something. False: nobody looks any more.
    pub(super) fn look_at(&mut self, pids: Vec<u32>) -> bool {
        self.asked += 1;
        !self.has_failed && self.requests.send(pids).is_ok()
    }

    /// Plans that are ready, and what is in the way of others; that the thread has failed is told once.
    pub(super) fn ready(&mut self) -> Ready {
        let mut ready = Ready::default();
        loop {
            match self.results.try_recv() {
                Ok(Ok(planned)) => ready.planned.push(planned),
                // A process that is gone needs no probes.
                Ok(Err(error)) if has_ended(&error) => {}
                Ok(Err(error)) => ready.troubles.push(not_watched(&error)),
                Err(TryRecvError::Disconnected) if !self.has_failed => {
                    self.has_failed = true;
                    ready.troubles.push(
                        "the thread that plans probes has failed: libraries that are loaded from now on are \
                         not watched"
                            .into(),
                    );
                }
                Err(_) => return ready,
            }
        }
    }
}

fn has_ended(error: &anyhow::Error) -> bool {
    error.downcast_ref::<JobError>().is_some_and(JobError::has_ended)
}

fn not_watched(error: &anyhow::Error) -> String {
    format!("{error:#}: what was loaded just now is not watched")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::open_path;

    fn known(path: &std::path::Path, code: &[(u64, &[u8])]) -> KnownFile {
        let code = code.iter().map(|(at, bytes)| (*at, bytes.to_vec())).collect();
        KnownFile { file: Arc::new(open_path(path).expect("ours").1), code }
    }

    fn planner(files: impl IntoIterator<Item = (FileId, KnownFile)>) -> Planner {
        Planner { known: files.into_iter().collect(), ..Planner::new(PlanOptions::default()) }
    }

    #[test]
    fn a_file_is_forgotten_when_its_probed_code_is_other_code_and_not_when_its_time_alone_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = FileId { dev: 1, inode: 2 };
        let path = folder.path().join("lib.so");
        std::fs::write(&path, [0x55, 0x90, 0xc3]).expect("ours");
        let mut planner = planner([(id, known(&path, &[(0, &[0x55]), (2, &[0xc3])]))]);
        assert!(planner.forget_changed().0.is_empty());
        // Time stamps are no finer than the clock's tick.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, [0x55, 0x53, 0xc3]).expect("ours");
        assert!(planner.known[&id].file.may_have_changed());
        assert!(planner.forget_changed().0.is_empty(), "what is probed is the same");
        std::fs::write(&path, [0x55, 0x53, 0x90]).expect("ours");
        let (dropped, notes) = planner.forget_changed();
        assert_eq!((dropped, notes.len(), planner.known.len()), (BTreeSet::from([id]), 1, 0));
    }

    #[test]
    fn what_is_for_nothing_is_told_even_if_there_is_no_plan() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let id = FileId { dev: 1, inode: 2 };
        let rewritten = || [(id, known(file.path(), &[(0, &[0x55])]))];
        let nobody_reads = |planner| Planner { parser: ParsingChild::of("/bin/false"), ..planner };
        let planner_of = |pid, files: Vec<_>| {
            let mut planner = nobody_reads(planner(files));
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(file.path(), [0x90]).expect("ours");
            planner.processes(&[pid])
        };
        let gone = planner_of(u32::MAX, rewritten().into()).expect("something is for nothing");
        assert_eq!((gone.dropped, gone.warnings.len()), (BTreeSet::from([id]), 1));
        let unplanned = planner_of(std::process::id(), rewritten().into()).expect("something is for nothing");
        assert_eq!((unplanned.dropped, unplanned.warnings.len()), (BTreeSet::from([id]), 2));
        assert!(unplanned.warnings[1].contains("is not watched"), "{:?}", unplanned.warnings);
        assert!(planner_of(u32::MAX, Vec::new()).is_err_and(|error| has_ended(&error)));
        assert!(planner_of(std::process::id(), Vec::new()).is_err_and(|error| !has_ended(&error)));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_told_once_and_is_a_gap_of_every_process_that_maps_it() {
        let mut told = ToldOnce::default();
        let file = |path: &str| (path.to_owned(), format!("{path}: not for you"));
        let first = told.files(&[file("/a"), file("/b")]).expect("nobody was told");
        assert!(first.contains("2 files") && first.ends_with(": /a: not for you"), "{first}");
        let (one, both) = (BTreeSet::from([7]), BTreeSet::from([7, 8]));
        assert_eq!((told.processes(&one), told.processes(&both)), (one, BTreeSet::from([8])));
        assert_eq!(told.files(&[file("/b")]), None);
        assert_eq!(told.processes(&both), BTreeSet::new());
        assert!(told.files(&[file("/c")]).is_some_and(|told| told.ends_with("/c: not for you")));
        assert_eq!(told.processes(&both), both, "another file");
    }

    #[test]
    fn of_many_files_those_that_nobody_maps_are_forgotten() {
        let program = std::path::Path::new("/proc/self/exe");
        let file = |inode| (FileId { dev: u32::MAX, inode }, known(program, &[]));
        let (mapped, _) = open_path(program).expect("this test");
        let mut planner = planner((1..MOST_KNOWN as u64 - 1).map(file));
        assert!(planner.forget_unmapped().is_empty(), "there are few");
        planner.known.extend([(mapped, known(program, &[])), file(0)]);
        assert_eq!(planner.forget_unmapped().len(), MOST_KNOWN - 1);
        assert_eq!(planner.known.keys().copied().collect::<Vec<_>>(), [mapped]);
    }
}

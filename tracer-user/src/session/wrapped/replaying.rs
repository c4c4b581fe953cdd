//! Replays a job: starts it with the wrapper, and watches that it goes on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use replay::RankCut;
use replay::shared_page::{PageState, PageText, SharedPage};

use super::call_names::stands_at;
use super::job::{JobStart, WrappedJob};
use super::left_ranks::LeftRanks;
use super::nodes::{RemoteNodes, RemoteRank};
use super::pages::{Pages, program_of, refusal};
use super::places_of_calls::PlacesOfCalls;
use super::recorded_job::{RecordedJob, ReplayableJob};
use super::recording::ask_for_order;
use super::shared_folder::{SharedFolder, read_of_rank};
use super::stuck::{Progress, RankView};
use super::tape_of_ranks::{JobRecorded, TapeOfRanks};
use super::wrapper_file::{WrapperKind, library_of, wrapper_of};
use crate::host::sudo::Account;

const PERIOD: Duration = Duration::from_millis(50);
/// Of what a job prints.
const MOST_OUTPUT_BYTES: u64 = 64 << 20;

/// What people hear of a program that goes another way, if it is the one that was recorded.
pub(super) const FIXED_ADDRESSES_MAY_HELP: &str = "what the program decides by addresses, or by memory that it never wrote, is not \
    recorded: recorded and replayed under `setarch -R`, these are much the same";

/// How a job is replayed.
#[derive(Clone, Debug)]
pub struct ReplaySettings {
    /// Whose it is, if not the caller's.
    pub account: Option<Account>,
    /// The MPI library, if the user names it.
    pub named: Option<WrapperKind>,
    /// How long all ranks may wait before it is said that they cannot go on.
    pub patience: Duration,
    /// What does not go on is kept for a debugger, not ended.
    pub holds: bool,
    /// Set when the user wants it to end.
    pub stop: Arc<AtomicBool>,
    /// Where the record of each rank is left for another way; empty: nowhere.
    pub cuts: Vec<RankCut>,
    /// A tape of the replay.
    pub record: Option<PathBuf>,
    /// Envelopes of messages go on that tape too.
    pub messages: bool,
    /// So does the order in which calls of all ranks end.
    pub order: bool,
    /// Calls end in the recorded order of all ranks' calls.
    pub identical: bool,
    /// Ranks on other nodes too.
    pub nodes: bool,
    /// Keep what the job prints to oneself.
    pub captures: bool,
    /// How long it may take.
    pub limit: Option<Duration>,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// How it ended.
    pub end: ReplayEnd,
    /// What was recorded of it.
    pub recorded: Option<JobRecorded>,
    /// What the job has printed, if that was captured.
    pub output: Vec<u8>,
    /// The same of its standard error.
    pub errors: Vec<u8>,
}

/// How a replay ended.
#[derive(Debug)]
pub enum ReplayEnd {
    /// All that was recorded was played, and the job has ended.
    Ended(ExitStatus),
    /// The job hangs where its record ends.
    Hangs,
    /// It does something else than it did.
    Diverged,
    /// The message that was to come first does not come.
    Impossible,
    /// It took longer than it may.
    TooLong,
    /// The user wanted it to end.
    Stopped,
}

/// Runs a recorded job again; `say`: what people hear, a line at a time.
///
/// # Errors
/// The tape does not have what is needed, or is of another job; the command cannot be run.
pub fn replay(
    command: &[String],
    recorded: RecordedJob,
    settings: &ReplaySettings,
    say: &mut dyn FnMut(&str),
) -> Result<Replayed> {
    let mut job = match recorded.replayable() {
        Ok(job) => job,
        Err(why) => bail!(why),
    };
    job.notes.iter().for_each(|note| say(note));
    job.warnings.iter().for_each(|warning| say(&format!("not covered by the replay: {warning}")));
    for (rank, cut) in job.ranks.iter_mut().zip(&settings.cuts) {
        rank.cut = Some(cut.clone());
    }
    let kind = library_of(command, settings.named)?;
    let wrapper = wrapper_of(kind)?;
    let tape =
        settings.record.as_deref().map(|tape| TapeOfRanks::create(tape, "again-", command)).transpose()?;
    let folder = SharedFolder::create(settings.account.as_ref())?;
    if tape.is_some() {
        folder.put("again", b"")?;
    }
    if settings.messages {
        folder.put("messages", b"")?;
    }
    if settings.identical || settings.order {
        let end = if settings.identical { job.order_end()? } else { 0 };
        ask_for_order(&folder, end)?;
    }
    put_down(&job, &folder)?;
    let hold = if settings.holds { ",hold" } else { "" };
    let wish = format!("replay:{}{hold}", folder.path().display());
    let output = settings.captures.then(|| folder.path().join("output"));
    let mut environment = vec![format!("DMSCOPE_REPLAY={wish}")];
    let mut command = command.to_vec();
    let nodes = settings.nodes.then(|| RemoteNodes::listen(&folder)).transpose()?;
    if let Some(nodes) = &nodes {
        command = nodes.prepare(&command, kind, &mut environment);
    }
    let start = JobStart {
        command: &command,
        account: settings.account.as_ref(),
        objects: &[wrapper],
        environment: &environment,
        fixes_addresses: false,
        output: output.as_deref(),
    };
    let child = WrappedJob::start(&start)?;
    let pages = Pages::of_ranks();
    let (told, places) = (BTreeSet::new(), PlacesOfCalls::default());
    Replaying { job, child, nodes, pages, places, tape, told, settings, say }.run(&folder)
}

/// Writes what the wrapper reads.
fn put_down(job: &ReplayableJob, folder: &SharedFolder) -> Result<()> {
    let facts = format!("size {}\nlibrary {}\n", job.size, job.library);
    folder.put("job", facts.as_bytes())?;
    for rank in &job.ranks {
        let record = [&rank.polls.to_le_bytes()[..], &rank.bytes].concat();
        folder.put(&format!("record-{}", rank.rank), &record)?;
        if let Some(cut) = &rank.cut {
            folder.put(&format!("cut-{}", rank.rank), cut.to_text().as_bytes())?;
        }
    }
    Ok(())
}

struct Replaying<'a> {
    job: ReplayableJob,
    child: WrappedJob,
    nodes: Option<RemoteNodes>,
    pages: Pages,
    places: PlacesOfCalls,
    /// What is recorded of the replay.
    tape: Option<TapeOfRanks>,
    /// Ranks of which it was said that their record has ended.
    told: BTreeSet<u32>,
    settings: &'a ReplaySettings,
    say: &'a mut dyn FnMut(&str),
}

impl Replaying<'_> {
    fn run(mut self, folder: &SharedFolder) -> Result<Replayed> {
        let end = match self.watch(folder) {
            Ok(end) => end,
            Err(error) => {
                // Ranks that nobody watches would wait for ever.
                let ended = self.end(&[]);
                return ended.and(Err(error));
            }
        };
        let mut replayed = Replayed {
            end,
            recorded: None,
            output: read_of_rank(&folder.pinned().join("output"), MOST_OUTPUT_BYTES),
            errors: read_of_rank(&folder.pinned().join("output.err"), MOST_OUTPUT_BYTES),
        };
        if let Some(mut tape) = self.tape.take() {
            tape.take(&folder.pinned());
            replayed.recorded = Some(tape.finish(self.child.status()?.unwrap_or_default()));
        }
        Ok(replayed)
    }

    fn watch(&mut self, folder: &SharedFolder) -> Result<ReplayEnd> {
        let begun = Instant::now();
        let mut progress = Progress::new(begun);
        let mut left = LeftRanks::default();
        let (mut is_said_to_hang, mut has_diverged) = (false, false);
        loop {
            // First whether it has ended: what it wrote before is there.
            let status = self.child.status()?;
            if let Some(nodes) = self.nodes.as_ref().filter(|_| status.is_some()) {
                nodes.finish(&mut drop).iter().for_each(|trouble| (self.say)(trouble));
            }
            self.pages.look(&folder.pinned())?;
            if let Some(tape) = &mut self.tape {
                tape.take(&folder.pinned());
            }
            let pages: Vec<(u32, SharedPage)> =
                self.pages.iter_mut().map(|(rank, _, page)| (rank, page)).collect();
            if let Some(why) = refusal(&folder.pinned()) {
                self.end(&pages)?;
                bail!(why);
            }
            self.tell(&pages);
            if !has_diverged && let Some((rank, page)) = diverged(&pages) {
                has_diverged = true;
                self.tell_divergence(rank, page);
                if !self.settings.holds {
                    self.end(&pages)?;
                    return Ok(ReplayEnd::Diverged);
                }
            }
            if let Some(status) = status {
                return Ok(if has_diverged { ReplayEnd::Diverged } else { self.ended(status, &pages)? });
            }
            let pids: Vec<u32> = pages.iter().map(|(_, page)| page.pid.load(Ordering::Relaxed)).collect();
            if left.are_left(&pids, Instant::now()) {
                (self.say)(LeftRanks::WORDS);
                self.end(&pages)?;
                continue;
            }
            if self.settings.stop.load(Ordering::Relaxed) {
                self.end(&pages)?;
                return Ok(ReplayEnd::Stopped);
            }
            if self.settings.limit.is_some_and(|limit| begun.elapsed() > limit) {
                self.end(&pages)?;
                return Ok(ReplayEnd::TooLong);
            }
            let views = pages.iter().map(|(rank, page)| self.view(*rank, page)).collect();
            let size = self.job.size as usize;
            if !is_said_to_hang && progress.is_stuck(views, size, Instant::now(), self.settings.patience) {
                is_said_to_hang = true;
                let end = self.tell_hang(&pages);
                if !self.settings.holds {
                    self.end(&pages)?;
                    return Ok(end);
                }
                has_diverged = matches!(end, ReplayEnd::Diverged | ReplayEnd::Impossible);
            }
            self.child.pause(PERIOD);
        }
    }

    fn end(&mut self, pages: &[(u32, SharedPage)]) -> Result<()> {
        let pids: Vec<u32> = pages.iter().map(|(_, page)| page.pid.load(Ordering::Relaxed)).collect();
        self.child.end(&pids)?;
        self.nodes.iter().for_each(|nodes| nodes.kill_ranks(&mut drop));
        Ok(())
    }

    fn remote(&self, rank: u32) -> Option<RemoteRank> {
        self.nodes.as_ref()?.rank(rank)
    }

    fn view(&self, rank: u32, page: &SharedPage) -> RankView {
        let view = RankView::of(page);
        match self.remote(rank) {
            Some(RemoteRank { is_running, .. }) => RankView { is_running, ..view },
            None => view,
        }
    }

    /// `4711`, or `4711 on node2`.
    fn process(&self, rank: u32, page: &SharedPage) -> String {
        match self.remote(rank) {
            Some(RemoteRank { node, pid, .. }) => format!("{pid} on {node}"),
            None => page.pid.load(Ordering::Relaxed).to_string(),
        }
    }

    /// Whether all of a rank's answers were played.
    fn is_at_end(&self, rank: u32, page: &SharedPage) -> bool {
        let record = self.job.ranks.iter().find(|record| record.rank == rank);
        // One that is left for another way is played as far as it is.
        let record = record.filter(|record| record.cut.is_none());
        record.is_none_or(|record| page.answers.load(Ordering::Relaxed) >= record.answers)
    }

    /// Tells when programs are others, and when records end.
    fn tell(&mut self, pages: &[(u32, SharedPage)]) {
        if let Some((_, page)) = pages.first().filter(|_| self.told.insert(u32::MAX)) {
            if self.is_another_program(page) {
                (self.say)(
                    "the program is not the one that was recorded: it is replayed as long as its calls are the same",
                );
            }
            let library = page.text(PageText::Library);
            // Probes know only whose it is.
            if !library.starts_with(&self.job.library) {
                (self.say)(&format!("recorded with {}, replayed with {library}", self.job.library));
            }
        }
        for (rank, page) in pages {
            let call = page.ended_at_call.load(Ordering::Relaxed);
            if call > 0 && self.told.insert(*rank) {
                let is_left = !self.settings.cuts.is_empty();
                let why = if is_left { "is left" } else { "ends" };
                (self.say)(&format!(
                    "rank {rank}: the record {why} before its call {call}; it runs free from there"
                ));
            }
        }
    }

    /// Where a rank is, behind `words`.
    fn where_it_is(&mut self, words: &str, page: &SharedPage) -> String {
        stands_at(words, page, &self.job.library) + &self.places.words(page)
    }

    fn is_another_program(&self, page: &SharedPage) -> bool {
        // Probes do not read it.
        self.job.program != (0, 0) && program_of(page) != self.job.program
    }

    fn tell_divergence(&mut self, rank: u32, page: &SharedPage) {
        let (at, why) = (self.where_it_is("at its", page), page.text(PageText::Message));
        (self.say)(&format!("rank {rank} diverges {at}: {why}"));
        // Of several threads, locks and shared variables decide much more often.
        if !self.is_another_program(page) && page.threads.load(Ordering::Relaxed) < 2 {
            (self.say)(FIXED_ADDRESSES_MAY_HELP);
        }
        if self.settings.holds {
            let process = self.process(rank, page);
            (self.say)(&format!("rank {rank} is stopped there: gdb -p {process}"));
        }
    }

    /// Nobody goes on.
    fn tell_hang(&mut self, pages: &[(u32, SharedPage)]) -> ReplayEnd {
        let waits_for_turn = |page: &SharedPage| page.waiting_for_turn.load(Ordering::Relaxed) > 0;
        let all_at_end =
            pages.iter().all(|(rank, page)| self.is_at_end(*rank, page) && !waits_for_turn(page));
        let is_left = !self.settings.cuts.is_empty();
        let waits_in_vain = |page: &SharedPage| page.due_source.load(Ordering::Relaxed) >= 0;
        let is_impossible = is_left && pages.iter().any(|(_, page)| waits_in_vain(page));
        (self.say)(if is_impossible {
            "the job cannot go that way: what is to come first does not come"
        } else if is_left {
            "the job hangs on its new way:"
        } else if all_at_end {
            "the job hangs where its record ends:"
        } else {
            "the job cannot go on as it was recorded: all ranks wait, and what they wait for does not come"
        });
        for (rank, page) in pages.iter().filter(|(_, page)| page.state() != PageState::Finalized) {
            let due = page.due_source.load(Ordering::Relaxed);
            let position = page.position.load(Ordering::Relaxed);
            let due = if position > 0 {
                format!(", to be call {position} of all ranks")
            } else if due >= 0 {
                let then = if is_left { "comes first" } else { "it got then" };
                format!(", for the message from rank {due} that {then}")
            } else {
                String::new()
            };
            let process = self.process(*rank, page);
            let at = self.where_it_is("in its", page);
            let turn = if waits_for_turn(page) {
                ", and threads of it for others that posted before them"
            } else {
                ""
            };
            (self.say)(&format!("  rank {rank} (process {process}) waits {at}{due}{turn}"));
        }
        match (is_impossible, all_at_end) {
            (true, _) => ReplayEnd::Impossible,
            (_, true) => ReplayEnd::Hangs,
            _ => ReplayEnd::Diverged,
        }
    }

    /// The job has ended: as far as it was recorded?
    fn ended(&mut self, status: ExitStatus, pages: &[(u32, SharedPage)]) -> Result<ReplayEnd> {
        if pages.is_empty() {
            bail!(
                "no rank was replayed: the command has ended ({status}) without an MPI_Init that the wrapper saw"
            );
        }
        let mut short = 0;
        for (rank, page) in pages {
            if !self.is_at_end(*rank, page) {
                short += 1;
                let at = self.where_it_is("in or after its", page);
                (self.say)(&format!("rank {rank} has ended {at}; its record goes on"));
            }
        }
        // A crash ends others where they are; who crashed is where the record of that rank ends.
        let did_what_it_did = short == 0 || !status.success() && short < pages.len();
        Ok(if did_what_it_did { ReplayEnd::Ended(status) } else { ReplayEnd::Diverged })
    }
}

fn diverged(pages: &[(u32, SharedPage)]) -> Option<(u32, &SharedPage)> {
    pages.iter().find(|(_, page)| page.state() == PageState::Diverged).map(|(rank, page)| (*rank, page))
}

//! Replays a job: starts it with the wrapper, and watches that it goes on.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use replay::shared_page::{PageState, PageText, SharedPage};

use super::call_names::call_text;
use super::job::{SharedFolder, WrappedJob};
use super::pages::Pages;
use super::recorded_job::{RecordedJob, ReplayableJob};
use super::stuck::{Progress, RankView};
use super::wrapper_file::{WrapperKind, wrapper_for};
use crate::host::sudo::Account;

const PERIOD: Duration = Duration::from_millis(50);

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
) -> Result<ReplayEnd> {
    let job = match recorded.replayable() {
        Ok(job) => job,
        Err(why) => bail!(why),
    };
    job.warnings.iter().for_each(|warning| say(&format!("not covered by the replay: {warning}")));
    let wrapper = wrapper_for(command, settings.named)?;
    let folder = SharedFolder::create(settings.account.as_ref())?;
    put_down(&job, folder.path(), settings.account.as_ref())?;
    let hold = if settings.holds { ",hold" } else { "" };
    let wish = format!("replay:{}{hold}", folder.path().display());
    let child = WrappedJob::start(command, settings.account.as_ref(), &wrapper, &wish)?;
    Replaying { job, child, pages: Pages::default(), told: BTreeSet::new(), settings, say }.watch(&folder)
}

/// Writes what the wrapper reads.
fn put_down(job: &ReplayableJob, folder: &Path, account: Option<&Account>) -> Result<()> {
    let put = |name: String, bytes: &[u8]| -> Result<()> {
        let path = folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        if let Some(account) = account {
            chown(&path, Some(account.uid), Some(account.gid)).context("cannot give a file to the user")?;
        }
        Ok(())
    };
    put("job".into(), format!("size {}\nlibrary {}\n", job.size, job.library).as_bytes())?;
    for rank in &job.ranks {
        put(format!("record-{}", rank.rank), &[&rank.polls.to_le_bytes()[..], &rank.bytes].concat())?;
    }
    Ok(())
}

struct Replaying<'a> {
    job: ReplayableJob,
    child: WrappedJob,
    pages: Pages,
    /// Ranks of which it was said that their record has ended.
    told: BTreeSet<u32>,
    settings: &'a ReplaySettings,
    say: &'a mut dyn FnMut(&str),
}

impl Replaying<'_> {
    fn watch(mut self, folder: &SharedFolder) -> Result<ReplayEnd> {
        let mut progress = Progress::new(Instant::now());
        let (mut is_said_to_hang, mut has_diverged) = (false, false);
        loop {
            // First whether it has ended: what it wrote before is there.
            let status = self.child.status()?;
            self.pages.look(folder.path())?;
            let pages: Vec<(u32, SharedPage)> =
                self.pages.iter_mut().map(|(rank, _, page)| (rank, page)).collect();
            if let Some(why) = refusal(folder.path()) {
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
            if self.settings.stop.load(Ordering::Relaxed) {
                self.end(&pages)?;
                return Ok(ReplayEnd::Stopped);
            }
            let views = pages.iter().map(|(_, page)| view(page)).collect();
            let size = self.job.size as usize;
            if !is_said_to_hang && progress.is_stuck(views, size, Instant::now(), self.settings.patience) {
                is_said_to_hang = true;
                let end = self.tell_hang(&pages);
                if !self.settings.holds {
                    self.end(&pages)?;
                    return Ok(end);
                }
                has_diverged = matches!(end, ReplayEnd::Diverged);
            }
            self.child.pause(PERIOD);
        }
    }

    fn end(&mut self, pages: &[(u32, SharedPage)]) -> Result<()> {
        let pids: Vec<u32> = pages.iter().map(|(_, page)| page.pid.load(Ordering::Relaxed)).collect();
        self.child.end(&pids)
    }

    /// Whether all of a rank's answers were played.
    fn is_at_end(&self, rank: u32, page: &SharedPage) -> bool {
        let record = self.job.ranks.iter().find(|record| record.rank == rank);
        record.is_none_or(|record| page.answers.load(Ordering::Relaxed) >= record.answers)
    }

    /// Tells when programs are others, and when records end.
    fn tell(&mut self, pages: &[(u32, SharedPage)]) {
        if let Some((_, page)) = pages.first().filter(|_| self.told.insert(u32::MAX)) {
            let program =
                (page.program_bytes.load(Ordering::Relaxed), page.program_checksum.load(Ordering::Relaxed));
            if program != self.job.program {
                (self.say)(
                    "the program is not the one that was recorded: it is replayed as long as its calls are the same",
                );
            }
            let library = page.text(PageText::Library);
            if library != self.job.library {
                (self.say)(&format!("recorded with {}, replayed with {library}", self.job.library));
            }
        }
        for (rank, page) in pages {
            let call = page.ended_at_call.load(Ordering::Relaxed);
            if call > 0 && self.told.insert(*rank) {
                (self.say)(&format!(
                    "rank {rank}: the record ends before its call {call}; it runs free from there"
                ));
            }
        }
    }

    fn where_it_is(&self, page: &SharedPage) -> String {
        let arguments = [0, 1, 2].map(|at: usize| page.arguments[at].load(Ordering::Relaxed));
        let call = call_text(page.call.load(Ordering::Relaxed), arguments, &self.job.library);
        format!("call {}, {call}", page.calls.load(Ordering::Relaxed))
    }

    fn tell_divergence(&mut self, rank: u32, page: &SharedPage) {
        let (at, why) = (self.where_it_is(page), page.text(PageText::Message));
        (self.say)(&format!("rank {rank} diverges at its {at}: {why}"));
        if self.settings.holds {
            let pid = page.pid.load(Ordering::Relaxed);
            (self.say)(&format!("rank {rank} is stopped there: gdb -p {pid}"));
        }
    }

    /// Nobody goes on.
    fn tell_hang(&mut self, pages: &[(u32, SharedPage)]) -> ReplayEnd {
        let all_at_end = pages.iter().all(|(rank, page)| self.is_at_end(*rank, page));
        (self.say)(if all_at_end {
            "the job hangs where its record ends:"
        } else {
            "the job cannot go on as it was recorded: all ranks wait, and what they wait for does not come"
        });
        for (rank, page) in pages.iter().filter(|(_, page)| page.state() != PageState::Finalized) {
            let due = page.due_source.load(Ordering::Relaxed);
            let due = if due >= 0 {
                format!(", for the message from rank {due} that it got then")
            } else {
                String::new()
            };
            let pid = page.pid.load(Ordering::Relaxed);
            let at = self.where_it_is(page);
            (self.say)(&format!("  rank {rank} (process {pid}) waits in its {at}{due}"));
        }
        if all_at_end { ReplayEnd::Hangs } else { ReplayEnd::Diverged }
    }

    /// The job has ended: as far as it was recorded?
    fn ended(&mut self, status: ExitStatus, pages: &[(u32, SharedPage)]) -> Result<ReplayEnd> {
        if pages.is_empty() {
            bail!(
                "no rank was replayed: the command has ended ({status}) without an MPI_Init that the wrapper saw"
            );
        }
        let mut is_short = false;
        for (rank, page) in pages {
            if !self.is_at_end(*rank, page) {
                is_short = true;
                let at = self.where_it_is(page);
                (self.say)(&format!("rank {rank} has ended in or after its {at}; its record goes on"));
            }
        }
        // A crash ends others where they are.
        Ok(if is_short && status.success() { ReplayEnd::Diverged } else { ReplayEnd::Ended(status) })
    }
}

fn diverged(pages: &[(u32, SharedPage)]) -> Option<(u32, &SharedPage)> {
    pages.iter().find(|(_, page)| page.state() == PageState::Diverged).map(|(rank, page)| (*rank, page))
}

/// Why a rank refuses to be replayed.
fn refusal(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?;
    let path = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("refused-")))?;
    fs::read_to_string(path).ok().filter(|why| !why.is_empty())
}

fn view(page: &SharedPage) -> RankView {
    RankView {
        state: page.state(),
        calls: page.calls.load(Ordering::Relaxed),
        is_running: is_running(page.pid.load(Ordering::Relaxed)),
    }
}

/// Whether nobody has stopped a process. Of one that is not seen here, it is not known.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 't' | 'T' | 'Z' | 'X'))
}

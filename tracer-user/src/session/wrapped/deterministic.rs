//! Runs a job in which messages are taken in the order of logical time: starts it with the wrapper, and watches it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use replay::shared_page::{PageState, PageText, SharedPage};

use super::call_names::stands_at;
use super::job::{JobStart, WrappedJob};
use super::pages::{Pages, refusal};
use super::places_of_calls::PlacesOfCalls;
use super::shared_folder::SharedFolder;
use super::stuck::{Progress, RankView};
use super::wrapper_file::{WrapperKind, wrapper_for};
use crate::host::sudo::Account;

const PERIOD: Duration = Duration::from_millis(50);
/// It is said where all ranks wait when none has gone on for so long.
const STANDSTILL: Duration = Duration::from_secs(30);

/// How it ended.
#[derive(Debug)]
pub enum DeterministicEnd {
    /// By itself.
    Ended {
        /// Of the job.
        status: ExitStatus,
        /// That were seen.
        ranks: usize,
        /// How often a rank went on against the rules, since nobody could.
        forced: u64,
    },
    /// All ranks wait for each other.
    Deadlocked,
    /// The user wanted it to end.
    Stopped,
}

/// What a deterministic run does not cover, by the bits of `replay::shared_page::UNCOVERED`.
const UNORDERED: [(u32, &str); 3] = [
    (3, "MPI_Cancel of a receive from a known rank, or of a send"),
    (
        4,
        "communicators made by calls that are not looked at, or more than 65,534: messages in them come as they come",
    ),
    (7, "windows by locks (MPI_Win_lock, MPI_Win_lock_all): who accesses one first is chance"),
];

/// How a job is run.
#[derive(Clone, Debug)]
pub struct DeterministicSettings {
    /// Whose it is, if not the caller's.
    pub account: Option<Account>,
    /// The MPI library, if the user names it.
    pub named: Option<WrapperKind>,
    /// Reductions are done in the order of ranks.
    pub orders_reductions: bool,
    /// Set when the user wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// Starts a job and watches it, to its end or until it is told to stop; `say`: what people hear, a line at a time.
///
/// # Errors
/// There is no wrapper for it, the command cannot be run, or its ranks refuse.
pub fn deterministic(
    command: &[String],
    settings: &DeterministicSettings,
    say: &mut dyn FnMut(&str),
) -> Result<DeterministicEnd> {
    let DeterministicSettings { account, named, orders_reductions, stop } = settings;
    let account = account.as_ref();
    let wrapper = wrapper_for(command, *named)?;
    let folder = SharedFolder::create(account)?;
    if *orders_reductions {
        folder.put("reductions", b"")?;
    }
    let wish = format!("deterministic:{}", folder.path().display());
    let (objects, environment) = ([wrapper], [format!("DMSCOPE_REPLAY={wish}")]);
    let start = JobStart {
        command,
        account,
        objects: &objects,
        environment: &environment,
        fixes_addresses: true,
        output: None,
    };
    let mut job = WrappedJob::start(&start)?;
    let mut pages = Pages::of_ranks();
    let mut told = BTreeSet::new();
    let mut progress = Progress::new(Instant::now());
    let mut stands_still = false;
    loop {
        // First whether it has ended: what it wrote before is there.
        let status = job.status()?;
        pages.look(&folder.pinned())?;
        let ranks: Vec<(u32, SharedPage)> = pages.iter_mut().map(|(rank, _, page)| (rank, page)).collect();
        let pids: Vec<u32> = ranks.iter().map(|(_, page)| page.pid.load(Ordering::Relaxed)).collect();
        if let Some(why) = refused(&folder.pinned(), &ranks, status) {
            job.end(&pids)?;
            bail!(why);
        }
        for line in warnings(&ranks) {
            if told.insert(line.clone()) {
                say(&line);
            }
        }
        if let Some(status) = status {
            let forced = ranks.iter().map(|(_, page)| page.answers.load(Ordering::Relaxed)).sum();
            return Ok(DeterministicEnd::Ended { status, ranks: ranks.len(), forced });
        }
        if ranks.iter().any(|(_, page)| page.deadlocked.load(Ordering::Acquire) != 0) {
            say("the job is deadlocked: each rank waits for others, and none can go on");
            tell_where_they_wait(&ranks, say);
            job.end(&pids)?;
            return Ok(DeterministicEnd::Deadlocked);
        }
        if stop.load(Ordering::Relaxed) {
            job.end(&pids)?;
            return Ok(DeterministicEnd::Stopped);
        }
        let size = ranks.first().map_or(0, |(_, page)| page.size.load(Ordering::Relaxed) as usize);
        let views = ranks.iter().map(|(_, page)| RankView::of(page)).collect();
        let stood_still =
            std::mem::replace(&mut stands_still, progress.is_stuck(views, size, Instant::now(), STANDSTILL));
        if stands_still && !stood_still {
            say("no rank has gone on for 30 seconds; ctrl-c ends the job");
            tell_where_they_wait(&ranks, say);
        }
        job.pause(PERIOD);
    }
}

/// Why the job does not run as it was wished.
fn refused(folder: &Path, ranks: &[(u32, SharedPage)], status: Option<ExitStatus>) -> Option<String> {
    let never_begun = || {
        let status = status?;
        ranks.is_empty().then(|| {
            format!("the command has ended ({status}) without an MPI_Init that the wrapper saw: nothing was decided")
        })
    };
    refusal(folder).or_else(never_begun)
}

fn warnings(ranks: &[(u32, SharedPage)]) -> Vec<String> {
    let used = ranks.iter().fold(0, |all, (_, page)| all | page.uncovered.load(Ordering::Relaxed));
    let unordered = UNORDERED.iter().filter(|(bit, _)| used >> bit & 1 == 1);
    let mut lines: Vec<String> =
        unordered.map(|(_, what)| format!("not deterministic: the job uses {what}")).collect();
    for (rank, page) in ranks.iter().filter(|(_, page)| page.stopped.load(Ordering::Acquire) != 0) {
        lines.push(format!("not deterministic: rank {rank}: {}", page.text(PageText::Message)));
    }
    lines
}

fn tell_where_they_wait(ranks: &[(u32, SharedPage)], say: &mut dyn FnMut(&str)) {
    let mut places = PlacesOfCalls::default();
    for (rank, page) in ranks.iter().filter(|(_, page)| page.state() != PageState::Finalized) {
        let pid = page.pid.load(Ordering::Relaxed);
        let at = stands_at("in its", page, &page.text(PageText::Library));
        let place = places.words(page);
        say(&format!("  rank {rank} (process {pid}) waits {at}{place}"));
    }
}

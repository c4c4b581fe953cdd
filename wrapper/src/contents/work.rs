//! What is done with the contents of this process's calls.

use std::path::PathBuf;

use super::alone::{AloneRank, AloneWish};
use super::recorder::ContentRecorder;
use super::ring::MappedRing;
use crate::calling_threads::{MULTIPLE, SERIALIZED};
use crate::owned::{Owned, OwnedByThread};
use crate::rank_parts::{Introduction, introduce};
use crate::refusal::say;

/// The variable that dmscope sets: `record:FOLDER` or `alone:FOLDER`.
const VARIABLE: &str = "DMSCOPE_CONTENTS";

pub(super) enum ContentWork {
    Record(ContentRecorder),
    Play(AloneRank),
}

static WORK: OwnedByThread<ContentWork> = OwnedByThread::new();

/// The work, if there is any and this is the thread that does it.
pub(super) fn work() -> Option<Owned<'static, ContentWork>> {
    WORK.get()
}

fn wish(action: &str) -> Option<PathBuf> {
    let text = std::env::var(VARIABLE).ok()?;
    text.strip_prefix(action)?.strip_prefix(':').map(PathBuf::from)
}

/// The process is a rank: begins, if dmscope wishes it.
pub(super) fn begin(who: &Introduction) -> Option<()> {
    let work = match (wish("record"), wish("alone")) {
        (Some(folder), _) => record(&folder, who)?,
        (_, Some(folder)) => play(&folder, who),
        _ => return None,
    };
    WORK.give(work, who.thread_level >= SERIALIZED);
    Some(())
}

/// None: this rank is not to be recorded.
fn record(folder: &std::path::Path, who: &Introduction) -> Option<ContentWork> {
    let wished = std::fs::read_to_string(folder.join("contents-ranks")).unwrap_or_default();
    let mut ranks = wished.split_whitespace();
    if !wished.trim().is_empty() && !ranks.any(|rank| rank.parse() == Ok(who.rank)) {
        return None;
    }
    match MappedRing::create(folder, who.rank) {
        Ok(ring) => {
            Some(ContentWork::Record(ContentRecorder::new(ring, who.rank, who.thread_level == MULTIPLE)))
        }
        Err(error) => {
            say(&format!("contents of rank {} are not recorded: {error}", who.rank));
            None
        }
    }
}

/// The rank cannot run alone: dmscope says why.
pub(super) fn refuse(why: &str) {
    say(&format!("the rank cannot run alone: {why}"));
    if let Some(folder) = wish("alone") {
        let _ = std::fs::write(folder.join("refused-alone"), why);
    }
}

fn play(folder: &std::path::Path, who: &Introduction) -> ContentWork {
    let played = AloneWish::read(folder).and_then(|job| {
        let rank = AloneRank::new(folder, &job)?;
        introduce(rank.page(), &Introduction { rank: job.rank, ..who.clone() });
        Ok(rank)
    });
    match played {
        Ok(rank) => ContentWork::Play(rank),
        Err(error) => {
            refuse(&error.to_string());
            // SAFETY: always possible. Without its record it must not run.
            unsafe { libc::_exit(2) }
        }
    }
}

//! Records a job with the wrapper: what its ranks write goes to the tape while they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analyzer::input::{End, Input};
use analyzer::tape::{FileTape, RankAnswers, ReplayableRank};
use anyhow::{Context, Result};
use replay::shared_page::{PageText, SharedPage};

use super::job::{SharedFolder, WrappedJob};
use super::pages::{Pages, RankFile, text};
use super::wrapper_file::{WrapperKind, wrapper_for};
use crate::host::clock;
use crate::host::output_file::OutputFile;
use crate::host::sudo::Account;
use crate::session::start;

/// What ranks have recorded is on the tape after this time.
const PERIOD: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Debug)]
pub struct JobRecorded {
    /// How the job ended.
    pub status: ExitStatus,
    /// Ranks whose calls are on the tape.
    pub ranks: Vec<ReplayableRank>,
    /// Answers that were recorded.
    pub answers: u64,
    /// Length of the tape.
    pub tape_bytes: u64,
    /// What went wrong with the tape.
    pub trouble: Vec<String>,
}

struct TapeOfRanks {
    tape: FileTape,
    ranks: BTreeMap<u32, ReplayableRank>,
    polls: BTreeMap<u32, u64>,
    answers: BTreeMap<u32, u64>,
    trouble: Vec<String>,
}

/// Starts a job and records it, to its end or until `stop`.
///
/// # Errors
/// There is no wrapper for it, the tape cannot be made, the command cannot be run.
pub fn record(
    command: &[String],
    account: Option<&Account>,
    named: Option<WrapperKind>,
    tape: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<JobRecorded> {
    let wrapper = wrapper_for(command, named)?;
    let file = OutputFile::find(tape).and_then(OutputFile::begin);
    let file = file.with_context(|| format!("cannot record to {}", tape.display()))?;
    let folder = SharedFolder::create(account)?;
    let mut tape = TapeOfRanks {
        tape: FileTape::to_file(file),
        ranks: BTreeMap::new(),
        polls: BTreeMap::new(),
        answers: BTreeMap::new(),
        trouble: Vec::new(),
    };
    tape.push(&Input::Start(Box::new(start(&command.join(" "), 0, true))));
    tape.flush();
    let wish = format!("record:{}", folder.path().display());
    let mut job = WrappedJob::start(command, account, &wrapper, &wish)?;
    let mut pages = Pages::default();
    let status = loop {
        // First whether it has ended: what it wrote before is there.
        let status = job.status()?;
        pages.look(folder.path())?;
        for (rank, file, page) in pages.iter_mut() {
            tape.take(rank, file, &page)?;
        }
        tape.flush();
        if let Some(status) = status {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            job.end(&tape.ranks.values().map(|rank| rank.pid).collect::<Vec<_>>())?;
        } else {
            job.pause(PERIOD);
        }
    };
    tape.finish(status)
}

impl TapeOfRanks {
    fn push(&mut self, input: &Input) {
        if let Err(error) = self.tape.push(input) {
            self.trouble = vec![error.to_string()];
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.tape.flush() {
            self.trouble = vec![error.to_string()];
        }
    }

    /// What is new of a rank.
    fn take(&mut self, rank: u32, file: &mut RankFile, page: &SharedPage) -> Result<()> {
        let facts = facts(rank, page);
        if self.ranks.get(&rank) != Some(&facts) {
            self.push(&Input::ReplayableRank(Box::new(facts.clone())));
            self.ranks.insert(rank, facts);
        }
        self.answers.insert(rank, page.answers.load(Ordering::Relaxed));
        let polls = page.polls.load(Ordering::Acquire);
        let mut end_bytes = 0;
        while let Some((offset_bytes, bytes)) = file.take(page)? {
            end_bytes = offset_bytes + bytes.len() as u64;
            self.polls.insert(rank, 0);
            self.push(&Input::Answers(Box::new(RankAnswers { rank, offset_bytes, polls: 0, bytes })));
        }
        // They are behind all that was taken: the page was read before.
        if self.polls.insert(rank, polls).unwrap_or(0) != polls {
            let offset_bytes = end_bytes.max(page.record_bytes() as u64);
            self.push(&Input::Answers(Box::new(RankAnswers {
                rank,
                offset_bytes,
                polls,
                bytes: Vec::new(),
            })));
        }
        Ok(())
    }

    fn finish(mut self, status: ExitStatus) -> Result<JobRecorded> {
        let end = End {
            time_ns: clock::monotonic_ns(),
            reason: format!("the job ended: {status}"),
            failed_probes: Vec::new(),
            strangers: None,
        };
        self.push(&Input::End(end));
        self.flush();
        Ok(JobRecorded {
            status,
            answers: self.answers.values().sum(),
            ranks: self.ranks.into_values().collect(),
            tape_bytes: self.tape.written_bytes(),
            trouble: self.trouble,
        })
    }
}

fn facts(rank: u32, page: &SharedPage) -> ReplayableRank {
    let is_stopped = page.stopped.load(Ordering::Acquire) != 0;
    ReplayableRank {
        rank,
        size: page.size.load(Ordering::Relaxed),
        pid: page.pid.load(Ordering::Relaxed),
        library: page.text(PageText::Library),
        program: page.text(PageText::Program),
        program_bytes: page.program_bytes.load(Ordering::Relaxed),
        program_checksum: page.program_checksum.load(Ordering::Relaxed),
        thread_level: page.thread_level.load(Ordering::Relaxed),
        uncovered: page.uncovered.load(Ordering::Relaxed),
        stopped: text(page, PageText::Message).filter(|_| is_stopped),
    }
}

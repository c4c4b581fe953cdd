//! The tape of a job that runs with the wrapper: what its ranks write goes there while they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;

use analyzer::input::{End, Input};
use analyzer::tape::{FileTape, RankAnswers, RankMessages, ReplayableRank};
use anyhow::{Context, Result};
use replay::polls_behind;
use replay::shared_page::{PageText, SharedPage};

use super::content_rings::RankContents;
use super::pages::{Pages, RankFile, text};
use crate::host::clock;
use crate::host::output_file::OutputFile;
use crate::session::start;

/// What came of a recording.
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
    /// What was recorded of contents, if that was wished.
    pub contents: Option<Vec<RankContents>>,
    /// What went wrong with the tape.
    pub trouble: Vec<String>,
}

pub(super) struct TapeOfRanks {
    tape: FileTape,
    answers: Pages,
    messages: Pages,
    ranks: BTreeMap<u32, ReplayableRank>,
    polls: BTreeMap<u32, u64>,
    /// What the record of a rank with several threads goes on with if nothing more comes: where, and the bytes.
    tails: BTreeMap<u32, (u64, Vec<u8>)>,
    counts: BTreeMap<u32, u64>,
    trouble: Vec<String>,
}

impl TapeOfRanks {
    /// `prefix`: of the files that ranks write what is recorded into.
    ///
    /// # Errors
    /// The tape cannot be made.
    pub(super) fn create(path: &Path, prefix: &'static str, command: &[String]) -> Result<Self> {
        let file = OutputFile::find(path).and_then(OutputFile::begin);
        let file = file.with_context(|| format!("cannot record to {}", path.display()))?;
        let mut tape = Self {
            tape: FileTape::to_file(file),
            answers: Pages::named(prefix),
            messages: Pages::named("messages-"),
            ranks: BTreeMap::new(),
            polls: BTreeMap::new(),
            tails: BTreeMap::new(),
            counts: BTreeMap::new(),
            trouble: Vec::new(),
        };
        tape.push(&Input::Start(Box::new(start(&command.join(" "), 0, true))));
        tape.flush();
        Ok(tape)
    }

    /// Processes of the ranks.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.ranks.values().map(|rank| rank.pid).collect()
    }

    /// A part of what was recorded of the contents of a rank's messages.
    pub(super) fn push_contents(&mut self, part: RankAnswers) {
        self.push(&Input::Contents(Box::new(part)));
    }

    /// One input more.
    fn push(&mut self, input: &Input) {
        if let Err(error) = self.tape.push(input) {
            self.fail(&error);
        }
    }

    /// What else went wrong: each is said once.
    pub(super) fn trouble(&mut self, what: Vec<String>) {
        what.iter().for_each(|what| self.fail(what));
    }

    fn flush(&mut self) {
        if let Err(error) = self.tape.flush() {
            self.fail(&error);
        }
    }

    /// Something went wrong: said once.
    fn fail(&mut self, error: &impl ToString) {
        let error = error.to_string();
        if !self.trouble.contains(&error) {
            self.trouble.push(error);
        }
    }

    /// What is new in the folder that is shared with ranks. A rank that has destroyed what it shares is left: others go on.
    pub(super) fn take(&mut self, folder: &Path) {
        let mut answers = std::mem::replace(&mut self.answers, Pages::named(""));
        self.take_from(&mut answers, folder, Self::take_answers);
        self.answers = answers;
        let mut messages = std::mem::replace(&mut self.messages, Pages::named(""));
        self.take_from(&mut messages, folder, Self::take_messages);
        self.messages = messages;
        self.flush();
    }

    fn take_from(
        &mut self,
        pages: &mut Pages,
        folder: &Path,
        take: fn(&mut Self, u32, &mut RankFile, &SharedPage) -> Result<()>,
    ) {
        if let Err(error) = pages.look(folder) {
            self.fail(&format!("{error:#}"));
        }
        let mut lost = Vec::new();
        for (rank, file, page) in pages.iter_mut() {
            if let Err(error) = take(self, rank, file, &page) {
                self.fail(&format!("rank {rank}: {error:#}; what it did from then on is not recorded"));
                lost.push(rank);
            }
        }
        lost.into_iter().for_each(|rank| pages.leave(rank));
    }

    /// Of a rank that is on the tape already: one that has made its files since its answers were looked for comes next time.
    fn take_messages(&mut self, rank: u32, file: &mut RankFile, page: &SharedPage) -> Result<()> {
        if !self.ranks.contains_key(&rank) {
            return Ok(());
        }
        while let Some((offset_bytes, bytes)) = file.take(page)? {
            self.push(&Input::Messages(Box::new(RankMessages { rank, offset_bytes, bytes })));
        }
        Ok(())
    }

    fn take_answers(&mut self, rank: u32, file: &mut RankFile, page: &SharedPage) -> Result<()> {
        let facts = facts(rank, page);
        if self.ranks.get(&rank) != Some(&facts) {
            self.push(&Input::ReplayableRank(Box::new(facts.clone())));
            self.ranks.insert(rank, facts);
        }
        self.counts.insert(rank, page.answers.load(Ordering::Relaxed));
        let polls = page.polls.load(Ordering::Acquire);
        let tail = polls_behind(&page.thread_polls.each_ref().map(|polls| polls.load(Ordering::Relaxed)));
        let mut end_bytes = 0;
        while let Some((offset_bytes, bytes)) = file.take(page)? {
            end_bytes = offset_bytes + bytes.len() as u64;
            self.polls.insert(rank, 0);
            self.push(&Input::Answers(Box::new(RankAnswers { rank, offset_bytes, polls: 0, bytes })));
        }
        if end_bytes > 0 || !tail.is_empty() {
            self.tails.insert(rank, (end_bytes.max(page.record_bytes() as u64), tail));
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

    /// The job has ended.
    pub(super) fn finish(mut self, status: ExitStatus) -> JobRecorded {
        for (rank, (offset_bytes, bytes)) in std::mem::take(&mut self.tails) {
            if !bytes.is_empty() {
                self.push(&Input::Answers(Box::new(RankAnswers { rank, offset_bytes, polls: 0, bytes })));
            }
        }
        let end = End {
            time_ns: clock::monotonic_ns(),
            reason: format!("the job ended: {status}"),
            failed_probes: Vec::new(),
            strangers: None,
        };
        self.push(&Input::End(end));
        self.flush();
        JobRecorded {
            status,
            answers: self.counts.values().sum(),
            ranks: self.ranks.into_values().collect(),
            tape_bytes: self.tape.written_bytes(),
            contents: None,
            trouble: self.trouble,
        }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt;

    use analyzer::tape::{Item, Reader};
    use replay::shared_page::PAGE_BYTES;
    use tempfile::TempDir;

    use super::*;

    /// A file of rank 0 with a record.
    fn page_with(record: &[u8]) -> Vec<u8> {
        let page = SharedPage::from_bytes(&[0; PAGE_BYTES]);
        page.size.store(1, Ordering::Relaxed);
        page.set_record_bytes(record.len());
        page.begin();
        [&page.to_bytes()[..], record].concat()
    }

    #[test]
    fn messages_come_behind_the_rank_that_they_are_of() -> Result<()> {
        let folder = TempDir::new()?;
        let path = folder.path().join("x.dmt");
        let mut tape = TapeOfRanks::create(&path, "rank-", &["job".to_owned()])?;
        // As if the rank had begun between one look and the other.
        fs::write(folder.path().join("messages-0"), page_with(b"who to whom"))?;
        tape.take(folder.path());
        fs::write(folder.path().join("rank-0"), page_with(b"answers"))?;
        tape.take(folder.path());
        assert!(tape.finish(ExitStatus::from_raw(0)).trouble.is_empty());
        let inputs = Reader::new(fs::File::open(&path)?)?;
        let of_rank = |item: Item| match item {
            Item::Input(Input::ReplayableRank(_)) => Some("rank"),
            Item::Input(Input::Messages(messages)) => {
                Some(if messages.offset_bytes == 0 { "messages" } else { "a gap" })
            }
            _ => None,
        };
        assert_eq!(inputs.filter_map(|item| of_rank(item.ok()?)).collect::<Vec<_>>(), ["rank", "messages"]);
        Ok(())
    }
}

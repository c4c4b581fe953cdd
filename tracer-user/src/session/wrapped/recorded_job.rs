//! The job on a tape: what its ranks' calls answered.

use std::collections::{BTreeMap, HashMap};

use super::probed_job::ProbedTape;
use super::swap::ExchangePoint;
use analyzer::messages::MessageId;
use analyzer::tape::{RankAnswers, RankMessages, ReplayableRank};
use replay::races::Races;
use replay::shared_page::UNCOVERED;
use replay::total_order::{end_of, positions_of};
use replay::{BadRecord, Playback, RankCut};

/// Gathered from a tape.
#[derive(Clone, Debug, Default)]
pub struct RecordedJob {
    /// The ranks, with what is on the tape of each.
    ranks: BTreeMap<u32, RecordedRank>,
    /// Answers of which it is not known whose they are, or which are twice there.
    misplaced: Option<u32>,
    /// What else people must know before it is replayed.
    notes: Vec<String>,
    /// Messages received from anybody of which it is not known whose they were.
    unknown: u64,
    /// Where receives from anybody were posted, if probes recorded them and messages are wanted.
    points: HashMap<MessageId, ExchangePoint>,
}

#[derive(Clone, Debug, Default)]
struct RecordedRank {
    facts: Option<ReplayableRank>,
    bytes: Vec<u8>,
    polls: u64,
    /// Where something is missing.
    gap_bytes: Option<u64>,
    messages: Vec<u8>,
    /// Some of its messages are missing.
    has_message_gap: bool,
}

/// A rank as it is to be replayed.
#[derive(Debug)]
pub(super) struct RankRecord {
    pub rank: u32,
    pub polls: u64,
    pub bytes: Vec<u8>,
    pub answers: u64,
    /// Where it is left for another way.
    pub cut: Option<RankCut>,
}

/// What a replay needs.
#[derive(Debug)]
pub(super) struct ReplayableJob {
    pub size: u32,
    pub library: String,
    pub ranks: Vec<RankRecord>,
    /// Of rank 0: length and checksum.
    pub program: (u64, u64),
    /// What the record does not cover, for people.
    pub warnings: Vec<String>,
    /// What else people must know.
    pub notes: Vec<String>,
}

impl ReplayableJob {
    /// Where the recorded order of all ranks' calls ends.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn order_end(&self) -> Result<u64, OrderMissing> {
        let positions: Result<Vec<_>, _> = self.ranks.iter().map(|rank| positions_of(&rank.bytes)).collect();
        match positions.and_then(|positions| end_of(&positions)) {
            Ok(0) => Err(OrderMissing::NotRecorded),
            Ok(end) => Ok(end),
            Err(bad) => Err(OrderMissing::Damaged(bad)),
        }
    }
}

/// Why a tape has no order of all ranks' calls.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderMissing {
    #[error(
        "the order of all ranks' calls is not on this tape: record the job with `dmscope record --order`, or replay this record once \
         with `dmscope replay --record ordered.dmt --order` and use ordered.dmt"
    )]
    NotRecorded,
    #[error("the tape is damaged: of the order of all ranks' calls, {0}")]
    Damaged(BadRecord),
}

/// A job of more ranks is refused: what a tape claims is not believed.
const MAX_RANKS: usize = 1 << 20;

impl RecordedJob {
    /// Takes what is said of a rank.
    pub fn learn(&mut self, facts: &ReplayableRank) {
        if self.ranks.len() < MAX_RANKS {
            self.ranks.entry(facts.rank).or_default().facts = Some(facts.clone());
        }
    }

    /// Takes answers.
    pub fn take(&mut self, answers: &RankAnswers) {
        let Some(rank) = self.ranks.get_mut(&answers.rank) else {
            self.misplaced = Some(answers.rank);
            return;
        };
        if rank.gap_bytes.is_none() && answers.offset_bytes != rank.bytes.len() as u64 {
            rank.gap_bytes = Some(rank.bytes.len() as u64);
        }
        rank.bytes.extend_from_slice(&answers.bytes);
        rank.polls = answers.polls;
    }

    /// Takes messages.
    pub fn take_messages(&mut self, messages: &RankMessages) {
        let Some(rank) = self.ranks.get_mut(&messages.rank) else {
            self.misplaced = Some(messages.rank);
            return;
        };
        rank.has_message_gap |= messages.offset_bytes != rank.messages.len() as u64;
        rank.messages.extend_from_slice(&messages.bytes);
    }

    /// Whether nothing was recorded by a wrapper.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Takes what was made from what probes saw.
    pub fn take_probed(&mut self, tape: &ProbedTape) {
        tape.ranks.iter().for_each(|rank| self.learn(rank));
        tape.answers.iter().for_each(|answers| self.take(answers));
        tape.messages.iter().for_each(|messages| self.take_messages(messages));
        self.notes.push("recorded by probes: clocks that the program reads show what they show".to_owned());
        self.unknown = tape.unknown;
        self.points.clone_from(&tape.points);
        if tape.unknown > 0 {
            self.notes.push(format!(
                "of {} messages received from anybody it is not known whose they were (MPI_STATUS_IGNORE, and nothing else tells): \
                 those receives take what comes",
                tape.unknown
            ));
        }
        if tape.unordered > 0 {
            self.notes.push(format!(
                "{} times two threads of a rank were at sends to the same rank, or at receives from the same, at the same time; which was \
                 first is not certain: what is likely is replayed. `dmscope record` records the order",
                tape.unordered
            ));
        }
    }

    /// Whether there are messages on the tape.
    pub fn has_messages(&self) -> bool {
        self.ranks.values().any(|rank| !rank.messages.is_empty())
    }

    /// Messages received from anybody of which it is not known whose they were.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Where a receive from anybody was posted, as a replay names it.
    pub fn point(&self, receive: MessageId) -> Option<ExchangePoint> {
        self.points.get(&receive).copied()
    }

    /// How many ranks it has, and the words of its MPI library.
    pub fn library(&self) -> &str {
        self.ranks.values().find_map(|rank| rank.facts.as_ref()).map_or("", |facts| &facts.library)
    }

    /// Where the job could have gone another way.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn races(&self) -> Result<Races, String> {
        let size = self.ranks.values().find_map(|rank| rank.facts.as_ref()).map_or(0, |facts| facts.size);
        if size as usize != self.ranks.len() || !self.ranks.keys().copied().eq(0..size) {
            return Err("not all ranks are on the tape".to_owned());
        }
        if let Some((rank, _)) = self.ranks.iter().find(|(_, rank)| rank.has_message_gap) {
            return Err(format!("the tape is damaged: some messages of rank {rank} are missing"));
        }
        let journals: Vec<&[u8]> = self.ranks.values().map(|rank| &rank.messages[..]).collect();
        Races::find(&journals).map_err(|bad| bad.to_string())
    }

    /// What a replay needs of it, or why it cannot be replayed.
    pub(super) fn replayable(self) -> Result<ReplayableJob, String> {
        let first = self.ranks.values().find_map(|rank| rank.facts.clone()).ok_or(
            "nothing for a replay is on this tape: record the job with `dmscope record`, which writes one that has it",
        )?;
        if let Some(rank) = self.misplaced {
            return Err(format!("the tape has answers of rank {rank}, but its beginning is missing"));
        }
        let missing: Vec<String> = (0..first.size)
            .filter(|rank| !self.ranks.contains_key(rank))
            .take(20)
            .map(|rank| rank.to_string())
            .collect();
        if !missing.is_empty() {
            let (ranks, size) = (missing.join(", "), first.size);
            return Err(format!(
                "not on the tape: rank {ranks} of {size}. They were not recorded: no MPI_Init of theirs was seen, or they ran on other nodes without --nodes"
            ));
        }
        let mut warnings = Vec::new();
        let mut ranks = Vec::new();
        for (number, rank) in self.ranks {
            ranks.push(rank.replayable(number, &first, &mut warnings)?);
        }
        let program = (first.program_bytes, first.program_checksum);
        let notes = self.notes;
        Ok(ReplayableJob { size: first.size, library: first.library, ranks, program, warnings, notes })
    }
}

impl RecordedRank {
    fn replayable(
        self,
        rank: u32,
        first: &ReplayableRank,
        warnings: &mut Vec<String>,
    ) -> Result<RankRecord, String> {
        let facts = self.facts.unwrap_or_default();
        if facts.size != first.size {
            return Err(format!("ranks 0 and {rank} of the tape are of different jobs"));
        }
        if let Some(gap_bytes) = self.gap_bytes {
            return Err(format!(
                "the tape is damaged: of rank {rank}, what comes after the first {gap_bytes} bytes of its record is missing"
            ));
        }
        let playback = Playback::new(self.bytes.clone(), self.polls)
            .map_err(|bad| format!("the tape is damaged: of rank {rank}, {bad}"))?;
        if let Some(why) = facts.stopped {
            return Err(format!("rank {rank} was not recorded to its end: {why}"));
        }
        let used = UNCOVERED.iter().enumerate().filter(|(bit, _)| facts.uncovered >> bit & 1 == 1);
        for (_, what) in used {
            let warning = format!("the job uses {what}");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        Ok(RankRecord { rank, polls: self.polls, bytes: self.bytes, answers: playback.answers(), cut: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(rank: u32, size: u32) -> ReplayableRank {
        ReplayableRank { rank, size, library: "Open MPI".into(), ..ReplayableRank::default() }
    }

    fn job(size: u32) -> RecordedJob {
        let mut job = RecordedJob::default();
        (0..size).for_each(|rank| job.learn(&facts(rank, size)));
        job
    }

    fn answers(rank: u32, offset_bytes: u64, bytes: &[u8]) -> RankAnswers {
        RankAnswers { rank, offset_bytes, polls: 0, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_tape_without_answers_is_refused_with_what_to_do() {
        assert!(RecordedJob::default().replayable().unwrap_err().contains("dmscope record"));
    }

    #[test]
    fn ranks_that_are_missing_are_named() {
        let mut job = RecordedJob::default();
        job.learn(&facts(1, 3));
        assert!(job.replayable().unwrap_err().starts_with("not on the tape: rank 0, 2 of 3"));
    }

    #[test]
    fn parts_are_put_together_and_a_gap_is_told() {
        let mut whole = job(2);
        // A poll that answered yes is two bytes, the second a checksum.
        whole.take(&answers(1, 0, &[1]));
        whole.take(&answers(1, 1, &[9, 1, 8]));
        let ranks = whole.replayable().expect("replayable").ranks;
        assert_eq!(ranks[1].answers, 2);
        let mut torn = job(2);
        torn.take(&answers(1, 0, &[1, 9]));
        torn.take(&answers(1, 4, &[1, 9]));
        assert!(torn.replayable().unwrap_err().contains("after the first 2 bytes"));
    }

    #[test]
    fn bytes_that_are_no_record_are_refused() {
        let mut job = job(1);
        job.take(&answers(0, 0, &[0xff]));
        assert!(job.replayable().unwrap_err().contains("rank 0, the record contradicts itself"));
    }

    #[test]
    fn a_rank_that_was_recorded_no_longer_says_why() {
        let mut job = RecordedJob::default();
        job.learn(&ReplayableRank {
            stopped: Some("its calls come from several threads".into()),
            ..facts(0, 1)
        });
        let why = job.replayable().unwrap_err();
        assert_eq!(why, "rank 0 was not recorded to its end: its calls come from several threads");
    }

    #[test]
    fn what_is_not_covered_is_a_warning() {
        let mut job = RecordedJob::default();
        job.learn(&ReplayableRank { uncovered: 1, ..facts(0, 1) });
        let warnings = job.replayable().expect("replayable").warnings;
        assert!(warnings.len() == 1 && warnings[0].starts_with("the job uses windows"), "{warnings:?}");
    }
}

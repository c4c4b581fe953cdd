//! What the calls of one thread must answer.

use crate::answer::{Answer, RecordEntry};
use crate::call_check::{CallCheck, FIRST_CALL_UNCHECKED_BY_PROBES};
use crate::cut::RankCut;
use crate::divergence::{AskedFor, Divergence};

use super::due::Due;

/// What the record of a rank says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordMarks {
    /// It goes to the rank's end.
    pub is_whole: bool,
    /// It stops where calls began to come from several threads.
    pub has_threads: bool,
    /// Probes made it.
    pub is_by_probes: bool,
}

/// Entries of one thread, and how far they have been played.
#[derive(Debug, Default)]
pub(super) struct ThreadRow {
    bytes: Vec<u8>,
    /// Bytes played.
    at: usize,
    /// Polls that are still to answer no.
    polls: u64,
    /// Polls behind all bytes that answered no.
    last_polls: u64,
    check: CallCheck,
    /// What it was before the last call.
    check_before: CallCheck,
    marks: RecordMarks,
    played: u64,
    /// Calls begun.
    calls: u64,
    /// The last position.
    position: u64,
    /// From this byte on polls that answer no are in no check, and may be more or fewer.
    apart_from: Option<usize>,
    /// Those that are still to answer no are.
    are_apart: bool,
    /// Where the record is left.
    pub cut: Option<RankCut>,
}

impl ThreadRow {
    /// Of entries that have been read once.
    pub(super) fn new(bytes: Vec<u8>, marks: RecordMarks) -> Self {
        Self { bytes, marks, ..Self::default() }
    }

    /// So many polls answered no after its last entry.
    pub(super) fn set_last_polls(&mut self, polls: u64) {
        self.last_polls = polls;
    }

    /// From this byte on there are several threads.
    pub(super) fn set_polls_apart(&mut self, from: usize) {
        self.apart_from = Some(from);
    }

    /// The same, from what is played next.
    pub(super) fn set_polls_apart_from_here(&mut self) {
        self.apart_from.get_or_insert(self.at);
    }

    /// Whether polls that come next may be more or fewer than there were.
    pub(super) fn is_apart(&self) -> bool {
        self.apart_from.is_some_and(|from| self.at >= from)
    }

    /// Whether the call that has begun last, or the next one, is played no more.
    pub(super) fn is_left(&self) -> bool {
        let calls = self.cut.as_ref().and_then(|cut| cut.calls);
        calls.is_some_and(|calls| self.calls > calls)
    }

    /// The answer in place of the recorded one.
    fn detour(&self, asked: AskedFor) -> Option<Answer> {
        let detour = self.cut.as_ref()?.detour.filter(|detour| detour.call == self.calls)?;
        Some(match asked {
            AskedFor::Source | AskedFor::PollSource => Answer::From(Some(detour.value)),
            AskedFor::Index | AskedFor::PollIndex => Answer::Index(Some(detour.value)),
            AskedFor::Indices | AskedFor::PollIndices => Answer::Indices(Some(vec![detour.value])),
            AskedFor::Poll => return None,
        })
    }

    /// Answers given so far.
    pub(super) fn played(&self) -> u64 {
        self.played
    }

    /// The next call, as in [`Recording::call`](crate::Recording::call).
    #[inline]
    pub(super) fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.calls += 1;
        self.check_before = self.check;
        if !self.marks.is_by_probes || call < FIRST_CALL_UNCHECKED_BY_PROBES {
            self.check.call(call, arguments);
        }
    }

    /// What the call must answer; `requests`: how many it is about, if it asks for indices.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub(super) fn due(&mut self, asked: AskedFor, requests: u32) -> Result<Due, Divergence> {
        if !asked.is_poll() {
            self.pass_polls_apart();
        }
        if let Some(answer) = self.detour(asked) {
            if let Answer::Index(Some(index)) = answer
                && index >= requests
            {
                return Err(Divergence::NoSuchRequest { index, requests });
            }
            return Ok(Due::Answer(answer));
        }
        if self.is_left() {
            return Ok(Due::Anything);
        }
        while self.polls == 0 {
            let (before, is_apart) = (self.at, self.is_apart());
            match self.next() {
                Some(RecordEntry::Answer(answer, check)) => {
                    if is_apart && asked.is_poll() && !(asked.fits(&answer) && check == self.check.byte()) {
                        self.at = before;
                        return Ok(self.no_in_vain());
                    }
                    return self.answer(asked, answer, check, requests);
                }
                Some(RecordEntry::Polls(polls)) => (self.polls, self.are_apart) = (polls, is_apart),
                Some(RecordEntry::Clock { .. }) => return Err(Divergence::NoClockRead { asked }),
                _ if self.marks.is_whole && is_apart && asked.is_poll() => return Ok(self.no_in_vain()),
                _ if self.marks.is_whole => return Err(Divergence::BehindTheEnd),
                _ if self.last_polls == 0 => return Ok(Due::Anything),
                _ => self.polls = std::mem::take(&mut self.last_polls),
            }
        }
        if !asked.is_poll() {
            return Err(Divergence::AnotherCall { asked, recorded: Answer::No });
        }
        self.polls -= 1;
        self.pass(1);
        if self.marks.is_by_probes || self.are_apart {
            // Which poll it was, the record does not know.
            self.check = self.check_before;
        }
        Ok(Due::Answer(Answer::No))
    }

    /// The thread goes on, maybe before it has polled as often as it did: calls count as if it had.
    fn pass_polls_apart(&mut self) {
        if self.polls > 0 && self.are_apart {
            let polls = std::mem::take(&mut self.polls);
            self.skip(polls);
        }
        while self.polls == 0 && self.is_apart() {
            let before = self.at;
            match self.next() {
                Some(RecordEntry::Polls(polls)) => self.skip(polls),
                _ => {
                    self.at = before;
                    break;
                }
            }
        }
    }

    fn skip(&mut self, polls: u64) {
        self.calls = self.calls.saturating_add(polls);
        self.pass(polls);
    }

    /// So many answers were given, or are not asked for any more.
    fn pass(&mut self, answers: u64) {
        self.played = self.played.saturating_add(answers);
    }

    fn no_in_vain(&mut self) -> Due {
        self.calls = self.calls.saturating_sub(1);
        self.check = self.check_before;
        Due::NoInVain
    }

    /// The program reads a clock: by how much it went on since it was read last. None: the record has ended.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub(super) fn clock(&mut self, clock: u8) -> Result<Option<i64>, Divergence> {
        if self.is_left() || self.marks.is_by_probes {
            return Ok(None);
        }
        if self.polls > 0 {
            return Err(Divergence::ClockRead { recorded: Answer::No });
        }
        match self.next() {
            Some(RecordEntry::Clock { clock: recorded, went_on }) if recorded == clock => Ok(Some(went_on)),
            Some(RecordEntry::Clock { clock: recorded, .. }) => {
                Err(Divergence::AnotherClock { read: clock, recorded: Some(recorded) })
            }
            Some(RecordEntry::Answer(recorded, _)) => Err(Divergence::ClockRead { recorded }),
            Some(_) => Err(Divergence::ClockRead { recorded: Answer::No }),
            None if self.last_polls > 0 => Err(Divergence::ClockRead { recorded: Answer::No }),
            None => Ok(None),
        }
    }

    /// All that clocks have shown in it, with by how much each went on: of a row that has nothing else.
    pub(super) fn take_clocks(&mut self) -> Vec<(u8, i64)> {
        let mut all = Vec::new();
        while let Some(entry) = self.next() {
            if let RecordEntry::Clock { clock, went_on } = entry {
                all.push((clock, went_on));
            }
        }
        all
    }

    /// The call ends: its position in the order of all ranks' calls. None: the record has none from here on.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub(super) fn position(&mut self) -> Result<Option<u64>, Divergence> {
        if self.is_left() {
            return Ok(None);
        }
        if self.polls > 0 && !self.are_apart {
            return Err(Divergence::OtherCalls);
        }
        let polls = std::mem::take(&mut self.polls);
        self.skip(polls);
        while let Some(mut rest) = self.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            // It was read before.
            let Ok(entry) = RecordEntry::take(&mut rest) else { break };
            if let RecordEntry::Polls(polls) = entry
                && self.is_apart()
            {
                self.at = self.bytes.len() - rest.len();
                self.skip(polls);
                continue;
            }
            if is_played(&entry) {
                return Err(Divergence::OtherCalls);
            }
            self.at = self.bytes.len() - rest.len();
            if let RecordEntry::Position(behind) = entry {
                self.position = self.position.wrapping_add(behind);
                return Ok(Some(self.position));
            }
        }
        Ok(None)
    }

    /// The next entry that is an answer, or what a clock showed.
    fn next(&mut self) -> Option<RecordEntry> {
        loop {
            let mut rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            // It was read before.
            let entry = RecordEntry::take(&mut rest).ok()?;
            self.at = self.bytes.len() - rest.len();
            if is_played(&entry) {
                return Some(entry);
            }
        }
    }

    fn answer(
        &mut self,
        asked: AskedFor,
        answer: Answer,
        check: u8,
        requests: u32,
    ) -> Result<Due, Divergence> {
        if !asked.fits(&answer) {
            return Err(Divergence::AnotherCall { asked, recorded: answer });
        }
        if check != self.check.byte() {
            return Err(Divergence::OtherCalls);
        }
        let indices = match &answer {
            Answer::Index(Some(index)) => std::slice::from_ref(index),
            Answer::Indices(Some(indices)) => &indices[..],
            _ => &[],
        };
        if let Some(&index) = indices.iter().find(|index| **index >= requests) {
            return Err(Divergence::NoSuchRequest { index, requests });
        }
        self.pass(1);
        Ok(Due::Answer(answer))
    }

    /// Whether all was played.
    pub(super) fn is_over(&self) -> bool {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        let mut is_answer = self.polls > 0 && !self.are_apart || self.last_polls > 0 && !self.is_apart();
        while !is_answer && !rest.is_empty() {
            let at = self.bytes.len() - rest.len();
            let is_passed = |entry: &RecordEntry| {
                matches!(entry, RecordEntry::Polls(_)) && self.apart_from.is_some_and(|from| at >= from)
            };
            is_answer =
                RecordEntry::take(&mut rest).is_ok_and(|entry| is_played(&entry) && !is_passed(&entry));
        }
        !is_answer
    }

    /// The rank ends.
    ///
    /// # Errors
    /// The thread goes on in the record.
    pub(super) fn end(&mut self) -> Result<(), Divergence> {
        if self.is_left() {
            return Ok(());
        }
        if !self.is_over() {
            return Err(Divergence::EndsEarly);
        }
        let polls = std::mem::take(&mut self.polls);
        self.pass(polls);
        while let Some(entry) = self.next() {
            if let RecordEntry::Polls(polls) = entry {
                self.pass(polls);
            }
        }
        let polls = std::mem::take(&mut self.last_polls);
        self.pass(polls);
        Ok(())
    }
}

/// Whether calls get something of it in its turn.
pub(super) fn is_played(entry: &RecordEntry) -> bool {
    matches!(entry, RecordEntry::Polls(1..) | RecordEntry::Answer(..) | RecordEntry::Clock { .. })
}

//! Records a rank's calls.

use std::collections::HashMap;

use crate::answer::{Answer, CLOCKS, Mark, ReceiveEnd, RecordEntry};
use crate::call_check::{CallCheck, FIRST_CALL_UNCHECKED_BY_PROBES};
use crate::open_receives::OpenReceives;

/// Of one rank. What it writes is appended to the bytes that it is given.
#[derive(Debug, Default)]
pub struct Recording {
    check: CallCheck,
    /// Polls in a row that answered no, not yet written.
    polls: u64,
    open: OpenReceives,
    /// Receives from anybody by their requests, with their numbers while it is not known whose message they got.
    requests: HashMap<u64, Option<u64>>,
    /// What clocks showed last.
    clocks: [i64; CLOCKS],
    /// The last position.
    position: u64,
    is_by_probes: bool,
}

impl Recording {
    /// Of what probes saw: with the mark that says so.
    pub fn by_probes(out: &mut Vec<u8>) -> Self {
        RecordEntry::Mark(Mark::ByProbes).write(out);
        Self { is_by_probes: true, ..Self::default() }
    }

    /// The next call: a number for what it is, and arguments that are the same in every run. Probes do not tell of polls that
    /// answer no: see [`Recording::refused`].
    #[inline]
    pub fn call(&mut self, call: u32, arguments: [i32; 3]) {
        if !self.is_by_probes || call < FIRST_CALL_UNCHECKED_BY_PROBES {
            self.check.call(call, arguments);
        }
    }

    /// Polls answered no of which nothing else is known.
    pub fn refused(&mut self, polls: u64) {
        self.polls = self.polls.saturating_add(polls);
    }

    /// Polls that answered no since the last answer: not yet in the bytes.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// What the call answered.
    pub fn answer(&mut self, answer: Answer, out: &mut Vec<u8>) {
        if answer == Answer::No {
            self.polls += 1;
            return;
        }
        self.write_polls(out);
        RecordEntry::Answer(answer, self.check.byte()).write(out);
    }

    /// A receive from anybody has been posted; `request` names it until it is complete.
    pub fn posted(&mut self, request: u64, out: &mut Vec<u8>) {
        // One that had the name was completed without our being told.
        self.arrived(request, ReceiveEnd::Unknown, out);
        let number = self.open.post();
        self.requests.insert(request, Some(number));
    }

    /// Whether a request is a receive from anybody.
    #[inline]
    pub fn is_posted(&self, request: u64) -> bool {
        !self.requests.is_empty() && self.requests.contains_key(&request)
    }

    /// Whether there is any.
    pub fn has_posted(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Requests of up to `most` receives of which it is not known whose message they got, though they may have one.
    pub fn undecided(&self, most: usize) -> Vec<u64> {
        let oldest: Vec<u64> = self.open.iter().take(most).collect();
        let request = |(request, number): (&u64, &Option<u64>)| {
            number.filter(|number| oldest.contains(number)).map(|_| *request)
        };
        if oldest.is_empty() { Vec::new() } else { self.requests.iter().filter_map(request).collect() }
    }

    /// It has become known whose message a posted receive got; its request goes on.
    pub fn decided(&mut self, request: u64, arrival: ReceiveEnd, out: &mut Vec<u8>) {
        let number = self.requests.get_mut(&request).and_then(Option::take);
        if let Some(longer) = number.and_then(|number| self.open.close(number)) {
            self.write_polls(out);
            RecordEntry::ReceiveEnd { longer, arrival }.write(out);
        }
    }

    /// A request is complete, if it is a posted receive.
    pub fn arrived(&mut self, request: u64, arrival: ReceiveEnd, out: &mut Vec<u8>) {
        if self.is_posted(request) {
            self.decided(request, arrival, out);
            self.requests.remove(&request);
        }
    }

    /// The program has read a clock, of a number below [`CLOCKS`].
    pub fn clock(&mut self, clock: u8, shows: i64, out: &mut Vec<u8>) {
        let Some(last) = self.clocks.get_mut(usize::from(clock)) else { return };
        let went_on = shows.wrapping_sub(std::mem::replace(last, shows));
        self.write_polls(out);
        RecordEntry::Clock { clock, went_on }.write(out);
    }

    /// The call ends at this position in the order of all ranks' calls: behind all that were given before.
    pub fn position(&mut self, position: u64, out: &mut Vec<u8>) {
        let behind = position.wrapping_sub(std::mem::replace(&mut self.position, position));
        self.write_polls(out);
        RecordEntry::Position(behind).write(out);
    }

    /// Something else that a reader must know.
    pub fn mark(&mut self, mark: Mark, out: &mut Vec<u8>) {
        self.write_polls(out);
        RecordEntry::Mark(mark).write(out);
    }

    fn write_polls(&mut self, out: &mut Vec<u8>) {
        if self.polls > 0 {
            RecordEntry::Polls(std::mem::take(&mut self.polls)).write(out);
        }
    }
}

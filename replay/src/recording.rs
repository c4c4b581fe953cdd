//! Records a rank's calls.

use crate::answer::{Answer, CLOCKS, Mark, ReceiveEnd, RecordEntry};
use crate::call_check::{CallCheck, FIRST_CALL_UNCHECKED_BY_PROBES};
use crate::open_receives::OpenReceives;
use crate::request_table::RequestTable;

/// Of one rank. What it writes is appended to the bytes that it is given.
///
/// A rank has one thread unless others are added. Who acts is said before it does ([`Recording::speak`]).
#[derive(Debug)]
pub struct Recording {
    threads: Vec<ThreadRecording>,
    /// The thread that acts.
    speaker: usize,
    /// The thread whose entries come last in what was written.
    written: usize,
    /// Turns of thread 0, while it is alone.
    first_turns: u64,
    open: OpenReceives<UndecidedReceive>,
    /// Receives from anybody by their requests, with their numbers while it is not known whose message they got.
    requests: RequestTable<Option<u64>>,
    /// What clocks showed last.
    clocks: [i64; CLOCKS],
    /// The last position.
    position: u64,
    is_by_probes: bool,
}

/// A receive from anybody of which it is not known whose message it got.
#[derive(Clone, Copy, Debug)]
struct UndecidedReceive {
    request: u64,
    class: u64,
}

/// So many receives, those open for longest, are looked through for [`Recording::undecided`].
const MOST_LOOKED_THROUGH: usize = 64;

/// Of one thread.
#[derive(Debug, Default)]
struct ThreadRecording {
    check: CallCheck,
    /// What it was before the last call.
    check_before: CallCheck,
    /// Polls in a row that answered no, not yet written.
    polls: u64,
}

/// A rank has no more threads: what is recorded ends before.
pub const MOST_THREADS: usize = 1 << 16;

/// What a record goes on with if threads have made such numbers of polls that answered no behind all that is in it: by thread.
pub fn polls_behind(polls: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for (thread, polls) in polls.iter().enumerate().filter(|(_, polls)| **polls > 0) {
        RecordEntry::Thread { index: thread as u32, has_turn: false }.write(&mut out);
        RecordEntry::Polls(*polls).write(&mut out);
    }
    out
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            threads: vec![ThreadRecording::default()],
            speaker: 0,
            written: 0,
            first_turns: 0,
            open: OpenReceives::default(),
            requests: RequestTable::default(),
            clocks: [0; CLOCKS],
            position: 0,
            is_by_probes: false,
        }
    }
}

impl Recording {
    /// Of what probes saw: with the mark that says so.
    pub fn by_probes(out: &mut Vec<u8>) -> Self {
        RecordEntry::Mark(Mark::ByProbes).write(out);
        Self { is_by_probes: true, ..Self::default() }
    }

    fn speaks(&mut self) -> &mut ThreadRecording {
        &mut self.threads[self.speaker]
    }

    fn has_several(&self) -> bool {
        self.threads.len() > 1
    }

    /// Whether polls that answer no are in no checksum.
    #[inline]
    pub fn polls_are_apart(&self) -> bool {
        self.has_several()
    }

    /// Where there are several threads, the one that acts, and its polls that answered no since its last entry: not yet in the bytes.
    #[inline]
    pub fn polls_of_thread(&self) -> Option<(usize, u64)> {
        self.has_several().then(|| (self.speaker, self.threads[self.speaker].polls))
    }

    /// Whether there may be one more thread.
    pub fn has_room(&self) -> bool {
        self.threads.len() < MOST_THREADS
    }

    /// There is another thread, whose name is the same in every run. Its number: they count from 0, the only one until then.
    pub fn add_thread(&mut self, name: u64, out: &mut Vec<u8>) -> usize {
        if !self.has_several() {
            self.write_polls(out);
            RecordEntry::FirstTurns(self.first_turns).write(out);
            RecordEntry::Mark(Mark::PollsApart).write(out);
        }
        RecordEntry::NewThread(name).write(out);
        self.threads.push(ThreadRecording::default());
        self.threads.len() - 1
    }

    /// From here on, this thread acts: one that was added, or 0.
    #[inline]
    pub fn speak(&mut self, thread: usize) {
        debug_assert!(thread < self.threads.len(), "thread {thread} was not added");
        self.speaker = thread;
    }

    /// The thread posts sends or receives, or takes a message: the order of these is a part of the record.
    pub fn turn(&mut self, out: &mut Vec<u8>) {
        if !self.has_several() {
            self.first_turns += 1;
            return;
        }
        self.write_polls(out);
        self.written = self.speaker;
        RecordEntry::Thread { index: self.speaker as u32, has_turn: true }.write(out);
    }

    /// Writes an entry of the thread that acts.
    fn write(&mut self, entry: &RecordEntry, out: &mut Vec<u8>) {
        self.write_polls(out);
        self.write_speaker(out);
        entry.write(out);
    }

    fn write_speaker(&mut self, out: &mut Vec<u8>) {
        if self.written != self.speaker {
            self.written = self.speaker;
            RecordEntry::Thread { index: self.speaker as u32, has_turn: false }.write(out);
        }
    }

    /// The next call: a number for what it is, and arguments that are the same in every run. Probes do not tell of polls that
    /// answer no: see [`Recording::refused`].
    #[inline]
    pub fn call(&mut self, call: u32, arguments: [i32; 3]) {
        if !self.is_by_probes || call < FIRST_CALL_UNCHECKED_BY_PROBES {
            let speaks = self.speaks();
            speaks.check_before = speaks.check;
            speaks.check.call(call, arguments);
        }
    }

    /// The checksum over all calls so far of the thread that acts.
    pub fn call_check(&self) -> CallCheck {
        self.threads[self.speaker].check
    }

    /// The same, of one whose calls were checked elsewhere.
    #[inline]
    pub fn set_call_check(&mut self, check: CallCheck) {
        self.speaks().check = check;
    }

    /// Polls answered no of which nothing else is known.
    pub fn refused(&mut self, polls: u64) {
        let speaks = self.speaks();
        speaks.polls = speaks.polls.saturating_add(polls);
    }

    /// Polls of the only thread that answered no since its last answer: not yet in the bytes.
    pub fn polls(&self) -> u64 {
        if self.has_several() { 0 } else { self.threads[0].polls }
    }

    /// What the call answered.
    pub fn answer(&mut self, answer: Answer, out: &mut Vec<u8>) {
        if answer == Answer::No {
            let is_apart = self.polls_are_apart();
            let speaks = self.speaks();
            speaks.polls += 1;
            if is_apart {
                speaks.check = speaks.check_before;
            }
            return;
        }
        let check = self.speaks().check.byte();
        self.write(&RecordEntry::Answer(answer, check), out);
    }

    /// A receive from anybody has been posted; `request` names it until it is complete.
    pub fn posted(&mut self, request: u64, out: &mut Vec<u8>) {
        self.posted_in_class(request, 0, out);
    }

    /// The same; those of a class get their messages in the order in which they were posted.
    pub fn posted_in_class(&mut self, request: u64, class: u64, out: &mut Vec<u8>) {
        let number = self.open.post(UndecidedReceive { request, class });
        // One that had the name was completed without our being told.
        if let Some(Some(earlier)) = self.requests.insert(request, Some(number)) {
            self.claimed_arrived(earlier, ReceiveEnd::Unknown, out);
        }
    }

    /// A call begins that may complete this request: if it is a receive from anybody, the call has it from here on, with its number while it
    /// is not known whose message it got. Another thread may get the same request for something else as soon as it is complete.
    pub fn claim(&mut self, request: u64) -> Option<Option<u64>> {
        self.requests.remove(request)
    }

    /// The call has not completed it.
    pub fn give_back(&mut self, request: u64, number: Option<u64>) {
        self.requests.insert(request, number);
    }

    /// It has: whose message it got.
    pub fn claimed_arrived(&mut self, number: u64, arrival: ReceiveEnd, out: &mut Vec<u8>) {
        if let Some(longer) = self.open.close(number) {
            self.write(&RecordEntry::ReceiveEnd { longer, arrival }, out);
        }
    }

    /// Whether a request is a receive from anybody.
    pub fn is_posted(&self, request: u64) -> bool {
        self.requests.contains(request)
    }

    /// How many receives from anybody have requests that are not complete.
    pub fn posted_receives(&self) -> usize {
        self.requests.len()
    }

    /// Requests of up to `N` receives that may have got a message without anybody having been told whose: the oldest of each class, before
    /// which no other of the class can have got one.
    pub fn undecided<const N: usize>(&self) -> ([u64; N], usize) {
        let (mut requests, mut classes, mut found) = ([0; N], [0; N], 0);
        for receive in self.open.iter().take(MOST_LOOKED_THROUGH) {
            if found == N {
                break;
            }
            if !classes[..found].contains(&receive.class) {
                (requests[found], classes[found]) = (receive.request, receive.class);
                found += 1;
            }
        }
        (requests, found)
    }

    /// It has become known whose message a posted receive got; its request goes on. Whether it was not known before.
    pub fn decided(&mut self, request: u64, arrival: ReceiveEnd, out: &mut Vec<u8>) -> bool {
        let number = self.requests.get_mut(request).and_then(Option::take);
        if let Some(number) = number {
            self.claimed_arrived(number, arrival, out);
        }
        number.is_some()
    }

    /// A request is complete, if it is a posted receive.
    pub fn arrived(&mut self, request: u64, arrival: ReceiveEnd, out: &mut Vec<u8>) {
        if let Some(Some(number)) = self.claim(request) {
            self.claimed_arrived(number, arrival, out);
        }
    }

    /// The program has read a clock, of a number below [`CLOCKS`].
    pub fn clock(&mut self, clock: u8, shows: i64, out: &mut Vec<u8>) {
        let Some(last) = self.clocks.get_mut(usize::from(clock)) else { return };
        let went_on = shows.wrapping_sub(std::mem::replace(last, shows));
        self.write(&RecordEntry::Clock { clock, went_on }, out);
    }

    /// The call ends at this position in the order of all ranks' calls: behind all that were given before.
    pub fn position(&mut self, position: u64, out: &mut Vec<u8>) {
        let behind = position.wrapping_sub(std::mem::replace(&mut self.position, position));
        self.write(&RecordEntry::Position(behind), out);
    }

    /// Something else that a reader must know.
    pub fn mark(&mut self, mark: Mark, out: &mut Vec<u8>) {
        let speaker = self.speaker;
        for thread in 0..self.threads.len() {
            self.speaker = thread;
            self.write_polls(out);
        }
        self.speaker = speaker;
        RecordEntry::Mark(mark).write(out);
    }

    fn write_polls(&mut self, out: &mut Vec<u8>) {
        let polls = std::mem::take(&mut self.speaks().polls);
        if polls > 0 {
            self.write_speaker(out);
            RecordEntry::Polls(polls).write(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_class_the_oldest_receive_may_have_got_a_message() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        for (request, class) in [(10, 1), (11, 1), (12, 2), (13, 1), (14, 3)] {
            recording.posted_in_class(request, class, &mut out);
        }
        assert_eq!(recording.undecided(), ([10, 12, 14, 0], 3));
        assert_eq!(recording.undecided(), ([10, 12], 2));
        assert!(recording.decided(10, ReceiveEnd::From(5), &mut out));
        assert!(!recording.decided(10, ReceiveEnd::From(5), &mut out), "it is known");
        recording.arrived(12, ReceiveEnd::From(6), &mut out);
        assert_eq!(recording.undecided(), ([11, 14, 0, 0], 2));
        assert_eq!(recording.posted_receives(), 4);
    }
}

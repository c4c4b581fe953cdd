//! One direction of a queue pair, as one of its ends sees it: how far it is, and whether that is known.

use super::names::later_name;
use crate::tape::wire::Header;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Direction {
    /// Name of its stream; 0: none yet.
    stream: u64,
    /// Both ends count alike from the stream's beginning: nothing was missed.
    is_known: bool,
    /// Behind each message one position is left out, so that messages do not touch each other.
    position: u32,
    /// So much is still to come that was sent before the direction became known.
    behind: u32,
    last_use: Option<LastUse>,
}

/// When a thread last did something.
#[derive(Clone, Copy, Debug)]
struct LastUse {
    tid: u32,
    end_ns: u64,
}

/// Where in a stream something goes or comes from; 0: in none.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPlace {
    pub stream: u64,
    pub position: u32,
    pub receive: bool,
}

impl Direction {
    /// Of a queue pair that is set up; `is_known`: all that goes through it will be seen.
    pub(super) fn new(is_known: bool) -> Self {
        Self { is_known, ..Self::default() }
    }

    pub(super) fn begin(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// Its name, whether or not it is known how far it is; 0: none yet.
    pub(super) fn stream(&self) -> u64 {
        self.stream
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(super) fn position(&self) -> u32 {
        self.position
    }

    /// Something of it may not have been seen.
    pub(super) fn lose(&mut self) {
        self.is_known = false;
    }

    /// It is known again where the sender is: what it sends from here on is in a stream, another one than before.
    pub(super) fn find(&mut self, time_ns: u64) {
        if !self.is_known {
            self.stream = later_name(self.stream, time_ns);
            self.is_known = true;
        }
    }

    /// The receiver knows that it is so far behind the sender in counting.
    pub(super) fn follow(&mut self, sender: &Self, lead: u32) {
        self.stream = sender.stream;
        self.position = self.position.wrapping_add(lead);
        self.behind = sender.position.wrapping_sub(self.position);
        self.is_known = true;
    }

    /// Whether the sender still counts as this end does.
    pub(super) fn agrees_with(&self, sender: &Self) -> bool {
        sender.is_known && sender.stream == self.stream
    }

    /// Where the next bytes go or come from.
    pub(super) fn place(&self, receive: bool) -> StreamPlace {
        let stream = if self.is_known && self.behind == 0 { self.stream } else { 0 };
        StreamPlace { stream, position: self.position, receive }
    }

    /// Bytes of a message have gone or come; `is_whole`: they were its last.
    pub(super) fn pass(&mut self, bytes: u32, is_whole: bool) {
        let passed = bytes.wrapping_add(is_whole.into());
        self.position = self.position.wrapping_add(passed);
        self.behind = self.behind.saturating_sub(passed);
    }

    /// A thread has used it, which took so long. False: another one did at the same moment, and who came first is not known.
    pub(super) fn note_use(&mut self, h: &Header, took_ns: u64) -> bool {
        let before = self.last_use.replace(LastUse { tid: h.tid, end_ns: h.time_ns });
        let begin_ns = h.time_ns.saturating_sub(took_ns);
        before.is_none_or(|before| before.tid == h.tid || before.end_ns <= begin_ns)
    }
}

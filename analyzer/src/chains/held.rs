//! Messages on their way, with the operations that wrote what they carry.

use std::collections::VecDeque;

use super::ids::NodeId;
use crate::job::movement::Side;

/// Messages on their way that are held.
const MOST_HELD: usize = 1 << 16;

/// The content of a message, as it was when it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub source: Side,
    /// Index of the sender.
    pub process: u32,
    pub(super) writer: NodeId,
}

/// Messages on their way, one number after the other from the first one's on; each with how many operations there had
/// been when it was sent. What has arrived leaves a gap.
#[derive(Default)]
pub(super) struct MessagesInFlight {
    pub(super) sent: VecDeque<Option<(u64, Sent)>>,
    pub(super) first: u64,
}

impl MessagesInFlight {
    /// The number that has a place behind all others.
    pub(super) fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Sent> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.sent.get_mut(at)?.take().map(|(_, sent)| sent)
    }

    /// The first, if it is a gap or was sent before `op`, or if there are too many.
    pub(super) fn pop_before(&mut self, op: u64) -> Option<Option<Sent>> {
        let is_full = self.sent.len() >= MOST_HELD;
        let is_over = |sent: &mut Option<(u64, Sent)>| is_full || sent.is_none_or(|(of, _)| of < op);
        let first = self.sent.pop_front_if(is_over)?;
        self.first += 1;
        Some(first.map(|(_, sent)| sent))
    }
}

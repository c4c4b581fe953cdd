//! What was sent on one node comes before it is received on another, whatever their clocks show.
//!
//! Each node's own inputs are in their order. So a receive whose bytes nobody was told to have sent holds up its node, and the
//! others go on, until the bytes were sent, or for a while.
//!
//! What a thread sent is told when the system call returns, and another thread of the process may have received an answer by
//! then. So nodes may wait for each other. Then what one of them sent is looked for behind its receive: the order of each
//! thread is kept, and that of threads is not.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::tape::causal_order::{Moved, is_behind};
use crate::tape::input::Input;

/// Most streams that are known; receives of others do not wait.
const MAX_STREAMS: usize = 1 << 18;

/// What was sent on a stream.
#[derive(Clone, Copy, Debug)]
struct SentAcross {
    /// Behind the last byte.
    to: u32,
    /// The node that sends, once it was seen to.
    sender: Option<usize>,
    /// Nobody was seen to send when it was waited for.
    silent: bool,
}

/// A node that is held up.
#[derive(Clone, Copy, Debug)]
struct HeldUp {
    stream: u64,
    /// The time of its receive.
    since_ns: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Crossings {
    streams: FxHashMap<u64, SentAcross>,
    held_up: BTreeMap<usize, HeldUp>,
}

impl Crossings {
    /// Whether the next input of a node may be given out; if not, the node is held up.
    pub(super) fn may_go(&mut self, node: usize, input: &Input, time_ns: u64) -> bool {
        let goes = self.goes(node, input);
        if !goes && let Some(moved) = Moved::of(input) {
            self.held_up.insert(node, HeldUp { stream: moved.stream, since_ns: time_ns });
        }
        goes
    }

    /// Whether an input of a node waits for nothing; what is sent counts as sent from then on.
    pub(super) fn goes(&mut self, node: usize, input: &Input) -> bool {
        let Some(moved) = Moved::of(input) else { return true };
        let room = self.streams.len() < MAX_STREAMS;
        // Nothing of it was seen: what is received first is waited for.
        let unsent = || SentAcross { to: moved.end.wrapping_sub(1 << 31), sender: None, silent: !room };
        if !room && !self.streams.contains_key(&moved.stream) {
            return true;
        }
        let sent = self.streams.entry(moved.stream).or_insert_with(unsent);
        if !moved.receive {
            *sent = SentAcross { to: moved.end, sender: Some(node), silent: false };
            return true;
        }
        let is_early = is_behind(sent.to, moved.end);
        // A node's own order holds for what stays on it.
        !is_early || sent.silent || sent.sender == Some(node)
    }

    /// Whether an input of a node is a receive that waits, as far as it is known what was sent.
    pub(super) fn waits(&self, node: usize, input: &Input) -> bool {
        let Some(moved) = Moved::of(input).filter(|moved| moved.receive) else { return false };
        self.streams
            .get(&moved.stream)
            .is_none_or(|sent| is_behind(sent.to, moved.end) && !sent.silent && sent.sender != Some(node))
    }

    /// Nodes that are held up, each with the stream that it waits for.
    pub(super) fn held_up(&self) -> impl Iterator<Item = (usize, u64)> {
        self.held_up.iter().map(|(node, held)| (*node, held.stream))
    }

    /// Whether an input is what a node waits for that is held up.
    pub(super) fn is_waited_for(&self, input: &Input) -> bool {
        !self.held_up.is_empty()
            && Moved::of(input).is_some_and(|moved| {
                !moved.receive && self.held_up.values().any(|held| held.stream == moved.stream)
            })
    }

    /// Nodes that an input which is given out may let go on.
    pub(super) fn let_go(&mut self, input: &Input) -> Vec<usize> {
        let Some(moved) = Moved::of(input).filter(|moved| !moved.receive) else { return Vec::new() };
        if self.held_up.is_empty() {
            return Vec::new();
        }
        self.held_up.extract_if(.., |_, held| held.stream == moved.stream).map(|(node, _)| node).collect()
    }

    /// The node that is held up for longest, if that is since a time or before; it goes on, and what it waited for is not
    /// waited for again until somebody sends. One that waits for a node which is held up itself comes after that.
    pub(super) fn give_up(&mut self, since_ns: u64) -> Option<usize> {
        let (&node, &held) =
            self.held_up.iter().min_by_key(|(_, held)| (self.waits_for_held_up(held), held.since_ns))?;
        if held.since_ns > since_ns {
            return None;
        }
        self.held_up.remove(&node);
        if let Some(sent) = self.streams.get_mut(&held.stream) {
            sent.silent = true;
        }
        Some(node)
    }

    /// Whether who sends what a node waits for is held up too: it will send when it goes on.
    fn waits_for_held_up(&self, held: &HeldUp) -> bool {
        let sender = self.streams.get(&held.stream).and_then(|sent| sent.sender);
        sender.is_some_and(|sender| self.held_up.contains_key(&sender))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::wire::{Body, CallContext, Header, Record};

    fn moved(stream: u64, position: u32, receive: bool) -> Input {
        let body = Body::Stream {
            addr: 1,
            stream,
            position,
            len_bytes: 4,
            receive,
            context: CallContext::default(),
        };
        Input::Record(Record { header: Header { time_ns: 0, pid: 1, tid: 1, probe: 0 }, body }.encode())
    }

    #[test]
    fn who_waits_for_a_node_that_is_held_up_waits_until_that_goes_on() {
        const UNHEARD_OF: u64 = 9;
        let mut crossings = Crossings::default();
        assert!(crossings.may_go(0, &moved(5, 0, false), 1));
        assert!(crossings.may_go(1, &moved(5, 0, true), 2));
        assert!(!crossings.may_go(1, &moved(5, 4, true), 3), "node 0 has not sent it yet");
        assert!(!crossings.may_go(0, &moved(UNHEARD_OF, 0, true), 4), "nobody sends it");
        assert_eq!(crossings.give_up(2), None);
        assert_eq!(crossings.give_up(10), Some(0), "node 1 waits for what node 0 does next");
        assert!(!crossings.may_go(1, &moved(5, 4, true), 3));
        assert!(crossings.may_go(0, &moved(5, 4, false), 5));
        assert!(crossings.may_go(1, &moved(5, 4, true), 6));
    }

    #[test]
    fn of_nodes_that_wait_for_each_other_the_first_goes_on() {
        let mut crossings = Crossings::default();
        assert!(crossings.may_go(0, &moved(5, 0, false), 1) && crossings.may_go(1, &moved(6, 0, false), 1));
        assert!(!crossings.may_go(0, &moved(6, 4, true), 2) && !crossings.may_go(1, &moved(5, 4, true), 3));
        assert_eq!(crossings.give_up(10), Some(0));
        assert_eq!(crossings.give_up(10), Some(1));
    }
}

//! Operations on memory of other nodes, and theirs on memory of this one, that wait for something.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::far_state::{FarMemory, FarPiece};
use crate::job::ids::SpaceId;
use crate::job::movement::Side;
use crate::job::names::QUEUE_PAIR;
use crate::job::verbs::RemoteBytes;
use crate::tape::causal_order::is_behind;

/// Operations of other nodes on one stream that wait to be applied, at most; the first gives way.
const MOST_WAITING: usize = 1 << 12;
/// The same of all streams, and so many of these; what comes beyond is not linked.
const MOST_WAITING_OF_ALL: usize = 1 << 16;
/// Own writes that are kept for whoever may ask; the first gives way.
const MOST_UNTOLD: usize = 1 << 14;

/// An operation of another node on memory of this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FarOperation {
    pub piece: FarPiece,
    pub memory: FarMemory,
}

/// What other nodes did to memory of whoever receives from a stream.
#[derive(Debug, Default)]
struct WaitingOperations {
    operations: VecDeque<FarOperation>,
    /// Who received last, and from which position on.
    last: Option<(u32, u32)>,
}

/// Bytes of this node's own that went into memory of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntoldWrite {
    pub stream: u64,
    pub start: u64,
    pub end: u64,
}

/// What becomes of an operation of another node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationTurn {
    /// It has happened: this process has received what was sent behind it.
    Due {
        pid: u32,
    },
    Waits,
    /// There is no room for this one, be it that operation or one that waited for longer.
    Surplus(FarOperation),
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct OneSided {
    waiting: FxHashMap<u64, WaitingOperations>,
    /// How many they are.
    count: usize,
    /// Stands for memory of other nodes: each operation has a part of its own.
    pub elsewhere: Option<SpaceId>,
    next_start: u64,
    untold: VecDeque<UntoldWrite>,
}

impl OneSided {
    /// A part of what stands for memory of others.
    pub fn part(&mut self, moved: &RemoteBytes, new_space: impl FnOnce() -> SpaceId) -> Side {
        let space = *self.elsewhere.get_or_insert_with(new_space);
        let (start, end) = (self.next_start, self.next_start + u64::from(moved.len_bytes));
        // They do not touch each other.
        self.next_start = end + 1;
        Side { addr: moved.remote, buffer: QUEUE_PAIR, space, start, end }
    }

    /// Operations that happened before somebody received from a position on.
    pub fn reached(&mut self, stream: u64, pid: u32, position: u32) -> Vec<FarOperation> {
        let Some(waiting) = self.waiting.get_mut(&stream) else { return Vec::new() };
        waiting.last = Some((pid, position));
        let is_due = |operation: &FarOperation| !is_behind(position, operation.piece.position);
        if !waiting.operations.iter().any(is_due) {
            return Vec::new();
        }
        let (due, rest): (Vec<_>, Vec<_>) = waiting.operations.drain(..).partition(is_due);
        waiting.operations.extend(rest);
        self.count -= due.len();
        due
    }

    /// Takes an operation: it waits until what was sent behind it is received.
    pub fn wait(&mut self, operation: FarOperation) -> OperationTurn {
        let FarPiece { stream, position, .. } = operation.piece;
        if self.waiting.len() >= MOST_WAITING_OF_ALL && !self.waiting.contains_key(&stream) {
            return OperationTurn::Surplus(operation);
        }
        let waiting = self.waiting.entry(stream).or_default();
        if let Some((pid, reached)) = waiting.last
            && !is_behind(reached, position)
        {
            return OperationTurn::Due { pid };
        }
        waiting.operations.push_back(operation);
        self.count += 1;
        if self.count > MOST_WAITING_OF_ALL || waiting.operations.len() > MOST_WAITING {
            self.count -= 1;
            return OperationTurn::Surplus(waiting.operations.pop_front().unwrap_or(operation));
        }
        OperationTurn::Waits
    }

    /// What waits of a node, or of all, and will not be applied; in no order.
    pub fn take_waiting(&mut self, of: Option<u32>) -> Vec<FarOperation> {
        let mut taken = Vec::new();
        for waiting in self.waiting.values_mut() {
            let is_its = |operation: &FarOperation| of.is_none_or(|node| node == operation.piece.to);
            let (its, rest): (Vec<_>, Vec<_>) = waiting.operations.drain(..).partition(is_its);
            taken.extend(its);
            waiting.operations.extend(rest);
        }
        self.count -= taken.len();
        taken
    }

    /// Keeps where a write is that nobody was told of. One that is not kept any longer.
    pub fn keep(&mut self, write: UntoldWrite) -> Option<UntoldWrite> {
        let surplus = if self.untold.len() >= MOST_UNTOLD { self.untold.pop_front() } else { None };
        self.untold.push_back(write);
        surplus
    }

    /// Writes that go with a stream are told.
    pub fn tell(&mut self, stream: u64) -> Vec<UntoldWrite> {
        let (told, rest): (Vec<_>, Vec<_>) = self.untold.drain(..).partition(|write| write.stream == stream);
        self.untold.extend(rest);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::far_state::FarAccess;

    fn write(stream: u64, position: u32, addr: u64) -> FarOperation {
        let memory = FarMemory { access: FarAccess::Write, addr };
        let piece =
            FarPiece { to: 3, stream, position, len_bytes: 8, handle: Some(addr), memory: Some(memory) };
        FarOperation { piece, memory }
    }

    fn addresses(operations: &[FarOperation]) -> Vec<u64> {
        operations.iter().map(|operation| operation.memory.addr).collect()
    }

    fn surplus(turn: OperationTurn) -> Option<u64> {
        if let OperationTurn::Surplus(operation) = turn { Some(operation.memory.addr) } else { None }
    }

    #[test]
    fn what_was_posted_before_a_message_has_happened_when_that_is_received() {
        let mut all = OneSided::default();
        for (stream, position, addr) in [(5, 0, 1), (5, 10, 2), (7, 0, 3), (5, 11, 4)] {
            assert!(matches!(all.wait(write(stream, position, addr)), OperationTurn::Waits));
        }
        assert_eq!(addresses(&all.reached(5, 40, 10)), [1, 2]);
        assert_eq!(addresses(&all.reached(5, 40, 10)), [0_u64; 0]);
        assert_eq!(addresses(&all.reached(5, 40, 20)), [4]);
        let late = all.wait(write(5, 15, 6));
        assert!(matches!(late, OperationTurn::Due { pid: 40 }), "it has been received already");
        assert_eq!(addresses(&all.take_waiting(Some(3))), [3]);
        assert_eq!(all.count, 0);
    }

    #[test]
    fn positions_that_go_around_are_in_order_all_the_same() {
        let mut all = OneSided::default();
        all.wait(write(5, u32::MAX - 1, 1));
        all.wait(write(5, 3, 2));
        assert_eq!(addresses(&all.reached(5, 40, u32::MAX)), [1]);
        assert_eq!(addresses(&all.reached(5, 40, 4)), [2]);
    }

    #[test]
    fn what_waits_is_bounded_of_each_stream_and_of_all() {
        let mut all = OneSided::default();
        for number in 0..=MOST_WAITING as u64 {
            let surplus = surplus(all.wait(write(5, number as u32, number)));
            assert_eq!(surplus, (number == MOST_WAITING as u64).then_some(0));
        }
        for stream in 6..6 + (MOST_WAITING_OF_ALL - MOST_WAITING) as u64 {
            assert_eq!(surplus(all.wait(write(stream, 0, stream))), None);
        }
        assert_eq!(all.count, MOST_WAITING_OF_ALL);
        assert_eq!(surplus(all.wait(write(1, 0, 77))), Some(77));
        assert_eq!(surplus(all.wait(write(5, 9_999, 78))), Some(1));
        assert_eq!((all.count, all.take_waiting(None).len()), (MOST_WAITING_OF_ALL, MOST_WAITING_OF_ALL));
    }
    #[test]
    fn streams_on_which_something_waited_are_bounded() {
        let mut all = OneSided::default();
        for stream in 0..MOST_WAITING_OF_ALL as u64 {
            all.wait(write(stream, 0, stream));
            all.reached(stream, 40, 0);
        }
        assert_eq!(all.count, 0);
        assert_eq!(surplus(all.wait(write(u64::MAX, 0, 9))), Some(9));
    }
}

//! Deadlocks that buffering hides, by the calls that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::messages::leaks::Origin;
use crate::tape::input::CodePlace;

/// Sets of calls that are told apart.
const MOST: usize = 1 << 8;
/// Circles whose places are not known yet.
const MOST_UNPLACED: usize = 1 << 10;

/// What a call of a circle waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The other side of a message.
    Message {
        /// It sends it.
        sends: bool,
        /// Number of the communicator.
        comm: u32,
        /// Number of the other side there.
        peer: Option<u32>,
        tag: i32,
        len_bytes: Option<u64>,
    },
    /// That all come to a collective call.
    Collective {
        /// Number of the communicator.
        comm: u32,
    },
}

impl Wanted {
    /// A receive cannot be over before its message is sent, whatever is buffered.
    pub fn is_receive(self) -> bool {
        matches!(self, Self::Message { sends: false, .. })
    }
}

/// One call of a circle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CircleCall {
    pub rank: u32,
    pub origin: Origin,
    pub wanted: Wanted,
}

/// One call of the program, of all ranks that wait in it.
#[derive(Clone, Debug)]
pub(crate) struct UnbufferedCall {
    pub function: &'static str,
    pub place: Option<CodePlace>,
    pub ranks: BTreeSet<u32>,
    /// Of the first.
    pub wanted: Wanted,
    /// All of them wait for just that.
    pub is_same: bool,
    /// The longest message.
    pub most_bytes: Option<u64>,
}

/// Calls that have waited for each other in a circle, in the order of the first circle.
#[derive(Clone, Debug)]
pub(crate) struct UnbufferedCircle {
    pub calls: Vec<UnbufferedCall>,
    /// Ranks that were in them.
    pub ranks: BTreeSet<u32>,
}

/// All of a job.
#[derive(Debug, Default)]
pub(super) struct Found {
    unplaced: Vec<Vec<CircleCall>>,
    by_calls: BTreeMap<BTreeSet<(&'static str, Option<CodePlace>)>, UnbufferedCircle>,
    is_new: bool,
}

impl Found {
    pub fn add(&mut self, circle: Vec<CircleCall>) {
        if self.unplaced.len() < MOST_UNPLACED {
            self.unplaced.push(circle);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &UnbufferedCircle> {
        self.by_calls.values()
    }

    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    pub fn wants_places(&self) -> bool {
        !self.unplaced.is_empty()
    }

    pub fn find_places(&mut self, place: impl Fn(u32, u64) -> Option<CodePlace>) {
        for circle in std::mem::take(&mut self.unplaced) {
            let placed = circle.iter().map(|call| (call, place(call.rank, call.origin.return_address)));
            self.note(&placed.collect::<Vec<_>>());
        }
    }

    fn note(&mut self, circle: &[(&CircleCall, Option<CodePlace>)]) {
        let key = circle.iter().map(|(call, place)| (call.origin.row.name.as_str(), *place)).collect();
        if self.by_calls.len() >= MOST && !self.by_calls.contains_key(&key) {
            return;
        }
        let new = || UnbufferedCircle { calls: Vec::new(), ranks: BTreeSet::new() };
        let found = self.by_calls.entry(key).or_insert_with(new);
        self.is_new = true;
        for (call, place) in circle {
            found.add(call, *place);
        }
    }
}

impl UnbufferedCircle {
    fn add(&mut self, call: &CircleCall, place: Option<CodePlace>) {
        self.ranks.insert(call.rank);
        let len_bytes = match call.wanted {
            Wanted::Message { len_bytes, .. } => len_bytes,
            Wanted::Collective { .. } => None,
        };
        let function = call.origin.row.name.as_str();
        let known = self.calls.iter_mut().find(|known| (known.function, known.place) == (function, place));
        match known {
            Some(known) => {
                known.ranks.insert(call.rank);
                known.is_same &= known.wanted == call.wanted;
                known.most_bytes = known.most_bytes.max(len_bytes);
            }
            None => self.calls.push(UnbufferedCall {
                function,
                place,
                ranks: BTreeSet::from([call.rank]),
                wanted: call.wanted,
                is_same: true,
                most_bytes: len_bytes,
            }),
        }
    }
}

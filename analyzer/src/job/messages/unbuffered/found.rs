//! Deadlocks that buffering hides, by the calls that wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::messages::leaks::Origin;
use crate::tape::input::CodePlace;

/// Sets of calls that are told apart.
const MOST: usize = 1 << 8;
/// Cycles whose places are not known yet.
const MOST_UNPLACED: usize = 1 << 10;

/// What a call of a cycle waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedSide {
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

impl AwaitedSide {
    /// A receive cannot be over before its message is sent, whatever is buffered.
    pub fn is_receive(self) -> bool {
        matches!(self, Self::Message { sends: false, .. })
    }
}

/// One call of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct CycleCall {
    pub rank: u32,
    pub origin: Origin,
    pub wanted: AwaitedSide,
    /// The call that began what this one waits for, if it is another one.
    pub begun: Option<Origin>,
}

/// The same, when it is known where that is.
struct PlacedCall {
    function: &'static str,
    place: Option<CodePlace>,
    rank: u32,
    wanted: AwaitedSide,
    arguments: Vec<(&'static str, String)>,
    begun: Option<BeginningCall>,
}

/// A call that began a request, and where it was made.
pub(super) type BeginningCall = (&'static str, Option<CodePlace>);

/// One call of the program, of all ranks that wait in it.
#[derive(Clone, Debug)]
pub(crate) struct UnbufferedCall {
    pub function: &'static str,
    pub place: Option<CodePlace>,
    pub ranks: BTreeSet<u32>,
    /// What the first waits for.
    pub wanted: AwaitedSide,
    /// Names and values of arguments that are the same for all of them.
    pub arguments: Vec<(&'static str, String)>,
    /// The longest message.
    pub most_bytes: Option<u64>,
    /// The call that began what the first waits for, if it is another one.
    pub begun: Option<BeginningCall>,
}

/// Calls that have waited for each other in a cycle, in the order of the first cycle.
#[derive(Clone, Debug)]
pub(crate) struct UnbufferedCycle {
    pub calls: Vec<UnbufferedCall>,
    /// Ranks that were in such a cycle.
    pub ranks: BTreeSet<u32>,
    /// Those of the first one, each of which waits for the next.
    pub first: Vec<u32>,
}

/// All of a job.
#[derive(Debug, Default)]
pub(super) struct Found {
    unplaced: Vec<Vec<CycleCall>>,
    by_calls: BTreeMap<BTreeSet<(&'static str, Option<CodePlace>)>, UnbufferedCycle>,
    is_new: bool,
}

impl Found {
    pub fn add(&mut self, cycle: Vec<CycleCall>) {
        if self.unplaced.len() < MOST_UNPLACED {
            self.unplaced.push(cycle);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &UnbufferedCycle> {
        self.by_calls.values()
    }

    pub fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    pub fn wants_places(&self) -> bool {
        !self.unplaced.is_empty()
    }

    /// `place`: where a rank's return address is in the code; `arguments`: those of a call that waits for this.
    pub fn find_places(
        &mut self,
        place: impl Fn(u32, u64) -> Option<CodePlace>,
        arguments: impl Fn(AwaitedSide) -> Vec<(&'static str, String)>,
    ) {
        for cycle in std::mem::take(&mut self.unplaced) {
            let placed = cycle.iter().map(|call| PlacedCall {
                function: &call.origin.row.name,
                place: place(call.rank, call.origin.return_address),
                rank: call.rank,
                wanted: call.wanted,
                arguments: arguments(call.wanted),
                begun: call
                    .begun
                    .map(|begun| (begun.row.name.as_str(), place(call.rank, begun.return_address))),
            });
            self.note(placed.collect());
        }
    }

    fn note(&mut self, cycle: Vec<PlacedCall>) {
        let key = cycle.iter().map(|call| (call.function, call.place)).collect();
        if self.by_calls.len() >= MOST && !self.by_calls.contains_key(&key) {
            return;
        }
        let first = cycle.iter().map(|call| call.rank).collect();
        let new = || UnbufferedCycle { calls: Vec::new(), ranks: BTreeSet::new(), first };
        let found = self.by_calls.entry(key).or_insert_with(new);
        self.is_new = true;
        cycle.into_iter().for_each(|call| found.add(call));
    }
}

impl UnbufferedCycle {
    fn add(&mut self, call: PlacedCall) {
        self.ranks.insert(call.rank);
        let len_bytes = match call.wanted {
            AwaitedSide::Message { len_bytes, .. } => len_bytes,
            AwaitedSide::Collective { .. } => None,
        };
        let PlacedCall { function, place, rank, wanted, arguments, begun } = call;
        let known = self.calls.iter_mut().find(|known| (known.function, known.place) == (function, place));
        match known {
            Some(known) => {
                known.ranks.insert(rank);
                known.arguments.retain(|argument| arguments.contains(argument));
                known.most_bytes = known.most_bytes.max(len_bytes);
            }
            None => {
                let (ranks, most_bytes) = (BTreeSet::from([rank]), len_bytes);
                self.calls.push(UnbufferedCall {
                    function,
                    place,
                    ranks,
                    wanted,
                    arguments,
                    most_bytes,
                    begun,
                });
            }
        }
    }
}

//! Calls that are wrong though the job goes on: collective calls that differ, datatypes that do, buffers that are used too early, what is
//! left over, errors that nobody heeds.

use serde::{Deserialize, Serialize};

use super::hang::{CallError, Hang, StuckCall};
use super::place::Place;
use crate::job::messages::LeakKind;
use crate::job::process::Who;

/// Ranks made different collective calls on a communicator, whether or not the library survived it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectiveMismatch {
    /// The communicator.
    pub comm: String,
    /// Which of the collective calls on it differs, from 1: the first.
    pub position: u64,
    /// As many ranks made another call: who is wrong cannot be told, and the rank with the lowest number is not named.
    pub is_tie: bool,
    /// When it was seen, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// What each rank called there; of more than 64 ranks, of some, those at fault first: all are in `groups`.
    pub ranks: Vec<MismatchedRank>,
    /// Of more ranks: all of them, with those that made the same call at the same place; at fault first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<MismatchedGroup>,
    /// The job hangs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
    /// The first rank that died did so in it: the library reported an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub death: Option<Hang>,
}

/// Ranks that made the same collective call at the same place, where ranks differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MismatchedGroup {
    /// The ranks.
    #[serde(with = "crate::findings::runs")]
    pub ranks: Vec<Who>,
    /// They are not with the most.
    pub at_fault: bool,
    /// Ranks whose calls match have the same.
    pub group: u64,
    /// Their call, with the arguments that must be the same everywhere.
    pub call: StuckCall,
}

/// A rank's collective call at the position where ranks differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MismatchedRank {
    /// The rank.
    pub who: Who,
    /// It is not with the most.
    pub at_fault: bool,
    /// Ranks whose calls match have the same.
    pub group: u64,
    /// Its call, with the arguments that must be the same everywhere.
    pub call: StuckCall,
}

/// Messages between two calls of the program whose elements are something else where they are received: numbers of one kind
/// are read as another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatatypeMismatch {
    /// The call that sends, and what its elements are.
    pub send: StuckCall,
    /// The call that receives, and what its elements are.
    pub receive: StuckCall,
    /// How many messages there were.
    pub count: u64,
    /// When the first was sent, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Who sent how many to whom.
    pub messages: Vec<MessagesBetween>,
}

/// A buffer was used before the request that it belongs to was complete (MPI 4.0, 3.7.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferConflict {
    /// The call that began the request.
    pub request: StuckCall,
    /// The request receives a message into the buffer; otherwise it sends what is in it.
    pub receives: bool,
    /// The call or copy that used the buffer meanwhile.
    pub user: BufferUser,
    /// What it did with it.
    pub access: BufferAccess,
    /// How often, of all ranks.
    pub count: u64,
    /// Of the first time: length of the buffer.
    pub buffer_bytes: u64,
    /// Of the first time: how much of it was used; of what was found changed, one byte.
    pub used_bytes: u64,
    /// When it was for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Ranks that did so.
    pub ranks: Vec<Who>,
}

/// A call was given two buffers that overlap, one of which it reads and one it writes (MPI 4.0, 2.3 and 3.10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlappingBuffers {
    /// The call.
    pub call: StuckCall,
    /// What each rank gave was its own part of what it got, or the other way round, and lies where it would be put anyway.
    pub is_own_part: bool,
    /// How often, of all ranks.
    pub count: u64,
    /// Of the first time: how much the call reads, …
    pub read_bytes: u64,
    /// … how much of that it writes as well, …
    pub overlap_bytes: u64,
    /// … and when it was made, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Ranks that made it.
    pub ranks: Vec<Who>,
}

/// An MPI call was given memory that goes past the end of a block of the heap, or that was given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeapMisuse {
    /// The call.
    pub call: StuckCall,
    /// What is wrong with the memory.
    pub fault: HeapFault,
    /// What the call does with it: it reads, or writes.
    pub access: BufferAccess,
    /// Where the block was allocated.
    pub allocated: Place,
    /// Where it was given back, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Place>,
    /// How often, of all ranks.
    pub count: u64,
    /// Of the first time: length of the block, …
    pub block_bytes: u64,
    /// … where in it the memory begins, …
    pub offset_bytes: u64,
    /// … how much the call reads or writes, …
    pub len_bytes: u64,
    /// … how much of that is past the end of the block, …
    pub beyond_bytes: u64,
    /// … and when the call was made, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Ranks that did so.
    pub ranks: Vec<Who>,
}

/// What is wrong with memory of the heap that a call was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeapFault {
    /// It goes past the end of its block.
    BufferOverflow,
    /// Its block was given back before.
    UseAfterFree,
}

/// A one-sided operation goes past an end of the memory that its target has in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutsideWindow {
    /// The call.
    pub call: StuckCall,
    /// What it does with the memory: it reads, or writes.
    pub access: BufferAccess,
    /// How often, of all ranks.
    pub count: u64,
    /// Of the first time: whose memory it was, …
    pub target: Who,
    /// … how much of it is in the window, …
    pub window_bytes: u64,
    /// … where in the window the access begins, …
    pub offset_bytes: i64,
    /// … how long it is, …
    pub len_bytes: u64,
    /// … and when the call was made, CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// Ranks that did so.
    pub ranks: Vec<Who>,
}

/// Two one-sided operations on the same bytes of a window, one of which puts, and nothing orders them (MPI 4.0, 12.7); or one such, and a
/// message or operation of the rank whose memory it is, from there or to there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessConflict {
    /// The call that was made first, of the first time …
    pub first: StuckCall,
    /// … and who made it.
    pub first_ranks: Vec<Who>,
    /// The call that was made while that was active …
    pub second: StuckCall,
    /// … and who made it.
    pub second_ranks: Vec<Who>,
    /// Whose memory it is.
    pub targets: Vec<Who>,
    /// How often, of all ranks.
    pub count: u64,
    /// Of the first time: bytes that both are to …
    pub len_bytes: u64,
    /// … and where they begin in the target's window.
    pub offset_bytes: i64,
    /// When it was for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

/// Calls that wait for each other in a cycle, unless messages are buffered or ranks leave collective calls before all have come to them:
/// a program must not rely on that (MPI 4.0, 3.5 and 6.14).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PotentialDeadlock {
    /// In the order in which they wait for each other.
    pub calls: Vec<BufferedCall>,
    /// Ranks that were in such a cycle.
    pub ranks: Vec<Who>,
    /// Those of the first one, each of which waits for the next.
    pub first: Vec<Who>,
}

/// One call of such a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferedCall {
    /// The call, with arguments if they are the same for all ranks.
    pub call: StuckCall,
    /// Ranks that make it.
    pub ranks: Vec<Who>,
    /// What it would wait for.
    pub waits_for: BufferedWait,
    /// The call that began the request that it waits for, if it waits for one.
    pub begun_by: Option<StuckCall>,
    /// Length of the longest message, if it waits for one and that is known.
    pub most_bytes: Option<u64>,
}

/// What a call would wait for if nothing were buffered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferedWait {
    /// That its message is received.
    Receive,
    /// That the message is sent which it receives.
    Send,
    /// That all come to a collective call.
    Members,
}

/// What uses a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum BufferUser {
    /// An MPI call.
    Call(StuckCall),
    /// A copy of the program's.
    Copy {
        /// Where it is called.
        place: Place,
    },
    /// A call of the allocator (`free`, `realloc`).
    Free {
        /// Where it is called.
        place: Place,
    },
    /// Code that no probe sees: what is sent was found changed.
    Store {
        /// The call that would have completed the request.
        seen_by: StuckCall,
        /// Of the first time: the first byte of the buffer that was found changed.
        first_byte: u64,
    },
}

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferAccess {
    /// It is read.
    Read,
    /// It is written.
    Written,
    /// Another message is received there.
    Received,
    /// It is given back to the allocator.
    Freed,
}

/// Messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesBetween {
    /// Who sent them.
    pub sender: Who,
    /// Who received them.
    pub receiver: Who,
    /// How many.
    pub count: u64,
}

/// What one call of the program left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// Messages, requests, communicators or windows.
    pub what: LeakKind,
    /// The call that sent or began it.
    pub function: String,
    /// Where it was called.
    pub place: Place,
    /// How many, of all ranks.
    pub count: u64,
    /// Who left how many.
    pub ranks: Vec<LeakingRank>,
}

/// What one rank left open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakingRank {
    /// The rank.
    pub who: Who,
    /// How many.
    pub count: u64,
    /// Arguments of the call that were the same for all of them: name and value.
    pub arguments: Vec<(String, String)>,
    /// Ranks that they were sent to, if they were sent.
    #[serde(with = "crate::findings::runs")]
    pub peers: Vec<Who>,
}

/// A call that failed, and a program that went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorReturned {
    /// The call, with the arguments of the first time.
    pub call: StuckCall,
    /// What was wrong with it.
    pub error: CallError,
    /// How often it failed so.
    pub count: u64,
    /// When it did for the first time, CLOCK_MONOTONIC.
    pub first_ns: u64,
}

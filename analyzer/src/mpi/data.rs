//! Where the content of messages is in memory: what whoever follows messages tells, and asks of, whoever follows memory.

use super::communicators::CommId;
use super::follow::Op;
use super::messages::MessageId;

/// A range of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The process.
    pub pid: u32,
    /// In its space.
    pub addr: u64,
    /// Of a receive: at most.
    pub len_bytes: u64,
    /// When the call was made that gives it to the library, CLOCK_MONOTONIC.
    pub since_ns: u64,
}

/// What a message does with memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    /// What is here now is sent.
    Sent(MessageId, Content),
    /// It has been received.
    Received(Arrival),
    /// Something has been received, and nobody was told from whom.
    FromAnybody(Asked),
}

/// A message that is in the receiver's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub send: MessageId,
    pub content: Content,
    /// The thread that was told so.
    pub tid: u32,
    /// Where the call that receives it returns to, in the process's space.
    pub return_address: u64,
}

/// A receive of which it is not known whose message it got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub content: Content,
    pub(super) op: Op,
    pub(super) place: (CommId, u32),
    pub(super) tid: u32,
}

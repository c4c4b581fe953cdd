//! Where the content of messages is in memory: what whoever follows messages tells, and asks of, whoever follows memory.

use super::ids::CommId;
use super::leaks::Origin;
use super::op::{MessageContent, Op};

/// What a message does with memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    /// What is here now is sent.
    Sent {
        /// Of this message: one more than that of the one before.
        number: u64,
        pid: u32,
        content: MessageContent,
    },
    /// It has been received.
    Received(Arrival),
    /// Something has been received, and nobody was told from whom.
    FromAnybody(Asked),
}

/// Memory that an MPI call reads, or that is written for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBuffer {
    pub pid: u32,
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// The call that was given it.
    pub origin: Origin,
    pub content: MessageContent,
    pub is_written: bool,
}

/// A message that is in the receiver's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Number of the message.
    pub number: u64,
    /// The receiver, and the thread that was told so.
    pub pid: u32,
    pub tid: u32,
    pub content: MessageContent,
    /// Where the call that receives it returns to, in the process's space.
    pub return_address: u64,
}

/// A receive of which it is not known whose message it got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The receiver, and the thread that was told that something has come.
    pub pid: u32,
    pub(super) tid: u32,
    pub content: MessageContent,
    pub(super) op: Op,
    pub(super) place: (CommId, u32),
}

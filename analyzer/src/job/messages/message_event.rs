//! What is learnt of calls and messages.

use super::assemble::Call;
use super::epochs::AwaitedCall;
use super::ids::{CallId, CollectiveId, MessageId};
use super::members::Membership;

/// What was learnt.
#[derive(Clone, Debug)]
pub enum MessageEvent {
    /// A call is over; `end_ns`: if it was seen to return.
    Call {
        /// Which.
        id: CallId,
        /// All of it.
        call: Box<Call>,
        /// CLOCK_MONOTONIC.
        end_ns: Option<u64>,
        /// The communicator that it names.
        communicator: Option<CallCommunicator>,
        /// Of a collective call: what each rank gives or gets, where that is the same for all.
        collective_bytes: Option<u64>,
    },
    /// A message is given to the library: sent, or asked for.
    Posted {
        /// Which.
        message: MessageId,
        /// As it was given.
        facts: MessageFacts,
        /// When, CLOCK_MONOTONIC.
        time_ns: u64,
    },
    /// A send and the receive that got it.
    Matched {
        /// The send.
        send: MessageId,
        /// The receive.
        receive: MessageId,
    },
    /// A rank has entered a collective call, of any form.
    Entered {
        /// Which.
        collective: CollectiveId,
        /// By this call.
        by: CallId,
        /// Members of the communicator.
        members: u32,
        /// The root, as a rank of MPI_COMM_WORLD, if it has one that is known.
        root: Option<u32>,
    },
    /// The user's buffer is the user's again.
    Completed {
        /// Of this message.
        message: MessageId,
        /// As this call said.
        by: CallId,
        /// As far as it is known now: of what was received from anybody, whose it was.
        facts: MessageFacts,
        /// It was given up before it was sent or received.
        cancelled: bool,
    },
    /// A call that opens or ends an epoch of a window is over.
    EpochAwaited {
        /// The call.
        by: CallId,
        /// What it may have waited for: all of it.
        awaited: Vec<AwaitedCall>,
    },
    /// What a nonblocking or persistent collective call began is over.
    CollectiveCompleted {
        /// The call that began or started it.
        call: CallId,
        /// As this call said.
        by: CallId,
    },
}

/// What a message is told apart by, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageFacts {
    /// Sent, not received.
    pub sends: bool,
    /// Number of the communicator, if it is known which one it is.
    pub comm: Option<u32>,
    /// Number of the other side there; none: anybody, or not known.
    pub peer: Option<u32>,
    /// Its rank in MPI_COMM_WORLD.
    pub peer_rank: Option<u32>,
    /// None: any.
    pub tag: Option<i32>,
    /// What is sent, or was received; of a receive that is not over: at most. None: not known.
    pub len_bytes: Option<u64>,
}

/// The value of an argument, as far as people want to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownArgument {
    /// A number.
    Number(i32),
    /// A name that the standard gives to a value.
    Name(&'static str),
    /// What is behind a handle.
    Text(String),
    /// It was not recorded.
    Unknown,
}

impl std::fmt::Display for ShownArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
            Self::Text(text) => f.write_str(text),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// A communicator as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCommunicator {
    /// Its number in the job; MPI_COMM_WORLD is 0.
    pub number: u32,
    /// The process's own number there.
    pub own: u32,
    pub(super) membership: Membership,
}

impl CallCommunicator {
    /// Whom the process names by a rank, as ranks of MPI_COMM_WORLD: of an intercommunicator, members of the other group.
    pub fn peers(&self) -> &[u32] {
        self.membership.remote(self.own)
    }

    /// All members by their numbers, as ranks of MPI_COMM_WORLD; of an intercommunicator, one group after the other.
    pub fn members(&self) -> &[u32] {
        self.membership.all()
    }

    /// The number of whom the process names by a rank.
    pub fn number_of(&self, rank: u32) -> Option<u32> {
        self.membership.number(self.own, rank)
    }

    /// Whether it has two groups.
    pub fn is_inter(&self) -> bool {
        self.membership.is_inter()
    }
}

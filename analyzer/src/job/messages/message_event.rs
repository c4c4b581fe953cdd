//! What is learnt of calls and messages.

use super::assemble::Call;
use super::ids::{CallId, MessageId};

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
        /// Members of the communicator that it names, as ranks of MPI_COMM_WORLD by their ranks in it; of an
        /// intercommunicator, of the other group.
        members: Option<Vec<u32>>,
    },
    /// A send and the receive that got it.
    Matched {
        /// The send.
        send: MessageId,
        /// The receive.
        receive: MessageId,
    },
    /// The user's buffer is the user's again.
    Completed {
        /// Of this message.
        message: MessageId,
        /// As this call said.
        by: CallId,
    },
}

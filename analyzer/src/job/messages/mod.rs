//! What MPI calls do to each other: requests, communicators, and which receive got which send.
//!
//! From records of calls, of what their arguments point to, and of their returns. What is not known (calls
//! that were not seen, records that were lost, a source that nobody was told) gives no match, never a guess.

mod accesses;
mod active_buffers;
mod alone;
mod assemble;
mod bridges;
mod communicators;
mod data;
mod epochs;
mod few;
mod follow;
mod found;
mod groups;
mod ids;
mod leaks;
mod made_objects;
mod matching;
mod members;
mod message_event;
mod op;
mod open_handles;
mod overlapping;
mod process;
mod requests;
mod results;
mod tracker;
mod type_matching;
mod unbuffered;

pub(crate) use accesses::{ConflictingAccess, OutsideAccess, UnorderedAccesses};
pub(crate) use active_buffers::{EarlyUse, MemoryAccess, MemoryUse, MemoryUser};
pub use assemble::Call;
pub(crate) use data::{Arrival, Asked, CallBuffer, Data};
pub use epochs::AwaitedCall;
pub(crate) use follow::{CollectiveCall, KnownMessage, KnownRequest};
pub(crate) use ids::CommId;
pub use ids::{CallId, CollectiveId, MessageId, SequenceId};
pub use leaks::{LeakKind, Unfinished};
pub use message_event::{CallCommunicator, MessageEvent, MessageFacts, ShownArgument};
pub(crate) use op::MessageContent;
pub(crate) use overlapping::AliasedBuffers;
pub use results::{CallResult, CompletedRequest, CompletionChoice, MessageSource, RequestHandles};
pub use tracker::Messages;
pub(crate) use type_matching::{TypeMismatch, TypedCall};
pub(crate) use unbuffered::{AwaitedSide, UnbufferedCall, UnbufferedCycle};

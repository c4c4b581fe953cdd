//! Queue pairs of RDMA verbs: what work requests and completions move.
//!
//! A queue pair that is reliably connected delivers what is sent in its order: the n-th message that one end sends is the
//! n-th that the other receives, into the memory that its n-th receive named. So it is a stream like one of TCP, whose
//! positions both ends count. An RDMA write, read or atomic operation names the memory of the process at the other end itself.
//! Records of both are made here from what was posted and polled; what becomes of them is the same as for all others.
//!
//! Order is known of a queue pair whose whole life was seen. Whatever may have hidden a work request from us (a loss, a
//! pause, probes that came later, an error, threads that post at the same moment) ends that, until it is set up anew, or until
//! both ends, if they are of one node, show a moment at which nothing was under way (see `quiet`): what it moves is meanwhile in
//! no stream, and neither is that of transports which may lose messages or have many ends.

mod direction;
mod enums;
mod names;
mod put;
mod queue_pair;
mod queue_pairs;
mod quiet;
mod receive_queues;
mod seen;
mod sent_requests;
#[cfg(test)]
mod tests;

pub(crate) use enums::operation;
pub use enums::{RELIABLE_CONNECTED, queue_state};
pub use names::RdmaAddress;
pub(super) use queue_pairs::{QueuePairs, is_of_verbs};

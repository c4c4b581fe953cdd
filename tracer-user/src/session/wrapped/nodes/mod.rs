//! Ranks on other nodes than the one that a job is recorded or replayed from.
//!
//! A rank shares a folder with a process of dmscope on its own node, as all ranks do. The first process of the job on a node
//! starts that one; it connects to the node that the job was started from (the head) over TCP, gets the files that are there,
//! and has the files that its ranks write appear there too. So whoever records or replays reads one folder, wherever ranks are.

mod forwarding;
mod frames;
mod head;
mod node;

pub(super) use head::{RemoteNodes, RemoteRank};
pub use node::serve as share_ranks;

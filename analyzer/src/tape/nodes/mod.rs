//! Tapes of several nodes as one: each node has numbers and a clock of its own.

mod join;
mod numbers;

pub use join::Join;
pub use numbers::{MAX_NODES, file_on_node, node_of, pid_on_node};

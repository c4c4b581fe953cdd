//! Sessions of several nodes as one: each node has numbers and a clock of its own.

mod clocks;
mod crossings;
mod join;
mod live;
mod merge;
mod numbers;

pub use join::Join;
pub use live::{LiveJoin, Patience};
pub use numbers::{MAX_NODES, file_on_node, node_of, node_of_file, pid_of_node, pid_on_node};
pub(crate) use numbers::{absolute_node, file_on_own_node, relative_node};

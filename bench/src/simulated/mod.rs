//! Nodes of a made-up job on a real bus: what runs on each is the code of agents and their sessions, from the inputs on.
//!
//! Made up are records, samples and processes. Real are the analysis of each node with its letters, what it sends and in which
//! form, its connection, the server, and the coordinator, which is `dmscope attach`. All nodes share one process and take turns
//! on a few threads; the agent and the session of a node share one connection.

mod counted_bus;
mod fleet;
mod node;
mod node_part;
mod state;

pub use counted_bus::SentMessages;
pub use fleet::{Fleet, FleetUse};
pub use state::FleetJob;

//! Jobs on several nodes: agents on the nodes, a coordinator where somebody looks, and the bus between them.
//!
//! ```text
//! agent ── node session ─┐ counts, rare inputs, words         ┌─► tape
//!               ↕ letters ├───────────────► coordinator: join ─┴─► pipeline → sink
//! agent ── node session ─┘ ◄─ stop, names, pings
//! ```

pub mod agent;
pub mod bus;
pub mod coordinator;
pub mod envelope;
pub mod find;
pub mod jobs;
mod node;
pub mod node_session;
pub mod peers;
pub mod protocol;
mod rights;
pub mod uplink;

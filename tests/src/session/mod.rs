//! The real `dmscope` binary: starting it, listening to what it says, and what is left when it has ended.

mod binary;
mod cluster;
mod command;
pub mod findings;
mod finished;
mod running;
mod tcp;

pub use binary::binary;
pub use cluster::Cluster;
pub use command::Dmscope;
pub use findings::Findings;
pub use finished::FinishedSession;
pub use running::RunningSession;
pub use tcp::TcpBytes;

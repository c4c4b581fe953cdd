//! The real `dmscope` binary: starting it, listening to what it says, and what is left when it has ended.

mod binary;
mod command;
pub mod findings;
mod finished;
mod running;

pub use binary::binary;
pub use command::Dmscope;
pub use findings::Findings;
pub use finished::FinishedSession;
pub use running::RunningSession;

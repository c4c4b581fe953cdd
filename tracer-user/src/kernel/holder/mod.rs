//! Links are made, held and closed by a process of its own, which nobody signals.
//!
//! A process that is killed while the kernel puts a breakpoint in for it, or takes one out, may leave that breakpoint behind.
//! So whoever ends dmscope does not end this process: it is in no process group of a terminal or job, takes no notice
//! of requests to end, and closes all links when the session is gone. In tests and tools it is a thread.

mod client;
mod keeper;
mod link;
mod messages;
mod serve;

pub use client::{HolderGone, HolderPlace};
pub(super) use client::{LinkHolder, NewLink};
pub(super) use messages::{LinkId, ReturnMode};
pub use serve::serve;

//! A process that has nothing to lose: what a job hands us is read there.
//!
//! It computes, reads what it is handed open, and answers over a socket; the kernel refuses it everything else.

mod process;
mod rights;
mod socket;

pub use process::{Conversation, SandboxedProcess, start_child};
pub use rights::{SandboxLimits, enter};
pub use socket::{receive, receive_bytes, receive_file, send, send_bytes, send_file};

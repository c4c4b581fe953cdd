//! What is known of the job: processes, memory, names, probes, calls in progress, requests, communicators, messages.

pub(crate) mod collectives;
pub(crate) mod coverage;
pub(crate) mod last_calls;
pub(crate) mod lifecycle;
pub(crate) mod locks;
pub(crate) mod memory;
pub mod messages;
pub mod names;
pub(crate) mod places;
pub(crate) mod prefetch;
pub(crate) mod probes;
pub mod process;
pub(crate) mod request_origins;
pub(crate) mod resolve;
pub(crate) mod state;

//! The part of the preloaded MPI wrapper that is the same for all MPI libraries.
//!
//! The other part is C, compiled with the compiler of each library (`shim.c`): handles, statuses and constants differ between
//! libraries. It asks here what to do and what to record, in numbers and through functions of the C ABI.
//!
//! A rank is never the worse for it: whatever goes wrong is said once, and the wrapper stands aside from then on.

mod alone_clocks;
mod c_abi;
mod callers;
mod calling_threads;
mod clocks;
mod contents;
mod early_clocks;
mod files;
mod logical;
mod logical_abi;
mod mapped_file;
mod message_abi;
mod message_recorder;
mod mode;
mod node;
mod owned;
mod place;
mod plain_calls;
mod played_clocks;
mod player;
mod rank;
mod rank_order;
mod rank_parts;
mod rank_thread;
mod recorder;
mod refusal;
mod thread;
mod threads;
mod treatment;

//! What MPI libraries keep in a process's memory, and what it says of a call that a thread is in: requests,
//! communicators, windows. Nothing is believed that was not held against what is known of the process.

mod call;
mod library;
mod mpich;
mod open_mpi;

pub use call::CallSources;
pub use library::{Library, RankIdentity, Worlds};
pub use mpich::WORLD as MPICH_WORLD;

//! The part of the wrapper for contents that is the same for all MPI libraries: what a rank's calls get is recorded, or comes
//! from the record when the rank runs alone.

mod alone;
mod alone_thread;
mod c_abi;
mod call_names;
mod recorder;
mod ring;
mod turn;
mod work;

//! The kernel half of dmscope: the BPF object, with a loader generated from it.
//!
//! The records that it writes are described in `bpf/wire.h`; `analyzer::wire` reads them.

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, unused)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/dmscope.skel.rs"));
}

pub use generated::*;

/// The text of `wire.h`, for the test that compares it with the Rust side.
pub const WIRE_H: &str = include_str!("bpf/wire.h");

//! Records calls that a running process makes through its linkage tables, without traps.
//!
//! A slot of the global offset table is made to lead to code of ours, which notes the call in memory that is shared with us
//! and jumps on to where the slot led before. This crate puts that in ([`install`]), takes it out ([`Installation::take_out`]) and
//! reads what was recorded ([`SharedRings`]). It decides nothing and knows nothing of MPI: which slots, and what the records mean,
//! is for whoever calls it.
//!
//! Everything that is written into a process, in this order: an anonymous mapping of code (never writable), a page that says
//! in which process it was put there (zero in children of fork), memory shared with us (not in children of fork), and
//! 8 bytes a slot.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod code;
mod counter;
mod forbidden;
mod heap;
mod install;
mod layout;
mod maps;
mod memory;
mod previous;
mod rings;
mod shared;
mod stop;
mod stub;
mod taken_over;
mod templates;

pub use code::{CompletedHandles, HookKind, MadeHandle, NotedCall, SlotHook};
pub use counter::{CounterClock, CounterPair, counter, counter_is_invariant};
pub use forbidden::{Forbidden, ProcessStatus, forbidden, parse_status};
pub use heap::{HeapCall, HeapHook, MOST_BEHIND_BYTES, MOST_FIRST_BYTES, PassedEntry};
pub use install::{HookRequest, Installation, MappedPlaces, TakeOut, install};
pub use layout::{MAX_RINGS, MOST_STACK_ARGUMENTS, RING_RECORD_BYTES};
pub use memory::WritableMemory;
pub use previous::{PreviousHook, PreviousHooks, find_previous};
pub use rings::{RecordedCall, RingState, WholeCall, read_ring};
pub use shared::{Drained, RecordLosses, RecordedPart, SharedRings, Switch};
pub use taken_over::{MadeBefore, NotedBefore, ThreadBefore};

/// Why nothing could be put into a process.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The kernel does not allow it.
    #[error("{what}: {source}")]
    Refused {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
    /// It did not stop in time, as one that waits for a child of vfork.
    #[error("a thread of it does not stop")]
    DoesNotStop,
    /// A slot may be about to be written by the dynamic linker.
    #[error("a thread of it is in the dynamic linker for too long")]
    Linking,
    /// Whoever asked for it does not want it any more.
    #[error("{0}")]
    GivenUp(String),
    /// It has ended.
    #[error("it has ended")]
    Ended,
    /// It is stopped, by a signal or a debugger.
    #[error("it is stopped")]
    Stopped,
    /// It is not made as others are.
    #[error("{0}")]
    Unknown(&'static str),
}

impl InjectError {
    fn last(what: &'static str) -> Self {
        Self::of(what, std::io::Error::last_os_error())
    }

    fn of(what: &'static str, source: std::io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ESRCH) => Self::Ended,
            _ => Self::Refused { what, source },
        }
    }
}

//! Calls that are recorded without the kernel: slots of linkage tables lead to code that writes into memory shared with us.
//!
//! What may be used is chosen by [`crate::plan::engines`]; how it gets into a process, and out again, is the injector's.

mod decoder;
mod engine;
mod facts;
mod holder;
mod reader;

pub use engine::{ChosenSlots, FastEngine, PutInSteps, SlotsInUse, not_possible};
pub use facts::{FastFacts, look_at_slots};
pub use holder::serve as hold_slots;
pub(in crate::kernel) use reader::FastReaders;
pub use reader::FastRing;

//! The one layer that touches the kernel: loads the BPF programs, applies plans, says whom to
//! watch, and reads the rings. It decides nothing.

mod calibrate;
mod collector;
mod fast;
mod filter;
mod hit_prices;
mod holder;
mod links;
mod load;
mod moving;
mod own_time;
mod rings;
mod shapes;
mod strangers;
mod threads;
mod tracer;
mod types;

pub use collector::{Collector, DrainBatch, ReaderFailed};
pub use fast::{
    ChosenSlots, FastEngine, FastFacts, FastRing, PutInSteps, SlotsInUse, hold_slots, look_at_slots,
    not_possible,
};
pub use filter::FilterCheck;
pub use holder::{HolderGone, HolderPlace, serve as hold_links};
pub use load::{Features, KernelError, LoadSettings};
pub use moving::ProbeMove;
pub use rings::{Counters, KernelRing, SlotCounters};
pub use strangers::StrangerHits;
pub use threads::{SamplingKeptReady, ThreadLister, sample_running};
pub use tracer::Tracer;
pub use types::{Attached, MAX_OWN_RANGES, MAX_SLOTS, ProcessKey, Scope, Target};

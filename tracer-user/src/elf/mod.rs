//! What one program or library file says about itself, without running it.
//!
//! Everything here is pure: bytes in, facts out. No input makes it panic; what cannot be
//! read is an [`ElfError`] or is simply not among the facts.

mod copies;
mod decode;
mod facts;
mod flow;
mod functions;
mod imports;
mod layout;
mod place;
mod polling;

pub use copies::{CopyFunction, CopyScan, CopySite, SiteKind, UnseenCopies, scan_copies};
pub use decode::instruction_len;
pub use facts::{CodeRange, ElfError, ElfFacts, ElfKind, Segment, parse};
pub use functions::Function;
pub use layout::convertor_base_offset;
pub use place::{EntryPlace, NoPlace, Wanted, emulated, entry_place, place_before_call};
pub use polling::{PollingAnswer, success_places};

//! What one program or library file says about itself, without running it.
//!
//! Everything here is pure: bytes in, facts out. No input makes it panic; what cannot be
//! read is an [`ElfError`] or is simply not among the facts.

mod arguments;
mod callers;
mod code;
mod copies;
mod datatypes;
mod decode;
mod facts;
mod flow;
mod functions;
mod imports;
mod layout;
mod objects;
mod place;
mod polling;

pub use arguments::{Held, Holder, MAX_ARGUMENTS, called_before, held_arguments};
pub use callers::callers;
pub use code::{CodeRange, Segment};
pub use copies::{CopyFunction, CopyScan, CopySite, SiteKind, UnseenCopies, scan_copies};
pub use datatypes::datatypes;
pub use decode::instruction_len;
pub use facts::{ElfError, ElfFacts, ElfKind, parse};
pub use functions::Function;
pub use layout::convertor_base_offset;
pub use objects::mpi_objects;
pub use place::{EntryPlace, NoPlace, Wanted, emulated, entry_place, place_before_call};
pub use polling::{PollingAnswer, SuccessPlaces, success_places};

#[cfg(test)]
mod testing {
    use std::collections::HashMap;

    use super::{CodeRange, ElfFacts, ElfKind, Segment};

    /// Where [`of_code`] puts the code.
    pub const BASE: u64 = 0x1000;

    /// Facts of a library that is nothing but this code, without any symbol.
    pub fn of_code(bytes: &[u8]) -> ElfFacts<'_> {
        let len_bytes = bytes.len() as u64;
        ElfFacts {
            kind: ElfKind::Library,
            build_id: None,
            soname: None,
            needed: Vec::new(),
            run_path: None,
            segments: vec![Segment { vaddr: BASE, offset_bytes: 0, len_bytes, exec: true }],
            code: vec![CodeRange { name: ".text", vaddr: BASE, bytes }],
            functions: super::functions::Functions::default(),
            imports: Vec::new(),
            slots: HashMap::new(),
            stubs: HashMap::new(),
        }
    }
}

//! What one program or library file says about itself, without running it.
//!
//! Everything here is pure: bytes in, facts out. No input makes it panic; what cannot be
//! read is an [`ElfError`] or is simply not among the facts.

mod arguments;
mod callers;
mod code;
mod contents;
mod copies;
mod datatypes;
mod decode;
mod entry;
mod error;
mod facts;
mod flow;
mod functions;
mod imports;
mod layout;
mod objects;
mod operations;
mod passed;
mod place;
mod polling;
mod work;

pub use arguments::{Held, Holder, MAX_ARGUMENTS, called_before, held_arguments};
pub use callers::callers;
pub use code::{CodeRange, Segment};
pub use contents::Contents;
pub use copies::{
    CopyFunction, CopyScan, CopySite, MOST_SITES, SiteKind, UnseenCopies, copy_function, scan_copies,
};
pub use datatypes::datatypes;
pub use decode::instruction_len;
pub use entry::passed_entry;
pub use error::ElfError;
pub use facts::{ElfFacts, ElfKind, parse};
pub use functions::Function;
pub use imports::SlotKind;
pub use layout::convertor_base_offset;
pub use objects::mpi_objects;
pub use operations::operations;
pub use passed::{PassedArgument, PassedFrom, REGISTER_ARGUMENTS, passed_arguments};
pub use place::{CallPlaces, EntryPlace, NoPlace, Wanted, emulated, entry_place, place_before_call};
pub use polling::{PollingAnswer, SuccessPlaces, success_places};

#[cfg(test)]
mod testing {
    use std::collections::HashMap;

    use super::{CodeRange, ElfFacts, ElfKind, Segment};

    /// Where [`of_code`] puts the code.
    pub const BASE: u64 = 0x1000;

    /// An executable segment.
    #[derive(Clone, Copy)]
    pub struct Load {
        pub offset_bytes: u64,
        pub vaddr: u64,
        pub len_bytes: u64,
    }

    /// A file of headers alone: these segments, and no sections.
    pub fn file_of(segments: &[Load]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for half in [3_u16, 62, 1, 0] {
            file.extend_from_slice(&half.to_le_bytes());
        }
        for word in [0_u64, 64, 0] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        for half in [0_u16, 0, 64, 56, segments.len() as u16, 64, 0, 0] {
            file.extend_from_slice(&half.to_le_bytes());
        }
        for load in segments {
            file.extend_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
            for word in [load.offset_bytes, load.vaddr, load.vaddr, load.len_bytes, load.len_bytes, 4096] {
                file.extend_from_slice(&word.to_le_bytes());
            }
        }
        file
    }

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
            slot_kinds: HashMap::new(),
            stubs: HashMap::new(),
        }
    }
}

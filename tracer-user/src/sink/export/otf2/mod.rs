//! Archives of OTF2, for Vampir, Cube, Scalasca and others, written by OTF2's own library.

mod archive;
mod definitions;
mod events;
mod library;

pub use archive::{ArchiveError, find_library};
pub use events::ArchiveExport;
pub use library::Otf2Library;

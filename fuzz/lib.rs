//! What the fuzz targets share.

pub mod bytes;
pub mod elf_file;
pub mod limits;
pub mod looks;
pub mod memory;
pub mod mpi;
pub mod pieces;
pub mod session;

//! What the fuzz targets share.

pub mod bytes;
pub mod looks;
pub mod mpi;
pub mod pieces;
pub mod session;

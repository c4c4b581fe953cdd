//! What the fuzz targets share.

pub mod pieces;
pub mod session;

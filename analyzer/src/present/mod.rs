//! Findings in words: text and the data of pages. Only here are sentences made.

pub(crate) mod hang;
pub(crate) mod mismatch;
pub mod page;
pub mod render;
pub(crate) mod report;
pub mod symbols;
pub mod text;

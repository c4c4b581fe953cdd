//! Findings in words: text and the data of pages. Only here are sentences made.

pub(crate) mod access_conflict;
pub(crate) mod buffer_conflict;
mod chain;
pub mod clocks;
pub(crate) mod hang;
pub(crate) mod heap_misuse;
pub(crate) mod leaks;
pub(crate) mod mismatch;
pub(crate) mod outside_window;
pub(crate) mod overlapping_buffers;
pub mod page;
mod potential_deadlock;
pub mod render;
pub(crate) mod report;
pub(crate) mod say;
pub mod symbols;
pub mod text;
pub(crate) mod type_mismatch;
pub mod visible;

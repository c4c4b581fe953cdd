//! Findings in words: text and the data of pages. Only here are sentences made.

pub(crate) mod hang;
pub mod page;
pub mod render;
pub(crate) mod report;
pub mod symbols;
pub mod text;

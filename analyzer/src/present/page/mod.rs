//! Everything that is on a page about a job, as data: for the page itself, and for programs.
//!
//! # Form
//!
//! A [`Page`] as JSON. Times are nanoseconds since the session began ([`Timeline::begin_ns`] is that moment).
//! Rows, functions, places and events are lists; whoever refers to one gives its position in the list, from 0.
//! [`PAGE_SCHEMA`] changes when a field changes its meaning.

mod arguments;
mod build;
mod corrected;
mod data;
mod groups;
mod lasts;
mod places;
mod sorts;
mod verdict;

pub(crate) use build::page;
pub use corrected::PageCorrection;
pub use data::*;

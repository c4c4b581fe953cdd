//! The MPI standard as data: functions and what their arguments mean, and how each library writes handles, constants,
//! statuses, datatypes and error classes.

pub mod calls;
pub(crate) mod datatypes;
pub(crate) mod error_classes;
pub(crate) mod handles;
pub(crate) mod operations;
pub(crate) mod status;

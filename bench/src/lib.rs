//! What dmscope costs: each kind of measurement is a function that returns a [`results::Section`].
//!
//! All measuring is paired and in turn (A B A B …), so that a machine whose speed drifts does not
//! decide a ratio. Figures are kept with all their runs.

pub mod generate;
pub mod harness;
pub mod kernel_time;
pub mod kinds;
pub mod options;
pub mod results;
pub mod simulated;

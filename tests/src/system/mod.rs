//! The machine that tests run on: processes, what they hold in the kernel, disks, a browser. Knows neither MPI nor dmscope.

mod bpf_programs;
mod browser;
pub mod debugger;
mod lines;
pub mod processes;
mod small_disk;

pub(crate) use bpf_programs::{HeldPrograms, held_programs};
pub use browser::Browser;
pub(crate) use lines::Lines;
pub use small_disk::SmallDisk;

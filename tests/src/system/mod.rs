//! The machine that tests run on: processes, what they hold in the kernel, disks, a browser. Knows neither MPI nor dmscope.

mod bpf_objects;
mod browser;
mod bus;
pub mod debugger;
mod environment;
mod lines;
mod nodes;
mod patience;
pub mod processes;
mod slurm;
mod small_disk;
pub mod users;

pub(crate) use bpf_objects::{HeldObjects, held_objects};
pub use browser::Browser;
pub use bus::{BusServer, CarriedMessages, RawClient, SOME_UID, SOME_USER};
pub use environment::number_from_environment;
pub(crate) use lines::Lines;
pub use nodes::Nodes;
pub use patience::{deadline, patience};
pub use slurm::Slurm;
pub use small_disk::SmallDisk;

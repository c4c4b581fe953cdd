//! What is found in jobs that tests make up, through what the crate shows to others. One program: each would be built with
//! all that it uses.

#[path = "../common/mod.rs"]
mod common;

mod accesses;
mod active_buffers;
mod batch;
mod broken_chains;
mod communicators;
mod errors;
mod hangs;
mod heap_misuses;
mod hostile;
mod json_names;
mod leaks;
mod live_nodes;
mod losses;
mod message_data;
mod movements_missing;
mod nodes;
mod one_sided;
mod overlapping;
mod page_data;
mod robust;
mod sampled_jobs;
mod scenarios;
mod shedding;
mod split;
mod stranger_cost;
mod tcp;
mod type_matching;

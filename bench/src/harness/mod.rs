//! What measurements are made with: processes that pass probes, jobs with somebody looking on, cases in processes of their
//! own.

mod attached;
pub mod case;
mod counters;
mod empty_programs;
mod fast_hook;
mod onlooker;
mod our_programs;
mod probed_process;
mod thread_time;
mod workload;

pub use attached::{AttachedDmscope, SessionRecords};
pub use counters::{CounterReading, HARDWARE, PerHit, ProcessCounters};
pub use empty_programs::{EmptyPrograms, Hook};
pub use fast_hook::{FastHook, THROUGH};
pub use onlooker::{Nobody, Onlooker, PATIENCE};
pub use our_programs::{OurProbe, OurPrograms, RecordCounts, measured_and_others};
pub use probed_process::{COPIES, Offsets, PROGRAM, Passes, ProbedProcess, function};
pub use thread_time::{ThreadTimeReader, ThreadTimes};
pub use workload::{JobRun, Workload};

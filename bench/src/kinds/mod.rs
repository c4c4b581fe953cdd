//! The kinds of measurement, by name.

mod against;
mod attach;
mod contention;
mod detection;
mod export;
mod floor;
mod jobs;
mod latency;
mod looks;
mod nodes;
mod peers;
mod phases;
mod pipeline;
mod replay;
mod scale;
mod tape;
mod times;

use anyhow::Result;
use clap::ValueEnum;

use crate::options::BenchOptions;
use crate::results::Section;

/// What can be measured, in the order in which it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasurementKind {
    /// What one hit costs, of an empty BPF program and of ours
    Floor,
    /// What a hit costs when many processes are hit at once
    Contention,
    /// How much slower jobs are when they are watched
    Jobs,
    /// What it costs that quiet ranks are looked at
    Looks,
    /// Whether a budget holds when the job changes its ways
    Phases,
    /// How long attaching and detaching take
    Attach,
    /// From a wrong movement to its alert
    Latency,
    /// How long faults take to be found under a budget
    Detection,
    /// What other tools cost that do the nearest thing
    Peers,
    /// From a tape to findings on one core, and where the time goes
    Pipeline,
    /// How much slower jobs are when they are recorded for replay, and replayed
    Replay,
    /// How far corrected times are from those without dmscope
    Times,
    /// How small a tape is, and how fast it is written and read
    Tape,
    /// How fast tapes are written for other tools, and the memory that takes
    Export,
    /// What grows with the number of ranks and nodes
    Scale,
    /// Jobs on up to 1,024 nodes: what crosses the bus, what it costs, and whether faults are found
    Nodes,
}

impl MeasurementKind {
    /// What is measured if nothing is named: all, or what a quick run has time for.
    pub fn usual(options: BenchOptions) -> Vec<Self> {
        let takes_its_time = |kind: &Self| {
            matches!(kind, Self::Detection | Self::Looks | Self::Peers | Self::Replay | Self::Times)
        };
        let all = Self::value_variants().iter().copied();
        all.filter(|kind| !options.quick || !takes_its_time(kind)).collect()
    }

    /// Measures, which may take minutes.
    ///
    /// # Errors
    /// What could not be started or read; a bad figure is no error but a failed check of the section.
    pub fn measure(self, options: BenchOptions) -> Result<Section> {
        match self {
            Self::Floor => floor::measure(options),
            Self::Contention => contention::measure(options),
            Self::Jobs => jobs::measure(options),
            Self::Looks => looks::measure(options),
            Self::Phases => phases::measure(options),
            Self::Attach => attach::measure(options),
            Self::Latency => latency::measure(options),
            Self::Detection => detection::measure(options),
            Self::Peers => peers::measure(options),
            Self::Pipeline => pipeline::measure(options),
            Self::Replay => replay::measure(options),
            Self::Times => times::measure(options),
            Self::Tape => tape::measure(options),
            Self::Export => export::measure(options),
            Self::Scale => scale::measure(options),
            Self::Nodes => nodes::measure(options),
        }
    }
}

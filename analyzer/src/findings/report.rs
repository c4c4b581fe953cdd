//! All that is to be said of a session.

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use super::statistics::Statistics;
use crate::job::process::Who;
use crate::tape::input::Start;

/// Version of the JSON form.
pub const REPORT_SCHEMA: u32 = 4;

/// Everything that is to be said at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: u32,
    /// The session.
    pub session: Start,
    /// Why the session ended; `None`: it has not, or not well.
    pub ended: Option<String>,
    /// The thresholds as they were used.
    pub thresholds: Thresholds,
    /// The most important first.
    pub findings: Vec<Finding>,
    /// Counts.
    pub statistics: Statistics,
}

impl Report {
    /// Whether any process was seen that is a rank.
    pub fn saw_ranks(&self) -> bool {
        let Statistics { processes, processes_left_out, .. } = &self.statistics;
        *processes_left_out > 0 || processes.iter().any(|process| process.rank.is_some())
    }
}

/// Thresholds that depend on the run, as they were used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Whether chains, and ranks by their chains, were not compared, since copies of memory were not watched.
    #[serde(default)]
    pub no_copies_watched: bool,
    /// Uniqueness that a frequent chain must reach.
    pub uniqueness: u32,
    /// Chains of groups that reach it.
    pub chains: u64,
    /// Whether there were enough of them to say anything about chains.
    pub warm: bool,
    /// How many frequent chains there are.
    pub frequent_groups: u64,
    /// Abnormality that a violation must exceed.
    pub abnormality: f64,
    /// Chains that were lost or may have been changed by losses.
    pub uncounted: u64,
    /// Whether not everything was watched, to keep a budget.
    #[serde(default)]
    pub sampled: bool,
    /// Whether frequencies are those of a reference.
    pub referenced: bool,
    /// Ranks that were compared with each other.
    #[serde(with = "crate::findings::runs")]
    pub compared_ranks: Vec<Who>,
    /// Their average distance to the k-th nearest neighbour.
    pub average_distance: f64,
}

//! Where a session tells what it sees: the trait, and what it is told. Those who write it down are above.

use std::path::Path;

use analyzer::finding::{Alert, Report};
use analyzer::page::Page;

use crate::budget::BudgetStatus;

/// What people hear when the probes are attached.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct AttachSummary {
    /// Probes that are attached.
    pub probes: usize,
    /// Those of them that are code in the job, and no traps of the kernel.
    #[serde(default)]
    pub fast: usize,
    /// Files that they are in.
    pub files: usize,
    /// Places that the kernel refused.
    pub failed: usize,
    /// How long it took, all in all.
    pub took_ms: u64,
    /// What people should know: files replaced since they were mapped, and the like.
    pub notes: Vec<String>,
}

impl AttachSummary {
    /// How many probes, for people.
    pub fn probes_text(&self) -> String {
        match self.fast {
            0 => format!("{} probes", self.probes),
            fast => format!("{} probes, {fast} of them without the kernel,", self.probes),
        }
    }
}

/// Numbers of a session as it goes.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SessionStatus {
    /// Ranks that are alive.
    pub ranks: Vec<u32>,
    /// Records so far.
    pub records: u64,
    /// Records that found no room so far.
    pub lost: u64,
    /// Records that came too late to be put in order.
    pub late: u64,
    /// Bytes in a ring that were no record.
    pub unreadable: u64,
    /// Probes that are attached.
    pub probes: usize,
    /// Probes that processes outside the job ran into so far.
    pub stranger_hits: u64,
    /// What watching costs, if there is a budget for it.
    pub budget: Option<BudgetStatus>,
}

/// A tape that is closed.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Recorded<'a> {
    /// Where.
    pub path: &'a Path,
    /// Its length.
    pub bytes: u64,
    /// Inputs given up while it could not be written.
    pub dropped_inputs: u64,
    /// What was written last is missing as well: the disk was full to the end.
    pub incomplete: bool,
}

/// A listener to a session.
pub trait Sink {
    /// On which CPUs the collector runs; empty: there are none to spare.
    fn placed(&mut self, spare_cpus: &[u32]);
    /// The probes are attached.
    fn attached(&mut self, summary: &AttachSummary);
    /// Something people should know that is not a finding.
    fn notice(&mut self, message: &str);
    /// Twice a second; with the whole report if it is wanted.
    fn status(&mut self, status: &SessionStatus, report: Option<&Report>);
    /// Whether [`Sink::status`] should come with a report.
    fn wants_report(&self) -> bool {
        false
    }
    /// A finding was made or taken back.
    fn alert(&mut self, alert: &Alert);
    /// The tape is closed.
    fn recorded(&mut self, tape: &Recorded<'_>);
    /// All that a page shows, where one is wanted; the report comes next.
    fn page(&mut self, _page: Page) {}
    /// The last word.
    fn report(&mut self, report: &Report);
    /// Why something that was said could not be written, if it was not; a reader that has gone away has read what it wanted.
    fn trouble(&mut self) -> Option<std::io::Error> {
        None
    }
}

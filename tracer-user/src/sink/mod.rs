//! Where a session tells people and programs what it sees.

mod hits;
mod json;
mod live;
mod page;
mod text;

use std::path::Path;

use analyzer::finding::{Alert, Report};
use analyzer::page::Page;

pub use crate::session::AttachSummary;
pub use hits::HitSink;
pub use json::JsonSink;
pub use live::LiveSink;
pub use page::PageSink;
pub use text::TextSink;

/// Numbers of a session as it goes.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Status {
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
    /// Probes in place.
    pub probes: usize,
    /// What watching costs, if there is a budget for it.
    pub budget: Option<BudgetStatus>,
}

/// What watching cost the job since the last status.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct BudgetStatus {
    /// Largest part of the job's time that it may take.
    pub share: f64,
    /// What it took from the process that it took most from, by the calibrated cost of each hit.
    pub spent_share: f64,
    /// Part of the time in which movements were watched.
    pub watched_share: f64,
    /// They are not watched now.
    pub paused: bool,
    /// Probes that are out for longer.
    pub probes_off: usize,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    elapsed_ns: u64,
    watched_ns: u64,
    spent_ns: f64,
}

impl BudgetStatus {
    /// Nothing spent yet.
    pub(crate) fn new(share: f64) -> Self {
        Self { share, ..Self::default() }
    }

    /// So much time has passed.
    pub(crate) fn add(&mut self, elapsed_ns: u64, spent_ns: f64, paused: bool) {
        self.sums.elapsed_ns += elapsed_ns;
        self.sums.watched_ns += if paused { 0 } else { elapsed_ns };
        self.sums.spent_ns += spent_ns;
    }

    /// The status up to now; sums begin anew.
    pub(crate) fn take(&mut self) -> Self {
        let Sums { elapsed_ns, watched_ns, spent_ns } = std::mem::take(&mut self.sums);
        let elapsed_ns = elapsed_ns.max(1) as f64;
        self.spent_share = spent_ns / elapsed_ns;
        self.watched_share = watched_ns as f64 / elapsed_ns;
        self.clone()
    }
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
    /// The probes are in place.
    fn attached(&mut self, summary: &AttachSummary);
    /// Something people should know that is not a finding.
    fn notice(&mut self, message: &str);
    /// Twice a second; with the whole report if it is wanted.
    fn status(&mut self, status: &Status, report: Option<&Report>);
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
}

//! Keeps only how often each probe was hit.

use std::collections::BTreeMap;

use analyzer::finding::{Alert, Report};

use crate::session::{AttachSummary, Recorded, SessionStatus, Sink};

/// Hits by probe id.
#[derive(Debug, Default)]
pub struct HitSink(pub BTreeMap<u32, u64>);

impl Sink for HitSink {
    fn placed(&mut self, _spare_cpus: &[u32]) {}
    fn attached(&mut self, _summary: &AttachSummary) {}
    fn notice(&mut self, _message: &str) {}
    fn status(&mut self, _status: &SessionStatus, _report: Option<&Report>) {}
    fn alert(&mut self, _alert: &Alert) {}
    fn recorded(&mut self, _tape: &Recorded<'_>) {}

    fn report(&mut self, report: &Report) {
        self.0 = report.statistics.probes.iter().map(|p| (p.probe, p.hits)).collect();
    }
}

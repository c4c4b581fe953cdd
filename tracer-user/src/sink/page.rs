//! Keeps what a page is made from, and ends the session when there is something to show.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analyzer::finding::{Alert, Evidence, Report};
use analyzer::page::Page;

use crate::session::{AttachSummary, Recorded, SessionStatus, Sink};

/// A verdict is final when nothing was added to it for so long: not all ranks come to a hang at once.
const SETTLED: Duration = Duration::from_secs(3);

/// Says nothing itself: another sink does.
pub struct PageSink {
    inner: Box<dyn Sink>,
    stop: Arc<AtomicBool>,
    /// Hangs and crashes that hold.
    verdicts: BTreeSet<String>,
    last: Option<Instant>,
    page: Option<Page>,
}

impl PageSink {
    /// `stop` ends the session when it is set.
    pub fn new(inner: Box<dyn Sink>, stop: Arc<AtomicBool>) -> Self {
        Self { inner, stop, verdicts: BTreeSet::new(), last: None, page: None }
    }

    /// The page, after a session.
    pub fn into_page(self) -> Option<Page> {
        self.page
    }

    fn note(&mut self, alert: &Alert, now: Instant) {
        let changes = match alert {
            Alert::Raised(finding) if matches!(finding.evidence, Evidence::Hang(_)) => {
                self.verdicts.insert(finding.id.clone());
                true
            }
            Alert::Raised(_) => false,
            Alert::Withdrawn { id, .. } => self.verdicts.remove(id),
        };
        if changes {
            self.last = Some(now);
        }
    }

    fn is_settled(&self, now: Instant) -> bool {
        !self.verdicts.is_empty() && self.last.is_some_and(|last| now.duration_since(last) >= SETTLED)
    }
}

impl Sink for PageSink {
    fn placed(&mut self, spare_cpus: &[u32]) {
        self.inner.placed(spare_cpus);
    }

    fn attached(&mut self, summary: &AttachSummary) {
        self.inner.attached(summary);
    }

    fn notice(&mut self, message: &str) {
        self.inner.notice(message);
    }

    fn status(&mut self, status: &SessionStatus, report: Option<&Report>) {
        self.inner.status(status, report);
        if self.is_settled(Instant::now()) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn wants_report(&self) -> bool {
        self.inner.wants_report()
    }

    fn alert(&mut self, alert: &Alert) {
        self.note(alert, Instant::now());
        self.inner.alert(alert);
    }

    fn recorded(&mut self, tape: &Recorded<'_>) {
        self.inner.recorded(tape);
    }

    fn page(&mut self, page: Page) {
        self.page = Some(page);
    }

    fn report(&mut self, report: &Report) {
        self.inner.report(report);
    }

    fn trouble(&mut self) -> Option<std::io::Error> {
        self.inner.trouble()
    }
}

#[cfg(test)]
mod tests {
    use analyzer::finding::{Fault, Finding, Hang, Severity, Verdict};

    use super::*;
    use crate::sink::HitSink;

    fn raised(id: &str) -> Alert {
        let evidence = Hang {
            fault: Fault::Deadlock,
            since_ns: 0,
            ranks: Vec::new(),
            groups: Vec::new(),
            unknown: Vec::new(),
            complete: Vec::new(),
            results: false,
            collectives: Vec::new(),
        };
        Alert::Raised(Box::new(Finding {
            id: id.to_owned(),
            verdict: Verdict::Violated,
            severity: Severity::Warning,
            summary: String::new(),
            who: Vec::new(),
            nodes: Vec::new(),
            evidence: Evidence::Hang(Box::new(evidence)),
            next_steps: Vec::new(),
        }))
    }

    #[test]
    fn a_session_ends_a_while_after_the_last_word_on_a_hang_that_holds() {
        let mut sink = PageSink::new(Box::new(HitSink::default()), Arc::default());
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(!sink.is_settled(after(100)));
        sink.note(&raised("a"), after(100));
        assert!(!sink.is_settled(after(102)));
        sink.note(&raised("b"), after(102));
        assert!(!sink.is_settled(after(104)) && sink.is_settled(after(105)));
        for id in ["a", "b"] {
            sink.note(&Alert::Withdrawn { id: id.to_owned(), reason: String::new() }, after(104));
        }
        assert!(!sink.is_settled(after(200)), "ranks that go on again are no reason to end");
    }
}

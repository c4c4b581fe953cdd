//! Plain text, as it happens.

use std::collections::HashSet;
use std::io::Write;

use analyzer::finding::{Alert, Report};
use analyzer::render::{self, Style};
use analyzer::visible::visible;

use crate::budget::BudgetStatus;
use crate::session::{AttachSummary, Recorded, SessionStatus, Sink};

/// Writes to anything; a reader that has gone away is no error.
pub struct TextSink<W: Write> {
    out: W,
    style: Style,
    quiet: bool,
    statistics: bool,
    lost: u64,
    told_pauses: bool,
    /// That MPI calls are not all watched.
    told_calls: bool,
    /// Findings that were told in full as they were made.
    told: HashSet<String>,
    trouble: Option<std::io::Error>,
}

impl<W: Write> TextSink<W> {
    /// `quiet`: findings and the report alone; `statistics`: counts with the report.
    pub fn new(out: W, style: Style, quiet: bool, statistics: bool) -> Self {
        Self {
            out,
            style,
            quiet,
            statistics,
            lost: 0,
            told_pauses: false,
            told_calls: false,
            told: HashSet::new(),
            trouble: None,
        }
    }

    /// The report need not repeat this one.
    pub fn told(&mut self, id: &str) {
        self.told.insert(id.to_owned());
    }

    /// A finding does not hold any more: what is said of that, if it was told.
    pub fn taken_back(&mut self, id: &str, reason: &str) -> Option<String> {
        self.told.remove(id).then(|| format!("Withdrawn: {}: {}.", visible(id), visible(reason)))
    }

    /// Writes text as it is.
    pub fn print(&mut self, text: &str) {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        note_trouble(&mut self.trouble, written);
    }

    fn chatter(&mut self, text: &str) {
        if !self.quiet {
            self.print(&format!("{text}\n"));
        }
    }

    /// The first pause; and when MPI calls begin to pause too.
    fn tell_pauses(&mut self, budget: &BudgetStatus) {
        if !std::mem::replace(&mut self.told_pauses, true) {
            self.chatter(&format!(
                "Note: full coverage would exceed the budget of {}% of the job's time: {} sampled in bursts. \
                 --budget sets another limit.",
                budget.share * 100.0,
                if budget.keeps_calls { "data movements are" } else { "MPI calls and data movements are" }
            ));
            self.told_calls = !budget.keeps_calls;
        }
        if !budget.keeps_calls && !std::mem::replace(&mut self.told_calls, true) {
            self.chatter("Note: MPI calls alone would take more than half of the budget: they are sampled in bursts too.");
        }
    }
}

/// Keeps the first reason why something could not be written, but for a reader that has gone away.
pub(super) fn note_trouble(trouble: &mut Option<std::io::Error>, written: std::io::Result<()>) {
    let error = written.err().filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
    *trouble = trouble.take().or(error);
}

impl<W: Write> Sink for TextSink<W> {
    fn placed(&mut self, spare_cpus: &[u32]) {
        if spare_cpus.is_empty() {
            self.chatter("No spare CPU: dmscope shares the CPUs of the job.");
        } else {
            let cpus: Vec<String> = spare_cpus.iter().map(u32::to_string).collect();
            self.chatter(&format!("Analysis runs on CPUs that the job does not use: {}.", cpus.join(",")));
        }
    }

    fn attached(&mut self, summary: &AttachSummary) {
        self.chatter(&format!(
            "Attached {} in {} files in {} ms.",
            summary.probes_text(),
            summary.files,
            summary.took_ms
        ));
        if summary.failed > 0 {
            self.chatter(&format!("The kernel refused {} probes; the report lists them.", summary.failed));
        }
        for note in &summary.notes {
            self.notice(note);
        }
    }

    fn notice(&mut self, message: &str) {
        self.chatter(&format!("Note: {}.", visible(message)));
    }

    fn status(&mut self, status: &SessionStatus, _report: Option<&Report>) {
        if status.lost > self.lost {
            self.chatter(&format!(
                "Note: {} records were lost because a ring buffer was full; affected verdicts are inconclusive. \
                 --ring-size makes ring buffers larger.",
                status.lost - self.lost
            ));
            self.lost = status.lost;
        }
        if let Some(budget) = status.budget.as_ref().filter(|budget| budget.paused) {
            self.tell_pauses(budget);
        }
    }

    fn alert(&mut self, alert: &Alert) {
        match alert {
            // Other notices wait for the report: they are many.
            Alert::Raised(finding) if finding.is_urgent() => {
                let text = render::finding(finding, self.style);
                self.print(&format!("{text}\n"));
                self.told(&finding.id);
            }
            Alert::Raised(_) => {}
            Alert::Withdrawn { id, reason } => {
                if let Some(text) = self.taken_back(id, reason) {
                    self.chatter(&text);
                }
            }
        }
    }

    fn recorded(&mut self, tape: &Recorded<'_>) {
        let path = tape.path.to_string_lossy();
        let path = visible(&path);
        let bytes = tape.bytes;
        self.chatter(&format!("Recorded to {path}: {bytes} bytes. Look again with: dmscope analyze {path}"));
        if tape.dropped_inputs > 0 || tape.incomplete {
            self.chatter(&format!("{path} is incomplete: some inputs could not be written."));
        }
    }

    fn report(&mut self, report: &Report) {
        let mut text = render::report_beyond(report, &self.told, self.style);
        if self.statistics {
            text.push('\n');
            text.push_str(&render::statistics(&report.statistics, self.style));
        }
        self.print(&text);
    }

    fn trouble(&mut self) -> Option<std::io::Error> {
        self.trouble.take()
    }
}

#[cfg(test)]
mod tests {
    use analyzer::finding::Finding;
    use serde_json::json;

    use super::*;

    fn finding(id: &str, severity: &str) -> Finding {
        let place = json!({ "module": "", "offset_bytes": 0 });
        let leak = json!({ "kind": "left_over", "what": "request", "function": "MPI_Isend", "place": place, "count": 1, "ranks": [] });
        let of = json!({ "id": id, "verdict": "violated", "severity": severity, "summary": "", "who": [], "evidence": leak, "next_steps": [] });
        serde_json::from_value(of).expect("a finding")
    }

    #[test]
    fn only_what_was_told_is_taken_back() {
        let mut sink = TextSink::new(Vec::new(), Style::default(), false, false);
        for (id, severity) in [("first", "warning"), ("second", "notice")] {
            sink.alert(&Alert::Raised(Box::new(finding(id, severity))));
        }
        for id in ["first", "second", "first"] {
            sink.alert(&Alert::Withdrawn { id: id.to_owned(), reason: "it no longer holds".to_owned() });
        }
        let text = String::from_utf8(sink.out).expect("text");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("Withdrawn")).collect();
        assert_eq!(lines, ["Withdrawn: first: it no longer holds."], "{text}");
    }
}

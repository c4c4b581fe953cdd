//! JSON lines: one object a line, each with an `event`.

use std::io::Write;

use analyzer::finding::{Alert, REPORT_SCHEMA, Report};
use analyzer::visible::visible_json;
use serde_json::{Value, json};

use super::text::note_trouble;
use crate::session::{AttachSummary, Recorded, SessionStatus, Sink};

/// Of more ranks a status has the first and the last of each run.
const MOST_RANKS_LISTED: usize = 64;

/// Writes to anything; a reader that has gone away is no error.
pub struct JsonSink<W: Write> {
    out: W,
    quiet: bool,
    trouble: Option<std::io::Error>,
}

impl<W: Write> JsonSink<W> {
    /// `quiet`: findings and the report alone.
    pub fn new(out: W, quiet: bool) -> Self {
        Self { out, quiet, trouble: None }
    }

    fn line(&mut self, event: &str, mut value: Value) {
        if let Value::Object(fields) = &mut value {
            fields.insert("event".into(), event.into());
            fields.entry("schema").or_insert(REPORT_SCHEMA.into());
        }
        // In one piece: standard error and files have no buffer of their own, and the job writes there too.
        let line = format!("{}\n", visible_json(&value.to_string()));
        let written = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
        note_trouble(&mut self.trouble, written);
    }

    fn chatter(&mut self, event: &str, value: Value) {
        if !self.quiet {
            self.line(event, value);
        }
    }
}

impl<W: Write> Sink for JsonSink<W> {
    fn trouble(&mut self) -> Option<std::io::Error> {
        self.trouble.take()
    }

    fn placed(&mut self, spare_cpus: &[u32]) {
        self.chatter("placed", json!({ "spare_cpus": spare_cpus }));
    }

    fn attached(&mut self, summary: &AttachSummary) {
        self.chatter("attached", json!(summary));
    }

    fn notice(&mut self, message: &str) {
        self.chatter("notice", json!({ "message": message }));
    }

    fn status(&mut self, status: &SessionStatus, _report: Option<&Report>) {
        if self.quiet {
            return;
        }
        let mut value = json!(SessionStatus { ranks: Vec::new(), ..status.clone() });
        value["ranks"] = match status.ranks.len() {
            0..=MOST_RANKS_LISTED => json!(status.ranks),
            _ => json!(runs(&status.ranks)),
        };
        self.line("status", value);
    }

    fn alert(&mut self, alert: &Alert) {
        self.line("alert", json!({ "alert": alert }));
    }

    fn recorded(&mut self, tape: &Recorded<'_>) {
        self.chatter("recorded", json!(tape));
    }

    fn report(&mut self, report: &Report) {
        self.line("report", json!({ "report": report }));
    }
}

/// First and last of ranks one after the other.
fn runs(ranks: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the writes, as a file without a buffer sees them.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for &mut Writes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_status_lists_a_few_ranks_and_of_many_the_runs() {
        let ranks = |ranks: Vec<u32>| {
            let mut writes = Writes::default();
            JsonSink::new(&mut writes, false)
                .status(&SessionStatus { ranks, ..SessionStatus::default() }, None);
            serde_json::from_slice::<Value>(&writes.0[0]).expect("a line")["ranks"].to_string()
        };
        assert_eq!(ranks(vec![0, 1, 5]), "[0,1,5]");
        assert_eq!(ranks((0..65536).filter(|rank| *rank != 7).collect()), "[[0,6],[8,65535]]");
    }

    #[test]
    fn a_line_is_written_in_one_piece() {
        let mut writes = Writes::default();
        JsonSink::new(&mut writes, false).notice("one");
        assert_eq!(writes.0.len(), 1);
        assert!(writes.0[0].ends_with(b"}\n"));
    }
}

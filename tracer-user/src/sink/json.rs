//! JSON lines: one object a line, each with an `event`.

use std::io::Write;
use std::path::Path;

use analyzer::finding::{Alert, REPORT_SCHEMA, Report};
use serde_json::{Value, json};

use super::{AttachSummary, Sink, Status};

/// Writes to anything; a reader that has gone away is no error.
pub struct JsonSink<W: Write> {
    out: W,
    quiet: bool,
}

impl<W: Write> JsonSink<W> {
    /// `quiet`: findings and the report alone.
    pub fn new(out: W, quiet: bool) -> Self {
        Self { out, quiet }
    }

    fn line(&mut self, event: &str, mut value: Value) {
        if let Value::Object(fields) = &mut value {
            fields.insert("event".into(), event.into());
            fields.entry("schema").or_insert(REPORT_SCHEMA.into());
        }
        let _ = writeln!(self.out, "{value}").and_then(|()| self.out.flush());
    }

    fn chatter(&mut self, event: &str, value: Value) {
        if !self.quiet {
            self.line(event, value);
        }
    }
}

impl<W: Write> Sink for JsonSink<W> {
    fn placed(&mut self, spare_cpus: &[u32]) {
        self.chatter("placed", json!({ "spare_cpus": spare_cpus }));
    }

    fn attached(&mut self, summary: &AttachSummary) {
        self.chatter("attached", json!(summary));
    }

    fn notice(&mut self, message: &str) {
        self.chatter("notice", json!({ "message": message }));
    }

    fn status(&mut self, status: &Status, _report: Option<&Report>) {
        self.chatter("status", json!(status));
    }

    fn alert(&mut self, alert: &Alert) {
        self.line("alert", json!({ "alert": alert }));
    }

    fn recorded(&mut self, path: &Path, bytes: u64, dropped_inputs: u64) {
        self.chatter("recorded", json!({ "path": path, "bytes": bytes, "dropped_inputs": dropped_inputs }));
    }

    fn report(&mut self, report: &Report) {
        self.line("report", json!({ "report": report }));
    }
}

//! A job as tables: calls, messages, movements, findings, gaps.

use std::fmt::Write;

use analyzer::input::ClockReading;
use analyzer::process::Who;
use anyhow::{Context, Result};

use super::super::exported::{
    ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedMessage, ExportedMovement,
    ExportedSession, Exporter,
};
use super::schemas::{CALLS, FINDINGS, GAPS, MESSAGES, MOVEMENTS};
use super::table::{CellValue, ColumnTable};
use crate::host::output_folder::OutputFolder;

/// Writes tables into a folder.
pub struct TablesExport {
    folder: OutputFolder,
    /// CLOCK_MONOTONIC at the start of the session.
    begin_ns: u64,
    tables: Option<JobTables>,
    /// Room for texts.
    text: String,
}

struct JobTables {
    calls: ColumnTable,
    messages: ColumnTable,
    movements: ColumnTable,
    findings: ColumnTable,
    gaps: ColumnTable,
}

impl JobTables {
    fn create(folder: &OutputFolder, about: &[(String, String)]) -> Result<Self> {
        let table = |name: &str, schema| {
            let file = folder.file(&format!("{name}.parquet"))?;
            ColumnTable::create(file, schema, about)
        };
        Ok(Self {
            calls: table("calls", CALLS)?,
            messages: table("messages", MESSAGES)?,
            movements: table("movements", MOVEMENTS)?,
            findings: table("findings", FINDINGS)?,
            gaps: table("gaps", GAPS)?,
        })
    }
}

impl TablesExport {
    /// Into a folder.
    pub fn new(folder: OutputFolder) -> Self {
        Self { folder, begin_ns: 0, tables: None, text: String::new() }
    }

    fn since_begin(&self, time_ns: u64) -> i64 {
        // Some of it may have been recorded before the session counted itself as begun.
        time_ns.wrapping_sub(self.begin_ns) as i64
    }

    fn time(&self, time_ns: u64) -> CellValue<'static> {
        CellValue::Int64(Some(self.since_begin(time_ns)))
    }

    fn time_if_known(&self, time_ns: Option<u64>) -> CellValue<'static> {
        CellValue::Int64(time_ns.map(|time_ns| self.since_begin(time_ns)))
    }
}

fn tables(tables: &mut Option<JobTables>) -> Result<&mut JobTables> {
    tables.as_mut().context("no session was told of")
}

impl Exporter for TablesExport {
    fn session(&mut self, session: &ExportedSession<'_>) -> Result<()> {
        let start = session.start;
        self.begin_ns = start.time_ns;
        let mut about = vec![
            ("dmscope.version", start.dmscope_version.clone()),
            ("dmscope.job", start.job.clone()),
            ("dmscope.nodes", session.nodes().join(",")),
            ("dmscope.began_unix_ns", start.wall_clock_ns().to_string()),
            ("dmscope.began_monotonic_ns", start.time_ns.to_string()),
        ];
        about.extend(session.clocks.map(|clocks| ("dmscope.clocks", clocks.to_owned())));
        let about: Vec<_> = about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        self.tables = Some(JobTables::create(&self.folder, &about)?);
        Ok(())
    }

    fn clock(&mut self, _: &ClockReading) -> Result<()> {
        Ok(())
    }

    fn call(&mut self, session: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()> {
        let (begin_ns, end_ns) = (self.time(call.begin_ns), self.time_if_known(call.end_ns));
        json_of_arguments(call, &mut self.text)?;
        let row = [
            number(call.id.rank),
            CellValue::Text(Some(session.node_of(call.pid))),
            number(session.pid_on_node(call.pid)),
            number(session.pid_on_node(call.id.tid)),
            number(call.id.number),
            CellValue::Text(Some(&call.row.name)),
            begin_ns,
            end_ns,
            CellValue::Int64(call.error_ns.map(|[begin_ns, _]| begin_ns as i64)),
            CellValue::Int64(call.error_ns.map(|[_, end_ns]| end_ns as i64)),
            CellValue::Int32(call.communicator.map(|communicator| communicator.number as i32)),
            CellValue::Int32(call.number("dest")),
            CellValue::Int32(call.number("source")),
            CellValue::Int32(call.number("tag").or_else(|| call.number("sendtag"))),
            CellValue::Int32(call.number("count").or_else(|| call.number("sendcount"))),
            CellValue::Int32(call.number("root")),
            CellValue::Text(Some(&self.text)),
            CellValue::Text(call.place),
        ];
        tables(&mut self.tables)?.calls.row(&row)
    }

    fn message(&mut self, session: &ExportedSession<'_>, message: &ExportedMessage) -> Result<()> {
        let thread = |tid: u32| session.pid_on_node(tid);
        let ExportedMessage { send, receive, received, .. } = message;
        let completed = received.map(|received| received.by);
        let row = [
            number(send.call.rank),
            number(thread(send.call.tid)),
            number(send.call.number),
            number(send.part),
            number(receive.call.rank),
            number(thread(receive.call.tid)),
            number(receive.call.number),
            number(receive.part),
            CellValue::Int32(completed.map(|by| thread(by.tid) as i32)),
            CellValue::Int32(completed.map(|by| by.number as i32)),
            self.time_if_known(message.sent_ns),
            self.time_if_known(received.map(|received| received.time_ns)),
            CellValue::Int32(message.comm.map(|comm| comm as i32)),
            CellValue::Int32(message.tag),
            CellValue::Int64(message.len_bytes.map(|bytes| bytes as i64)),
        ];
        tables(&mut self.tables)?.messages.row(&row)
    }

    fn movement(&mut self, session: &ExportedSession<'_>, movement: &ExportedMovement<'_>) -> Result<()> {
        let is_text = |text: &&str| !text.is_empty();
        let row = [
            self.time(movement.time_ns),
            CellValue::Int32(movement.rank.map(|rank| rank as i32)),
            CellValue::Text(Some(session.node_of(movement.pid))),
            number(session.pid_on_node(movement.pid)),
            number(session.pid_on_node(movement.tid)),
            CellValue::Text(Some(movement.kind)),
            CellValue::Int64(Some(movement.len_bytes as i64)),
            CellValue::Text(Some(movement.place)),
            CellValue::Text(Some(movement.function).filter(is_text)),
            CellValue::Text(Some(movement.called_at).filter(is_text)),
            CellValue::Text(Some(movement.source)),
            CellValue::Int64(Some(movement.source_addr as i64)),
            CellValue::Text(Some(movement.destination)),
            CellValue::Int64(Some(movement.destination_addr as i64)),
            CellValue::Int32(movement.peer_rank.map(|rank| rank as i32)),
            CellValue::Int64(movement.operation.map(|operation| operation as i64)),
            CellValue::Int64(movement.written_by.map(|operation| operation as i64)),
        ];
        tables(&mut self.tables)?.movements.row(&row)
    }

    fn gap(&mut self, session: &ExportedSession<'_>, gap: &ExportedGap) -> Result<()> {
        let row = [
            CellValue::Text(Some(gap.why)),
            CellValue::Int32(gap.rank.map(|rank| rank as i32)),
            CellValue::Text(gap.pid.map(|pid| session.node_of(pid))),
            CellValue::Int32(gap.pid.map(|pid| session.pid_on_node(pid) as i32)),
            self.time(gap.from_ns),
            self.time_if_known(gap.to_ns),
            CellValue::Int64(gap.records.map(|records| records as i64)),
        ];
        tables(&mut self.tables)?.gaps.row(&row)
    }

    fn finding(&mut self, found: &ExportedFinding<'_>) -> Result<()> {
        let finding = found.finding;
        let json = serde_json::to_value(finding)?;
        let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let words = [&json["evidence"]["kind"], &json["severity"], &json["verdict"]].map(word);
        let rank = |who: &Who| if let Who::Rank(rank) = who { Some(*rank as i32) } else { None };
        let ranks: Vec<i32> = finding.who.iter().filter_map(rank).collect();
        let text = json.to_string();
        let row = [
            CellValue::Text(Some(&finding.id)),
            CellValue::Text(Some(&words[0])),
            CellValue::Text(Some(&words[1])),
            CellValue::Text(Some(&words[2])),
            CellValue::Text(Some(&finding.summary)),
            self.time(found.raised_ns),
            CellValue::Numbers(&ranks),
            CellValue::Text(Some(&text)),
        ];
        tables(&mut self.tables)?.findings.row(&row)
    }

    fn finish(&mut self, _: &ExportedSession<'_>) -> Result<()> {
        let JobTables { calls, messages, movements, findings, gaps } = tables(&mut self.tables)?;
        [calls, messages, movements, findings, gaps].into_iter().try_for_each(ColumnTable::close)?;
        Ok(self.folder.give_to_caller()?)
    }

    fn counts(&self) -> ExportCounts {
        self.tables.as_ref().map_or_else(ExportCounts::default, |tables| ExportCounts {
            calls: tables.calls.rows(),
            messages: tables.messages.rows(),
            movements: tables.movements.rows(),
            findings: tables.findings.rows(),
        })
    }
}

/// Numbers of ranks, processes and calls fit.
fn number(number: u32) -> CellValue<'static> {
    CellValue::Int32(Some(number as i32))
}

/// All arguments, by the names of the standard.
fn json_of_arguments(call: &ExportedCall<'_>, text: &mut String) -> Result<()> {
    text.clear();
    text.push('{');
    for (at, (name, value)) in call.arguments.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        match value {
            analyzer::messages::ShownArgument::Number(number) => write!(text, "{comma}\"{name}\":{number}")?,
            value => write!(text, "{comma}\"{name}\":{}", serde_json::to_string(&value.to_string())?)?,
        }
    }
    text.push('}');
    Ok(())
}

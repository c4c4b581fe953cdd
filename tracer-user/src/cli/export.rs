//! `dmscope export`: the calls and messages of a tape for another tool.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use analyzer::input::Input;
use analyzer::messages::MessageEvent;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;
use analyzer::visible::visible;
use analyzer::wire::RawRecord;
use anyhow::{Context, Result};

use super::args::{ExportArgs, ExportFormat};
use super::output::create;
use super::place_text::place_text;
use super::rank_list::RankList;
use super::replay::{Consumer, names, replay};
use crate::sink::export::{ExportedCall, TimelineExport};

/// Writes the file.
///
/// # Errors
/// The file is no tape, or cannot be read; what is written has no room.
pub(super) fn export(args: &ExportArgs) -> Result<()> {
    let ExportFormat::Perfetto = args.to;
    let path =
        args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.pftrace", args.tape.display())));
    let names = names(&args.tape)?;
    let mut exporting = Exporting {
        pipeline: Pipeline::with_events(Options::default()),
        timeline: TimelineExport::new(BufWriter::new(create(&path)?)),
        names,
        ranks: args.ranks.as_ref(),
    };
    replay(&args.tape, &mut exporting)?;
    let (file, counts): (BufWriter<File>, _) = exporting.timeline.finish().context(NO_ROOM)?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error).context(NO_ROOM)?;
    let (calls, messages, path) = (counts.calls, counts.messages, path.display());
    eprintln!("dmscope: {calls} calls and {messages} messages: {path}, for https://ui.perfetto.dev");
    if messages == 0 {
        eprintln!(
            "dmscope: messages are on tapes that were recorded with --returns all, of jobs that were watched from their start"
        );
    }
    Ok(())
}

const NO_ROOM: &str = "cannot write the timeline";

struct Exporting<'a, W: Write> {
    pipeline: Pipeline,
    timeline: TimelineExport<W>,
    names: SymbolTable,
    ranks: Option<&'a RankList>,
}

impl<W: Write> Exporting<'_, W> {
    fn wants(&self, rank: u32) -> bool {
        self.ranks.is_none_or(|list| list.0.contains(&rank))
    }

    fn export(&mut self) -> Result<()> {
        for event in self.pipeline.take_events() {
            self.event(&event).context(NO_ROOM)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &MessageEvent) -> std::io::Result<()> {
        match event {
            MessageEvent::Call { id, call, end_ns, .. } if self.wants(id.rank) => {
                let mut annotations: Vec<(String, String)> = self
                    .pipeline
                    .messages()
                    .shown(call)
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect();
                if let Some(place) = self.pipeline.call_place(call) {
                    annotations.push(("at".to_owned(), place_text(&self.pipeline, &self.names, place)));
                }
                self.timeline.call(&ExportedCall {
                    id: *id,
                    pid: call.pid,
                    function: call.row.name.to_string(),
                    begin_ns: call.begin_ns,
                    end_ns: *end_ns,
                    annotations,
                })
            }
            MessageEvent::Matched { send, receive }
                if self.wants(send.call.rank) && self.wants(receive.call.rank) =>
            {
                self.timeline.matched(*send, *receive)
            }
            MessageEvent::Completed { message, by, .. } if self.wants(by.rank) => {
                self.timeline.completed(*message, *by)
            }
            _ => Ok(()),
        }
    }
}

impl<W: Write> Consumer for Exporting<'_, W> {
    fn push(&mut self, input: &Input) -> Result<()> {
        self.pipeline.push(input);
        self.export()
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        self.export()
    }

    fn damage(&mut self, message: &str) {
        eprintln!("dmscope: {}", visible(message));
    }
}

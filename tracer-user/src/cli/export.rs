//! `dmscope export`: what is on tapes, for another tool.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use analyzer::clocks::clocks_text;
use analyzer::finding::Alert;
use analyzer::input::{Input, Loss, Start};
use analyzer::messages::{Call, CallCommunicator, CallId, MessageEvent};
use analyzer::options::Options;
use analyzer::pipeline::{DataMovement, Pipeline};
use analyzer::timeline::correction::{CorrectionPass, Refusal};
use analyzer::visible::visible;
use analyzer::wire::RawRecord;
use anyhow::{Context, Result, bail};

use super::movement_texts::MovementTexts;
use super::nodes::{TapeSummary, check_tapes, jobs_of, names_of, ranks_of, replay_job_watched};
use super::output::{create, keep_apart};
use super::place_names::PlaceLookup;
use super::progress::ReadingBar;
use super::rank_list::RankList;
use super::replay::Consumer;
use super::tape_args::{ExportArgs, ExportFormat};
use super::times::{correction, refused};
use crate::host::output_folder::OutputFolder;
use crate::session::Outcome;
use crate::sink::export::otf2::{ArchiveExport, find_library};
use crate::sink::export::parquet::TablesExport;
use crate::sink::export::perfetto::TimelineExport;
use crate::sink::export::{
    CallAssembly, CorrectedExport, ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedSession,
    Exporter,
};

/// Writes a file or a folder.
///
/// # Errors
/// A file is no tape, or cannot be read; what is written has no room.
pub(super) fn export(args: &ExportArgs) -> Result<Outcome> {
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.tapes[0], args.to));
    keep_apart(&args.tapes, &[&output])?;
    check_tapes(&args.tapes)?;
    let jobs = jobs_of(&args.tapes)?;
    let [tapes] = jobs.as_slice() else {
        bail!("these tapes are of {} jobs: give the tapes of one job", jobs.len())
    };
    let correction = if args.corrected { Some(correction(tapes)?) } else { None };
    let (places, rank_of) = (PlaceLookup::new(names_of(tapes)?), ranks_of(tapes)?);
    let (mut exporter, written) = exporter(args.to, &output)?;
    if correction.is_some() {
        exporter = Box::new(CorrectedExport::new(exporter));
    }
    let mut exporting = Exporting::new(exporter, places, rank_of, args);
    exporting.correction = correction;
    let cannot_write = || format!("cannot write {}", output.display());
    let progress = ReadingBar::of_files(tapes.iter().map(|tape| tape.path.as_path()));
    replay_job_watched(tapes, &mut exporting, &progress).map_err(|error| {
        match error.downcast::<Unwritten>() {
            Ok(Unwritten(why)) => why.context(cannot_write()),
            Err(error) => error,
        }
    })?;
    drop(progress);
    let counts = exporting.finish().with_context(cannot_write)?;
    if let Some(refusal) = exporting.refusal(args.most_cost) {
        drop(exporting);
        eprint!("{}", refused(tapes, refusal));
        written.remove(&output).with_context(|| format!("cannot remove {}", output.display()))?;
        return Ok(Outcome::Inconclusive);
    }
    say(counts, args, &output, tapes, exporting.start.sums);
    Ok(Outcome::Nothing)
}

/// Something could not be written: which error it is tells whose file it was about.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Unwritten(anyhow::Error);

fn default_output(tape: &Path, format: ExportFormat) -> PathBuf {
    let end = match format {
        ExportFormat::Perfetto => ".pftrace",
        ExportFormat::Parquet => ".parquet",
        ExportFormat::Otf2 => ".otf2",
    };
    let mut name = OsString::from(tape);
    name.push(end);
    PathBuf::from(name)
}

fn exporter(format: ExportFormat, output: &Path) -> Result<(Box<dyn Exporter>, ExportOutput)> {
    const BUFFER_BYTES: usize = 1 << 20;
    let cannot_make = || format!("cannot make {}", output.display());
    let folder = || OutputFolder::create(output).with_context(cannot_make);
    Ok(match format {
        ExportFormat::Perfetto => {
            let file: File = create(output)?;
            (Box::new(TimelineExport::new(BufWriter::with_capacity(BUFFER_BYTES, file))), ExportOutput::File)
        }
        ExportFormat::Parquet => {
            let folder = folder()?;
            (Box::new(TablesExport::new(folder.clone())), ExportOutput::Folder(folder))
        }
        ExportFormat::Otf2 => {
            // Before anything is made.
            let library = find_library()?;
            let folder = folder()?;
            let archive = ArchiveExport::create(library, folder.clone()).with_context(cannot_make)?;
            (Box::new(archive), ExportOutput::Folder(folder))
        }
    })
}

/// What is written to.
enum ExportOutput {
    File,
    Folder(OutputFolder),
}

impl ExportOutput {
    /// Nobody is to rely on what was written there.
    fn remove(self, path: &Path) -> std::io::Result<()> {
        match self {
            Self::File if path.symlink_metadata()?.is_file() => std::fs::remove_file(path),
            Self::File => {
                let name = path.to_string_lossy();
                eprintln!("dmscope: what was written to {} is not to be relied on", visible(&name));
                Ok(())
            }
            Self::Folder(folder) => folder.remove(path),
        }
    }
}

/// What was written, where, and what it is for.
fn say(counts: ExportCounts, args: &ExportArgs, output: &Path, tapes: &[TapeSummary], sums: bool) {
    let ExportCounts { calls, messages, movements, findings } = counts;
    let output = visible(&output.to_string_lossy()).into_owned();
    let what = match args.to {
        ExportFormat::Perfetto => format!("{output}, for https://ui.perfetto.dev"),
        ExportFormat::Parquet => format!("tables in {output}, for DuckDB, pandas and others"),
        ExportFormat::Otf2 => format!("{output}/traces.otf2, for Vampir, otf2-print and others"),
    };
    let moved =
        if args.wants_movements() { format!("{movements} movements of data, ") } else { String::new() };
    eprintln!("dmscope: {calls} calls, {messages} messages, {moved}{findings} findings: {what}");
    if messages == 0 {
        eprintln!(
            "dmscope: messages are on tapes that were recorded with --returns all, of jobs that were watched from their start"
        );
    }
    if sums && args.wants_movements() && tapes.len() == 1 {
        eprintln!(
            "dmscope: this tape is of a session over several nodes, which has movements of data as counts only; each node's own tape \
             (`dmscope attach PID --record` there) has them all"
        );
    }
}

/// Takes the inputs of tapes, and tells the exporter.
struct Exporting<'a> {
    pipeline: Pipeline,
    exporter: Box<dyn Exporter>,
    assembly: CallAssembly,
    places: PlaceLookup,
    movement_texts: MovementTexts,
    ranks: Option<&'a RankList>,
    start: Start,
    clocks: Option<String>,
    /// By process, also those of which the session learnt it late.
    rank_of: HashMap<u32, u32>,
    /// When findings were first told.
    raised: HashMap<String, u64>,
    /// Since when tracing is paused.
    paused_ns: Option<u64>,
    now_ns: u64,
    /// Room for movements.
    moved: Vec<DataMovement>,
    /// Works out times without watching.
    correction: Option<CorrectionPass>,
}

impl<'a> Exporting<'a> {
    fn new(
        exporter: Box<dyn Exporter>,
        places: PlaceLookup,
        rank_of: HashMap<u32, u32>,
        args: &'a ExportArgs,
    ) -> Self {
        let options = Options::default();
        let pipeline = match exporter.takes_movements() && args.wants_movements() {
            true => Pipeline::with_movements(options),
            false => Pipeline::with_events(options),
        };
        Self {
            pipeline,
            exporter,
            assembly: CallAssembly::default(),
            places,
            movement_texts: MovementTexts::default(),
            ranks: args.ranks.as_ref(),
            start: Start::default(),
            clocks: None,
            rank_of,
            raised: HashMap::new(),
            paused_ns: None,
            now_ns: 0,
            moved: Vec::new(),
            correction: None,
        }
    }

    fn wants(&self, rank: u32) -> bool {
        self.ranks.is_none_or(|list| list.0.contains(&rank))
    }

    /// Tells of what the last input meant.
    fn tell(&mut self) -> Result<()> {
        let events = self.pipeline.take_events();
        // What calls did to messages comes before the calls.
        events.iter().for_each(|event| self.learn(event));
        for event in &events {
            if let MessageEvent::Call { id, call, end_ns, communicator, collective_bytes } = event
                && self.wants(id.rank)
            {
                self.call(*id, call, *end_ns, communicator.as_ref(), *collective_bytes)?;
            }
        }
        if !events.is_empty() {
            self.messages()?;
        }
        self.correct(events)?;
        self.moved.extend(self.pipeline.take_movements());
        self.movements()
    }

    /// Works out times without watching of what was told.
    fn correct(&mut self, events: Vec<MessageEvent>) -> Result<()> {
        let Some(correction) = &mut self.correction else { return Ok(()) };
        events.into_iter().for_each(|event| correction.event(self.pipeline.messages(), event, None));
        self.tell_solved()
    }

    /// Tells of calls whose times without watching are known by now.
    fn tell_solved(&mut self) -> Result<()> {
        let Some(correction) = &mut self.correction else { return Ok(()) };
        let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
        correction.take_calls().iter().try_for_each(|call| self.exporter.solved(&session, call))
    }

    /// Why times without watching are not to be relied on; `most_cost`: watching cost a rank a larger part of its own time.
    fn refusal(&self, most_cost: f64) -> Option<Refusal> {
        self.correction.as_ref()?.result(self.pipeline.messages(), most_cost).refused
    }

    fn learn(&mut self, event: &MessageEvent) {
        match event {
            MessageEvent::Posted { message, facts, time_ns } if self.wants(message.call.rank) => {
                self.assembly.posted(*message, *facts, *time_ns);
            }
            MessageEvent::Matched { send, receive }
                if self.wants(send.call.rank) && self.wants(receive.call.rank) =>
            {
                self.assembly.matched(*send, *receive);
            }
            MessageEvent::Completed { message, by, facts, cancelled } if self.wants(by.rank) => {
                self.assembly.completed(*message, *by, *facts, *cancelled);
            }
            MessageEvent::CollectiveCompleted { call, by } if self.wants(by.rank) => {
                self.assembly.collective_completed(*call, *by);
            }
            _ => {}
        }
    }

    fn call(
        &mut self,
        id: CallId,
        call: &Call,
        end_ns: Option<u64>,
        communicator: Option<&CallCommunicator>,
        collective_bytes: Option<u64>,
    ) -> Result<()> {
        let place = self.pipeline.call_place(call);
        let place = place.map(|place| self.places.call_text(&self.pipeline, place));
        let root = call.row.collective().and_then(|collective| call.integer(collective.root?));
        let parts = self.assembly.call(id, end_ns.unwrap_or(call.begin_ns));
        let told = ExportedCall {
            id,
            pid: call.pid,
            row: call.row,
            begin_ns: call.begin_ns,
            end_ns,
            error_ns: None,
            arguments: &self.pipeline.messages().shown_arguments(call),
            place: place.as_deref(),
            communicator,
            root,
            collective_bytes,
            parts: &parts,
        };
        let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
        self.exporter.call(&session, &told)
    }

    fn messages(&mut self) -> Result<()> {
        let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
        self.assembly.take_messages().try_for_each(|message| self.exporter.message(&session, &message))
    }

    fn movements(&mut self) -> Result<()> {
        let Self { pipeline, exporter, places, movement_texts, ranks, rank_of, start, clocks, moved, .. } =
            self;
        let session = ExportedSession { start, clocks: clocks.as_deref() };
        let is_wanted = |movement: &DataMovement| match ranks {
            Some(list) => movement.rank.is_some_and(|rank| list.0.contains(&rank)),
            None => true,
        };
        let ranked = |movement: DataMovement| DataMovement {
            rank: movement.rank.or_else(|| rank_of.get(&movement.pid).copied()),
            ..movement
        };
        for movement in moved.drain(..).map(ranked).filter(is_wanted) {
            let texts = movement_texts.of(&movement, pipeline, places);
            exporter.movement(&session, &texts.movement(&movement))?;
        }
        Ok(())
    }

    /// What an input says beside what it means for calls and data.
    fn note(&mut self, input: &Input) -> Result<()> {
        self.now_ns = self.now_ns.max(input.time_ns().unwrap_or(0));
        match input {
            Input::Start(start) => {
                self.start = Start::clone(start);
                self.clocks = clocks_text(start);
                let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
                self.exporter.session(&session)
            }
            Input::Plan(plan) => {
                self.places.know(plan);
                Ok(())
            }
            Input::Clock(reading) => self.exporter.clock(reading),
            Input::Loss(loss) => self.loss(loss),
            Input::Coverage(coverage) => self.pause(coverage.paused, coverage.time_ns),
            Input::End(end) => self.pause(false, end.time_ns),
            _ => Ok(()),
        }
    }

    fn loss(&mut self, loss: &Loss) -> Result<()> {
        let rank = self.rank_of.get(&loss.pid).copied();
        self.gap(&ExportedGap {
            pid: Some(loss.pid),
            rank,
            from_ns: loss.from_ns,
            to_ns: Some(loss.to_ns).filter(|to_ns| *to_ns < u64::MAX),
            records: Some(loss.records()).filter(|records| *records != Loss::UNKNOWN),
            why: "lost",
        })
    }

    /// Tracing is paused from here on, or goes on.
    fn pause(&mut self, is_paused: bool, time_ns: u64) -> Result<()> {
        match (is_paused, self.paused_ns) {
            (true, None) => self.paused_ns = Some(time_ns),
            (false, Some(from_ns)) => {
                self.paused_ns = None;
                let (pid, rank, records) = (None, None, None);
                let to_ns = Some(time_ns);
                return self.gap(&ExportedGap { pid, rank, from_ns, to_ns, records, why: "paused" });
            }
            _ => {}
        }
        Ok(())
    }

    fn gap(&mut self, gap: &ExportedGap) -> Result<()> {
        let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
        self.exporter.gap(&session, gap)
    }

    fn alerts(&mut self) {
        for alert in self.pipeline.take_alerts() {
            if let Alert::Raised(finding) = alert {
                self.raised.entry(finding.id.clone()).or_insert(self.now_ns);
            }
        }
    }

    /// All inputs were taken.
    fn finish(&mut self) -> Result<ExportCounts> {
        if let Some(correction) = &mut self.correction {
            correction.finish();
        }
        self.tell_solved()?;
        self.assembly.end();
        self.messages()?;
        let mut report = self.pipeline.report();
        self.places.look_up(report.wanted_symbols(self.places.names()));
        report.symbolize(self.places.names());
        for finding in &report.findings {
            let raised_ns = self.raised.get(&finding.id).copied().unwrap_or(self.now_ns);
            self.exporter.finding(&ExportedFinding { finding, raised_ns })?;
        }
        let session = ExportedSession { start: &self.start, clocks: self.clocks.as_deref() };
        self.exporter.finish(&session)?;
        Ok(self.exporter.counts())
    }
}

impl Consumer for Exporting<'_> {
    fn push(&mut self, input: &Input) -> Result<()> {
        self.note(input).map_err(Unwritten)?;
        if let Some(correction) = &mut self.correction {
            correction.input(input);
        }
        self.pipeline.push(input);
        self.alerts();
        Ok(self.tell().map_err(Unwritten)?)
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        if let Some(correction) = &mut self.correction {
            correction.record(record);
        }
        self.pipeline.push_record(record);
        Ok(self.tell().map_err(Unwritten)?)
    }

    fn damage(&mut self, message: &str) {
        eprintln!("dmscope: {}", visible(message));
    }
}

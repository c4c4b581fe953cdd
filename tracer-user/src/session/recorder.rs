//! Records a session: every input goes to the tape and to the pipeline.
//! There is no other way in, so that the tape gives the same findings again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use analyzer::finding::Report;
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::{LastCall, Pipeline};
use analyzer::tape::{FileTape, WriteError};
use analyzer::wire::FileId;

use super::sink::{Recorded, Sink};
use crate::host::files::OpenedFile;
use crate::host::output_file::OutputFile;
use crate::host::symbols::Symbols;

/// A file to record to.
pub struct Tape {
    path: PathBuf,
    writer: FileTape,
}

impl Tape {
    /// Makes the file; it takes the place of an existing one. It has its name from the start: a session may be killed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: PathBuf) -> std::io::Result<Self> {
        let writer = FileTape::to_file(OutputFile::find(&path)?.begin()?);
        Ok(Self { path, writer })
    }
}

/// See the [module](self).
pub(super) struct Recorder {
    pipeline: Pipeline,
    symbols: Symbols,
    tape: Option<Tape>,
    trouble: Option<WriteError>,
    told_trouble: bool,
}

impl Recorder {
    /// `page_calls`: MPI calls kept for a page; none: no page is wanted.
    pub(super) fn new(options: Options, tape: Option<Tape>, page_calls: Option<usize>) -> Self {
        Self {
            pipeline: match page_calls {
                Some(calls) => Pipeline::with_timeline(options, calls),
                None => Pipeline::new(options),
            },
            symbols: Symbols::default(),
            tape,
            trouble: None,
            told_trouble: false,
        }
    }

    /// The next input.
    pub(super) fn push(&mut self, input: Input) {
        if let Some(tape) = &mut self.tape
            && let Err(error) = tape.writer.push(&input)
        {
            self.trouble = Some(error);
        }
        self.pipeline.push(&input);
    }

    /// Takes files along for names of code places.
    pub(super) fn know_files(&mut self, files: impl IntoIterator<Item = (FileId, Arc<OpenedFile>)>) {
        self.symbols.know(files);
    }

    /// Passes on what the pipeline has found since the last time.
    pub(super) fn tell_alerts(&mut self, sink: &mut dyn Sink) {
        let mut alerts = self.pipeline.take_alerts();
        if alerts.is_empty() {
            return;
        }
        self.name_places(
            alerts.iter_mut().flat_map(|alert| alert.wanted_symbols(self.pipeline.symbols())).collect(),
        );
        for alert in &mut alerts {
            alert.symbolize(self.pipeline.symbols());
            sink.alert(alert);
        }
    }

    /// The last MPI calls of the threads of a process.
    pub(super) fn last_calls(&self, pid: u32) -> Vec<LastCall> {
        self.pipeline.last_calls(pid).collect()
    }

    /// Probes whose movements were part of a chain of two steps or more.
    pub(super) fn joining_probes(&self) -> BTreeSet<u32> {
        self.pipeline.joining_probes()
    }

    /// All that is to be said now, with names.
    pub(super) fn report(&mut self) -> Report {
        let mut report = self.pipeline.report();
        self.name_places(report.wanted_symbols(self.pipeline.symbols()));
        report.symbolize(self.pipeline.symbols());
        report
    }

    fn name_places(&mut self, places: Vec<(FileId, u64)>) {
        let symbols = self.symbols.resolve(places);
        if !symbols.is_empty() {
            self.push(Input::Symbols(symbols));
        }
    }

    /// Writes what waits, and tells of trouble once.
    pub(super) fn flush(&mut self, sink: &mut dyn Sink) {
        let Some(tape) = &mut self.tape else { return };
        if let Err(error) = tape.writer.flush() {
            self.trouble = Some(error);
        }
        match self.trouble.take() {
            Some(error) if !self.told_trouble => {
                sink.notice(&format!("{}: {error}; the session continues", tape.path.display()));
                self.told_trouble = true;
            }
            Some(_) => {}
            None if self.told_trouble => {
                sink.notice(&format!("{}: recording resumed", tape.path.display()));
                self.told_trouble = false;
            }
            None => {}
        }
    }

    /// Writes the last of the tape and gives the report.
    pub(super) fn finish(&mut self, sink: &mut dyn Sink) -> Report {
        let report = self.report();
        self.name_places(self.pipeline.wanted_by_timeline(self.pipeline.symbols()));
        if let Some(page) = self.pipeline.page(report.clone()) {
            sink.page(page);
        }
        self.flush(sink);
        if let Some(tape) = self.tape.take() {
            sink.recorded(&Recorded {
                path: &tape.path,
                bytes: tape.writer.written_bytes(),
                // The last flush may have failed too: what waits will never be written.
                dropped_inputs: tape.writer.dropped_inputs() + tape.writer.waiting_inputs(),
                incomplete: self.told_trouble,
            });
        }
        report
    }
}

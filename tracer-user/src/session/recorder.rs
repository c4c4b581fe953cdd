//! Records a session: every input goes to the tape, to whoever else is to have it, and to the pipeline.
//! There is no other way in, so that the tape gives the same findings again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use analyzer::finding::Report;
use analyzer::input::{Input, Symbol};
use analyzer::options::Options;
use analyzer::pipeline::{LastCall, Letter, NodePipeline, Pipeline};
use analyzer::tape::{FileTape, WriteError};
use analyzer::wire::{FileId, RawRecord};

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

/// Somebody else who is to have all inputs, on another machine say.
pub trait InputFeed {
    /// The next input.
    fn push(&mut self, input: &Input);

    /// Sends what waits. Called at every tick.
    fn flush(&mut self);
}

/// Who knows the names of code places.
pub trait NameSource {
    /// Takes files along, for names that are asked for later.
    fn know(&mut self, files: Vec<(FileId, Arc<OpenedFile>)>);

    /// The names of those places that were not asked for before. A place without a name comes back without frames, and one
    /// whose name is not to be had now not at all.
    fn resolve(&mut self, places: Vec<(FileId, u64)>) -> Vec<Symbol>;
}

impl NameSource for Symbols {
    fn know(&mut self, files: Vec<(FileId, Arc<OpenedFile>)>) {
        Symbols::know(self, files);
    }

    fn resolve(&mut self, places: Vec<(FileId, u64)>) -> Vec<Symbol> {
        Symbols::resolve(self, places)
    }
}

/// What comes from the other nodes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromNodes {
    /// A letter of the node with a number.
    Letter(u32, Vec<u8>),
    /// That node's session is gone.
    Gone(u32),
    /// All nodes have confirmed the round before this one.
    Round {
        /// Its number.
        number: u64,
        /// When it was heard of, CLOCK_MONOTONIC.
        at_ns: u64,
    },
}

/// Carries letters between the sessions of the nodes of a job.
pub trait LetterBox {
    /// Sends one.
    fn send(&mut self, letter: Letter);

    /// Letters for a topic are received from now on.
    fn listen(&mut self, topic: u32);

    /// Says that all was sent that has to be before a round is over.
    fn confirm(&mut self, round: u64);

    /// The next one, if one is there.
    fn receive(&mut self) -> Option<FromNodes>;

    /// Waits for one, for so long at most.
    fn wait(&mut self, limit: Duration);
}

/// One node's part of a job: it is analyzed here, and what is found in all parts is found elsewhere.
pub struct NodePart {
    /// The node's number among all of the job.
    pub number: u32,
    /// The way to the others.
    pub letters: Box<dyn LetterBox>,
    /// How many nodes there are, as far as it is known; 0: it is not.
    pub nodes: Arc<AtomicU32>,
}

/// Where inputs go besides the analysis, and where names come from.
pub struct Outlets {
    /// Where to record to.
    pub tape: Option<Tape>,
    /// Who else has all inputs.
    pub feed: Option<Box<dyn InputFeed>>,
    /// Who knows names.
    pub names: Box<dyn NameSource>,
}

impl Default for Outlets {
    /// Nowhere, and from this machine's files.
    fn default() -> Self {
        Self { tape: None, feed: None, names: Box::new(Symbols::default()) }
    }
}

/// What looks at the inputs.
enum Analysis {
    /// All that is found is found here.
    Whole(Box<Pipeline>),
    Part(Box<NodePipeline>, NodePart),
}

/// See the [module](self).
pub struct Recorder {
    analysis: Analysis,
    outlets: Outlets,
    /// When a round was heard of last.
    heard: Instant,
    trouble: Option<WriteError>,
    told_trouble: bool,
}

impl Recorder {
    /// `page_calls`: MPI calls kept for a page; none: no page is wanted.
    pub fn new(options: Options, outlets: Outlets, page_calls: Option<usize>) -> Self {
        let pipeline = match page_calls {
            Some(calls) => Pipeline::with_timeline(options, calls),
            None => Pipeline::new(options),
        };
        Self::with(Analysis::Whole(Box::new(pipeline)), outlets)
    }

    /// Of one node's part: the feed has what the analysis of all parts needs, and not all inputs.
    pub fn of_part(options: Options, outlets: Outlets, part: NodePart) -> Self {
        Self::with(Analysis::Part(Box::new(NodePipeline::new(options, part.number)), part), outlets)
    }

    fn with(analysis: Analysis, outlets: Outlets) -> Self {
        Self { analysis, outlets, heard: Instant::now(), trouble: None, told_trouble: false }
    }

    /// The next input, a record in order as most are: as [`Recorder::push`] does it, without a copy.
    pub(super) fn push_record(&mut self, record: &RawRecord) {
        if let Some(tape) = &mut self.outlets.tape
            && let Err(error) = tape.writer.push_record(record)
        {
            self.trouble = Some(error);
        }
        match &mut self.analysis {
            Analysis::Whole(pipeline) => {
                if let Some(feed) = &mut self.outlets.feed {
                    feed.push(&Input::Record(*record));
                }
                pipeline.push_record(record);
            }
            Analysis::Part(pipeline, _) => pipeline.push_record(record),
        }
    }

    /// The next input.
    pub fn push(&mut self, input: Input) {
        if let Input::Record(record) = &input {
            return self.push_record(record);
        }
        if let Some(tape) = &mut self.outlets.tape
            && let Err(error) = tape.writer.push(&input)
        {
            self.trouble = Some(error);
        }
        let is_tick = matches!(input, Input::Tick { .. } | Input::End(_));
        if is_tick {
            // What has come already is not waited for in vain, however late this is looked at.
            self.exchange();
        }
        match &mut self.analysis {
            Analysis::Whole(pipeline) => {
                if let Some(feed) = &mut self.outlets.feed {
                    feed.push(&input);
                }
                pipeline.push(&input);
            }
            Analysis::Part(pipeline, _) => {
                pipeline.push(&input);
                if is_tick {
                    self.exchange();
                }
            }
        }
        if let Some(feed) = &mut self.outlets.feed
            && is_tick
            && matches!(self.analysis, Analysis::Whole(_))
        {
            feed.flush();
        }
    }

    /// Takes letters of other nodes, and sends those for them.
    pub fn exchange(&mut self) {
        let Self { analysis, outlets, heard, .. } = self;
        let Analysis::Part(pipeline, NodePart { letters, nodes, .. }) = analysis else { return };
        pipeline.set_nodes(nodes.load(Ordering::Relaxed));
        // It begins when all letters from before it are delivered.
        let mut round = None;
        while let Some(from_nodes) = letters.receive() {
            match from_nodes {
                // What is no letter says nothing; its number is missing, which counts as lost.
                FromNodes::Letter(from, bytes) => drop(pipeline.deliver(from, &bytes)),
                FromNodes::Gone(node) => pipeline.lose_node(node),
                FromNodes::Round { number, at_ns } => round = Some((number, at_ns)),
            }
        }
        if let Some((number, at_ns)) = round {
            pipeline.begin_round(number, at_ns);
            *heard = Instant::now();
        }
        pipeline.take_topics().into_iter().for_each(|topic| letters.listen(topic));
        pipeline.take_letters().into_iter().for_each(|letter| letters.send(letter));
        pipeline.take_confirmed().into_iter().for_each(|number| letters.confirm(number));
        let inputs = pipeline.take_inputs();
        if let Some(feed) = &mut outlets.feed {
            inputs.iter().for_each(|input| feed.push(input));
            // A tick may have waited for letters; without one nobody can make anything of what comes.
            if inputs.iter().any(|input| matches!(input, Input::Tick { .. })) {
                feed.flush();
            }
        }
    }

    /// Whether nothing is to be waited for that other nodes may still say, at the end of a part.
    pub fn is_settled(&self) -> bool {
        match &self.analysis {
            Analysis::Whole(_) => true,
            Analysis::Part(pipeline, _) => pipeline.is_settled() || pipeline.has_waited(),
        }
    }

    /// Waits until other nodes have said what became of what went to them, and takes leave.
    fn take_leave(&mut self) {
        /// A round is told of again each second: without any, nobody is there to wait with.
        const PATIENCE: Duration = Duration::from_secs(4);
        const PERIOD: Duration = Duration::from_millis(5);
        let mut now = Instant::now();
        self.heard = now;
        while !self.is_settled()
            && self.heard.elapsed() < PATIENCE
            && let Analysis::Part(pipeline, NodePart { letters, .. }) = &mut self.analysis
        {
            letters.wait(PERIOD);
            pipeline.pass_time(u64::try_from(now.elapsed().as_nanos()).unwrap_or(u64::MAX));
            now = Instant::now();
            self.exchange();
        }
        if let Analysis::Part(pipeline, NodePart { letters, .. }) = &mut self.analysis {
            pipeline.finish().into_iter().for_each(|letter| letters.send(letter));
        }
        self.exchange();
        if let Some(feed) = &mut self.outlets.feed {
            feed.flush();
        }
    }

    /// Takes files along for names of code places.
    pub(super) fn know_files(&mut self, files: impl IntoIterator<Item = (FileId, Arc<OpenedFile>)>) {
        self.outlets.names.know(files.into_iter().collect());
    }

    /// Passes on what the pipeline has found since the last time.
    pub fn tell_alerts(&mut self, sink: &mut dyn Sink) {
        let Analysis::Whole(pipeline) = &mut self.analysis else { return };
        let mut alerts = pipeline.take_alerts();
        if alerts.is_empty() {
            return;
        }
        let wanted = alerts.iter_mut().flat_map(|alert| alert.wanted_symbols(pipeline.symbols())).collect();
        self.name_places(wanted);
        let Analysis::Whole(pipeline) = &self.analysis else { return };
        for alert in &mut alerts {
            alert.symbolize(pipeline.symbols());
            sink.alert(alert);
        }
    }

    /// The last MPI calls of the threads of a process.
    pub(super) fn last_calls(&self, pid: u32) -> Vec<LastCall> {
        match &self.analysis {
            Analysis::Whole(pipeline) => pipeline.last_calls(pid).collect(),
            Analysis::Part(pipeline, _) => pipeline.last_calls(pid).collect(),
        }
    }

    /// Probes whose movements were part of a chain of two steps or more.
    pub(super) fn joining_probes(&self) -> BTreeSet<u32> {
        match &self.analysis {
            Analysis::Whole(pipeline) => pipeline.joining_probes(),
            Analysis::Part(pipeline, _) => pipeline.joining_probes(),
        }
    }

    /// All that is to be said now, with names; nothing of a part.
    pub fn report(&mut self) -> Option<Report> {
        let Analysis::Whole(pipeline) = &mut self.analysis else { return None };
        let mut report = pipeline.report();
        let wanted = report.wanted_symbols(pipeline.symbols());
        self.name_places(wanted);
        let Analysis::Whole(pipeline) = &self.analysis else { return None };
        report.symbolize(pipeline.symbols());
        Some(report)
    }

    fn name_places(&mut self, places: Vec<(FileId, u64)>) {
        let symbols = self.outlets.names.resolve(places);
        if !symbols.is_empty() {
            self.push(Input::Symbols(symbols));
        }
    }

    /// Writes what waits, and tells of trouble once.
    pub fn flush(&mut self, sink: &mut dyn Sink) {
        let Some(tape) = &mut self.outlets.tape else { return };
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

    /// Writes the last of the tape and gives the report; of a part there is none.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Option<Report> {
        self.take_leave();
        self.tell_of_strangers(sink);
        let report = self.report();
        self.make_page(report.as_ref(), sink);
        self.flush(sink);
        if let Some(tape) = self.outlets.tape.take() {
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

    /// Processes of jobs that end soon, on machines without a spare CPU, may be gone before they can be looked at.
    fn tell_of_strangers(&self, sink: &mut dyn Sink) {
        let Analysis::Whole(pipeline) = &self.analysis else { return };
        let count = pipeline.messages().strangers();
        if count > 0 {
            sink.notice(&format!(
                "of the processes that made MPI calls, {count} had ended before they could be looked at, or could not be: what is known of the job is incomplete"
            ));
        }
    }

    fn make_page(&mut self, report: Option<&Report>, sink: &mut dyn Sink) {
        let (Analysis::Whole(pipeline), Some(report)) = (&self.analysis, report) else { return };
        self.name_places(pipeline.wanted_by_timeline(pipeline.symbols()));
        let Analysis::Whole(pipeline) = &mut self.analysis else { return };
        if let Some(page) = pipeline.page(report.clone()) {
            sink.page(page);
        }
    }
}

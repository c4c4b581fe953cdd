//! Writes a tape, also onto a disk that is full for a while.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use zstd::bulk::Compressor;

use super::answers::{RankAnswers, RankMessages};
use super::bytes::ByteWriter;
use super::codec::Encoder;
use super::digest::{Digest, MAX_DIGEST_BYTES};
use super::fact::Fact;
use super::frame::{
    self, FrameHeader, FrameKind, MAX_FRAME_BYTES, MAX_INPUTS_PER_FRAME, MAX_JSON_BYTES, VERSION,
};
use super::input::{Input, Symbol};
use super::weight::Weight;
use super::wire::RawRecord;

/// How much is kept by default while nothing can be written: some millions of records.
pub const DEFAULT_BACKLOG_BYTES: usize = 16 << 20;

const COMPRESSION_LEVEL: i32 = 3;
/// Facts, and digests, are put into one frame up to this length: a plan or a process may have thousands of lines.
const FACTS_FRAME_BYTES: usize = 1 << 20;

/// A tape in a file: a frame that was written in part is taken back.
pub type FileTape = Writer<File>;

/// Why something is not on the tape (yet).
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The sink refuses. What it did not take is kept, up to a limit, and tried again at the next flush.
    #[error(
        "cannot write the tape: {source}; {waiting_bytes} bytes wait, {dropped_inputs} inputs are not recorded"
    )]
    Io {
        /// What the sink said.
        source: io::Error,
        /// Compressed bytes to be tried again.
        waiting_bytes: usize,
        /// Inputs given up so far.
        dropped_inputs: u64,
    },
    /// One input is larger than a frame can be.
    #[error("an input of {bytes} bytes is too large for the tape and is not recorded")]
    TooLarge {
        /// Its length as JSON, or as what it is.
        bytes: usize,
    },
}

/// Takes back what was written behind this many bytes.
type CutBack<W> = fn(&mut W, u64) -> io::Result<()>;

/// Writes inputs to a tape.
///
/// Errors do not end it. What could not be written is kept up to a limit, and the next
/// [`Writer::flush`] (or full frame) tries again. Beyond the limit records are given up, and the
/// reader sees from the counts in the next frame how many. Facts, without which records are
/// not understood, are given up only at twice the limit.
pub struct Writer<W> {
    sink: W,
    cut_back: Option<CutBack<W>>,
    compressor: Option<Compressor<'static>>,
    records: Encoder,
    facts: Facts,
    digests: Digests,
    /// In order.
    backlog: VecDeque<WaitingFrame>,
    waiting_bytes: usize,
    backlog_limit_bytes: usize,
    /// Whole frames in the sink.
    written_bytes: u64,
    /// Part of a frame may stand behind them.
    torn: bool,
    /// Weight of everything sealed so far, and of what is being gathered.
    sealed: Weight,
    gathered: Weight,
    first_ns: Option<u64>,
    last_ns: u64,
    dropped_inputs: u64,
    /// What went wrong since the last push or flush.
    failure: Option<WriteError>,
}

/// A header and its payload, ready to be written.
struct WaitingFrame {
    bytes: Vec<u8>,
    inputs: u64,
}

/// Facts waiting for their frame: a JSON array without its end.
#[derive(Debug, Default)]
struct Facts {
    json: Vec<u8>,
    inputs: u32,
}

/// Digests waiting for their frame.
#[derive(Debug, Default)]
struct Digests {
    bytes: ByteWriter,
    inputs: u32,
}

impl FileTape {
    /// Writes to a file that is empty and at its beginning.
    pub fn to_file(file: File) -> Self {
        Self::with_cut_back(file, |file, len_bytes| {
            file.set_len(len_bytes)?;
            file.seek(SeekFrom::Start(len_bytes)).map(|_| ())
        })
    }
}

impl<W: Write> Writer<W> {
    /// Writes to anything. What is left of a frame after an error stays: readers skip it.
    pub fn new(sink: W) -> Self {
        let header = WaitingFrame { bytes: frame::file_header(VERSION).to_vec(), inputs: 0 };
        Self {
            sink,
            cut_back: None,
            compressor: None,
            records: Encoder::default(),
            facts: Facts::default(),
            digests: Digests::default(),
            waiting_bytes: header.bytes.len(),
            backlog: VecDeque::from([header]),
            backlog_limit_bytes: DEFAULT_BACKLOG_BYTES,
            written_bytes: 0,
            torn: false,
            sealed: Weight::default(),
            gathered: Weight::default(),
            first_ns: None,
            last_ns: 0,
            dropped_inputs: 0,
            failure: None,
        }
    }

    /// Writes to a sink that can be cut back to a length, and written from there.
    pub fn with_cut_back(sink: W, cut_back: fn(&mut W, u64) -> io::Result<()>) -> Self {
        Self { cut_back: Some(cut_back), ..Self::new(sink) }
    }

    /// Keeps at most this much (twice for facts) while nothing can be written.
    #[must_use]
    pub fn backlog_limit_bytes(self, limit: usize) -> Self {
        Self { backlog_limit_bytes: limit, ..self }
    }

    /// Adds one input.
    ///
    /// # Errors
    /// Something could not be written, perhaps of earlier inputs. Unless it counts as dropped this
    /// input is kept all the same: the error is to be shown, and the next input to be pushed.
    pub fn push(&mut self, input: &Input) -> Result<(), WriteError> {
        match input {
            Input::Record(record) => return self.push_record(record),
            Input::LateRecord(_) | Input::Tick { .. } | Input::Loss(_) => {
                self.seal_facts();
                self.seal_digests();
                self.gather(input);
                self.records.push(input);
                if self.records.inputs() == MAX_INPUTS_PER_FRAME {
                    self.seal_records();
                }
            }
            Input::Symbols(symbols) => self.push_symbols(input, symbols),
            Input::Digest(digest) => self.push_digest(input, digest),
            Input::Answers(answers) => self.push_answers(input, FrameKind::Answers, answers),
            Input::Contents(contents) => self.push_answers(input, FrameKind::Contents, contents),
            Input::Messages(messages) => self.push_messages(input, messages),
            Input::ReplayableRank(rank) => self.push_fact(input, &Fact::ReplayableRank(rank)),
            Input::Start(start) => self.push_fact(input, &Fact::Start(start)),
            Input::Process(process) => self.push_fact(input, &Fact::Process(process)),
            Input::Plan(plan) => self.push_fact(input, &Fact::Plan(plan)),
            Input::Coverage(coverage) => self.push_fact(input, &Fact::Coverage(coverage)),
            Input::Threads(threads) => self.push_fact(input, &Fact::Threads(threads)),
            Input::Clock(reading) => self.push_fact(input, &Fact::Clock(reading)),
            Input::ProbeCosts(costs) => self.push_fact(input, &Fact::ProbeCosts(costs)),
            Input::Unrecorded(hits) => self.push_fact(input, &Fact::Unrecorded(hits)),
            Input::End(end) => self.push_fact(input, &Fact::End(end)),
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Adds a record in order, as [`Writer::push`] does.
    ///
    /// # Errors
    /// As there.
    pub fn push_record(&mut self, record: &RawRecord) -> Result<(), WriteError> {
        self.seal_facts();
        self.seal_digests();
        self.gathered = self.gathered.plus(Weight::of_record(record));
        self.gather_time(record.time_ns());
        self.records.push_record(record);
        if self.records.inputs() == MAX_INPUTS_PER_FRAME {
            self.seal_records();
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Ends the frame and writes all there is. Call it about once a second: what was flushed
    /// survives whatever happens to the recorder.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.seal_facts();
        self.seal_records();
        self.seal_digests();
        self.write_backlog();
        if self.backlog.is_empty()
            && let Err(source) = self.sink.flush()
        {
            self.fail(source);
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The sink refused: what has not been written by now is lost.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.sink)
    }

    /// Where it writes to.
    pub fn sink_mut(&mut self) -> &mut W {
        &mut self.sink
    }

    /// Inputs that are not and will not be on the tape.
    pub fn dropped_inputs(&self) -> u64 {
        self.dropped_inputs
    }

    /// Inputs in whole frames that could not be written yet: lost if this is the end.
    pub fn waiting_inputs(&self) -> u64 {
        self.backlog.iter().map(|frame| frame.inputs).sum()
    }

    /// Length of the tape up to the last whole frame.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Position of the next input: how many were pushed.
    pub fn position(&self) -> u64 {
        self.sealed.plus(self.gathered).inputs
    }

    fn gather(&mut self, input: &Input) {
        self.gathered = self.gathered.plus(Weight::of(input));
        if let Some(time_ns) = time_of(input) {
            self.gather_time(time_ns);
        }
    }

    fn gather_time(&mut self, time_ns: u64) {
        self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    fn push_digest(&mut self, input: &Input, digest: &Digest) {
        self.seal_records();
        self.seal_facts();
        let bytes = digest.encode();
        if bytes.len() > MAX_DIGEST_BYTES {
            return self.drop(input, WriteError::TooLarge { bytes: bytes.len() });
        }
        self.digests.bytes.bytes(&bytes);
        self.digests.inputs += 1;
        self.gather(input);
        if self.digests.bytes.len() > FACTS_FRAME_BYTES || self.digests.inputs == MAX_INPUTS_PER_FRAME {
            self.seal_digests();
        }
    }

    fn push_answers(&mut self, input: &Input, kind: FrameKind, answers: &RankAnswers) {
        let mut bytes = ByteWriter::default();
        answers.write(&mut bytes);
        self.push_of_rank(input, kind, bytes);
    }

    fn push_messages(&mut self, input: &Input, messages: &RankMessages) {
        let mut bytes = ByteWriter::default();
        messages.write(&mut bytes);
        self.push_of_rank(input, FrameKind::Messages, bytes);
    }

    /// A frame of its own.
    fn push_of_rank(&mut self, input: &Input, kind: FrameKind, bytes: ByteWriter) {
        self.flush_frames();
        if bytes.len() > MAX_FRAME_BYTES {
            return self.drop(input, WriteError::TooLarge { bytes: bytes.len() });
        }
        self.gather(input);
        self.seal(kind, &bytes.into_bytes());
    }

    fn flush_frames(&mut self) {
        self.seal_facts();
        self.seal_digests();
        self.seal_records();
    }

    fn push_fact(&mut self, input: &Input, fact: &Fact<'_>) {
        self.seal_records();
        self.seal_digests();
        let Some(json) = self.json_or_drop(input, fact) else { return };
        self.facts.json.push(if self.facts.inputs == 0 { b'[' } else { b',' });
        self.facts.json.extend_from_slice(&json);
        self.facts.inputs += 1;
        self.gather(input);
        if self.facts.json.len() > FACTS_FRAME_BYTES || self.facts.inputs == MAX_INPUTS_PER_FRAME {
            self.seal_facts();
        }
    }

    fn push_symbols(&mut self, input: &Input, symbols: &[Symbol]) {
        self.flush_frames();
        let Some(json) = self.json_or_drop(input, &[symbols]) else { return };
        self.gather(input);
        self.seal(FrameKind::Symbols, &json);
    }

    /// The input as JSON; `None`, and it is dropped, if it does not fit into a frame.
    fn json_or_drop(&mut self, input: &Input, value: &impl serde::Serialize) -> Option<Vec<u8>> {
        let error = match serde_json::to_vec(value) {
            Ok(json) if json.len() <= MAX_JSON_BYTES / 2 => return Some(json),
            Ok(json) => WriteError::TooLarge { bytes: json.len() },
            Err(error) => self.io_error(error.into()),
        };
        self.drop(input, error);
        None
    }

    fn drop(&mut self, input: &Input, error: WriteError) {
        // First what came before it, so that the gap is in the right place.
        self.seal_facts();
        self.seal_digests();
        self.sealed = self.sealed.plus(Weight::of(input));
        self.dropped_inputs += 1;
        self.failure = Some(error);
    }

    fn seal_records(&mut self) {
        if self.records.inputs() > 0 {
            let payload = self.records.take();
            self.seal(FrameKind::Records, &payload);
        }
    }

    fn seal_facts(&mut self) {
        let Facts { mut json, inputs } = std::mem::take(&mut self.facts);
        if inputs > 0 {
            json.push(b']');
            self.seal(FrameKind::Facts, &json);
        }
    }

    fn seal_digests(&mut self) {
        let Digests { bytes, inputs } = std::mem::take(&mut self.digests);
        if inputs > 0 {
            self.seal(FrameKind::Digests, &bytes.into_bytes());
        }
    }

    /// Makes a frame of what was gathered, and writes it, or keeps it if there is room.
    fn seal(&mut self, kind: FrameKind, payload: &[u8]) {
        let gathered = std::mem::take(&mut self.gathered);
        let before = self.sealed;
        self.sealed = before.plus(gathered);
        let first_ns = self.first_ns.take().unwrap_or(self.last_ns);
        let compressed = match self.compress(payload) {
            Ok(compressed) => compressed,
            Err(error) => {
                self.dropped_inputs += gathered.inputs;
                return self.fail(error);
            }
        };
        let header = FrameHeader {
            kind: kind as u8,
            // These fit: the limits on inputs and lengths were kept while gathering.
            inputs: gathered.inputs as u32,
            compressed_len: compressed.len() as u32,
            uncompressed_len: payload.len() as u32,
            payload_crc: crc32c::crc32c(&compressed),
            before,
            first_ns,
            last_ns: self.last_ns,
        };
        let frame = [&header.encode()[..], &compressed].concat();
        let limit_bytes = self.backlog_limit_bytes * if kind == FrameKind::Records { 1 } else { 2 };
        self.write_backlog();
        if !self.backlog.is_empty() && self.waiting_bytes + frame.len() > limit_bytes {
            self.dropped_inputs += gathered.inputs;
            return;
        }
        self.waiting_bytes += frame.len();
        self.backlog.push_back(WaitingFrame { bytes: frame, inputs: gathered.inputs });
        self.write_backlog();
    }

    fn compress(&mut self, payload: &[u8]) -> io::Result<Vec<u8>> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            empty => empty.insert(Compressor::new(COMPRESSION_LEVEL)?),
        };
        compressor.compress(payload)
    }

    fn write_backlog(&mut self) {
        while let Some(frame) = self.backlog.front() {
            if let Err(source) =
                write_frame(&mut self.sink, &frame.bytes, self.cut_back, self.written_bytes, &mut self.torn)
            {
                return self.fail(source);
            }
            self.written_bytes += frame.bytes.len() as u64;
            self.waiting_bytes -= frame.bytes.len();
            self.backlog.pop_front();
        }
    }

    fn fail(&mut self, source: io::Error) {
        self.failure = Some(self.io_error(source));
    }

    fn io_error(&self, source: io::Error) -> WriteError {
        WriteError::Io { source, waiting_bytes: self.waiting_bytes, dropped_inputs: self.dropped_inputs }
    }
}

/// Writes one frame, or leaves nothing of it behind if the sink can be cut back. `torn` is
/// whether there may be something of a frame behind `written_bytes`.
fn write_frame<W: Write>(
    sink: &mut W,
    frame: &[u8],
    cut_back: Option<CutBack<W>>,
    written_bytes: u64,
    torn: &mut bool,
) -> io::Result<()> {
    if let (true, Some(cut_back)) = (*torn, cut_back) {
        cut_back(sink, written_bytes)?;
    }
    let written = sink.write_all(frame);
    *torn = written.is_err();
    if let (true, Some(cut_back)) = (*torn, cut_back) {
        // At once, so that the tape is whole even if there is no next time.
        *torn = cut_back(sink, written_bytes).is_err();
    }
    written
}

fn time_of(input: &Input) -> Option<u64> {
    match input {
        Input::Record(record) => Some(record.time_ns()),
        Input::Tick { time_ns } => Some(*time_ns),
        Input::Start(start) => Some(start.time_ns),
        Input::Process(process) => Some(process.time_ns),
        Input::Coverage(coverage) => Some(coverage.time_ns),
        Input::Clock(reading) => Some(reading.time_ns),
        Input::Digest(digest) => Some(digest.time_ns),
        Input::ProbeCosts(costs) => Some(costs.time_ns),
        Input::Unrecorded(hits) => Some(hits.to_ns),
        Input::Threads(threads) => Some(threads.time_ns),
        Input::End(end) => Some(end.time_ns),
        Input::LateRecord(_) | Input::Loss(_) | Input::Plan(_) | Input::Symbols(_) => None,
        Input::ReplayableRank(_) | Input::Answers(_) | Input::Messages(_) | Input::Contents(_) => None,
    }
}

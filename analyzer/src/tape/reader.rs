//! Reads a tape, also a cut or damaged one.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read;

use zstd::bulk::Decompressor;

use super::answers::{RankAnswers, RankMessages};
use super::bytes::{BadBytes, ByteReader};
use super::codec::{ColumnStep, Decoder};
use super::damage::{Cause, Damage, TapeError};
use super::digest::Digest;
use super::fact;
use super::frame::{self, FILE_HEADER_BYTES, FrameHeader, FrameKind, VERSION};
use super::frames::{FoundFrame, Frames, decompress};
use super::input::{Input, Loss, Symbol};
use super::weight::Weight;
use super::weight::is_movement;
use super::wire::RawRecord;

/// For how many processes losses are told: no node runs more ranks, a hostile tape may name more.
const MAX_PIDS: usize = 1 << 16;

/// Losses that are told because of damage, for all processes together, after which no more is read.
const MAX_LOSSES: usize = 1 << 21;

/// Bytes of symbols that are read as JSON. Whoever takes them keeps less; of the rest there is nothing but that they were there.
const MAX_SYMBOL_BYTES: usize = 192 << 20;

/// What a tape gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The next input. Inputs that are missing come as [`Input::Loss`], so that a pipeline
    /// which is given all inputs knows of them.
    Input(Input),
    /// Told ahead of the losses that it means: for people.
    Damage(Damage),
}

/// The same without a copy of the record. What is rare is in a box: most items are records, and this is as small as it can be.
#[derive(Debug)]
pub enum ItemRef<'a> {
    /// The next input, [`Input::Record`], is this record.
    Record(&'a RawRecord),
    /// The next input, whatever else it is.
    Input(Box<Input>),
    /// As [`Item::Damage`].
    Damage(Box<Damage>),
}

/// The bytes of a tape that is still being written, as they arrive: whole frames, one or several at a time.
#[derive(Debug, Default)]
pub struct Feed {
    bytes: VecDeque<u8>,
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.read(buffer)
    }
}

/// Reads the inputs of a tape in order, as an iterator, or one by one with [`Reader::next_ref`].
///
/// Damage does not end it: reading goes on at the next whole frame. After an error
/// there is nothing more. Memory is bounded whatever the tape claims.
pub struct Reader<R> {
    frames: Frames<R>,
    /// Found already, but not opened.
    ahead: Option<FoundFrame>,
    decompressor: Decompressor<'static>,
    decoder: Decoder,
    content: FrameContent,
    open_frame: Stretch,
    /// Bytes since the last good frame that gave nothing.
    unreadable: Option<Stretch>,
    /// What the session had up to here, including what is missing.
    position: Weight,
    /// Position behind the open frame.
    frame_end: u64,
    /// Inputs of an open frame of records that were not given yet.
    left: u64,
    /// Records given that the position does not count yet, and how many of them are movements.
    lent: (u64, u64),
    last_ns: u64,
    pids: BTreeSet<u32>,
    losses: VecDeque<Loss>,
    losses_told: usize,
    symbol_bytes: usize,
    state: ReadState,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    position_bytes: u64,
    len_bytes: u64,
}

/// What is left of the open frame.
enum FrameContent {
    /// It is in the decoder.
    Records,
    Facts(std::vec::IntoIter<Input>),
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// No good frame yet.
    Fresh,
    /// In the middle.
    Running,
    /// `End` was the last input.
    Ended,
    /// Nothing more comes.
    Done,
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("position", &self.position).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// This is not a tape, or not one that this version can read.
    pub fn new(source: R) -> Result<Self, TapeError> {
        let mut frames = Frames::new(source);
        let ahead = frames.begin()?;
        Self::at(frames, ahead)
    }

    fn at(frames: Frames<R>, ahead: Option<FoundFrame>) -> Result<Self, TapeError> {
        Ok(Self {
            frames,
            ahead,
            decompressor: Decompressor::new()?,
            decoder: Decoder::default(),
            content: FrameContent::Nothing,
            open_frame: Stretch::default(),
            unreadable: None,
            position: Weight::default(),
            frame_end: 0,
            left: 0,
            lent: (0, 0),
            last_ns: 0,
            pids: BTreeSet::new(),
            losses: VecDeque::new(),
            losses_told: 0,
            symbol_bytes: 0,
            state: ReadState::Fresh,
        })
    }

    /// Position of the input given last: how many the session had before it.
    pub fn position(&self) -> u64 {
        self.position.inputs.saturating_add(self.lent.0).saturating_sub(1)
    }

    /// The next input of the open frame.
    fn next_input(&mut self) -> Option<ColumnStep> {
        self.count_lent();
        let step = match &mut self.content {
            FrameContent::Records => self.decoder.next(),
            FrameContent::Facts(facts) => facts.next().map(|fact| Ok(ColumnStep::Other(Box::new(fact)))),
            FrameContent::Nothing => return None,
        };
        let whole = self.position.inputs >= self.frame_end;
        match step {
            Some(Ok(step)) if !whole => {
                self.note(&step);
                let records = matches!(self.content, FrameContent::Records);
                self.left = if records { self.frame_end - self.position.inputs } else { 0 };
                Some(step)
            }
            rest => {
                if rest.is_some() || !whole {
                    // The frame is not what its header says: what it lacks shows at the next one.
                    self.note_unreadable(self.open_frame);
                }
                self.close();
                None
            }
        }
    }

    fn count_lent(&mut self) {
        let (inputs, movements) = std::mem::take(&mut self.lent);
        if inputs > 0 {
            self.position = self.position.plus(Weight { inputs, movements, state: inputs - movements });
            self.state = ReadState::Running;
        }
    }

    fn note(&mut self, step: &ColumnStep) {
        let weight = match step {
            ColumnStep::Record | ColumnStep::LateRecord => Weight::of_record(self.decoder.record()),
            ColumnStep::Other(input) => {
                self.note_other(input);
                return;
            }
        };
        self.position = self.position.plus(weight);
        self.state = ReadState::Running;
    }

    fn note_other(&mut self, input: &Input) {
        self.position = self.position.plus(Weight::of(input));
        self.state = match (input, &self.state) {
            (Input::End(_), _) => ReadState::Ended,
            // Names for the report are looked up when the session is over.
            (Input::Symbols(_), ReadState::Ended) => ReadState::Ended,
            _ => ReadState::Running,
        };
        if let Input::Process(process) = input {
            self.note_pid(process.pid);
        }
    }

    fn note_pid(&mut self, pid: u32) {
        if self.pids.len() < MAX_PIDS {
            self.pids.insert(pid);
        }
    }

    fn close(&mut self) {
        self.left = 0;
        if matches!(std::mem::replace(&mut self.content, FrameContent::Nothing), FrameContent::Records) {
            let pids: BTreeSet<u32> = self.decoder.pids().collect();
            pids.into_iter().for_each(|pid| self.note_pid(pid));
        }
    }

    /// Opens the next good frame; gives back what is wrong between it and the one before.
    fn next_frame(&mut self) -> Result<Option<Damage>, TapeError> {
        if self.has_given_up() {
            return self.finish(false);
        }
        let found = match self.ahead.take() {
            Some(found) => found,
            None => self.frames.next(u64::MAX)?,
        };
        match found.header {
            Some(_) => Ok(self.open_found(found)),
            None => {
                self.note_skipped(found);
                self.finish(found.cut)
            }
        }
    }

    fn note_skipped(&mut self, found: FoundFrame) {
        if found.skipped_bytes > 0 {
            self.note_unreadable(Stretch {
                position_bytes: found.from_bytes,
                len_bytes: found.skipped_bytes,
            });
        }
    }

    /// Opens a frame, if one was found; gives back what is wrong between it and the one before.
    fn open_found(&mut self, found: FoundFrame) -> Option<Damage> {
        self.note_skipped(found);
        let header = found.header?;
        let position_bytes = found.from_bytes + found.skipped_bytes;
        let frame = Stretch { position_bytes, len_bytes: self.frames.position_bytes() - position_bytes };
        let missing = header.before.since(self.position);
        let (Some(missing), Some(content)) = (missing, self.unpack(&header)) else {
            self.note_unreadable(frame);
            return None;
        };
        let damage = self.damage_before(&header, frame, missing);
        self.content = content;
        self.open_frame = frame;
        self.position = header.before;
        self.frame_end = header.before.inputs.saturating_add(u64::from(header.inputs));
        self.last_ns = header.last_ns;
        if self.state == ReadState::Fresh {
            self.state = ReadState::Running;
        }
        damage
    }

    /// Decompresses the payload of the frame found last.
    fn unpack(&mut self, header: &FrameHeader) -> Option<FrameContent> {
        let buffer = self.decoder.buffer();
        decompress(&mut self.decompressor, header, self.frames.payload(), buffer)?;
        match header.kind {
            RECORDS => self.decoder.open().ok().map(|()| FrameContent::Records),
            FACTS => fact::read(buffer).ok().map(|facts| FrameContent::Facts(facts.into_iter())),
            DIGESTS => digests(buffer).ok().map(|digests| FrameContent::Facts(digests.into_iter())),
            ANSWERS => {
                answers(buffer, Input::Answers).ok().map(|answers| FrameContent::Facts(answers.into_iter()))
            }
            MESSAGES => messages(buffer).ok().map(|messages| FrameContent::Facts(messages.into_iter())),
            CONTENTS => answers(buffer, Input::Contents)
                .ok()
                .map(|contents| FrameContent::Facts(contents.into_iter())),
            SYMBOLS if self.symbol_bytes > MAX_SYMBOL_BYTES => {
                let unread = vec![Input::Symbols(Vec::new()); header.inputs as usize];
                Some(FrameContent::Facts(unread.into_iter()))
            }
            SYMBOLS => {
                self.symbol_bytes += buffer.len();
                let lists: Vec<Vec<Symbol>> = serde_json::from_slice(buffer).ok()?;
                let inputs: Vec<_> = lists.into_iter().map(Input::Symbols).collect();
                Some(FrameContent::Facts(inputs.into_iter()))
            }
            _ => None,
        }
    }

    fn damage_before(&mut self, header: &FrameHeader, frame: Stretch, missing: Weight) -> Option<Damage> {
        let unreadable = self.unreadable.take();
        if unreadable.is_none() && missing.inputs == 0 {
            return None;
        }
        let cause = if unreadable.is_some() { Cause::Damaged } else { Cause::NotWritten };
        let nothing = Stretch { len_bytes: 0, ..frame };
        Some(self.damage(cause, unreadable.unwrap_or(nothing), Some(missing), header.first_ns))
    }

    fn has_given_up(&self) -> bool {
        self.frames.has_given_up() || self.losses_told > MAX_LOSSES
    }

    /// Nothing more can be read.
    fn finish(&mut self, cut: bool) -> Result<Option<Damage>, TapeError> {
        let state = std::mem::replace(&mut self.state, ReadState::Done);
        let end = Stretch { position_bytes: self.frames.position_bytes(), len_bytes: 0 };
        let to_ns = self.last_ns;
        let unreadable = self.unreadable.take();
        if self.has_given_up() && !matches!(state, ReadState::Fresh | ReadState::Done) {
            return Ok(Some(self.damage(Cause::GaveUp, unreadable.unwrap_or(end), None, to_ns)));
        }
        Ok(match (state, unreadable) {
            (ReadState::Fresh, _) => return Err(TapeError::NoFrame),
            (ReadState::Ended, None) | (ReadState::Done, _) => None,
            (ReadState::Ended, Some(unreadable)) => {
                Some(self.damage(Cause::Damaged, unreadable, Some(Weight::default()), to_ns))
            }
            (ReadState::Running, Some(unreadable)) => {
                let cause = if cut { Cause::Cut } else { Cause::Damaged };
                Some(self.damage(cause, unreadable, None, to_ns))
            }
            (ReadState::Running, None) => Some(self.damage(Cause::Unfinished, end, None, to_ns)),
        })
    }

    /// Makes up what people are told, and what the pipeline is.
    fn damage(&mut self, cause: Cause, skipped: Stretch, missing: Option<Weight>, to_ns: u64) -> Damage {
        let damage = Damage {
            cause,
            position_bytes: skipped.position_bytes,
            skipped_bytes: skipped.len_bytes,
            missing,
            from_ns: self.last_ns,
            to_ns: to_ns.max(self.last_ns),
        };
        let pids: Vec<u32> = self.pids.iter().copied().collect();
        self.losses_told += pids.len();
        self.losses.extend(damage.losses(pids.into_iter()));
        damage
    }

    fn note_unreadable(&mut self, stretch: Stretch) {
        let unreadable = self.unreadable.get_or_insert(Stretch { len_bytes: 0, ..stretch });
        unreadable.len_bytes += stretch.len_bytes;
    }
}

impl<R: Read> Reader<R> {
    /// As [`Iterator::next`]; a record is only lent until the next call.
    #[inline]
    pub fn next_ref(&mut self) -> Option<Result<ItemRef<'_>, TapeError>> {
        if self.left > 0 && self.decoder.next_record() {
            let record = self.decoder.record();
            self.left -= 1;
            self.lent.0 += 1;
            self.lent.1 += u64::from(is_movement(record));
            return Some(Ok(ItemRef::Record(record)));
        }
        self.next_far()
    }

    fn item(&self, step: ColumnStep) -> ItemRef<'_> {
        match step {
            ColumnStep::Record => ItemRef::Record(self.decoder.record()),
            ColumnStep::LateRecord => ItemRef::Input(Box::new(Input::LateRecord(*self.decoder.record()))),
            ColumnStep::Other(input) => ItemRef::Input(input),
        }
    }

    /// The next item, whatever it is.
    fn next_far(&mut self) -> Option<Result<ItemRef<'_>, TapeError>> {
        loop {
            if let Some(loss) = self.losses.pop_front() {
                return Some(Ok(ItemRef::Input(Box::new(Input::Loss(loss)))));
            }
            if let Some(step) = self.next_input() {
                return Some(Ok(self.item(step)));
            }
            if self.state == ReadState::Done {
                return None;
            }
            match self.next_frame() {
                Ok(Some(damage)) => return Some(Ok(ItemRef::Damage(Box::new(damage)))),
                Ok(None) => {}
                Err(error) => {
                    self.state = ReadState::Done;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Reader<Feed> {
    /// Reads a tape that arrives piece by piece.
    ///
    /// # Errors
    /// No memory for what decompresses it.
    pub fn of_feed() -> Result<Self, TapeError> {
        Self::at(Frames::new(Feed::default()), None)
    }

    /// Takes the next piece: the file header, or whole frames. What is missing between two pieces shows by what the next frame
    /// says of those before it.
    pub fn feed(&mut self, piece: &[u8]) {
        self.frames.source_mut().bytes.extend(piece);
        self.frames.resume();
    }

    /// The next item of the pieces that have arrived; `None` until another one has.
    ///
    /// # Errors
    /// What is read is of a version that is not known here.
    pub fn poll(&mut self) -> Result<Option<Item>, TapeError> {
        loop {
            if let Some(loss) = self.losses.pop_front() {
                return Ok(Some(Item::Input(Input::Loss(loss))));
            }
            if let Some(step) = self.next_input() {
                return Ok(Some(Item::of(self.item(step))));
            }
            self.skip_file_header()?;
            if self.has_given_up() || self.frames.peek(1)?.is_empty() {
                return Ok(None);
            }
            let found = self.frames.next(u64::MAX)?;
            if let Some(damage) = self.open_found(found) {
                return Ok(Some(Item::Damage(damage)));
            }
        }
    }

    /// It stands before the first frame, unless the piece that had it was lost.
    fn skip_file_header(&mut self) -> Result<(), TapeError> {
        if self.state == ReadState::Fresh
            && let Some(version) = frame::file_version(self.frames.peek(FILE_HEADER_BYTES)?)
        {
            if version > VERSION {
                return Err(TapeError::NewerVersion { version });
            }
            self.frames.skip(FILE_HEADER_BYTES);
        }
        Ok(())
    }
}

impl Item {
    fn of(item: ItemRef<'_>) -> Self {
        match item {
            ItemRef::Record(record) => Self::Input(Input::Record(*record)),
            ItemRef::Input(input) => Self::Input(*input),
            ItemRef::Damage(damage) => Self::Damage(*damage),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Item, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_ref().map(|next| next.map(Item::of))
    }
}

const RECORDS: u8 = FrameKind::Records as u8;
const FACTS: u8 = FrameKind::Facts as u8;
const SYMBOLS: u8 = FrameKind::Symbols as u8;
const DIGESTS: u8 = FrameKind::Digests as u8;
const ANSWERS: u8 = FrameKind::Answers as u8;
const MESSAGES: u8 = FrameKind::Messages as u8;
const CONTENTS: u8 = FrameKind::Contents as u8;

/// The digests of a frame.
fn digests(bytes: &[u8]) -> Result<Vec<Input>, BadBytes> {
    let (mut r, mut digests) = (ByteReader::new(bytes), Vec::new());
    while !r.is_empty() {
        digests.push(Input::Digest(Box::new(Digest::decode(r.bytes()?)?)));
    }
    Ok(digests)
}

/// The answers or contents of a frame.
fn answers(bytes: &[u8], input: impl Fn(Box<RankAnswers>) -> Input) -> Result<Vec<Input>, BadBytes> {
    let (mut r, mut answers) = (ByteReader::new(bytes), Vec::new());
    while !r.is_empty() {
        answers.push(input(Box::new(RankAnswers::read(&mut r)?)));
    }
    Ok(answers)
}

/// The messages of a frame.
fn messages(bytes: &[u8]) -> Result<Vec<Input>, BadBytes> {
    let (mut r, mut messages) = (ByteReader::new(bytes), Vec::new());
    while !r.is_empty() {
        messages.push(Input::Messages(Box::new(RankMessages::read(&mut r)?)));
    }
    Ok(messages)
}

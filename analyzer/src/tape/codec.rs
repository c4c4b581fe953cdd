//! The payload of a records frame.
//!
//! What one thread does repeats itself; how threads interleave does not. So each thread
//! has a section of its own, and two common columns say who comes next and when:
//!
//! ```text
//! sections u32, order length u32, times length u32, length of each section u32
//! order     one number an input: TICK, LOSS (five numbers follow), LATE (the next one is a
//!           late record), NEW_THREAD (its second word follows), FIRST_THREAD + index
//! times     difference to the time of the record or tick before
//! sections  one a thread, in the order of their introduction; a record is
//!           its shape: FOLLOWER (that which followed the thread's last shape before), or
//!           FIRST_SHAPE + index; an index not yet used is a new shape: third word, word count
//!           a byte whose bits say which of the words from the fourth differ from the
//!           last record of this shape
//!           the differences
//! ```
//!
//! A *shape* is a record's third word (kind, flags, probe) and its length. Any words
//! round-trip, of whatever kind.

use rustc_hash::FxHashMap;

use super::input::{Input, Loss};
use super::varint;
use super::wire::{HEADER_WORDS, MAX_WORDS, RawRecord};

const TICK: u64 = 0;
const LOSS: u64 = 1;
const LATE: u64 = 2;
const NEW_THREAD: u64 = 3;
const FIRST_THREAD: u64 = 4;

/// With the process of a loss: lost calls are told apart from lost movements, as they are since version 8.
const TELLS_CALLS: u64 = 1 << 32;

const FOLLOWER: u64 = 0;
const FIRST_SHAPE: u64 = 1;

const BODY_WORDS: usize = MAX_WORDS - HEADER_WORDS;
// One bit for each of them in the byte of differences.
const _: () = assert!(BODY_WORDS <= 8);

/// Records of one third word and length: the last one there was.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct RecordShape {
    record: RawRecord,
    /// The shape that came after this one last time.
    follower: u32,
}

impl RecordShape {
    fn is(&self, head: u64, len: usize) -> bool {
        self.record.words()[2] == head && self.record.words().len() == len
    }
}

/// What is known of a thread so far in this frame: one line of the cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ThreadDelta {
    /// Second word of its records.
    id: u64,
    shapes: Vec<RecordShape>,
    last: u32,
    /// What most likely comes next: the follower of the last one.
    expected: u32,
    /// Where to read on.
    section: DeltaColumn,
}

impl ThreadDelta {
    /// Another thread in the same place: what was allocated serves again.
    fn begin(&mut self, id: u64) {
        self.id = id;
        self.shapes.clear();
        (self.last, self.expected) = (0, 0);
    }

    /// Adds a shape; like everything else the first time, it follows nothing and is followed by
    /// itself. Gives back false if no record has that length.
    fn introduce(&mut self, head: u64, len: usize) -> bool {
        let mut words = [0; MAX_WORDS];
        (words[1], words[2]) = (self.id, head);
        let record = words.get(..len).and_then(RawRecord::from_words);
        let follower = self.shapes.len() as u32;
        self.shapes.extend(record.map(|record| RecordShape { record, follower }));
        record.is_some()
    }

    /// Notes that a shape comes next that was not expected.
    fn follow(&mut self, index: u32) {
        if let Some(last) = self.shapes.get_mut(self.last as usize) {
            last.follower = index;
        }
    }

    /// The shape that comes is the last one now.
    #[inline]
    fn step(&mut self, index: u32) -> Option<&mut RawRecord> {
        let shape = self.shapes.get_mut(index as usize)?;
        (self.last, self.expected) = (index, shape.follower);
        Some(&mut shape.record)
    }
}

/// Gathers the inputs of one records frame.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    order: Vec<u8>,
    times: Vec<u8>,
    /// Threads and their sections; those behind `used` serve again.
    threads: Vec<(ThreadDelta, Vec<u8>)>,
    used: usize,
    thread_of: FxHashMap<u64, usize>,
    shape_of: FxHashMap<(usize, u64, usize), usize>,
    time_ns: u64,
    inputs: u32,
}

impl Encoder {
    /// How many inputs it holds.
    pub(super) fn inputs(&self) -> u32 {
        self.inputs
    }

    /// Adds an input; gives back false, and adds nothing, if it is not of a records frame.
    pub(super) fn push(&mut self, input: &Input) -> bool {
        match input {
            Input::Record(record) => self.put_record(record),
            Input::LateRecord(record) => {
                varint::put(&mut self.order, LATE);
                self.put_record(record);
            }
            Input::Tick { time_ns } => {
                varint::put(&mut self.order, TICK);
                self.push_time(*time_ns);
            }
            Input::Loss(loss) => {
                varint::put(&mut self.order, LOSS);
                let Loss { pid, from_ns, to_ns, movements, calls, state } = *loss;
                for number in [u64::from(pid) | TELLS_CALLS, from_ns, to_ns, movements, state, calls] {
                    varint::put(&mut self.order, number);
                }
            }
            Input::Start(_)
            | Input::Process(_)
            | Input::Plan(_)
            | Input::Coverage(_)
            | Input::Threads(_)
            | Input::Clock(_)
            | Input::Digest(_)
            | Input::ReplayableRank(_)
            | Input::Answers(_)
            | Input::Messages(_)
            | Input::Contents(_)
            | Input::ProbeCosts(_)
            | Input::Unrecorded(_)
            | Input::Symbols(_)
            | Input::End(_) => return false,
        }
        self.inputs += 1;
        true
    }

    /// The same of a record in order.
    #[inline]
    pub(super) fn push_record(&mut self, record: &RawRecord) {
        self.put_record(record);
        self.inputs += 1;
    }

    fn push_time(&mut self, time_ns: u64) {
        varint::put_signed(&mut self.times, time_ns.wrapping_sub(self.time_ns) as i64);
        self.time_ns = time_ns;
    }

    fn put_record(&mut self, record: &RawRecord) {
        let words = record.words();
        self.push_time(words[0]);
        let index = self.push_thread(words[1]);
        let (thread, section) = &mut self.threads[index];
        let shape = push_shape(thread, section, &mut self.shape_of, index, words);
        push_body(&mut shape.record, section, &words[HEADER_WORDS..]);
    }

    fn push_thread(&mut self, id: u64) -> usize {
        if let Some(&index) = self.thread_of.get(&id) {
            varint::put(&mut self.order, FIRST_THREAD + index as u64);
            return index;
        }
        let index = self.used;
        self.used += 1;
        if index == self.threads.len() {
            self.threads.push(Default::default());
        }
        let (thread, section) = &mut self.threads[index];
        thread.begin(id);
        section.clear();
        self.thread_of.insert(id, index);
        varint::put(&mut self.order, NEW_THREAD);
        varint::put(&mut self.order, id);
        index
    }

    /// The payload; the encoder is as new afterwards.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let lengths = [self.used, self.order.len(), self.times.len()];
        let sections = self.threads[..self.used].iter().map(|(_, section)| section);
        let mut payload = Vec::with_capacity(
            4 * (lengths.len() + self.used)
                + self.order.len()
                + self.times.len()
                + sections.clone().map(Vec::len).sum::<usize>(),
        );
        for length in lengths.into_iter().chain(sections.clone().map(Vec::len)) {
            // Fits: a frame has at most MAX_INPUTS_PER_FRAME inputs of about a hundred bytes.
            payload.extend_from_slice(&(length as u32).to_le_bytes());
        }
        for column in [&self.order, &self.times].into_iter().chain(sections) {
            payload.extend_from_slice(column);
        }
        self.order.clear();
        self.times.clear();
        self.used = 0;
        self.thread_of.clear();
        self.shape_of.clear();
        self.time_ns = 0;
        self.inputs = 0;
        payload
    }
}

fn push_shape<'a>(
    thread: &'a mut ThreadDelta,
    section: &mut Vec<u8>,
    shape_of: &mut FxHashMap<(usize, u64, usize), usize>,
    thread_index: usize,
    words: &[u64],
) -> &'a mut RecordShape {
    let (head, len) = (words[2], words.len());
    let expected = thread.expected as usize;
    let index = if thread.shapes.get(expected).is_some_and(|shape| shape.is(head, len)) {
        varint::put(section, FOLLOWER);
        expected
    } else {
        let index = *shape_of.entry((thread_index, head, len)).or_insert(thread.shapes.len());
        varint::put(section, FIRST_SHAPE + index as u64);
        if index == thread.shapes.len() {
            varint::put(section, head);
            section.push(len as u8);
            thread.introduce(head, len);
        }
        index
    };
    // Fits: a frame has at most MAX_INPUTS_PER_FRAME inputs.
    thread.follow(index as u32);
    thread.step(index as u32);
    &mut thread.shapes[index]
}

fn push_body(last: &mut RawRecord, section: &mut Vec<u8>, body: &[u64]) {
    if body.is_empty() {
        return;
    }
    let changes_at = section.len();
    section.push(0);
    let mut changes = 0;
    for (bit, (last, word)) in last.words_mut()[HEADER_WORDS..].iter_mut().zip(body).enumerate() {
        if last != word {
            changes |= 1 << bit;
            varint::put_signed(section, word.wrapping_sub(*last) as i64);
            *last = *word;
        }
    }
    section[changes_at] = changes;
}

/// The payload contradicts itself: no version of dmscope wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What a step of the decoder gave.
#[derive(Debug)]
pub(super) enum ColumnStep {
    /// A record: see [`Decoder::record`].
    Record,
    /// The same, but late.
    LateRecord,
    /// Anything else; boxed, because it is rare and records are many.
    Other(Box<Input>),
}

/// Gives back the inputs of one records frame. A record is made in the place of the thread's last
/// one of the same shape, and stays there to be looked at: nothing is copied, and nothing allocated
/// once there was a frame of as many threads.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    payload: Vec<u8>,
    order: DeltaColumn,
    times: DeltaColumn,
    sections: Vec<DeltaColumn>,
    /// Those behind `used` serve again.
    threads: Vec<ThreadDelta>,
    used: usize,
    time_ns: u64,
    /// Thread and shape of the last record.
    last: (usize, usize),
    /// The payload contradicts itself.
    malformed: bool,
}

/// A part of the payload, and how much of it has been read. Numbers are read without regard to the end,
/// which is held against what was read once for each record; where there is none, far beyond the end.
#[derive(Clone, Copy, Debug, Default)]
struct DeltaColumn {
    next: u32,
    end: u32,
}

impl DeltaColumn {
    const BEYOND: u32 = u32::MAX;

    #[inline(always)]
    fn read(&mut self, payload: &[u8]) -> u64 {
        let at = self.next as usize;
        let four = payload.get(at..at + 4).and_then(<[u8]>::first_chunk::<4>);
        let value;
        (value, self.next) = match four.and_then(varint::take_short) {
            Some((value, len)) => (value, self.next + len as u32),
            None => Self::read_long(payload, self.next),
        };
        value
    }

    /// Of any length: the number, and where the next one is.
    #[inline(never)]
    fn read_long(payload: &[u8], at: u32) -> (u64, u32) {
        let number = payload.get(at as usize..).and_then(varint::take);
        number.map_or((0, Self::BEYOND), |(value, len)| (value, at + len as u32))
    }

    #[inline(always)]
    fn read_byte(&mut self, payload: &[u8]) -> u8 {
        let byte = payload.get(self.next as usize);
        self.next = if byte.is_some() { self.next + 1 } else { Self::BEYOND };
        byte.copied().unwrap_or(0)
    }

    /// Whether nothing was read that belongs to another column.
    #[inline(always)]
    fn check(&self) -> Result<(), Malformed> {
        if self.next <= self.end { Ok(()) } else { Err(Malformed) }
    }
}

impl Decoder {
    /// Where to put the next payload; call [`Decoder::open`] when it is there.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// Begins with the payload in the buffer.
    pub(super) fn open(&mut self) -> Result<(), Malformed> {
        self.used = 0;
        self.sections.clear();
        self.time_ns = 0;
        self.malformed = false;
        let length = |index: usize| {
            let bytes = self.payload.get(4 * index..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes) as usize)
        };
        let sections = length(0).ok_or(Malformed)?;
        let mut at = sections.checked_add(3).and_then(|lengths| lengths.checked_mul(4)).ok_or(Malformed)?;
        if at > self.payload.len() {
            return Err(Malformed);
        }
        let mut column = |index| {
            let end = at.checked_add(length(index)?)?;
            // No payload is longer than MAX_FRAME_BYTES.
            let column = DeltaColumn { next: u32::try_from(at).ok()?, end: u32::try_from(end).ok()? };
            at = end;
            Some(column)
        };
        self.order = column(1).ok_or(Malformed)?;
        self.times = column(2).ok_or(Malformed)?;
        for index in 0..sections {
            self.sections.push(column(3 + index).ok_or(Malformed)?);
        }
        if at == self.payload.len() { Ok(()) } else { Err(Malformed) }
    }

    /// The process of each thread met so far in this frame.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.threads[..self.used].iter().map(|thread| thread.id as u32)
    }

    /// The record that the last step gave: only to be asked for if it gave one.
    #[inline]
    pub(super) fn record(&self) -> &RawRecord {
        let (thread, shape) = self.last;
        &self.threads[thread].shapes[shape].record
    }

    /// Goes on to the next record, if that is what comes next and its thread is known; else the next
    /// input is to be asked for.
    #[inline(never)]
    pub(super) fn next_record(&mut self) -> bool {
        let mut column = self.order;
        let order = column.read(&self.payload);
        if order < FIRST_THREAD || column.check().is_err() || self.malformed {
            return false;
        }
        self.order = column;
        self.malformed = self.read_record((order - FIRST_THREAD) as usize).is_err();
        !self.malformed
    }

    /// The next input; `None` when all columns are used up.
    pub(super) fn next(&mut self) -> Option<Result<ColumnStep, Malformed>> {
        if self.malformed {
            return Some(Err(Malformed));
        }
        if self.order.next == self.order.end {
            return None;
        }
        Some(self.read_input().and_then(|step| self.order.check().and(Ok(step))))
    }

    fn read_input(&mut self) -> Result<ColumnStep, Malformed> {
        Ok(match self.read_order() {
            LATE => {
                let order = self.read_order();
                self.read_record_of(order)?;
                ColumnStep::LateRecord
            }
            LOSS => ColumnStep::Other(Box::new(Input::Loss(self.read_loss()?))),
            TICK => ColumnStep::Other(Box::new(Input::Tick { time_ns: self.read_time()? })),
            order => {
                self.read_record_of(order)?;
                ColumnStep::Record
            }
        })
    }

    #[inline]
    fn read_order(&mut self) -> u64 {
        self.order.read(&self.payload)
    }

    #[inline(always)]
    fn read_time(&mut self) -> Result<u64, Malformed> {
        let step = varint::signed(self.times.read(&self.payload));
        self.times.check()?;
        self.time_ns = self.time_ns.wrapping_add(step as u64);
        Ok(self.time_ns)
    }

    fn read_loss(&mut self) -> Result<Loss, Malformed> {
        let pid = self.read_order();
        let (from_ns, to_ns) = (self.read_order(), self.read_order());
        let (movements, state) = (self.read_order(), self.read_order());
        // Of an older tape any of them may have been of a call, or of the life of its process.
        let (movements, calls) = match pid & TELLS_CALLS {
            0 => (0, movements.max(u64::from(state > 0))),
            _ => (movements, self.read_order()),
        };
        let pid = u32::try_from(pid & !TELLS_CALLS).map_err(|_| Malformed)?;
        Ok(Loss { pid, from_ns, to_ns, movements, calls, state })
    }

    fn read_record_of(&mut self, order: u64) -> Result<(), Malformed> {
        let index = match order {
            FIRST_THREAD.. => usize::try_from(order - FIRST_THREAD).map_err(|_| Malformed)?,
            NEW_THREAD => self.introduce_thread()?,
            TICK..=LATE => return Err(Malformed),
        };
        self.read_record(index)
    }

    #[inline(always)]
    fn read_record(&mut self, index: usize) -> Result<(), Malformed> {
        let time_ns = self.read_time()?;
        let thread = self.threads[..self.used].get_mut(index).ok_or(Malformed)?;
        let mut section = thread.section;
        let shape = read_shape(thread, &mut section, &self.payload)?;
        let record = thread.step(shape).ok_or(Malformed)?;
        record.words_mut()[0] = time_ns;
        read_body(record, &mut section, &self.payload)?;
        thread.section = section;
        self.last = (index, shape as usize);
        section.check()
    }

    fn introduce_thread(&mut self) -> Result<usize, Malformed> {
        let id = self.read_order();
        let section = *self.sections.get(self.used).ok_or(Malformed)?;
        if self.used == self.threads.len() {
            self.threads.push(Default::default());
        }
        let thread = &mut self.threads[self.used];
        thread.begin(id);
        thread.section = section;
        self.used += 1;
        Ok(self.used - 1)
    }
}

#[inline(always)]
fn read_shape(thread: &mut ThreadDelta, section: &mut DeltaColumn, payload: &[u8]) -> Result<u32, Malformed> {
    let mut ahead = *section;
    let shape;
    (shape, *section) = match u64::from(ahead.read_byte(payload)) {
        FOLLOWER => (thread.expected, ahead),
        _ => read_other_shape(thread, *section, payload)?,
    };
    Ok(shape)
}

fn read_other_shape(
    thread: &mut ThreadDelta,
    mut section: DeltaColumn,
    payload: &[u8],
) -> Result<(u32, DeltaColumn), Malformed> {
    let index = match section.read(payload) {
        FOLLOWER => thread.expected,
        code => u32::try_from(code - FIRST_SHAPE).map_err(|_| Malformed)?,
    };
    if index as usize == thread.shapes.len() {
        let head = section.read(payload);
        let len = usize::from(section.read_byte(payload));
        section.check()?;
        if !thread.introduce(head, len) {
            return Err(Malformed);
        }
    }
    thread.follow(index);
    Ok((index, section))
}

#[inline(always)]
fn read_body(record: &mut RawRecord, section: &mut DeltaColumn, payload: &[u8]) -> Result<(), Malformed> {
    let body = &mut record.words_mut()[HEADER_WORDS..];
    if body.is_empty() {
        return Ok(());
    }
    let mut changes = u32::from(section.read_byte(payload));
    if changes >> body.len() != 0 {
        return Err(Malformed);
    }
    while changes != 0 {
        let word = body.get_mut(changes.trailing_zeros() as usize).ok_or(Malformed)?;
        *word = word.wrapping_add(varint::signed(section.read(payload)) as u64);
        changes &= changes - 1;
    }
    Ok(())
}

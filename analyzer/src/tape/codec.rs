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

use super::varint;
use crate::input::{Input, Loss};
use crate::wire::{HEADER_WORDS, MAX_WORDS, RawRecord};

const TICK: u64 = 0;
const LOSS: u64 = 1;
const LATE: u64 = 2;
const NEW_THREAD: u64 = 3;
const FIRST_THREAD: u64 = 4;

const FOLLOWER: u64 = 0;
const FIRST_SHAPE: u64 = 1;

const BODY_WORDS: usize = MAX_WORDS - HEADER_WORDS;
// One bit for each of them in the byte of differences.
const _: () = assert!(BODY_WORDS <= 8);

/// Records of one third word and length: the last one there was.
#[derive(Clone, Copy, Debug)]
struct Shape {
    record: RawRecord,
    /// The shape that came after this one last time.
    follower: usize,
}

impl Shape {
    fn is(&self, head: u64, len: usize) -> bool {
        self.record.words()[2] == head && self.record.words().len() == len
    }
}

/// What is known of a thread so far in this frame.
#[derive(Debug, Default)]
struct Thread {
    /// Second word of its records.
    id: u64,
    shapes: Vec<Shape>,
    last: usize,
}

impl Thread {
    /// Another thread in the same place: what was allocated serves again.
    fn begin(&mut self, id: u64) {
        self.id = id;
        self.shapes.clear();
        self.last = 0;
    }

    /// What most likely comes next.
    #[inline]
    fn expected(&self) -> usize {
        self.shapes.get(self.last).map_or(0, |shape| shape.follower)
    }

    /// Adds a shape; like everything else the first time, it follows nothing and is followed by
    /// itself. Gives back false if no record has that length.
    fn introduce(&mut self, head: u64, len: usize) -> bool {
        let mut words = [0; MAX_WORDS];
        (words[1], words[2]) = (self.id, head);
        let record = words.get(..len).and_then(RawRecord::from_words);
        let follower = self.shapes.len();
        self.shapes.extend(record.map(|record| Shape { record, follower }));
        record.is_some()
    }

    /// Notes that a shape came.
    #[inline]
    fn step(&mut self, index: usize) {
        if let Some(last) = self.shapes.get_mut(self.last) {
            last.follower = index;
        }
        self.last = index;
    }
}

/// Gathers the inputs of one records frame.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    order: Vec<u8>,
    times: Vec<u8>,
    /// Threads and their sections; those behind `used` serve again.
    threads: Vec<(Thread, Vec<u8>)>,
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
            Input::Record(record) => self.push_record(record),
            Input::LateRecord(record) => {
                varint::put(&mut self.order, LATE);
                self.push_record(record);
            }
            Input::Tick { time_ns } => {
                varint::put(&mut self.order, TICK);
                self.push_time(*time_ns);
            }
            Input::Loss(loss) => {
                varint::put(&mut self.order, LOSS);
                for number in [u64::from(loss.pid), loss.from_ns, loss.to_ns, loss.movements, loss.state] {
                    varint::put(&mut self.order, number);
                }
            }
            Input::Start(_)
            | Input::Process(_)
            | Input::Plan(_)
            | Input::Coverage(_)
            | Input::Threads(_)
            | Input::Symbols(_)
            | Input::End(_) => return false,
        }
        self.inputs += 1;
        true
    }

    fn push_time(&mut self, time_ns: u64) {
        varint::put_signed(&mut self.times, time_ns.wrapping_sub(self.time_ns) as i64);
        self.time_ns = time_ns;
    }

    fn push_record(&mut self, record: &RawRecord) {
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
    thread: &'a mut Thread,
    section: &mut Vec<u8>,
    shape_of: &mut FxHashMap<(usize, u64, usize), usize>,
    thread_index: usize,
    words: &[u64],
) -> &'a mut Shape {
    let (head, len) = (words[2], words.len());
    let expected = thread.expected();
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
    thread.step(index);
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
pub(super) enum Step {
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
    order: Column,
    times: Column,
    sections: Vec<Column>,
    /// Those behind `used` serve again.
    threads: Vec<Thread>,
    used: usize,
    time_ns: u64,
    /// Thread and shape of the last record.
    last: (usize, usize),
}

/// A part of the payload, and how much of it has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    next: usize,
    end: usize,
}

impl Column {
    /// A number that is mostly small.
    #[inline]
    fn read_small(&mut self, payload: &[u8]) -> Result<u64, Malformed> {
        match payload.get(self.next) {
            Some(&byte) if byte < 0x80 && self.next < self.end => {
                self.next += 1;
                Ok(u64::from(byte))
            }
            _ => self.read(payload),
        }
    }

    /// A number of any size.
    #[inline]
    fn read(&mut self, payload: &[u8]) -> Result<u64, Malformed> {
        let ahead = payload.get(self.next..).ok_or(Malformed)?;
        let (value, len) = varint::take_ahead(ahead, self.end.saturating_sub(self.next)).ok_or(Malformed)?;
        self.next += len;
        Ok(value)
    }

    #[inline]
    fn read_signed(&mut self, payload: &[u8]) -> Result<i64, Malformed> {
        self.read(payload).map(varint::signed)
    }

    #[inline]
    fn read_byte(&mut self, payload: &[u8]) -> Result<u8, Malformed> {
        let byte = *payload.get(self.next).filter(|_| self.next < self.end).ok_or(Malformed)?;
        self.next += 1;
        Ok(byte)
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
            let column = Column { next: at, end };
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

    /// The next input; `None` when all columns are used up.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Result<Step, Malformed>> {
        if self.order.next == self.order.end {
            return None;
        }
        Some(self.read_input())
    }

    #[inline]
    fn read_input(&mut self) -> Result<Step, Malformed> {
        let order = self.read_order()?;
        if order >= NEW_THREAD {
            return self.read_record(order).map(|()| Step::Record);
        }
        Ok(match order {
            LATE => {
                let order = self.read_order()?;
                self.read_record(order)?;
                Step::LateRecord
            }
            LOSS => Step::Other(Box::new(Input::Loss(self.read_loss()?))),
            _ => Step::Other(Box::new(Input::Tick { time_ns: self.read_time()? })),
        })
    }

    #[inline]
    fn read_order(&mut self) -> Result<u64, Malformed> {
        self.order.read_small(&self.payload)
    }

    #[inline]
    fn read_time(&mut self) -> Result<u64, Malformed> {
        let step = self.times.read_signed(&self.payload)?;
        self.time_ns = self.time_ns.wrapping_add(step as u64);
        Ok(self.time_ns)
    }

    fn read_loss(&mut self) -> Result<Loss, Malformed> {
        Ok(Loss {
            pid: u32::try_from(self.read_order()?).map_err(|_| Malformed)?,
            from_ns: self.read_order()?,
            to_ns: self.read_order()?,
            movements: self.read_order()?,
            state: self.read_order()?,
        })
    }

    #[inline]
    fn read_record(&mut self, order: u64) -> Result<(), Malformed> {
        let time_ns = self.read_time()?;
        let index = self.read_thread(order)?;
        let section = self.sections.get_mut(index).ok_or(Malformed)?;
        let thread = &mut self.threads[index];
        let shape = read_shape(thread, section, &self.payload)?;
        let record = &mut thread.shapes[shape].record;
        record.words_mut()[0] = time_ns;
        read_body(record, section, &self.payload)?;
        self.last = (index, shape);
        Ok(())
    }

    #[inline]
    fn read_thread(&mut self, order: u64) -> Result<usize, Malformed> {
        match order {
            FIRST_THREAD.. => {
                let index = usize::try_from(order - FIRST_THREAD).map_err(|_| Malformed)?;
                if index < self.used { Ok(index) } else { Err(Malformed) }
            }
            NEW_THREAD => self.introduce_thread(),
            TICK..=LATE => Err(Malformed),
        }
    }

    fn introduce_thread(&mut self) -> Result<usize, Malformed> {
        let id = self.read_order()?;
        if self.used == self.threads.len() {
            self.threads.push(Thread::default());
        }
        self.threads[self.used].begin(id);
        self.used += 1;
        Ok(self.used - 1)
    }
}

#[inline]
fn read_shape(thread: &mut Thread, section: &mut Column, payload: &[u8]) -> Result<usize, Malformed> {
    let index = match section.read_small(payload)? {
        FOLLOWER => thread.expected(),
        code => usize::try_from(code - FIRST_SHAPE).map_err(|_| Malformed)?,
    };
    if index == thread.shapes.len() {
        let head = section.read(payload)?;
        let len = usize::from(section.read_byte(payload)?);
        if !thread.introduce(head, len) {
            return Err(Malformed);
        }
    }
    if index >= thread.shapes.len() {
        return Err(Malformed);
    }
    thread.step(index);
    Ok(index)
}

#[inline]
fn read_body(record: &mut RawRecord, section: &mut Column, payload: &[u8]) -> Result<(), Malformed> {
    let words = record.words().len() - HEADER_WORDS;
    if words == 0 {
        return Ok(());
    }
    let mut changes = section.read_byte(payload)?;
    if u32::from(changes) >> words != 0 {
        return Err(Malformed);
    }
    let body = &mut record.words_mut()[HEADER_WORDS..];
    while changes != 0 {
        let bit = changes.trailing_zeros() as usize;
        let step = section.read_signed(payload)?;
        body[bit] = body[bit].wrapping_add(step as u64);
        changes &= changes - 1;
    }
    Ok(())
}

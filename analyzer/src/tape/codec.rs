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

/// A record's third word and length, and the body that the last such record had.
#[derive(Clone, Copy, Debug)]
struct Shape {
    head: u64,
    len: usize,
    body: [u64; BODY_WORDS],
    /// The shape that came after this one last time.
    follower: usize,
}

/// What is known of a thread so far in this frame.
#[derive(Debug, Default)]
struct Thread {
    shapes: Vec<Shape>,
    last: usize,
}

impl Thread {
    /// What most likely comes next.
    fn expected(&self) -> usize {
        self.shapes.get(self.last).map_or(0, |shape| shape.follower)
    }

    /// Adds a shape; like everything else the first time, it follows nothing and is followed by itself.
    fn introduce(&mut self, head: u64, len: usize) {
        let follower = self.shapes.len();
        self.shapes.push(Shape { head, len, body: [0; BODY_WORDS], follower });
    }

    /// Notes that a shape came.
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
    threads: Vec<(Thread, Vec<u8>)>,
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
            Input::Start(_) | Input::Process(_) | Input::Plan(_) | Input::Symbols(_) | Input::End(_) => {
                return false;
            }
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
        push_body(shape, section, &words[HEADER_WORDS..]);
    }

    fn push_thread(&mut self, id: u64) -> usize {
        if let Some(&index) = self.thread_of.get(&id) {
            varint::put(&mut self.order, FIRST_THREAD + index as u64);
            return index;
        }
        let index = self.threads.len();
        self.threads.push(Default::default());
        self.thread_of.insert(id, index);
        varint::put(&mut self.order, NEW_THREAD);
        varint::put(&mut self.order, id);
        index
    }

    /// The payload; the encoder is as new afterwards.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let lengths = [self.threads.len(), self.order.len(), self.times.len()];
        let sections = self.threads.iter().map(|(_, section)| section);
        let mut payload = Vec::with_capacity(
            4 * (lengths.len() + self.threads.len())
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
        self.threads.clear();
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
    let index = if thread.shapes.get(expected).is_some_and(|shape| shape.head == head && shape.len == len) {
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

fn push_body(shape: &mut Shape, section: &mut Vec<u8>, body: &[u64]) {
    if body.is_empty() {
        return;
    }
    let changes_at = section.len();
    section.push(0);
    let mut changes = 0;
    for (bit, (last, word)) in shape.body.iter_mut().zip(body).enumerate() {
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

/// Gives back the inputs of one records frame.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    payload: Vec<u8>,
    order: Column,
    times: Column,
    sections: Vec<Column>,
    threads: Vec<(Thread, u64)>,
    time_ns: u64,
}

/// A part of the payload, and how much of it has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    next: usize,
    end: usize,
}

impl Column {
    #[inline]
    fn read<T>(&mut self, payload: &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Result<T, Malformed> {
        let mut rest = payload.get(self.next..self.end).ok_or(Malformed)?;
        let value = take(&mut rest).ok_or(Malformed)?;
        self.next = self.end - rest.len();
        Ok(value)
    }
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(byte)
}

impl Decoder {
    /// Where to put the next payload; call [`Decoder::open`] when it is there.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.payload
    }

    /// Begins with the payload in the buffer.
    pub(super) fn open(&mut self) -> Result<(), Malformed> {
        self.threads.clear();
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
        self.threads.iter().map(|(_, id)| *id as u32)
    }

    /// The next input; `None` when all columns are used up.
    pub(super) fn next(&mut self) -> Option<Result<Input, Malformed>> {
        if self.order.next == self.order.end {
            return None;
        }
        Some(self.read_input())
    }

    fn read_input(&mut self) -> Result<Input, Malformed> {
        Ok(match self.read_order()? {
            TICK => Input::Tick { time_ns: self.read_time()? },
            LOSS => Input::Loss(self.read_loss()?),
            LATE => {
                let order = self.read_order()?;
                Input::LateRecord(self.read_record(order)?)
            }
            order => Input::Record(self.read_record(order)?),
        })
    }

    fn read_order(&mut self) -> Result<u64, Malformed> {
        self.order.read(&self.payload, varint::take)
    }

    fn read_time(&mut self) -> Result<u64, Malformed> {
        let step = self.times.read(&self.payload, varint::take_signed)?;
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

    fn read_record(&mut self, order: u64) -> Result<RawRecord, Malformed> {
        let mut words = [0; MAX_WORDS];
        words[0] = self.read_time()?;
        let index = self.read_thread(order)?;
        let section = self.sections.get_mut(index).ok_or(Malformed)?;
        let (thread, id) = &mut self.threads[index];
        words[1] = *id;
        let shape = read_shape(thread, section, &self.payload)?;
        words[2] = shape.head;
        let len = shape.len;
        read_body(shape, section, &self.payload)?;
        words[HEADER_WORDS..].copy_from_slice(&shape.body);
        RawRecord::from_words(&words[..len]).ok_or(Malformed)
    }

    fn read_thread(&mut self, order: u64) -> Result<usize, Malformed> {
        match order {
            NEW_THREAD => {
                let id = self.read_order()?;
                self.threads.push((Thread::default(), id));
                Ok(self.threads.len() - 1)
            }
            FIRST_THREAD.. => {
                let index = usize::try_from(order - FIRST_THREAD).map_err(|_| Malformed)?;
                if index < self.threads.len() { Ok(index) } else { Err(Malformed) }
            }
            TICK..=LATE => Err(Malformed),
        }
    }
}

fn read_shape<'a>(
    thread: &'a mut Thread,
    section: &mut Column,
    payload: &[u8],
) -> Result<&'a mut Shape, Malformed> {
    let index = match section.read(payload, varint::take)? {
        FOLLOWER => thread.expected(),
        code => usize::try_from(code - FIRST_SHAPE).map_err(|_| Malformed)?,
    };
    if index == thread.shapes.len() {
        let head = section.read(payload, varint::take)?;
        let len = usize::from(section.read(payload, take_byte)?);
        if !(HEADER_WORDS..=MAX_WORDS).contains(&len) {
            return Err(Malformed);
        }
        thread.introduce(head, len);
    }
    if index >= thread.shapes.len() {
        return Err(Malformed);
    }
    thread.step(index);
    Ok(&mut thread.shapes[index])
}

fn read_body(shape: &mut Shape, section: &mut Column, payload: &[u8]) -> Result<(), Malformed> {
    let words = shape.len - HEADER_WORDS;
    if words == 0 {
        return Ok(());
    }
    let mut changes = section.read(payload, take_byte)?;
    if u32::from(changes) >> words != 0 {
        return Err(Malformed);
    }
    while changes != 0 {
        let bit = changes.trailing_zeros() as usize;
        let step = section.read(payload, varint::take_signed)?;
        shape.body[bit] = shape.body[bit].wrapping_add(step as u64);
        changes &= changes - 1;
    }
    Ok(())
}

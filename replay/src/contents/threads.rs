//! Contents of threads that call at the same time: each has items of its own, which stand in the record in frames.
//!
//! ```text
//! items of threads → FrameWriter → bytes     bytes → FrameSplitter → items of each thread, and FrameOrder: whose came when
//! ```
//!
//! Such a record begins with [`FRAMES`]. A frame is the place of its thread (in the order in which they called first), of a new one its name, the
//! length, and so many bytes.

use std::collections::VecDeque;

use crate::varint::{put, take};

/// With this a record of frames begins. No item does.
pub const FRAMES: u8 = 8;
/// More threads have no frames: each has a file of its own when the rank runs alone.
pub const MOST_FRAMED_THREADS: usize = 256;
/// Of a name in a frame.
const NAME_BYTES: usize = 8;
/// Of what stands before the bytes of a frame, at most.
const MOST_HEAD_BYTES: usize = 10 + NAME_BYTES + 10;

/// Puts frames around items.
#[derive(Debug, Default)]
pub struct FrameWriter {
    /// How many threads have frames.
    threads: usize,
}

impl FrameWriter {
    /// What stands before `len` bytes of the thread at a place: of one that had frames, or of the next one.
    pub fn head(&mut self, place: usize, name: u64, len: u64, out: &mut Vec<u8>) {
        debug_assert!(place <= self.threads, "places are given one after the other");
        put(out, place as u64);
        if place == self.threads {
            self.threads += 1;
            out.extend_from_slice(&name.to_le_bytes());
        }
        put(out, len);
    }
}

/// Takes a record apart, as it comes. One without frames is that of one thread.
#[derive(Debug, Default)]
pub struct FrameSplitter {
    kind: RecordKind,
    names: Vec<u64>,
    /// What has come of the head of a frame.
    head: Vec<u8>,
    /// The thread whose frame it is, and how many bytes of it are still to come.
    frame: (usize, u64),
    order: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordKind {
    /// Nothing has come.
    #[default]
    Unknown,
    Plain,
    Frames,
    Damaged,
}

impl FrameSplitter {
    /// The names of threads, by place. None: the record is that of one sequence of calls.
    pub fn names(&self) -> Option<&[u64]> {
        (self.kind == RecordKind::Frames).then_some(&self.names)
    }

    /// Whether something was no record, and what came behind it was left out.
    pub fn is_damaged(&self) -> bool {
        self.kind == RecordKind::Damaged
    }

    /// Whose bytes came when: places and how many bytes, in order.
    pub fn order(&self) -> &[(u32, u64)] {
        &self.order
    }

    /// The same as [`FrameOrder::from_bytes`] reads it.
    pub fn order_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (place, bytes) in &self.order {
            put(&mut out, (*place).into());
            put(&mut out, *bytes);
        }
        out
    }

    /// Takes the next bytes, and gives out whose they are.
    ///
    /// # Errors
    /// What `give` says.
    pub fn take<E>(
        &mut self,
        mut bytes: &[u8],
        mut give: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let [first, rest @ ..] = bytes {
            match (self.kind, self.frame.1) {
                (RecordKind::Unknown, _) if *first == FRAMES => {
                    self.kind = RecordKind::Frames;
                    bytes = rest;
                }
                (RecordKind::Unknown, _) => self.kind = RecordKind::Plain,
                (RecordKind::Plain, _) => return give(0, bytes),
                (RecordKind::Damaged, _) => return Ok(()),
                (RecordKind::Frames, 0) => {
                    bytes = rest;
                    self.take_head(*first);
                }
                (RecordKind::Frames, left) => {
                    let now = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let (these, others) = bytes.split_at(now);
                    self.frame.1 -= now as u64;
                    self.note(self.frame.0, now as u64);
                    give(self.frame.0, these)?;
                    bytes = others;
                }
            }
        }
        Ok(())
    }

    /// One more byte of what stands before a frame.
    fn take_head(&mut self, byte: u8) {
        self.head.push(byte);
        let mut head = &self.head[..];
        let Some(place) = take(&mut head).and_then(|place| usize::try_from(place).ok()) else {
            return self.unless_too_long();
        };
        let name = match place.cmp(&self.names.len()) {
            std::cmp::Ordering::Less => None,
            _ if place >= MOST_FRAMED_THREADS => return self.kind = RecordKind::Damaged,
            std::cmp::Ordering::Equal => match head.split_first_chunk::<NAME_BYTES>() {
                Some((name, rest)) => {
                    head = rest;
                    Some(u64::from_le_bytes(*name))
                }
                None => return,
            },
            std::cmp::Ordering::Greater => return self.kind = RecordKind::Damaged,
        };
        let Some(len) = take(&mut head) else { return self.unless_too_long() };
        self.names.extend(name);
        self.frame = (place, len);
        self.head.clear();
    }

    fn unless_too_long(&mut self) {
        if self.head.len() >= MOST_HEAD_BYTES {
            self.kind = RecordKind::Damaged;
        }
    }

    fn note(&mut self, place: usize, bytes: u64) {
        match self.order.last_mut() {
            Some((last, count)) if *last as usize == place => *count += bytes,
            _ => self.order.push((place as u32, bytes)),
        }
    }
}

/// Whose turn it is, when threads are played.
#[derive(Debug, Default)]
pub struct FrameOrder {
    rest: VecDeque<(u32, u64)>,
    /// How many bytes threads have read before it was their turn, by place.
    ahead: Vec<u64>,
}

impl FrameOrder {
    /// The order that a [`FrameSplitter`] has found.
    pub fn new(order: impl IntoIterator<Item = (u32, u64)>) -> Self {
        Self { rest: order.into_iter().collect(), ahead: Vec::new() }
    }

    /// The same of what it has written. None: that is something else.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut rest = VecDeque::new();
        while !bytes.is_empty() {
            let place = u32::try_from(take(&mut bytes)?).ok()?;
            rest.push_back((place, take(&mut bytes)?));
        }
        Some(Self { rest, ahead: Vec::new() })
    }

    /// The place of the thread whose turn it is. None: all have had theirs.
    pub fn turn(&self) -> Option<usize> {
        self.rest.front().map(|(place, _)| *place as usize)
    }

    /// A thread has ended: it will read nothing more.
    pub fn has_gone(&mut self, place: usize) {
        self.has_read(place, u64::MAX);
    }

    /// A thread has read so many bytes.
    pub fn has_read(&mut self, place: usize, bytes: u64) {
        if self.ahead.len() <= place {
            self.ahead.resize(place + 1, 0);
        }
        self.ahead[place] = self.ahead[place].saturating_add(bytes);
        while let Some((place, left)) = self.rest.front_mut() {
            let Some(ahead) = self.ahead.get_mut(*place as usize) else { return };
            let now = (*ahead).min(*left);
            *ahead -= now;
            *left -= now;
            if *left > 0 {
                return;
            }
            self.rest.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Names of threads with bytes of each, as they come.
    fn frames() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
        proptest::collection::vec((1..5_u64, proptest::collection::vec(any::<u8>(), 1..300)), 0..30)
    }

    fn written(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let (mut writer, mut out) = (FrameWriter::default(), vec![FRAMES]);
        let mut names = Vec::new();
        for (name, bytes) in frames {
            let place = names.iter().position(|known| known == name).unwrap_or(names.len());
            if place == names.len() {
                names.push(*name);
            }
            writer.head(place, *name, bytes.len() as u64, &mut out);
            out.extend_from_slice(bytes);
        }
        out
    }

    /// What each place got, of a record that comes in pieces.
    fn split(bytes: &[u8], piece: usize) -> (FrameSplitter, Vec<Vec<u8>>) {
        let (mut splitter, mut threads) = (FrameSplitter::default(), Vec::new());
        for bytes in bytes.chunks(piece) {
            let taken: Result<(), Infallible> = splitter.take(bytes, |place, these| {
                threads.resize_with(threads.len().max(place + 1), Vec::new);
                threads[place].extend_from_slice(these);
                Ok(())
            });
            assert!(taken.is_ok());
        }
        (splitter, threads)
    }

    proptest! {
        #[test]
        fn each_thread_gets_its_own_bytes_in_whatever_pieces_they_come(frames in frames(), piece in 1..400_usize) {
            let (splitter, threads) = split(&written(&frames), piece);
            prop_assert_eq!(threads.len(), splitter.names().unwrap().len());
            for (name, bytes) in splitter.names().unwrap().iter().zip(&threads) {
                let expected: Vec<u8> =
                    frames.iter().filter(|frame| frame.0 == *name).flat_map(|frame| frame.1.clone()).collect();
                prop_assert_eq!(&expected, bytes);
            }
        }

        #[test]
        fn turns_come_in_the_order_of_the_record(frames in frames()) {
            let (splitter, _) = split(&written(&frames), usize::MAX);
            let names = splitter.names().unwrap();
            let mut order = FrameOrder::from_bytes(&splitter.order_bytes()).unwrap();
            for (name, bytes) in &frames {
                prop_assert_eq!(order.turn().map(|place| names[place]), Some(*name));
                order.has_read(names.iter().position(|known| known == name).unwrap(), bytes.len() as u64);
            }
            prop_assert_eq!(order.turn(), None);
        }

        #[test]
        fn one_that_reads_before_its_turn_or_ends_has_it_behind_it(
            frames in frames(), early in 1..5_u64, is_gone in any::<bool>()
        ) {
            let (splitter, threads) = split(&written(&frames), usize::MAX);
            let names = splitter.names().unwrap();
            let mut order = FrameOrder::new(splitter.order().iter().copied());
            if let Some(place) = names.iter().position(|known| *known == early) {
                if is_gone {
                    order.has_gone(place);
                } else {
                    order.has_read(place, threads[place].len() as u64);
                }
            }
            for (name, bytes) in frames.iter().filter(|frame| frame.0 != early) {
                prop_assert_eq!(order.turn().map(|place| names[place]), Some(*name));
                order.has_read(names.iter().position(|known| known == name).unwrap(), bytes.len() as u64);
            }
            prop_assert_eq!(order.turn(), None);
        }

        #[test]
        fn whatever_the_bytes_are_they_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1..40_usize) {
            let framed = [&[FRAMES][..], &bytes].concat();
            let (splitter, threads) = split(&framed, piece);
            let given: usize = threads.iter().map(Vec::len).sum();
            prop_assert!(given <= bytes.len());
            prop_assert_eq!(splitter.order().iter().map(|(_, count)| count).sum::<u64>(), given as u64);
        }
    }

    #[test]
    fn a_record_without_frames_is_that_of_one_sequence() {
        let (splitter, threads) = split(&[1, 2, 3, FRAMES], 2);
        assert_eq!((splitter.names(), &threads[..]), (None, &[vec![1, 2, 3, FRAMES]][..]));
    }

    #[test]
    fn more_threads_than_can_be_recorded_are_no_record() {
        let names: Vec<(u64, Vec<u8>)> =
            (0..=MOST_FRAMED_THREADS as u64).map(|name| (name, vec![1])).collect();
        assert!(!split(&written(&names[1..]), 100).0.is_damaged());
        assert!(split(&written(&names), 100).0.is_damaged());
    }

    #[test]
    fn a_thread_that_comes_before_those_before_it_is_no_record() {
        assert!(split(&[FRAMES, 3, 1, 7], 1).0.is_damaged());
    }
}

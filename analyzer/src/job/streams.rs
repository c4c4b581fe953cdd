//! Streams, of TCP and of RDMA's queue pairs: what was written into each and not read yet.
//!
//! A stream is a space whose offsets are its positions, which both ends count alike. What one end reads is told in the pieces
//! in which the other wrote it: how TCP divides a stream depends on the moment, and what moved does not.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::ids::SpaceId;

/// Most streams of a session; what moves through others is counted, and not followed.
pub(super) const MAX_STREAMS: usize = 1 << 16;
/// Most pieces of a stream that were written and not read.
const MAX_UNREAD: usize = 1 << 14;
/// So much may have been read of a stream before it is told that it was written: more than any socket holds.
const MOST_LATE_BYTES: u64 = 1 << 28;
/// Where a stream begins: TCP's numbers have 32 bits and go around.
const FIRST_LAP: u64 = 1 << 40;

/// Bytes that went through streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    pub written_bytes: u64,
    pub read_bytes: u64,
    /// Of those read: nobody was seen to write them.
    pub unseen_bytes: u64,
    /// Of those written: nobody was seen to read them, and what follows was read.
    pub missed_bytes: u64,
    /// Of those written: not read yet.
    pub unread_bytes: u64,
}

impl StreamCounts {
    fn plus(self, other: Self) -> Self {
        Self {
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            unseen_bytes: self.unseen_bytes.saturating_add(other.unseen_bytes),
            missed_bytes: self.missed_bytes.saturating_add(other.missed_bytes),
            unread_bytes: self.unread_bytes.saturating_add(other.unread_bytes),
        }
    }
}

/// Bytes that went into a stream or out of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamBytes {
    /// Its number.
    pub stream: u64,
    pub position: u32,
    pub len_bytes: u32,
    pub receive: bool,
}

/// A part of what a record tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPiece {
    /// Of the stream; none: the other side of the movement was not seen.
    pub space: SpaceId,
    pub start: u64,
    pub end: u64,
    /// From the beginning of the record's bytes.
    pub offset_bytes: u64,
}

/// Positions of a stream that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRange {
    pub space: SpaceId,
    pub start: u64,
    pub end: u64,
}

/// Written at once and not read, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unread {
    start: u64,
    end: u64,
    /// The first position that was not read.
    next: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    space: SpaceId,
    /// Behind the last byte that was written, or read if nothing was seen to be written.
    latest: u64,
    /// Behind the last byte that was read.
    read_to: u64,
    unread: VecDeque<Unread>,
    /// What was read is kept from here on: a writer that goes on writes with the operation that it began.
    kept_from: u64,
    pub(super) counts: StreamCounts,
    /// It is read on another node …
    pub(super) is_read_elsewhere: bool,
    /// … or was.
    pub(super) was_read_elsewhere: bool,
    /// It is written on another node, which tells what.
    pub(super) is_written_elsewhere: bool,
    /// It is one of RDMA's queue pairs.
    is_of_verbs: bool,
}

/// What the last record did.
#[derive(Debug, Default)]
pub(crate) struct StreamChange {
    /// Its bytes, in order.
    pub pieces: Vec<StreamPiece>,
    /// Written, and nobody was seen to read it: given up before the record.
    pub missed: Vec<StreamRange>,
    /// Read, and not asked for any more: given up after the record.
    pub done: Vec<StreamRange>,
}

impl StreamChange {
    /// A part, if it has any bytes, of a record that begins at `first`.
    fn piece(&mut self, space: SpaceId, first: u64, start: u64, end: u64) {
        if start < end {
            self.pieces.push(StreamPiece { space, start, end, offset_bytes: start - first });
        }
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.missed.clear();
        self.done.clear();
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Streams {
    pub(super) by_number: FxHashMap<u64, Stream>,
    pub change: StreamChange,
}

impl Streams {
    /// Takes a record; `new_space` gives the space of a stream that was not heard of.
    pub fn take(&mut self, moved: StreamBytes, new_space: impl FnOnce() -> SpaceId) {
        self.change.clear();
        let len_bytes = u64::from(moved.len_bytes);
        if !self.by_number.contains_key(&moved.stream) {
            if moved.stream == 0 || self.by_number.len() >= MAX_STREAMS {
                return self.change.piece(SpaceId::NONE, 0, 0, len_bytes);
            }
            self.by_number.insert(moved.stream, Stream::new(new_space(), moved.position));
        }
        let Some(stream) = self.by_number.get_mut(&moved.stream) else { return };
        let start = stream.extended(moved.position);
        let end = start + len_bytes;
        let mut counts = StreamCounts::default();
        if moved.receive {
            counts.unseen_bytes = stream.read(start, end, &mut self.change);
            counts.read_bytes = len_bytes;
        } else {
            stream.write(start, end, &mut self.change);
            counts.written_bytes = len_bytes;
        }
        let missed = self.change.missed.iter().map(|range| range.end - range.start);
        counts.missed_bytes = missed.fold(0, u64::saturating_add);
        stream.counts = stream.counts.plus(counts);
    }

    /// A record that is not followed.
    pub fn ignore(&mut self) {
        self.change.clear();
    }

    /// A stream is not one of TCP.
    pub fn note_verbs(&mut self, stream: u64) {
        if let Some(known) = self.by_number.get_mut(&stream) {
            known.is_of_verbs = true;
        }
    }

    /// What went through all TCP streams of which both ends were seen, and what went through those of which one was.
    pub fn counts(&self) -> (StreamCounts, StreamCounts) {
        let (mut both, mut one) = (StreamCounts::default(), StreamCounts::default());
        for stream in self.by_number.values().filter(|stream| !stream.is_of_verbs) {
            let is_written = stream.counts.written_bytes > 0 || stream.is_written_elsewhere;
            let has_both = is_written && (stream.counts.read_bytes > 0 || stream.was_read_elsewhere);
            let sum = if has_both { &mut both } else { &mut one };
            let unread_bytes = stream.unread.iter().map(|u| u.end - u.next).fold(0, u64::saturating_add);
            *sum = sum.plus(StreamCounts { unread_bytes, ..stream.counts });
        }
        (both, one)
    }
}

impl Stream {
    pub(super) fn new(space: SpaceId, position: u32) -> Self {
        let start = FIRST_LAP + u64::from(position);
        // How much of it is read already is not known.
        Self {
            space,
            latest: start,
            read_to: 0,
            unread: VecDeque::new(),
            kept_from: start,
            counts: StreamCounts::default(),
            is_read_elsewhere: false,
            was_read_elsewhere: false,
            is_written_elsewhere: false,
            is_of_verbs: false,
        }
    }

    /// What was written and not read is read on another node: it is not kept here, but for what was written last, since a
    /// writer that goes on writes with the operation that it began.
    pub(super) fn hand_over(&mut self, found: &mut StreamChange) {
        let mut last = None;
        while let Some(unread) = self.unread.pop_front() {
            last = Some(unread);
        }
        let Some(Unread { next, end, .. }) = last else { return };
        // Behind it there is something only if that is of another connection of the same name.
        let (from, to) = if self.kept_from <= next { (self.kept_from, next) } else { (end, self.latest) };
        if from < to {
            found.done.push(self.range(from, to));
        }
        self.kept_from = next;
    }

    /// The position of 64 bits that is nearest to where the stream is. A hostile tape may lead it anywhere but near the ends.
    pub(super) fn extended(&self, position: u32) -> u64 {
        let ahead = position.wrapping_sub(self.latest as u32).cast_signed();
        let start = self.latest.wrapping_add_signed(i64::from(ahead));
        if (1 << 33..u64::MAX - (1 << 33)).contains(&start) { start } else { FIRST_LAP + u64::from(position) }
    }

    /// Takes what one end wrote.
    pub(super) fn write(&mut self, start: u64, end: u64, found: &mut StreamChange) {
        let overlaps = start < self.latest && !self.unread.is_empty();
        if overlaps || start.saturating_add(MOST_LATE_BYTES) < self.read_to {
            self.begin_anew(start, found);
        }
        if self.unread.len() >= MAX_UNREAD
            && let Some(oldest) = self.unread.pop_front()
        {
            found.missed.push(self.range(oldest.next, oldest.end));
        }
        self.latest = self.latest.max(end);
        let known = self.read_to.clamp(start, end);
        // Read before it was known to be written.
        found.piece(SpaceId::NONE, start, start, known);
        found.piece(self.space, start, known, end);
        if known < end {
            self.unread.push_back(Unread { start: known, end, next: known });
        }
    }

    /// Takes what the other end read; gives back how many of the bytes nobody was seen to write.
    fn read(&mut self, start: u64, end: u64, found: &mut StreamChange) -> u64 {
        if start < self.read_to {
            self.begin_anew(start, found);
        }
        self.skip(start, found);
        let (mut at, mut unseen) = (start, 0);
        while let Some(front) = self.unread.front_mut().filter(|front| front.next < end) {
            found.piece(SpaceId::NONE, start, at, front.next);
            unseen += front.next - at;
            at = front.end.min(end);
            found.piece(self.space, start, front.next, at);
            front.next = at;
            if at < front.end {
                break;
            }
            self.forget_front(found);
        }
        found.piece(SpaceId::NONE, start, at, end);
        self.read_to = end;
        self.latest = self.latest.max(end);
        unseen + (end - at)
    }

    /// What lies before a position was read unseen.
    fn skip(&mut self, position: u64, found: &mut StreamChange) {
        let space = self.space;
        while let Some(front) = self.unread.front_mut().filter(|front| front.next < position) {
            let end = front.end.min(position);
            found.missed.push(StreamRange { space, start: front.next, end });
            front.next = end;
            if end < front.end {
                return;
            }
            self.forget_front(found);
        }
    }

    /// The first is read to its end; what was kept before it is not asked for any more.
    fn forget_front(&mut self, found: &mut StreamChange) {
        let Some(whole) = self.unread.pop_front() else { return };
        if self.kept_from < whole.start {
            found.done.push(self.range(self.kept_from, whole.start));
        }
        self.kept_from = whole.start;
    }

    /// Another connection of the same name.
    fn begin_anew(&mut self, start: u64, found: &mut StreamChange) {
        let read_to = self.unread.front().map_or(self.latest, |front| front.next);
        if self.kept_from < read_to {
            found.done.push(self.range(self.kept_from, read_to));
        }
        let space = self.space;
        let missed = self.unread.drain(..).map(|u| StreamRange { space, start: u.next, end: u.end });
        found.missed.extend(missed);
        (self.latest, self.read_to, self.kept_from) = (start, start, start);
    }

    fn range(&self, start: u64, end: u64) -> StreamRange {
        StreamRange { space: self.space, start, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(7);

    /// A stream at work, with positions as if it had begun at 0.
    #[derive(Default)]
    struct Ends {
        streams: Streams,
        first: u32,
    }

    impl Ends {
        fn beginning_at(first: u32) -> Self {
            Self { first, ..Self::default() }
        }

        fn take(&mut self, position: u32, len_bytes: u32, receive: bool) -> Vec<(bool, u64, u64)> {
            let position = self.first.wrapping_add(position);
            let moved = StreamBytes { stream: 1, position, len_bytes, receive };
            self.streams.take(moved, || SPACE);
            let pieces = &self.streams.change.pieces;
            pieces.iter().map(|p| (p.space == SPACE, self.relative(p.start), self.relative(p.end))).collect()
        }

        fn write(&mut self, position: u32, len_bytes: u32) -> Vec<(bool, u64, u64)> {
            self.take(position, len_bytes, false)
        }

        fn read(&mut self, position: u32, len_bytes: u32) -> Vec<(bool, u64, u64)> {
            self.take(position, len_bytes, true)
        }

        fn relative(&self, position: u64) -> u64 {
            position - FIRST_LAP - u64::from(self.first)
        }

        fn ranges(&self, ranges: &[StreamRange]) -> Vec<(u64, u64)> {
            ranges.iter().map(|range| (self.relative(range.start), self.relative(range.end))).collect()
        }

        fn missed(&self) -> Vec<(u64, u64)> {
            self.ranges(&self.streams.change.missed)
        }

        fn done(&self) -> Vec<(u64, u64)> {
            self.ranges(&self.streams.change.done)
        }

        fn unseen_bytes(&self) -> u64 {
            self.streams.counts().0.unseen_bytes
        }
    }

    #[test]
    fn what_is_read_at_once_comes_in_the_pieces_in_which_it_was_written() {
        let mut ends = Ends::default();
        assert_eq!(ends.write(0, 24), [(true, 0, 24)]);
        assert_eq!(ends.write(24, 100), [(true, 24, 124)]);
        ends.write(124, 24);
        assert_eq!(ends.read(0, 130), [(true, 0, 24), (true, 24, 124), (true, 124, 130)]);
        assert_eq!(ends.read(130, 18), [(true, 130, 148)]);
        assert_eq!(ends.unseen_bytes(), 0);
    }

    #[test]
    fn what_was_read_is_kept_until_what_follows_was_read() {
        let mut ends = Ends::default();
        ends.write(0, 10);
        ends.write(10, 10);
        ends.read(0, 10);
        assert_eq!(ends.done(), []);
        ends.read(10, 4);
        assert_eq!(ends.done(), [], "not all of it");
        ends.read(14, 6);
        assert_eq!(ends.done(), [(0, 10)]);
    }

    #[test]
    fn positions_go_on_where_the_numbers_of_tcp_go_around() {
        let mut ends = Ends::beginning_at(u32::MAX - 4);
        assert_eq!(ends.write(0, 3), [(true, 0, 3)]);
        assert_eq!(ends.write(3, 10), [(true, 3, 13)]);
        assert_eq!(ends.read(0, 13), [(true, 0, 3), (true, 3, 13)]);
        assert_eq!(ends.read(13, 1), [(false, 13, 14)]);
    }

    #[test]
    fn what_was_written_before_the_first_record_is_unseen() {
        let mut ends = Ends::beginning_at(1000);
        ends.write(0, 10);
        let early = StreamBytes { stream: 1, position: 996, len_bytes: 10, receive: true };
        ends.streams.take(early, || SPACE);
        let spaces: Vec<_> = ends.streams.change.pieces.iter().map(|p| (p.space, p.offset_bytes)).collect();
        assert_eq!(spaces, [(SpaceId::NONE, 0), (SPACE, 4)]);
        assert_eq!(ends.unseen_bytes(), 4);
    }

    #[test]
    fn bytes_that_nobody_was_seen_to_write_are_told_apart_and_counted() {
        let mut ends = Ends::default();
        ends.write(0, 10);
        ends.write(20, 10);
        assert_eq!(ends.read(0, 40), [(true, 0, 10), (false, 10, 20), (true, 20, 30), (false, 30, 40)]);
        assert_eq!(ends.unseen_bytes(), 20);
    }

    #[test]
    fn what_nobody_was_seen_to_read_is_given_up_when_reading_goes_on_behind_it() {
        let mut ends = Ends::default();
        ends.write(0, 10);
        ends.write(10, 10);
        assert_eq!(ends.read(15, 5), [(true, 15, 20)]);
        assert_eq!(ends.missed(), [(0, 10), (10, 15)]);
    }

    #[test]
    fn what_is_told_to_be_written_after_it_was_read_is_not_waited_for() {
        let mut ends = Ends::default();
        assert_eq!(ends.read(0, 10), [(false, 0, 10)]);
        assert_eq!(ends.write(0, 16), [(false, 0, 10), (true, 10, 16)]);
        assert_eq!(ends.read(10, 6), [(true, 10, 16)]);
    }

    #[test]
    fn another_connection_of_the_same_name_begins_anew() {
        let mut ends = Ends::beginning_at(1 << 30);
        ends.write(1 << 20, 10);
        ends.write((1 << 20) + 10, 10);
        ends.read(1 << 20, 13);
        assert_eq!(ends.write(0, 10), [(true, 0, 10)]);
        assert_eq!(ends.missed(), [((1 << 20) + 13, (1 << 20) + 20)]);
        assert_eq!(ends.done(), [(1 << 20, (1 << 20) + 13)]);
        assert_eq!(ends.read(0, 10), [(true, 0, 10)]);
    }

    #[test]
    fn what_is_written_and_never_read_is_bounded() {
        let mut ends = Ends::default();
        for number in 0..=MAX_UNREAD as u32 {
            ends.write(number * 2, 2);
        }
        assert_eq!(ends.missed(), [(0, 2)]);
    }
}

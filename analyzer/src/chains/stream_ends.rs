//! Streams whose other end is on another node, as soon as records of them come: before anything is made of these.
//!
//! Who reads a stream and who writes it is asked, since only their addresses tell it, and each node knows only its own. What
//! is written is told to the reader at once, in pieces; what was written before anybody asked is kept for a while.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::far_state::{FarAccess, FarMemory, FarPiece, handle_of_read};
use super::ids::NodeId;

/// Most streams that are known; others end here.
const MOST_STREAMS: usize = 1 << 16;
/// Pieces of one stream that are kept for whoever may ask: a question may be under way for a tenth of a second while the
/// stream is written as fast as it can be.
const MOST_KEPT: usize = 1 << 15;
/// The same of all streams.
const MOST_KEPT_OF_ALL: usize = 1 << 20;
/// Where nobody answers it is asked again, after twice as many rounds each time, up to two to the power of this.
const MOST_PATIENCE: u32 = 6;
/// So often it is asked in each round, though nothing more comes: whoever writes may not have listened yet when it was asked
/// first. As long as what was received may still be told to have been sent.
const FIRST_QUESTIONS: u32 = ROUNDS_TO_BE_SURE as u32;
/// What is received waits for so many [rounds](crate::pipeline::NodePipeline::begin_round) of all nodes, until it is known that
/// nobody will say who sent it: two for the sender to have seen it, one to be asked, one to answer, and one more for each of the
/// three messages, since a bus may deliver what goes different ways in another order than it was sent.
pub(crate) const ROUNDS_TO_BE_SURE: u64 = 7;
/// Questions for a stream go where those who write streams of its topic listen: so the number of nodes does not matter to any
/// of them. There are so many bits of topics.
const TOPIC_BITS: u32 = 20;

/// The topic of a stream.
pub(crate) fn topic_of(stream: u64) -> u32 {
    (stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - TOPIC_BITS)) as u32
}

/// One end's part of a record of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRecord {
    pub pid: u32,
    /// Of the buffer.
    pub addr: u64,
    pub stream: u64,
    pub position: u32,
    pub len_bytes: u32,
    pub receive: bool,
    /// It does not go into the stream, but to memory of whoever reads it.
    pub memory: Option<FarMemory>,
}

/// An operation, as long as its node is not another one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub node: NodeId,
    pub op: u64,
}

/// A piece that was written here.
#[derive(Clone, Copy, Debug)]
struct WrittenPiece {
    position: u32,
    len_bytes: u32,
    /// None: what wrote it is not followed.
    handle: Option<u64>,
    is_told: bool,
    /// What wrote it, once that is known.
    by: Option<Written>,
    memory: Option<FarMemory>,
}

/// Where a run of pieces goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunEnd {
    pid: u32,
    addr: u64,
    position: u32,
}

#[derive(Debug, Default)]
struct StreamEnd {
    /// The node that reads it, if it is another one.
    reader: Option<u32>,
    /// The node that writes it, if it is another one and has told of it.
    writer: Option<u32>,
    is_read_here: bool,
    is_written_here: bool,
    /// The stream the other way: who writes this one reads that one.
    back: Option<u64>,
    /// How often it was asked who writes it …
    asked: u32,
    /// … and from which round on it may be asked again.
    ask_at: u64,
    /// In order; first those of which it is known what wrote them.
    pieces: VecDeque<WrittenPiece>,
    /// How many those are.
    known: usize,
    /// The last run, and its handle.
    run: Option<(RunEnd, u64)>,
}

/// A piece that is told now, though it was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatePiece {
    pub piece: FarPiece,
    /// What wrote it; none: that is to be known yet, if it has a handle.
    pub by: Option<Written>,
}

impl LatePiece {
    /// What wrote it is known, or that nothing that is followed did.
    pub fn is_known(&self) -> bool {
        self.by.is_some() || self.piece.handle.is_none()
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct StreamEnds {
    /// Number of this node.
    node: u32,
    streams: FxHashMap<u64, StreamEnd>,
    /// Who has asked for streams that were not heard of here.
    asked_for: FxHashMap<u64, u32>,
    /// Streams to ask for.
    wanted: Vec<u64>,
    /// Streams that were asked for not so often yet.
    unanswered: Vec<u64>,
    /// Topics of streams that began to be written here.
    topics: Vec<u32>,
    next_handle: u64,
    kept: usize,
    round: u64,
}

impl StreamEnds {
    pub fn of_node(node: u32) -> Self {
        Self { node, ..Self::default() }
    }

    /// Two streams are of one connection. The first of them is read here: if it is known who writes it, they read the other one.
    pub fn pair(&mut self, incoming: u64, outgoing: u64) -> Option<u32> {
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&incoming) {
            return None;
        }
        let known = self.streams.entry(incoming).or_default();
        known.back = Some(outgoing);
        known.writer
    }

    /// A record of a stream has come. What is to be told of it at once.
    pub fn arrive(&mut self, r: &StreamRecord) -> Option<FarPiece> {
        if !self.streams.contains_key(&r.stream) {
            if self.streams.len() >= MOST_STREAMS {
                return None;
            }
            let reader = if r.receive { None } else { self.asked_for.remove(&r.stream) };
            self.streams.insert(r.stream, StreamEnd { reader, ..StreamEnd::default() });
        }
        let Self { node, streams, wanted, unanswered, topics, next_handle, kept, round, .. } = self;
        let stream = streams.get_mut(&r.stream)?;
        if r.receive {
            stream.is_read_here = true;
            if stream.reader.is_none() {
                *kept -= stream.pieces.len();
                stream.forget_pieces();
            }
            if stream.asks(*round) {
                wanted.push(r.stream);
                if stream.asked == 1 {
                    unanswered.push(r.stream);
                }
            }
            return None;
        }
        if !std::mem::replace(&mut stream.is_written_here, true) {
            topics.push(topic_of(r.stream));
        }
        if stream.is_read_here && stream.reader.is_none() {
            return None;
        }
        let piece = stream.write(r, *node, next_handle);
        *kept += 1;
        if stream.pieces.len() > MOST_KEPT || *kept > MOST_KEPT_OF_ALL {
            *kept -= usize::from(stream.forget_first());
        }
        piece
    }

    /// What wrote a piece is known now; none: it is not followed. Its handle, if it was told.
    pub fn know(&mut self, stream: u64, position: u32, by: Option<Written>) -> Option<u64> {
        let known = self.streams.get_mut(&stream)?;
        let piece = known.pieces.get_mut(known.known).filter(|piece| piece.position == position)?;
        let WrittenPiece { handle, is_told, .. } = *piece;
        if is_told {
            known.pieces.remove(known.known);
            self.kept -= 1;
            return handle;
        }
        piece.by = by;
        piece.handle = handle.filter(|_| by.is_some());
        known.known += 1;
        None
    }

    /// The node that reads a stream, if it is another one.
    pub fn reader_of(&self, stream: u64) -> Option<u32> {
        self.streams.get(&stream).and_then(|known| known.reader)
    }

    /// Another node reads a stream. What was written before is told now, unless it is read here.
    pub fn answer(&mut self, stream: u64, reader: u32) -> Vec<LatePiece> {
        let Some(known) = self.streams.get_mut(&stream) else {
            if self.asked_for.len() >= MOST_STREAMS {
                self.asked_for.clear();
            }
            self.asked_for.insert(stream, reader);
            return Vec::new();
        };
        if known.is_read_here || !known.is_written_here || known.reader == Some(reader) {
            return Vec::new();
        }
        known.reader = Some(reader);
        let late: Vec<LatePiece> = known.pieces.iter().map(|piece| piece.late(stream, reader)).collect();
        self.kept -= known.known;
        known.pieces.drain(..known.known);
        known.known = 0;
        known.pieces.iter_mut().for_each(|piece| piece.is_told = true);
        late
    }

    /// Another node writes a stream. If that was not known: the stream the other way, which it reads.
    pub fn note_writer(&mut self, stream: u64, writer: u32) -> Option<u64> {
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&stream) {
            return None;
        }
        let known = self.streams.entry(stream).or_default();
        let before = known.writer.replace(writer);
        known.back.filter(|_| before != Some(writer))
    }

    /// Streams to ask for.
    pub fn take_wanted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.wanted)
    }

    /// Topics on which questions are to be heard from now on; some may be told again.
    pub fn take_topics(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.topics)
    }

    /// One more round has passed.
    pub fn pass_round(&mut self) {
        self.round += 1;
        let Self { streams, wanted, unanswered, round, .. } = self;
        unanswered.retain(|number| {
            let Some(stream) = streams.get_mut(number) else { return false };
            if stream.asks(*round) {
                wanted.push(*number);
            }
            stream.lacks_writer() && stream.asked < FIRST_QUESTIONS
        });
    }

    /// Nothing is told to a node any more, and nothing comes from it: streams that it read.
    pub fn forget_node(&mut self, node: u32) -> Vec<u64> {
        self.asked_for.retain(|_, by| *by != node);
        let mut read = Vec::new();
        for (number, stream) in &mut self.streams {
            if stream.writer.take_if(|writer| *writer == node).is_some() {
                (stream.asked, stream.ask_at) = (0, 0);
            }
            if stream.reader.take_if(|reader| *reader == node).is_some() {
                stream.run = None;
                read.push(*number);
            }
        }
        read
    }
}

impl StreamEnd {
    fn lacks_writer(&self) -> bool {
        !self.is_written_here && self.writer.is_none()
    }

    /// Whether it is to be asked who writes it, now in a round.
    fn asks(&mut self, round: u64) -> bool {
        let asks = self.lacks_writer() && round >= self.ask_at;
        if asks {
            self.ask_at = round + (1 << self.asked.saturating_sub(FIRST_QUESTIONS).min(MOST_PATIENCE));
            self.asked = self.asked.saturating_add(1);
        }
        asks
    }

    fn write(&mut self, r: &StreamRecord, node: u32, next_handle: &mut u64) -> Option<FarPiece> {
        let handle = match r.memory {
            None => self.handle_in_run(r, next_handle),
            Some(memory) => {
                // What follows goes on with nothing.
                self.run = None;
                let number = *next_handle;
                *next_handle += 1;
                if memory.access == FarAccess::Write { number } else { handle_of_read(node, number) }
            }
        };
        let (position, len_bytes, is_told, memory) =
            (r.position, r.len_bytes, self.reader.is_some(), r.memory);
        let handle = Some(handle);
        self.pieces.push_back(WrittenPiece { position, len_bytes, handle, is_told, by: None, memory });
        let to = self.reader?;
        Some(FarPiece { to, stream: r.stream, position, len_bytes, handle, memory })
    }

    /// Of the operation that it goes on with, or is the first piece of.
    fn handle_in_run(&mut self, r: &StreamRecord, next_handle: &mut u64) -> u64 {
        let begin = RunEnd { pid: r.pid, addr: r.addr, position: r.position };
        let goes_on = self.run.filter(|(end, _)| *end == begin && r.addr != 0);
        let handle = goes_on.map_or(*next_handle, |(_, handle)| handle);
        *next_handle += u64::from(goes_on.is_none());
        let end = RunEnd {
            pid: r.pid,
            addr: r.addr.wrapping_add(r.len_bytes.into()),
            position: r.position.wrapping_add(r.len_bytes),
        };
        self.run = Some((end, handle));
        handle
    }

    /// Nobody will ask for what is kept.
    fn forget_pieces(&mut self) {
        self.pieces.clear();
        self.known = 0;
        self.run = None;
    }

    /// The first piece is not kept any more, if it is known what wrote it.
    fn forget_first(&mut self) -> bool {
        let is_known = self.known > 0;
        if is_known {
            self.pieces.pop_front();
            self.known -= 1;
        }
        is_known
    }
}

impl WrittenPiece {
    fn late(&self, stream: u64, to: u32) -> LatePiece {
        let &Self { position, len_bytes, handle, by, memory, .. } = self;
        LatePiece { piece: FarPiece { to, stream, position, len_bytes, handle, memory }, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(position: u32, len_bytes: u32, receive: bool) -> StreamRecord {
        StreamRecord { pid: 1, addr: 16, stream: 5, position, len_bytes, receive, memory: None }
    }

    fn write(ends: &mut StreamEnds, position: u32, len_bytes: u32) -> Option<FarPiece> {
        ends.arrive(&record(position, len_bytes, false))
    }

    fn read(ends: &mut StreamEnds, position: u32, len_bytes: u32) {
        ends.arrive(&record(position, len_bytes, true));
    }

    fn told(late: &[LatePiece]) -> Vec<(u32, u32, Option<u64>)> {
        late.iter().map(|late| (late.piece.position, late.piece.len_bytes, late.piece.handle)).collect()
    }

    #[test]
    fn what_nothing_is_known_to_have_written_is_told_to_whoever_reads_it() {
        let mut ends = StreamEnds::default();
        let by = Written { node: NodeId(3), op: 9 };
        assert_eq!(write(&mut ends, 0, 8), None, "nobody has asked");
        assert_eq!(write(&mut ends, 8, 14), None, "nobody has asked");
        assert_eq!(ends.know(5, 0, None), None);
        assert_eq!(ends.know(5, 8, Some(by)), None);
        let late = ends.answer(5, 2);
        assert_eq!(told(&late), [(0, 8, None), (8, 14, Some(1))]);
        assert_eq!(late[1].by, Some(by));
        let next = write(&mut ends, 22, 4).expect("node 2 has asked");
        assert_eq!((next.to, next.position, next.handle), (2, 22, Some(2)));
        assert_eq!(ends.know(5, 22, None), Some(2), "what was told is told of again");
        assert_eq!(ends.kept, 0);
    }

    #[test]
    fn what_nobody_answers_is_asked_again_for_a_while_though_nothing_comes() {
        let mut ends = StreamEnds::default();
        read(&mut ends, 0, 8);
        let mut asked = vec![ends.take_wanted()];
        for _ in 0..200 {
            ends.pass_round();
            asked.push(ends.take_wanted());
        }
        let at: Vec<usize> = (0..asked.len()).filter(|at| asked[*at] == [5]).collect();
        assert_eq!(at, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_question_is_not_repeated_once_it_is_answered() {
        let mut ends = StreamEnds::default();
        read(&mut ends, 0, 8);
        ends.note_writer(5, 3);
        ends.take_wanted();
        (0..9).for_each(|_| ends.pass_round());
        assert_eq!(ends.take_wanted(), [0_u64; 0]);
    }

    #[test]
    fn questions_for_what_is_written_here_are_listened_for() {
        let mut ends = StreamEnds::default();
        write(&mut ends, 0, 8);
        write(&mut ends, 8, 8);
        assert_eq!((ends.take_topics(), ends.take_topics()), (vec![topic_of(5)], vec![]));
        let topics: std::collections::BTreeSet<u32> = (0..1000).map(topic_of).collect();
        assert!(topics.len() > 990 && topics.iter().all(|topic| *topic < 1 << TOPIC_BITS));
    }

    /// What was written before it is known who reads it is told then: by who writes the other way.
    #[test]
    fn who_writes_one_stream_of_a_connection_reads_the_other() {
        let mut ends = StreamEnds::default();
        write(&mut ends, 0, 8);
        assert_eq!(ends.pair(6, 5), None, "nobody has told of it");
        assert_eq!(ends.note_writer(6, 2), Some(5));
        assert_eq!(told(&ends.answer(5, 2)), [(0, 8, Some(0))]);
        assert_eq!(ends.note_writer(6, 2), None, "it is known");
        assert_eq!(ends.pair(6, 7), Some(2));
    }
}

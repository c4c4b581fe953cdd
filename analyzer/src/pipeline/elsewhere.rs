//! What goes on between this node's chains and those of others.

use super::session::Pipeline;
use crate::chains::far_state::{FarAccess, FarMemory, FarPiece, PiecesOver};
use crate::chains::op_names::OpNames;
use crate::chains::stream_ends::{StreamRecord, Written};
use crate::chains::sums::letter::LetterNews;
use crate::chains::sums::names_reader::NameSink;
use crate::chains::sums::names_writer::NameTables;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::job::movement::Side;
use crate::job::names::TCP_STREAM;
use crate::job::streams::StreamBytes;
use crate::job::verbs::RemoteBytes;
use crate::tape::wire::{Body, Header, RawRecord, Record, kind};

/// Whether a record of this kind may be told to other nodes.
pub(super) fn concerns_others(of: u16) -> bool {
    matches!(of, kind::STREAM | kind::REMOTE | kind::ENDPOINT)
}

/// What is told of an operation as soon as it comes.
fn far_memory(moved: &RemoteBytes) -> FarMemory {
    let access = match (moved.write, moved.atomic) {
        (true, _) => FarAccess::Write,
        (false, false) => FarAccess::Read,
        (false, true) => FarAccess::Replace,
    };
    FarMemory { access, addr: moved.remote }
}

/// What a record says of a stream, or of memory of whoever reads it.
fn stream_record(h: &Header, body: &Body) -> Option<StreamRecord> {
    let pid = h.pid;
    if let Body::Stream { addr, stream, position, len_bytes, receive, .. } = *body {
        return Some(StreamRecord { pid, addr, stream, position, len_bytes, receive, memory: None });
    }
    let moved = RemoteBytes::of(body).filter(|moved| moved.stream != 0)?;
    let RemoteBytes { addr, stream, position, len_bytes, .. } = moved;
    let memory = Some(far_memory(&moved));
    Some(StreamRecord { pid, addr, stream, position, len_bytes, receive: false, memory })
}

impl Pipeline {
    /// A record comes: nothing is made of it yet. What other nodes are to be told at once is added to `out`.
    pub(super) fn arrive(&mut self, raw: &RawRecord, out: &mut Vec<FarPiece>) {
        if !concerns_others(raw.kind()) {
            return;
        }
        let Ok(Record { header, body }) = Record::decode(raw) else { return };
        let Some(ends) = &mut self.ends else { return };
        if let Body::Endpoint { incoming, outgoing, .. } = body {
            if incoming != 0
                && outgoing != 0
                && let Some(writer) = ends.pair(incoming, outgoing)
            {
                out.extend(self.answer(outgoing, writer));
            }
            return;
        }
        if let Some(piece) = stream_record(&header, &body).and_then(|record| ends.arrive(&record)) {
            self.tell_piece(&piece);
            out.push(piece);
        }
    }

    fn tell_piece(&mut self, piece: &FarPiece) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        // What was read is held where it was written.
        let is_read = piece.memory.is_some_and(|memory| memory.access != FarAccess::Write);
        if let Some(handle) = piece.handle.filter(|_| !is_read) {
            chains.tell_piece(handle, piece.to, ops, groups);
        }
    }

    /// What wrote into a stream is known.
    #[inline(never)]
    pub(super) fn know_writer(&mut self, stream: u64, position: u32, by: Option<Written>) {
        let Some(ends) = &mut self.ends else { return };
        if let Some(handle) = ends.know(stream, position, by) {
            let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
            chains.bind(handle, by.map(|by| by.node), ops, groups);
        }
        if ends.reader_of(stream).is_some() {
            // It may have been asked for before it was known here.
            self.job.streams.set_read_elsewhere(stream, true);
            self.job.streams.hand_over(stream);
        }
    }

    /// Something that other nodes wrote may be missing of what was received up to now: how ranks compare is not known.
    pub(super) fn note_missing(&mut self, now_ns: u64) {
        self.chains.groups.touch(self.job.now_ns().min(now_ns), now_ns);
    }

    /// Whether a node is told what is written into a stream.
    pub(super) fn is_told(&self, stream: u64, reader: u32) -> bool {
        self.ends.as_ref().is_some_and(|ends| ends.reader_of(stream) == Some(reader))
    }

    /// Another node reads a stream: what it is told of what was written before.
    pub(super) fn answer(&mut self, stream: u64, reader: u32) -> Vec<FarPiece> {
        let Some(ends) = &mut self.ends else { return Vec::new() };
        let late = ends.answer(stream, reader);
        let mut pieces = Vec::new();
        for late in late {
            // It was done when nobody knew whose memory that is.
            if late.piece.memory.is_some() && late.is_known() {
                self.job.totals.verbs.find(late.piece.len_bytes.into());
            }
            let is_there = late.by.is_none_or(|by| self.chains.chains.is_there(by));
            let piece = FarPiece { handle: late.piece.handle.filter(|_| is_there), ..late.piece };
            self.tell_piece(&piece);
            if let (Some(handle), Some(by)) = (piece.handle, late.by) {
                let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
                chains.bind(handle, Some(by.node), ops, groups);
            }
            pieces.push(piece);
        }
        self.tell_untold_writes(stream);
        self.job.streams.set_read_elsewhere(stream, true);
        self.job.streams.ignore();
        self.job.streams.hand_over(stream);
        self.job.forget_read_bytes();
        self.take_memory_changes();
        pieces
    }

    /// Another node has written a piece of a stream. `may_link`: otherwise it is only known to be there. Gives back what that node
    /// is to be told, since it reads what goes the other way.
    pub(super) fn take_piece(&mut self, piece: &FarPiece, may_link: bool) -> Vec<FarPiece> {
        let back = self.ends.as_mut().and_then(|ends| ends.note_writer(piece.stream, piece.to));
        match piece.memory {
            Some(memory) => self.take_operation(piece, memory, may_link),
            None => self.take_part(piece, may_link),
        }
        back.map(|back| self.answer(back, piece.to)).unwrap_or_default()
    }

    fn take_part(&mut self, piece: &FarPiece, may_link: bool) {
        let FarPiece { to: writer, stream, position, len_bytes, handle, .. } = *piece;
        let handle_here = handle.filter(|_| may_link && !self.job.coverage.is_paused());
        let written = StreamBytes { stream, position, len_bytes, receive: false };
        self.job.take_from_elsewhere(written, handle_here.is_some());
        self.take_memory_changes();
        let pieces = self.job.streams.change.pieces.iter().filter(|piece| piece.space.is_some());
        let known: Vec<Side> = pieces
            .map(|p| Side { addr: p.start, buffer: TCP_STREAM, space: p.space, start: p.start, end: p.end })
            .collect();
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.make_room(self.job.space_counts());
        match (handle, handle_here, known.first()) {
            (_, Some(handle), Some(side)) => chains.write_from_elsewhere((writer, handle), side, ops, groups),
            (Some(handle), ..) => chains.refuse_piece(writer, handle),
            (None, ..) => {}
        }
    }

    /// What another node has found out of chains that began here, or wants.
    pub(super) fn take_news(&mut self, from: u32, news: LetterNews) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        news.kinds.iter().for_each(|of| chains.far.note_kind(from, of));
        news.ends.into_iter().for_each(|end| chains.take_end(from, end, ops, groups));
        let over = |over: &PiecesOver| chains.take_over(from, over, ops, groups);
        news.over.iter().for_each(over);
        news.cuts.iter().for_each(|cut| chains.cut_behind(from, cut.handle));
    }

    /// What other nodes are to be told, but for pieces.
    pub(super) fn take_far_news(&mut self) -> LetterNews {
        let far = &mut self.chains.chains.far;
        LetterNews {
            wanted: self.ends.as_mut().map(|ends| ends.take_wanted()).unwrap_or_default(),
            pieces: Vec::new(),
            kinds: std::mem::take(&mut far.kinds),
            ends: std::mem::take(&mut far.ends),
            over: std::mem::take(&mut far.over),
            cuts: std::mem::take(&mut far.cuts),
        }
    }

    /// Topics of streams that began to be written here.
    pub(super) fn take_topics(&mut self) -> Vec<u32> {
        self.ends.as_mut().map(|ends| ends.take_topics()).unwrap_or_default()
    }

    /// Time goes on.
    pub(super) fn tick_elsewhere(&mut self) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.tick_far(ops, groups);
    }

    /// All nodes have told what they had seen a while ago.
    pub(super) fn pass_round(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.pass_round();
        }
        self.chains.chains.far.pass_round();
    }

    /// Another node says nothing any more, and is told nothing. `is_lost`: what it would have said is not known.
    pub(super) fn end_node(&mut self, node: u32, is_lost: bool) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        match is_lost {
            true => chains.lose_readers(Some(node), ops, groups),
            false => chains.end_reader(node, ops, groups),
        }
        chains.cut_behind_all(node);
        self.refuse_waiting(Some(node));
        let read = self.ends.as_mut().map(|ends| ends.forget_node(node)).unwrap_or_default();
        read.into_iter().for_each(|stream| self.job.streams.set_read_elsewhere(stream, false));
    }

    /// Letters between this node and another one, or all, were lost: what the others would have said is not known.
    pub(super) fn lose_answers(&mut self, node: Option<u32>) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.lose_readers(node, ops, groups);
    }

    /// What was passed on is not waited for any longer.
    pub(super) fn cut_passed_on(&mut self) {
        let ChainAnalysis { chains, groups, ops, .. } = &mut self.chains;
        chains.cut_passed_on(ops, groups);
    }

    /// Runs of pieces that other nodes have not said to be over.
    pub(super) fn held(&self) -> usize {
        self.chains.chains.far.held()
    }

    pub(super) fn name_source(&self) -> NameTables<'_> {
        let ops: &OpNames = &self.chains.ops;
        NameTables { job: &self.job, ops }
    }

    pub(super) fn name_sink(&mut self) -> NameSink<'_> {
        let ChainAnalysis { groups, ops, .. } = &mut self.chains;
        NameSink { job: &mut self.job, ops, groups }
    }
}

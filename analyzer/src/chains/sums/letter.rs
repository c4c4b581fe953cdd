//! What agents tell each other of chains that go from one node to another, as bytes.
//!
//! A letter names all that it speaks of itself: one that is lost takes nothing with it but what it says.

use super::counts::{ReadFrom, put_instance, take_instance};
use super::lists::{ReadLists, WrittenLists};
use super::names_reader::{NameSink, NamesReader};
use super::names_writer::{NameTables, NamesWriter};
use crate::chains::far_state::{
    ChainCut, ChainEnd, EndOp, FarAccess, FarMemory, FarPiece, PieceKind, PiecesOver,
};
use crate::tape::bytes::{ByteReader, ByteWriter};
use crate::tape::wire::FileId;
use crate::tape::{
    BadBytes, absolute_node, file_on_node, file_on_own_node, node_of, node_of_file, pid_of_node, pid_on_node,
    relative_node,
};

/// No letter has more bytes than this.
const MAX_LETTER_BYTES: usize = 64 << 20;

/// Who writes to whom, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LetterHead {
    /// Of the agent that writes.
    pub session: u64,
    /// Of the one that it is for; 0: whichever it is.
    pub for_session: u64,
    /// Among those of one agent to another, from 0.
    pub number: u64,
    /// How many of the other one's letters have not come, in all.
    pub missed: u64,
    /// Wall clock, ns since 1970.
    pub wall_ns: u64,
    /// It is the last one.
    pub is_last: bool,
}

/// What a letter says.
#[derive(Debug, Default)]
pub(crate) struct LetterNews {
    /// Streams that are read where the letter comes from; who writes them is asked.
    pub wanted: Vec<u64>,
    pub pieces: Vec<FarPiece>,
    pub kinds: Vec<PieceKind>,
    pub ends: Vec<ChainEnd>,
    pub over: Vec<PiecesOver>,
    pub cuts: Vec<ChainCut>,
}

/// A letter as bytes. `now_ns`: by the clock that times are told by.
pub(crate) fn write(head: &LetterHead, news: &LetterNews, from: NameTables<'_>, now_ns: u64) -> Vec<u8> {
    let mut names = NamesWriter::default();
    let mut body = ByteWriter::default();
    body.list(news.wanted.iter(), |w, stream| w.number(*stream));
    body.list(news.pieces.iter(), put_piece);
    body.list(news.kinds.iter(), |w, of| {
        w.number(of.handle);
        w.number(of.kind.into());
    });
    body.list(news.ends.iter(), |w, end| put_end(w, end, &mut names, from, now_ns));
    body.list(news.over.iter(), put_over);
    body.list(news.cuts.iter(), |w, cut| w.number(cut.handle));
    let mut told = ByteWriter::default();
    let WrittenLists { pids, files, .. } = names.put(&mut told);
    let mut w = ByteWriter::default();
    let LetterHead { session, for_session, number, missed, wall_ns, is_last } = *head;
    [session, for_session, number, missed, wall_ns].into_iter().for_each(|number| w.number(number));
    w.flag(is_last);
    w.list(pids.into_items().into_iter(), |w, pid| w.number(pid.into()));
    w.list(files.into_items().into_iter(), |w, file| {
        w.number(file.dev.into());
        w.number(file.inode);
    });
    w.append(told);
    w.append(body);
    w.into_bytes()
}

fn put_piece(w: &mut ByteWriter, piece: &FarPiece) {
    w.number(piece.stream);
    w.number(piece.position.into());
    w.number(piece.len_bytes.into());
    w.optional(piece.handle, ByteWriter::number);
    w.optional(piece.memory, |w, memory| {
        w.number(match memory.access {
            FarAccess::Write => 0,
            FarAccess::Read => 1,
            FarAccess::Replace => 2,
        });
        w.number(memory.addr);
    });
}

fn put_end(w: &mut ByteWriter, end: &ChainEnd, names: &mut NamesWriter, from: NameTables<'_>, now_ns: u64) {
    w.number(end.handle);
    w.list(end.ops.iter(), |w, op| {
        w.number(names.symbol(op.symbol, from));
        w.number(names.who(op.who, from));
        w.number(names.call(op.call, from));
        w.number(op.segments.into());
    });
    w.signed(now_ns.wrapping_sub(end.begin_ns).cast_signed());
    w.list(end.after.iter(), |w, op| w.number(names.context(*op, from)));
    w.flag(end.begin_edge);
    w.flag(end.end_edge);
    w.flag(end.is_tainted);
    w.list(end.instances.iter(), |w, op| put_instance(w, op, names, from, now_ns));
}

fn put_over(w: &mut ByteWriter, over: &PiecesOver) {
    w.number(over.handle);
    w.number(over.pieces.into());
    [over.had_child, over.was_read, over.end_edge, over.is_tainted].into_iter().for_each(|flag| w.flag(flag));
}

/// Reads who writes and when, and leaves the rest.
pub(crate) fn read_head(r: &mut ByteReader<'_>) -> Result<LetterHead, BadBytes> {
    if r.len() > MAX_LETTER_BYTES {
        return Err(BadBytes);
    }
    Ok(LetterHead {
        session: r.number()?,
        for_session: r.number()?,
        number: r.number()?,
        missed: r.number()?,
        wall_ns: r.number()?,
        is_last: r.flag()?,
    })
}

/// Who writes, who reads, and what time it was for the reader when the letter was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LetterWay {
    pub from: u32,
    pub to: u32,
    pub now_ns: u64,
}

/// Reads the rest of a letter.
pub(crate) fn read_news(
    r: &mut ByteReader<'_>,
    way: LetterWay,
    to: &mut NameSink<'_>,
) -> Result<LetterNews, BadBytes> {
    let node = |of: usize| {
        let node = absolute_node(way.from as usize, of);
        relative_node(way.to as usize, node)
    };
    let pids = r.list(|r| {
        let pid: u32 = r.small()?;
        Ok(pid_of_node(node(node_of(pid)), pid_on_node(pid)))
    })?;
    let files = r.list(|r| {
        let file = FileId { dev: r.small()?, inode: r.number()? };
        Ok(file_on_node(node(node_of_file(file)), file_on_own_node(file)))
    })?;
    let lists = ReadLists { pids: &pids, files: &files, probes: &[] };
    let mut names = NamesReader::default();
    names.take(r, lists, to)?;
    let from = ReadFrom { names: &names, lists, now_ns: way.now_ns };
    let news = LetterNews {
        wanted: r.list(ByteReader::number)?,
        pieces: r.list(|r| take_piece(r, way.from))?,
        kinds: r.list(|r| Ok(PieceKind { to: way.from, handle: r.number()?, kind: r.small()? }))?,
        ends: r.list(|r| take_end(r, from, way.from))?.into_iter().flatten().collect(),
        over: r.list(take_over)?,
        cuts: r.list(|r| Ok(ChainCut { to: way.from, handle: r.number()? }))?,
    };
    r.finish()?;
    Ok(news)
}

fn take_piece(r: &mut ByteReader<'_>, from: u32) -> Result<FarPiece, BadBytes> {
    let (stream, position, len_bytes) = (r.number()?, r.small()?, r.small()?);
    let (handle, memory) = (r.optional(ByteReader::number)?, r.optional(take_memory)?);
    Ok(FarPiece { to: from, stream, position, len_bytes, handle, memory })
}

fn take_memory(r: &mut ByteReader<'_>) -> Result<FarMemory, BadBytes> {
    let access = match r.number()? {
        0 => FarAccess::Write,
        1 => FarAccess::Read,
        2 => FarAccess::Replace,
        _ => return Err(BadBytes),
    };
    Ok(FarMemory { access, addr: r.number()? })
}

/// None: there were more names than can be kept.
fn take_end(r: &mut ByteReader<'_>, from: ReadFrom<'_>, sender: u32) -> Result<Option<ChainEnd>, BadBytes> {
    let handle = r.number()?;
    let ops = r.list(|r| {
        let (symbol, who) = (from.names.symbols.read(r)?, from.names.whos.read(r)?);
        let (call, segments) = (from.names.call(r)?, r.small()?);
        let (Some(symbol), Some(who), Some(call)) = (symbol, who, call) else { return Ok(None) };
        Ok(Some(EndOp { symbol, who, call, segments }))
    })?;
    let begin_ns = from.now_ns.wrapping_sub(r.signed()?.cast_unsigned());
    let after = r.list(|r| from.names.contexts.read(r))?.into_iter().flatten().collect();
    let (begin_edge, end_edge, is_tainted) = (r.flag()?, r.flag()?, r.flag()?);
    let instances: Option<Vec<_>> = r.list(|r| take_instance(r, from))?.into_iter().collect();
    let ops: Option<Vec<EndOp>> = ops.into_iter().collect();
    let end = |ops: Vec<EndOp>| ChainEnd {
        to: sender,
        handle,
        ops,
        begin_ns,
        after,
        begin_edge,
        end_edge,
        is_tainted,
        instances: instances.unwrap_or_default(),
    };
    Ok(ops.filter(|ops| !ops.is_empty()).map(end))
}

fn take_over(r: &mut ByteReader<'_>) -> Result<PiecesOver, BadBytes> {
    Ok(PiecesOver {
        to: 0,
        handle: r.number()?,
        pieces: r.small()?,
        had_child: r.flag()?,
        was_read: r.flag()?,
        end_edge: r.flag()?,
        is_tainted: r.flag()?,
    })
}

//! From a record's addresses to spaces and names.

use super::Job;
use super::ids::CallSiteId;
use super::ids::SpaceId;
use super::memory::Memory;
use super::movement::{Movement, Side};
use super::names::{BufferId, Kind, NOT_WATCHED, QUEUE_PAIR, SiteId, TCP_STREAM};
use super::places::Location;
use super::process::Remote;
use super::streams::StreamPiece;
use super::verbs::RemoteBytes;
use crate::tape::wire::{Body, Header, Record};

/// The movement that a record tells of, counted for its process; `None` if it moves nothing.
#[inline(always)]
pub(crate) fn movement(
    job: &mut Job,
    process: usize,
    record: &Record,
    slot: usize,
    call: CallSiteId,
) -> Option<Movement> {
    let (Body::Copy { len_bytes: bytes, .. }
    | Body::Pack { len_bytes: bytes, .. }
    | Body::Cross { len_bytes: bytes, .. }) = record.body
    else {
        return None;
    };
    if bytes == 0 {
        return None;
    }
    let h = &record.header;
    let mut site = job.probes.get(slot).map_or(SiteId(0), |p| p.site);
    // Looked up once for all that it is asked for.
    let p = job.processes.get_mut(process);
    let (thread, who) = (p.thread(h.tid, || job.spaces.new_thread()), p.who);
    p.count_movement(bytes);
    let memory = &mut p.memory;
    let (kind, source, destination);
    let (mut pieces, mut remote) = (1, None);
    match record.body {
        Body::Copy { dst, src, .. } => {
            kind = Kind::Copy;
            (source, destination) = (own(memory, src, bytes), own(memory, dst, bytes));
        }
        Body::Pack { dst, src, segments, unpack, .. } => {
            kind = if unpack { Kind::Unpack } else { Kind::Pack };
            let (from, to) = (own(memory, src, bytes), own(memory, dst, bytes));
            // The other side is in pieces: its exact bytes are not known, and a range
            // around them would link what is not connected.
            (source, destination) = if unpack { (from, named(to)) } else { (named(from), to) };
            pieces = if segments == 0 { 2 } else { segments.min(u64::from(u32::MAX)) as u32 };
        }
        Body::Cross { local, remote: addr, remote_pid, write, .. } => {
            kind = if write { Kind::CrossWrite } else { Kind::CrossRead };
            let own = own(memory, local, bytes);
            let (other, number) = other(job, process, remote_pid, addr, bytes);
            (source, destination) = if write { (own, other) } else { (other, own) };
            remote = Some(number);
            if job.probes.get(slot).is_none() {
                site = if write { job.probes.writev } else { job.probes.readv };
            }
        }
        _ => return None,
    }
    Some(Movement {
        thread,
        process: process as u32,
        pid: h.pid,
        tid: h.tid,
        who,
        time_ns: h.time_ns,
        site,
        kind,
        source,
        destination,
        len_bytes: bytes,
        segments: pieces,
        remote,
        call,
    })
}

/// Bytes that went from memory at `addr` (0: not known) into a stream, or out of it.
pub(crate) fn stream_movement(
    job: &mut Job,
    process: usize,
    h: &Header,
    (addr, receive): (u64, bool),
    piece: &StreamPiece,
    call: CallSiteId,
) -> Movement {
    let bytes = piece.end - piece.start;
    let p = job.processes.get_mut(process);
    let (thread, who) = (p.thread(h.tid, || job.spaces.new_thread()), p.who);
    p.count_movement(bytes);
    let memory = match addr {
        0 => Side { addr: 0, buffer: BufferId(0), space: SpaceId::NONE, start: 0, end: 0 },
        _ => own(&mut p.memory, addr.saturating_add(piece.offset_bytes), bytes),
    };
    let (start, end) = if piece.space.is_some() { (piece.start, piece.end) } else { (0, 0) };
    let (site, buffer, [send, receipt]) = match job.verbs_site(h) {
        Some(site) => (site, QUEUE_PAIR, [Kind::RdmaSend, Kind::RdmaReceive]),
        None => {
            let site = if receive { job.probes.tcp_recvmsg } else { job.probes.tcp_sendmsg };
            (site, TCP_STREAM, [Kind::StreamWrite, Kind::StreamRead])
        }
    };
    let stream = Side { addr: piece.start, buffer, space: piece.space, start, end };
    let (kind, source, destination) =
        if receive { (receipt, stream, memory) } else { (send, memory, stream) };
    Movement {
        thread,
        process: process as u32,
        pid: h.pid,
        tid: h.tid,
        who,
        time_ns: h.time_ns,
        site,
        kind,
        source,
        destination,
        len_bytes: bytes,
        segments: 1,
        remote: None,
        call,
    }
}

/// Bytes that an RDMA operation moved between memory of its process and of another one, `there`: its index.
pub(crate) fn remote_movement(
    job: &mut Job,
    process: usize,
    h: &Header,
    moved: &RemoteBytes,
    there: usize,
    call: CallSiteId,
) -> Movement {
    let far = own(&mut job.processes.get_mut(there).memory, moved.remote, moved.len_bytes.into());
    Movement { remote: Some(there as u32), ..movement_elsewhere(job, process, h, moved, far, call) }
}

/// The same, of memory that is not of this node: `far` stands for it.
pub(crate) fn movement_elsewhere(
    job: &mut Job,
    process: usize,
    h: &Header,
    moved: &RemoteBytes,
    far: Side,
    call: CallSiteId,
) -> Movement {
    let &RemoteBytes { addr, len_bytes, write, .. } = moved;
    let bytes = u64::from(len_bytes);
    let site = job.verbs_site(h).unwrap_or(SiteId(0));
    let p = job.processes.get_mut(process);
    let (thread, who) = (p.thread(h.tid, || job.spaces.new_thread()), p.who);
    p.count_movement(bytes);
    let near = own(&mut p.memory, addr, bytes);
    let (kind, source, destination) =
        if write { (Kind::RdmaWrite, near, far) } else { (Kind::RdmaRead, far, near) };
    Movement {
        thread,
        process: process as u32,
        pid: h.pid,
        tid: h.tid,
        who,
        time_ns: h.time_ns,
        site,
        kind,
        source,
        destination,
        len_bytes: bytes,
        segments: 1,
        // No process here, as with memory of strangers.
        remote: Some(u32::MAX - far.space.0),
        call,
    }
}

#[inline(always)]
pub(crate) fn own(memory: &mut Memory, addr: u64, bytes: u64) -> Side {
    let found = memory.find(addr);
    side(addr, found.buffer, found.at, bytes)
}

#[inline(always)]
fn side(addr: u64, buffer: BufferId, at: Location, bytes: u64) -> Side {
    let end = at.offset.saturating_add(bytes.min(at.limit_bytes));
    Side { addr, buffer, space: at.space, start: at.offset, end }
}

fn named(side: Side) -> Side {
    Side { space: SpaceId::NONE, start: 0, end: 0, ..side }
}

/// A place in another process, and a number for that process that is no watched one's if it is not.
fn other(job: &mut Job, caller: usize, pid: u32, addr: u64, bytes: u64) -> (Side, u32) {
    match job.remote(caller, pid) {
        Remote::Watched(process) => {
            (own(&mut job.processes.get_mut(process).memory, addr, bytes), process as u32)
        }
        Remote::Stranger(space) => {
            let at = Location { space, offset: addr, limit_bytes: u64::MAX - addr };
            (side(addr, NOT_WATCHED, at, bytes), u32::MAX - space.0)
        }
    }
}

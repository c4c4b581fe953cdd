//! From a record's addresses to spaces and names.

use crate::chains::{Movement, Side};
use crate::memory::Location;
use crate::names::{BufferId, Kind, NOT_WATCHED, SiteId};
use crate::probes::Probes;
use crate::process::{CallId, Remote};
use crate::state::State;
use crate::wire::{Body, Header, Record};

/// What one kind of movement says of itself.
struct Raw {
    site: SiteId,
    kind: Kind,
    source: Side,
    destination: Side,
    len_bytes: u64,
    segments: u32,
    remote: Option<u32>,
}

/// The movement that a record tells of; `None` if it moves nothing.
pub(crate) fn movement(
    state: &mut State,
    probes: &Probes,
    process: usize,
    record: &Record,
    slot: usize,
    call: CallId,
) -> Option<Movement> {
    let site = probes.get(slot).map(|p| p.site);
    let raw = match record.body {
        Body::Copy { dst, src, len_bytes, .. } => Raw {
            site: site.unwrap_or(SiteId(0)),
            kind: Kind::Copy,
            source: own(state, process, src),
            destination: own(state, process, dst),
            len_bytes,
            segments: 1,
            remote: None,
        },
        Body::Pack { dst, src, len_bytes, segments, unpack, .. } => {
            let (source, destination) = (own(state, process, src), own(state, process, dst));
            Raw {
                site: site.unwrap_or(SiteId(0)),
                kind: if unpack { Kind::Unpack } else { Kind::Pack },
                // The other side is in pieces: its exact bytes are not known, and a range
                // around them would link what is not connected.
                source: if unpack { source } else { named(source) },
                destination: if unpack { named(destination) } else { destination },
                len_bytes,
                segments: if segments == 0 { 2 } else { segments.min(u64::from(u32::MAX)) as u32 },
                remote: None,
            }
        }
        Body::Cross { local, remote, len_bytes, remote_pid, write, .. } => {
            let (other, remote) = other(state, process, remote_pid, remote);
            let own = own(state, process, local);
            let fixed = if write { probes.writev } else { probes.readv };
            Raw {
                site: site.unwrap_or(fixed),
                kind: if write { Kind::CrossWrite } else { Kind::CrossRead },
                source: if write { own } else { other },
                destination: if write { other } else { own },
                len_bytes,
                segments: 1,
                remote: Some(remote),
            }
        }
        _ => return None,
    };
    (raw.len_bytes > 0).then(|| complete(state, process, &record.header, raw, call))
}

fn complete(state: &mut State, process: usize, h: &Header, raw: Raw, call: CallId) -> Movement {
    Movement {
        thread: state.thread(process, h.tid),
        process: process as u32,
        pid: h.pid,
        tid: h.tid,
        who: state.processes.get(process).who,
        time_ns: h.time_ns,
        site: raw.site,
        kind: raw.kind,
        source: raw.source,
        destination: raw.destination,
        len_bytes: raw.len_bytes,
        segments: raw.segments,
        remote: raw.remote,
        call,
    }
}

fn own(state: &mut State, process: usize, addr: u64) -> Side {
    let found = state.processes.get_mut(process).memory.find(addr);
    Side { addr, buffer: found.buffer, at: Some(found.at) }
}

fn named(side: Side) -> Side {
    Side { at: None, ..side }
}

/// A place in another process, and a number for that process that is no watched one's if it is not.
fn other(state: &mut State, caller: usize, pid: u32, addr: u64) -> (Side, u32) {
    match state.remote(caller, pid) {
        Remote::Watched(process) => (own(state, process, addr), process as u32),
        Remote::Stranger(space) => {
            let at = Location { space, offset: addr, limit_bytes: u64::MAX - addr };
            let buffer: BufferId = NOT_WATCHED;
            (Side { addr, buffer, at: Some(at) }, u32::MAX - space.0)
        }
    }
}

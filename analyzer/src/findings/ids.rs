//! Ids of findings: the same for the same finding in every run of the same binaries, whatever our types are called.
//!
//! An id is made of named parts. Where names are long (chains, places) it has a hash of a text in which each part is
//! written out here; that text is part of the output format, and a test holds it.

use super::finding::{
    AccessConflict, BufferAccess, BufferConflict, BufferUser, CallError, DatatypeMismatch, Fault, HeapFault,
    HeapMisuse, Leak, OutsideWindow, OverlappingBuffers, Place, PotentialDeadlock,
};
use crate::job::messages::LeakKind;
use crate::job::names::{BufferName, Kind, OpName, SiteName};
use crate::job::process::Who;

/// Ranks that an id names.
const MOST_NAMED: usize = 8;

/// Of a chain group, by what its operations are.
pub(crate) fn group<'a>(ops: impl Iterator<Item = &'a OpName>) -> String {
    hash(ops.map(op_text))
}

/// Of a chain that is almost like a frequent one; both are ids of groups.
pub(crate) fn odd_chain(odd: &str, frequent: &str) -> String {
    format!("chain-{odd}-{frequent}")
}

/// Of a rank with another mix of chains; `group`: the one that it has in excess.
pub(crate) fn odd_rank(who: Who, group: &str) -> String {
    match who {
        Who::Rank(rank) => format!("rank-{rank}-{group}"),
        Who::Pid(pid) => format!("process-{pid}-{group}"),
    }
}

/// Of ranks that do not go on; `at_fault`: in order.
pub(crate) fn hang(fault: Fault, at_fault: impl Iterator<Item = u32>) -> String {
    let named: Vec<String> = at_fault.take(MOST_NAMED).map(|rank| rank.to_string()).collect();
    if named.is_empty() {
        return format!("hang-{}", fault_name(fault));
    }
    format!("hang-{}-{}", fault_name(fault), named.join("-"))
}

/// Of collective calls that do not match: `position`: the how manieth of the communicator they are.
pub(crate) fn collective_mismatch(comm: &str, position: u64) -> String {
    format!("collective-mismatch-{comm}-{position}")
}

/// Of the first rank that died.
pub(crate) fn death(fault: Fault, rank: u32) -> String {
    format!("{}-{rank}", fault_name(fault))
}

/// Of an error that the program went on after.
pub(crate) fn error(function: &str, place: &Place, error: &CallError) -> String {
    let parts = [place.module.clone(), place.offset_bytes.to_string(), error_text(error)];
    format!("error-{function}-{}", hash(parts.into_iter()))
}

/// Of what one call left open at the end.
pub(crate) fn leak(left: &Leak) -> String {
    let what = match left.what {
        LeakKind::Message => "message",
        LeakKind::Request => "request",
        LeakKind::PersistentRequest => "persistent-request",
        LeakKind::Communicator => "communicator",
        LeakKind::Window => "window",
        LeakKind::Group => "group",
        LeakKind::Datatype => "datatype",
        LeakKind::Operation => "operation",
    };
    format!("left-over-{what}-{}-{:x}", left.function, left.place.offset_bytes)
}

/// Of a buffer that was used before its request was complete.
pub(crate) fn buffer_conflict(found: &BufferConflict) -> String {
    let (user, place) = match &found.user {
        BufferUser::Call(call) => (call.function.as_str(), &call.place),
        BufferUser::Copy { place } => ("copy", place),
        BufferUser::Free { place } => ("free", place),
        BufferUser::Store { seen_by, .. } => ("store", &seen_by.place),
    };
    let access = match found.access {
        BufferAccess::Read => "read",
        BufferAccess::Written => "written",
        BufferAccess::Received => "received",
        BufferAccess::Freed => "freed",
    };
    let (request, at) = (&found.request.function, found.request.place.offset_bytes);
    format!("buffer-conflict-{request}-{at:x}-{access}-{user}-{:x}", place.offset_bytes)
}

/// Of a call that was given memory which is no block of the heap, or goes past the end of one.
pub(crate) fn heap_misuse(found: &HeapMisuse) -> String {
    let fault = match found.fault {
        HeapFault::BufferOverflow => "overflow",
        HeapFault::UseAfterFree => "use-after-free",
    };
    let (function, at) = (&found.call.function, found.call.place.offset_bytes);
    format!("heap-{fault}-{function}-{at:x}-{:x}", found.allocated.offset_bytes)
}

/// Of a call whose buffers overlap.
pub(crate) fn overlapping_buffers(found: &OverlappingBuffers) -> String {
    format!("overlapping-buffers-{}-{:x}", found.call.function, found.call.place.offset_bytes)
}

/// Of an access outside of a window.
pub(crate) fn outside_window(found: &OutsideWindow) -> String {
    format!("outside-window-{}-{:x}", found.call.function, found.call.place.offset_bytes)
}

/// Of calls that wait for each other unless messages are buffered.
pub(crate) fn potential_deadlock(found: &PotentialDeadlock) -> String {
    let mut calls: Vec<String> = found
        .calls
        .iter()
        .map(|of| format!("-{}-{:x}", of.call.function, of.call.place.offset_bytes))
        .collect();
    calls.sort_unstable();
    format!("potential-deadlock{}", calls.concat())
}

/// Of two accesses to a window that nothing orders.
pub(crate) fn access_conflict(found: &AccessConflict) -> String {
    let [first, second] =
        [&found.first, &found.second].map(|call| format!("{}-{:x}", call.function, call.place.offset_bytes));
    format!("access-conflict-{first}-{second}")
}

/// Of messages between two calls whose datatypes do not match.
pub(crate) fn datatype_mismatch(found: &DatatypeMismatch) -> String {
    let [send, receive] =
        [&found.send, &found.receive].map(|call| format!("{}-{:x}", call.function, call.place.offset_bytes));
    format!("datatype-mismatch-{send}-{receive}")
}

fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Crash => "crash",
        Fault::MismatchedCollective => "mismatched-collective",
        Fault::MissingMessage => "missing-message",
        Fault::Deadlock => "deadlock",
        Fault::UncompletedRequest => "uncompleted-request",
        Fault::Truncated => "truncated",
        Fault::InvalidCall => "invalid-call",
        Fault::Outside => "outside",
        Fault::Stopped => "stopped",
        Fault::UnknownHang => "unknown",
        Fault::NotAnalysed => "not-analysed",
    }
}

fn op_text(op: &OpName) -> String {
    format!(
        "OpName {{ site: {}, kind: {}, pack: {}, crosses: {}, source: {}, destination: {} }}",
        site_text(&op.site),
        kind_text(op.kind),
        op.pack,
        op.crosses,
        buffer_text(&op.source),
        buffer_text(&op.destination)
    )
}

fn site_text(site: &SiteName) -> String {
    match site {
        SiteName::File { module, build_id, offset_bytes } => {
            format!("File {{ module: {module:?}, build_id: {build_id:?}, offset_bytes: {offset_bytes} }}")
        }
        SiteName::Kernel { call } => format!("Kernel {{ call: {call:?} }}"),
        SiteName::Unknown => "Unknown".to_owned(),
    }
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "Copy",
        Kind::Pack => "Pack",
        Kind::Unpack => "Unpack",
        Kind::CrossRead => "CrossRead",
        Kind::CrossWrite => "CrossWrite",
        Kind::Message => "Message",
        Kind::StreamWrite => "StreamWrite",
        Kind::StreamRead => "StreamRead",
        Kind::RdmaSend => "RdmaSend",
        Kind::RdmaReceive => "RdmaReceive",
        Kind::RdmaWrite => "RdmaWrite",
        Kind::RdmaRead => "RdmaRead",
    }
}

fn buffer_text(buffer: &BufferName) -> String {
    match buffer {
        BufferName::Heap { site } => format!("Heap {{ site: {} }}", site_text(site)),
        BufferName::HeapBeforeAttach => "HeapBeforeAttach".to_owned(),
        BufferName::Shared { name } => format!("Shared {{ name: {name:?} }}"),
        BufferName::Static { module } => format!("Static {{ module: {module:?} }}"),
        BufferName::Stack => "Stack".to_owned(),
        BufferName::Anonymous => "Anonymous".to_owned(),
        BufferName::NotWatched => "NotWatched".to_owned(),
        BufferName::TcpStream => "TcpStream".to_owned(),
        BufferName::QueuePair => "QueuePair".to_owned(),
        BufferName::Unknown => "Unknown".to_owned(),
    }
}

fn error_text(error: &CallError) -> String {
    match error {
        CallError::Class(name) => format!("Class({name:?})"),
        CallError::Code(code) => format!("Code({code})"),
        CallError::OutsideOfMpi => "OutsideOfMpi".to_owned(),
        CallError::AfterFinalize => "AfterFinalize".to_owned(),
        CallError::Abort(code) => format!("Abort({code})"),
    }
}

/// FNV-1a of 64 bits, folded to 32.
fn hash(parts: impl Iterator<Item = String>) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for byte in part.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{:08x}", (hash ^ hash >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(offset_bytes: u64) -> SiteName {
        SiteName::File { module: "/lib/a.so".into(), build_id: Some("1f".into()), offset_bytes }
    }

    /// One of every sort of name.
    fn ops() -> Vec<OpName> {
        let buffers = [
            BufferName::Heap { site: site(7) },
            BufferName::HeapBeforeAttach,
            BufferName::Shared { name: "/dev/shm/seg*".into() },
            BufferName::Static { module: "/bin/job".into() },
            BufferName::Stack,
            BufferName::Anonymous,
            BufferName::NotWatched,
            BufferName::Unknown,
        ];
        let kinds = [Kind::Copy, Kind::Pack, Kind::Unpack, Kind::CrossRead, Kind::CrossWrite, Kind::Message];
        let sites =
            [site(16), SiteName::Kernel { call: "process_vm_readv".into() }, SiteName::Unknown, site(32)];
        (0..8)
            .map(|n| OpName {
                site: sites[n % 4].clone(),
                kind: kinds[n % 6],
                pack: n % 2 == 0,
                crosses: n % 3 == 0,
                source: buffers[n].clone(),
                destination: buffers[7 - n].clone(),
            })
            .collect()
    }

    #[test]
    fn ids_of_chains_stay_what_they_were() {
        assert_eq!(group(ops().iter()), "5f7ab1b1");
        assert_eq!(group(ops().iter().take(1)), "29eb1662");
        assert_eq!(odd_chain("12", "34"), "chain-12-34");
        assert_eq!(odd_rank(Who::Rank(3), "12"), "rank-3-12");
        assert_eq!(odd_rank(Who::Pid(3), "12"), "process-3-12");
    }

    #[test]
    fn ids_of_hangs_deaths_and_errors_stay_what_they_were() {
        assert_eq!(hang(Fault::Deadlock, 0..20), "hang-deadlock-0-1-2-3-4-5-6-7");
        assert_eq!(hang(Fault::MismatchedCollective, 2..3), "hang-mismatched-collective-2");
        assert_eq!(hang(Fault::MissingMessage, 2..3), "hang-missing-message-2");
        assert_eq!(hang(Fault::Outside, 2..3), "hang-outside-2");
        assert_eq!(hang(Fault::Stopped, 2..3), "hang-stopped-2");
        assert_eq!(hang(Fault::UnknownHang, 0..0), "hang-unknown");
        assert_eq!(collective_mismatch("0", 7), "collective-mismatch-0-7");
        assert_eq!(death(Fault::Crash, 4), "crash-4");
        assert_eq!(death(Fault::Truncated, 4), "truncated-4");
        assert_eq!(death(Fault::InvalidCall, 4), "invalid-call-4");
        let place = Place { module: "/bin/job".into(), offset_bytes: 77, ..Place::default() };
        let id = |e: CallError| error("MPI_Recv", &place, &e);
        assert_eq!(id(CallError::Class("MPI_ERR_TRUNCATE".into())), "error-MPI_Recv-8dd2d1c0");
        assert_eq!(id(CallError::Code(15)), "error-MPI_Recv-1c28dbe7");
        assert_eq!(id(CallError::OutsideOfMpi), "error-MPI_Recv-41db9892");
        assert_eq!(id(CallError::AfterFinalize), "error-MPI_Recv-e8f130c8");
        assert_eq!(id(CallError::Abort(3)), "error-MPI_Recv-b71aa263");
    }
}

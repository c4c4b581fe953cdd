//! Where the buffers of a made-up rank are.

use analyzer::input::{Mapping, ProcessFacts};
use analyzer::wire::FileId;

/// The program, whose code holds all call sites.
pub(super) const PROGRAM: FileId = FileId { dev: 1, inode: 7 };
/// Messages that are under way between two ranks at most.
const SLOTS: u64 = 8;
const SLOT_BYTES: u64 = 4096;
const CODE: u64 = 0x40_0000;
const HEAP: u64 = 0x100_0000;
const STACK: u64 = 0x7ffc_0000_0000;
const NETWORK: u64 = 0x6000_0000_0000;
const FIRST_SEGMENT_INODE: u64 = 100;

/// Payload of a message.
pub(super) const PAYLOAD_BYTES: u64 = 1024;
/// Header of a message in a segment.
pub(super) const HEADER_BYTES: u64 = 14;
/// The block that is given back and asked for again.
pub(super) const BLOCK: u64 = HEAP + 0x30_0000;
pub(super) const BLOCK_BYTES: u64 = 8192;
/// What a rank posts again and again.
pub(super) const REQUEST: u64 = HEAP + 0x40_0000;
/// Where a header is made.
pub(super) const HEADER: u64 = STACK + 0x100;

/// The user's buffer that is sent to a neighbour.
pub(super) fn sent(side: u64) -> u64 {
    HEAP + side * 8192
}

/// The user's buffer that is received from a neighbour.
pub(super) fn received(side: u64) -> u64 {
    HEAP + 0x10_0000 + side * 8192
}

/// Where a message to a neighbour is gathered.
pub(super) fn staging(side: u64) -> u64 {
    HEAP + 0x20_0000 + side * 8192
}

/// Where the network takes a message from, or puts one.
pub(super) fn network(side: u64, out: bool) -> u64 {
    NETWORK + (side * 2 + u64::from(out)) * 8192
}

/// Where the node's segment is mapped in a rank: elsewhere in every rank of a node.
fn segment(rank: u32) -> u64 {
    0x7000_0000_0000 + u64::from(rank % 4096) * 0x4000_0000
}

/// A message's place in the segment as `rank` sees it; `sender` counts from the node's first rank.
pub(super) fn slot(rank: u32, sender: u32, side: u64, step: u64) -> u64 {
    segment(rank) + ((u64::from(sender) * 4 + side) * SLOTS + step % SLOTS) * SLOT_BYTES
}

/// Where a rank puts its requests.
pub(super) fn request_slot(rank: u32, sender: u32) -> u64 {
    slot(rank, sender, 0, 0) + SLOT_BYTES / 2
}

/// Return address of the program's calls of an MPI function.
pub(super) fn return_address(call: u64) -> u64 {
    CODE + 0x100 + call * 32 + 5
}

/// Where an address of the program's code is in its file.
pub(super) fn code_offset(address: u64) -> u64 {
    address - CODE
}

/// What `/proc` says of a rank on a node whose segment holds slots of so many ranks.
pub(super) fn facts(pid: u32, rank: u32, size: u32, node: u32, ranks_of_node: u32) -> ProcessFacts {
    let map = |start: u64, len: u64, inode: u64, shared, exec, name: &str| Mapping {
        start,
        end: start + len,
        file: FileId { dev: PROGRAM.dev, inode },
        shared,
        exec,
        name: name.to_owned(),
        ..Mapping::default()
    };
    let segment_bytes = u64::from(ranks_of_node) * 4 * SLOTS * SLOT_BYTES;
    let inode = FIRST_SEGMENT_INODE + u64::from(node);
    ProcessFacts {
        pid,
        namespace_pid: pid,
        pid_namespace: 1 + u64::from(node),
        rank: Some(rank),
        size: Some(size),
        exe: "/bin/made-up".to_owned(),
        mappings: vec![
            map(CODE, 0x10_0000, PROGRAM.inode, false, true, "/bin/made-up"),
            map(HEAP, 0x100_0000, 0, false, false, "[heap]"),
            map(NETWORK, 0x10_0000, 0, false, false, ""),
            map(segment(rank), segment_bytes, inode, true, false, &format!("/dev/shm/segment.{node}")),
            map(STACK, 0x1_0000, 0, false, false, "[stack]"),
        ],
        time_ns: 0,
    }
}

//! Records of what queue pairs move.

use super::direction::StreamPlace;
use super::enums::operation;
use super::queue_pair::QueuePair;
use crate::tape::wire::{Body, CallContext, Header, RawRecord, Record, WorkSegment};

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalBytes {
    pub addr: u64,
    pub len_bytes: u32,
}

/// A message without data is told as well if it is in a stream: it comes after it was sent, and after all that was written
/// before it.
pub(super) fn put_stream(
    h: &Header,
    bytes: LocalBytes,
    place: StreamPlace,
    context: CallContext,
    out: &mut impl FnMut(RawRecord),
) {
    let LocalBytes { addr, len_bytes } = bytes;
    let StreamPlace { stream, position, receive } = place;
    if len_bytes > 0 || stream != 0 {
        let body = Body::Stream { addr, stream, position, len_bytes, receive, context };
        out(Record { header: *h, body }.encode());
    }
}

/// A message that moves nothing itself.
pub(super) fn put_notice(
    h: &Header,
    place: StreamPlace,
    context: CallContext,
    out: &mut impl FnMut(RawRecord),
) {
    put_stream(h, LocalBytes { addr: 0, len_bytes: 0 }, place, context, out);
}

/// Bytes that go to memory of the other end or come from there; nobody knows where, unless it is known who that is. `posted`:
/// where what the other end receives was then.
pub(super) fn put_remote(
    h: &Header,
    work: &WorkSegment,
    (peer, posted): (u64, StreamPlace),
    context: CallContext,
    out: &mut impl FnMut(RawRecord),
) {
    let &WorkSegment { addr, remote, len_bytes, operation, .. } = work;
    let write = matches!(operation, operation::RDMA_WRITE | operation::RDMA_WRITE_WITH_IMMEDIATE);
    let atomic = matches!(operation, operation::COMPARE_AND_SWAP | operation::FETCH_AND_ADD);
    if peer == 0 {
        let nowhere = StreamPlace { stream: 0, position: 0, receive: !write };
        return put_stream(h, LocalBytes { addr, len_bytes }, nowhere, context, out);
    }
    if len_bytes > 0 {
        let StreamPlace { stream, position, .. } = posted;
        let body = Body::Remote { addr, remote, peer, stream, position, len_bytes, write, atomic, context };
        out(Record { header: *h, body }.encode());
    }
}

/// Whose a queue pair is, and what its streams are called, as far as that is known.
pub(super) fn put_endpoint(h: &Header, pair: &QueuePair, out: &mut impl FnMut(RawRecord)) {
    let (incoming, outgoing) = pair.streams();
    let body = Body::Endpoint { name: pair.own_name(), incoming, outgoing };
    out(Record { header: *h, body }.encode());
}

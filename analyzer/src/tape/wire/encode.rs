//! From a record to words.

use super::{
    Body, HEADER_WORDS, MAP_EXEC, MAP_FILE, MAP_SHARED, MAX_WORDS, RawRecord, Record, WorkSegment, kind,
};

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Record {
    /// The words that [`Record::decode`] reads.
    #[inline]
    pub fn encode(&self) -> RawRecord {
        let h = self.header;
        let (kind, flags) = (self.body.kind(), self.body.flags());
        let mut raw = RawRecord { words: [0; MAX_WORDS], len: HEADER_WORDS as u8 };
        raw.words[0] = h.time_ns;
        raw.words[1] = join(h.pid, h.tid);
        raw.words[2] = u64::from(kind) | u64::from(flags) << 16 | u64::from(h.probe) << 32;
        let mut put = |words: &[u64]| {
            let at = usize::from(raw.len);
            raw.words[at..at + words.len()].copy_from_slice(words);
            raw.len += words.len() as u8;
        };
        match self.body {
            Body::Copy { dst, src, len_bytes, context: c } => {
                put(&[dst, src, len_bytes, c.return_address, join(c.probe, c.serial)]);
            }
            Body::Pack { dst, src, len_bytes, segments, context: c, .. } => {
                put(&[dst, src, len_bytes, c.return_address, join(c.probe, c.serial), segments]);
            }
            Body::Cross { local, remote, len_bytes, remote_pid, segment, context: c, .. } => {
                put(&[local, remote, len_bytes, c.return_address, join(c.probe, c.serial)]);
                put(&[join(remote_pid, segment)]);
            }
            Body::Stream { addr, stream, position, len_bytes, context: c, .. } => {
                put(&[addr, stream, join(position, len_bytes), c.return_address, join(c.probe, c.serial)]);
            }
            Body::Work(WorkSegment {
                addr, number, queue, len_bytes, took_ns, remote, context: c, ..
            }) => {
                put(&[addr, number, join(queue, len_bytes), c.return_address, join(c.probe, c.serial)]);
                put(&[join(self.body.work_bytes(), took_ns), remote]);
            }
            Body::Completion {
                number,
                queue,
                len_bytes,
                operation,
                status,
                took_ns,
                idle_ns,
                context: c,
            } => {
                put(&[number, join(queue, len_bytes), join(operation, status)]);
                put(&[c.return_address, join(c.probe, c.serial), join(took_ns, idle_ns)]);
            }
            Body::Queue(q) => {
                let low = u32::from_le_bytes([q.state, q.transport, q.port, q.index]);
                put(&q.address);
                put(&[join(q.queue, q.peer), join(low, u32::from(q.lid) | u32::from(q.is_global) << 16)]);
                put(&[join(q.psn, q.shared), q.device[0], q.device[1]]);
            }
            Body::Remote { addr, remote, peer, stream, position, len_bytes, context: c, .. } => {
                put(&[addr, remote, peer, c.return_address, join(c.probe, c.serial)]);
                put(&[join(len_bytes, position), stream]);
            }
            Body::Endpoint { name, incoming, outgoing } => put(&[name, incoming, outgoing]),
            Body::Call { return_address, args, .. } => {
                put(&[return_address]);
                put(&args);
            }
            Body::Done => {}
            Body::Made { handle } => put(&[handle]),
            Body::HeldUp { waited_ns, own_ns, .. } => put(&[waited_ns, own_ns]),
            Body::Alloc { addr, size_bytes, old, caller } => put(&[addr, size_bytes, old, caller]),
            Body::Free { addr, caller } => put(&[addr, caller]),
            Body::Map { addr, len_bytes, offset_bytes, file, shared, exec, has_file } => {
                let flags = if shared { MAP_SHARED } else { 0 }
                    | if exec { MAP_EXEC } else { 0 }
                    | if has_file { MAP_FILE } else { 0 };
                put(&[addr, len_bytes, offset_bytes, file.inode, join(file.dev, flags)]);
            }
            Body::Unmap { addr, len_bytes } => put(&[addr, len_bytes]),
            Body::Fork { child } | Body::Thread { child, .. } => put(&[u64::from(child)]),
            Body::Exec => put(&[0]),
            Body::Exit { status, at } => put(&[u64::from(status), at]),
            Body::Values { serial, argument, total_bytes, position_bytes, words, .. } => {
                put(&[join(serial, argument), join(total_bytes, position_bytes)]);
                put(&words);
            }
            Body::Return { serial, code, argument, bytes, word } => {
                put(&[join(serial, code.cast_unsigned()), join(argument, bytes), word]);
            }
        }
        raw
    }
}

impl Body {
    /// Number of its kind on the wire.
    #[inline]
    pub(crate) fn kind(&self) -> u16 {
        match self {
            Self::Copy { .. } => kind::COPY,
            Self::Pack { .. } => kind::PACK,
            Self::Cross { .. } => kind::CROSS,
            Self::Call { .. } => kind::CALL,
            Self::Done => kind::DONE,
            Self::Alloc { .. } => kind::ALLOC,
            Self::Free { .. } => kind::FREE,
            Self::Map { .. } => kind::MAP,
            Self::Unmap { .. } => kind::UNMAP,
            Self::Fork { .. } => kind::FORK,
            Self::Thread { .. } => kind::THREAD,
            Self::Exec => kind::EXEC,
            Self::Exit { .. } => kind::EXIT,
            Self::Values { .. } => kind::VALUES,
            Self::Return { .. } => kind::RETURN,
            Self::Made { .. } => kind::MADE,
            Self::Stream { .. } => kind::STREAM,
            Self::Work(_) => kind::WORK,
            Self::Completion { .. } => kind::COMPLETION,
            Self::Queue(_) => kind::QUEUE,
            Self::Remote { .. } => kind::REMOTE,
            Self::Endpoint { .. } => kind::ENDPOINT,
            Self::HeldUp { .. } => kind::HELD_UP,
        }
    }

    /// Four numbers of a segment in one.
    fn work_bytes(&self) -> u32 {
        let &Self::Work(WorkSegment { operation, send_flags, segment, segments, .. }) = self else {
            return 0;
        };
        u32::from_le_bytes([operation, send_flags, segment, segments])
    }

    /// The flags that some kinds have.
    #[inline]
    fn flags(&self) -> u16 {
        let first = match self {
            Self::Pack { unpack, .. } => *unpack,
            Self::Cross { write, .. } => *write,
            Self::Stream { receive, .. } | Self::Work(WorkSegment { receive, .. }) => *receive,
            Self::Remote { write, .. } => *write,
            Self::Call { nested, .. } => *nested,
            Self::Values { at_return, .. } => *at_return,
            Self::HeldUp { moved, .. } => *moved,
            Self::Thread { in_call, .. } => *in_call,
            _ => false,
        };
        let second = match self {
            Self::Work(WorkSegment { shared: second, .. }) | Self::Remote { atomic: second, .. } => *second,
            Self::HeldUp { slept, .. } => *slept,
            _ => false,
        };
        u16::from(first) | u16::from(second) << 1
    }
}

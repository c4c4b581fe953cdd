//! What the BPF programs write: the Rust side of `tracer-ebpf/src/bpf/wire.h`.
//!
//! A record is a whole number of 64-bit words. [`RawRecord`] carries the words as they
//! came, so that the tape keeps even what this version cannot read; [`Record::decode`]
//! gives them names.

/// Most words that a record of this version has.
pub const MAX_WORDS: usize = 10;
/// Words of the header that every record starts with.
pub const HEADER_WORDS: usize = 3;

/// Words of one piece of what an argument points to.
pub const PIECE_WORDS: usize = 5;
/// Stands for the arguments on the stack, as if this one pointed to them.
pub const STACK_ARGUMENTS: u32 = 6;
/// No argument.
pub const NO_ARGUMENT: u32 = 0xff;

/// A record as the kernel wrote it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawRecord {
    words: [u64; MAX_WORDS],
    len: u8,
}

impl RawRecord {
    /// Takes the words of one record; `None` if there are too few for a header or too many.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        if !(HEADER_WORDS..=MAX_WORDS).contains(&words.len()) {
            return None;
        }
        let mut all = [0; MAX_WORDS];
        all[..words.len()].copy_from_slice(words);
        Some(Self { words: all, len: words.len() as u8 })
    }

    /// Takes the bytes of one record as they lie in a ring (native byte order).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || !(HEADER_WORDS..=MAX_WORDS).contains(&chunks.len()) {
            return None;
        }
        let mut words = [0; MAX_WORDS];
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Some(Self { words, len: chunks.len() as u8 })
    }

    /// The words, header first.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..usize::from(self.len)]
    }

    /// The same, to be changed; none may be added.
    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words[..usize::from(self.len)]
    }

    /// When it happened, CLOCK_MONOTONIC.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        self.words[0]
    }

    /// The process (thread group id in the initial pid namespace).
    #[inline]
    pub fn pid(&self) -> u32 {
        self.words[1] as u32
    }

    /// The thread (id in the initial pid namespace).
    #[inline]
    pub fn tid(&self) -> u32 {
        (self.words[1] >> 32) as u32
    }

    /// Number of its kind.
    #[inline]
    pub fn kind(&self) -> u16 {
        self.words[2] as u16
    }

    /// Id of the probe; 0: none.
    pub fn probe(&self) -> u32 {
        (self.words[2] >> 32) as u32
    }
}

impl std::fmt::Debug for RawRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Record::decode(self) {
            Ok(record) => record.fmt(f),
            Err(_) => f.debug_tuple("RawRecord").field(&self.words()).finish(),
        }
    }
}

/// What every record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Thread group id in the initial pid namespace.
    pub pid: u32,
    /// Thread id in the initial pid namespace.
    pub tid: u32,
    /// Probe in the plan that wrote it; 0 for events that come from the kernel itself.
    pub probe: u32,
}

/// The outermost MPI call that the thread was in; all zero if none is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallContext {
    /// Return address of the call in the process's space; 0: outside MPI, or not known.
    pub return_address: u64,
    /// Probe id of the MPI entry point.
    pub probe: u32,
    /// How many MPI calls the thread had made by then.
    pub serial: u32,
}

/// One record, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who and when.
    pub header: Header,
    /// What.
    pub body: Body,
}

/// What a record tells. Addresses are of the process's own address space unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Body {
    /// A memory copy, seen just before it runs.
    Copy { dst: u64, src: u64, len_bytes: u64, context: CallContext },
    /// A pack (`unpack` false: the source is the non-contiguous side) or unpack of a derived
    /// datatype. The address of the non-contiguous side is the user's buffer argument.
    /// `segments` 0: not known, at least two.
    Pack { dst: u64, src: u64, len_bytes: u64, segments: u64, unpack: bool, context: CallContext },
    /// One segment of a `process_vm_readv` (`write` false: remote is the source) or `writev`.
    /// `remote_pid` is as the caller named it, in its own pid namespace.
    Cross {
        local: u64,
        remote: u64,
        len_bytes: u64,
        remote_pid: u32,
        segment: u32,
        write: bool,
        context: CallContext,
    },
    /// Bytes of one buffer that went into a stream, or (`receive`) out of it, seen when they have moved: of TCP, or, if it has a
    /// probe, what a reliable connected pair of RDMA's queue pairs sends. The kernel part writes the former alone: see
    /// `verbs`.
    Stream {
        /// Of the buffer; 0: not known.
        addr: u64,
        /// The same number at both ends, another one for each direction; 0: not known.
        stream: u64,
        /// TCP's sequence number of the first byte; of queue pairs, counted from where they were connected.
        position: u32,
        len_bytes: u32,
        receive: bool,
        context: CallContext,
    },
    /// One segment of a work request of RDMA verbs that was posted.
    Work(WorkSegment),
    /// A work completion that was polled.
    Completion {
        /// The program's own number of the work request.
        number: u64,
        /// Number of its queue pair.
        queue: u32,
        /// Of what was received.
        len_bytes: u32,
        /// As `enum ibv_wc_opcode` counts.
        operation: u32,
        /// As `enum ibv_wc_status` counts; 0: success.
        status: u32,
        /// The poll took so long.
        took_ns: u32,
        /// So long ago the thread's last poll of this queue began that found nothing; 0: not known.
        idle_ns: u32,
        context: CallContext,
    },
    /// A queue pair is about to be set up, connected or reset, or is found in use.
    Queue(QueueChange),
    /// Bytes that an RDMA write took from memory at `addr` to `remote` in the process that has the queue pair `peer` (see
    /// [`Body::Endpoint`]), or (`write` false) a read or an atomic operation (`atomic`: what is there is replaced) took from there.
    /// It was posted where the stream to that queue pair was at `position`; 0: that stream is not known. The kernel part never
    /// writes it.
    Remote {
        addr: u64,
        remote: u64,
        peer: u64,
        stream: u64,
        position: u32,
        len_bytes: u32,
        write: bool,
        atomic: bool,
        context: CallContext,
    },
    /// The process has the queue pair of this name, which is the same for both ends, and these are the streams of it; 0: not
    /// known yet. The kernel part never writes it.
    Endpoint { name: u64, incoming: u64, outgoing: u64 },
    /// A piece of what an argument (from 0) of the thread's last MPI call points to; [`STACK_ARGUMENTS`]:
    /// the arguments on the stack. `serial`: calls of the thread so far.
    Values {
        serial: u32,
        argument: u32,
        total_bytes: u32,
        position_bytes: u32,
        at_return: bool,
        words: [u64; PIECE_WORDS],
    },
    /// The thread's last MPI call returned `code`; `word` is what `argument` ([`NO_ARGUMENT`]: none) points to.
    Return { serial: u32, code: i32, argument: u32, bytes: u32, word: u64 },
    /// The thread's last outermost MPI call, the one of this probe, has stored this handle. Seen at the thread's next call:
    /// a handle of what is over by then may have been overwritten.
    Made { handle: u64 },
    /// Entry into an MPI call.
    Call { return_address: u64, args: [u64; 6], nested: bool },
    /// A polling MPI call answered yes.
    Done,
    /// Since the thread's hit of a call before, it waited so long for a processor, and dmscope ran so long on the one where it was
    /// then. `moved`: it is on another one now; `slept`: it did not only wait.
    HeldUp { waited_ns: u64, own_ns: u64, moved: bool, slept: bool },
    /// A heap block. `old` ≠ 0: realloc gave that one back.
    Alloc { addr: u64, size_bytes: u64, old: u64, caller: u64 },
    /// A heap block given back.
    Free { addr: u64, caller: u64 },
    /// A new mapping.
    Map {
        addr: u64,
        len_bytes: u64,
        offset_bytes: u64,
        file: FileId,
        shared: bool,
        exec: bool,
        has_file: bool,
    },
    /// A range no longer mapped; without a length, that of the System V segment which is attached there.
    Unmap { addr: u64, len_bytes: u64 },
    /// A child process.
    Fork { child: u32 },
    /// The process runs another program now: its address space is new.
    Exec,
    /// The process ended; status as wait(2) gives it. `at`: the instruction that got the signal
    /// which ended it; 0: none did, or it is not known.
    Exit { status: u32, at: u64 },
}

/// One segment of a work request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkSegment {
    /// Where it is.
    pub addr: u64,
    /// The program's own number of the request.
    pub number: u64,
    /// Number of its queue pair; a number made of the address of a shared receive queue.
    pub queue: u32,
    /// Of this segment.
    pub len_bytes: u32,
    /// As `enum ibv_wr_opcode` counts; of no meaning if it receives.
    pub operation: u8,
    /// As `enum ibv_send_flags` counts.
    pub send_flags: u8,
    /// 0, 1, … within the request.
    pub segment: u8,
    /// There are so many; 0: this stands for the request alone.
    pub segments: u8,
    /// It was being posted for so long.
    pub took_ns: u32,
    /// What an RDMA operation writes or reads at the other end.
    pub remote: u64,
    /// It was posted to a receive queue …
    pub receive: bool,
    /// … which several queue pairs share.
    pub shared: bool,
    /// The MPI call that posted it.
    pub context: CallContext,
}

/// What becomes of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChange {
    /// GID of the other end, as it lies in memory.
    pub address: [u64; 2],
    /// Number of the queue pair.
    pub queue: u32,
    /// And of the other end's.
    pub peer: u32,
    /// As `enum ibv_qp_state` counts.
    pub state: u8,
    /// As `enum ibv_qp_type` counts.
    pub transport: u8,
    /// Port of the device.
    pub port: u8,
    /// Of its own GID among those of the port.
    pub index: u8,
    /// LID of the other end, which counts unless `is_global`.
    pub lid: u16,
    /// The GID counts.
    pub is_global: bool,
    /// The first packet to be received (next state: ready to receive) or sent (ready to send).
    pub psn: u32,
    /// Its shared receive queue, as in [`WorkSegment::queue`]; 0: none.
    pub shared: u32,
    /// The beginning of the device's name.
    pub device: [u64; 2],
}

/// A file of this machine, however it is called and mounted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct FileId {
    /// Kernel's internal device number: major << 20 | minor.
    pub dev: u32,
    /// Inode number.
    pub inode: u64,
}

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Written by a newer version, or damaged.
    #[error("unknown record kind {0}")]
    UnknownKind(u16),
    /// Not as long as its kind says.
    #[error("a record of kind {kind} has {words} words")]
    WrongLength {
        /// The kind.
        kind: u16,
        /// The words that came.
        words: u8,
    },
}

/// Numbers of `enum dms_kind`.
pub mod kind {
    #![allow(missing_docs)]
    pub const COPY: u16 = 1;
    pub const PACK: u16 = 2;
    pub const CROSS: u16 = 3;
    pub const CALL: u16 = 4;
    pub const DONE: u16 = 5;
    pub const ALLOC: u16 = 6;
    pub const FREE: u16 = 7;
    pub const MAP: u16 = 8;
    pub const UNMAP: u16 = 9;
    pub const FORK: u16 = 10;
    pub const EXEC: u16 = 11;
    pub const EXIT: u16 = 12;
    pub const VALUES: u16 = 13;
    pub const RETURN: u16 = 14;
    pub const MADE: u16 = 15;
    pub const STREAM: u16 = 16;
    pub const WORK: u16 = 17;
    pub const COMPLETION: u16 = 18;
    pub const QUEUE: u16 = 19;
    /// Made from other records, as is the next one.
    pub const REMOTE: u16 = 20;
    pub const ENDPOINT: u16 = 21;
    pub const HELD_UP: u16 = 22;

    /// Whether a record of this kind stands for a hit of its probe; others add to what a hit has told.
    #[inline]
    pub fn is_hit(kind: u16) -> bool {
        !matches!(kind, VALUES | RETURN | MADE | STREAM | REMOTE | ENDPOINT | HELD_UP)
    }
}

/// A record, if it is as long as its kind says. Asked of each kind where it is decoded: all of it goes where it is to be at
/// once.
#[inline(always)]
fn fit(raw: &RawRecord, header: Header, words: u8, body: Body) -> Result<Record, WireError> {
    if raw.len != words {
        return Err(WireError::WrongLength { kind: raw.kind(), words: raw.len });
    }
    Ok(Record { header, body })
}

const MAP_SHARED: u32 = 1;
const MAP_EXEC: u32 = 2;
const MAP_FILE: u32 = 4;

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Record {
    /// Gives names to the words.
    ///
    /// # Errors
    /// An unknown kind, or a length that is not the kind's.
    #[inline(always)]
    pub fn decode(raw: &RawRecord) -> Result<Self, WireError> {
        let w = &raw.words;
        let header = Header { time_ns: w[0], pid: low(w[1]), tid: high(w[1]), probe: high(w[2]) };
        let kind = w[2] as u16;
        let flag = w[2] >> 16 & 1 == 1;
        let second_flag = w[2] >> 17 & 1 == 1;
        let context = || CallContext { return_address: w[6], probe: low(w[7]), serial: high(w[7]) };
        match kind {
            kind::COPY => {
                fit(raw, header, 8, Body::Copy { dst: w[3], src: w[4], len_bytes: w[5], context: context() })
            }
            kind::PACK => fit(
                raw,
                header,
                9,
                Body::Pack {
                    dst: w[3],
                    src: w[4],
                    len_bytes: w[5],
                    segments: w[8],
                    unpack: flag,
                    context: context(),
                },
            ),
            kind::CROSS => fit(
                raw,
                header,
                9,
                Body::Cross {
                    local: w[3],
                    remote: w[4],
                    len_bytes: w[5],
                    remote_pid: low(w[8]),
                    segment: high(w[8]),
                    write: flag,
                    context: context(),
                },
            ),
            kind::STREAM => fit(
                raw,
                header,
                8,
                Body::Stream {
                    addr: w[3],
                    stream: w[4],
                    position: low(w[5]),
                    len_bytes: high(w[5]),
                    receive: flag,
                    context: context(),
                },
            ),
            kind::WORK => fit(
                raw,
                header,
                10,
                Body::Work(WorkSegment {
                    addr: w[3],
                    number: w[4],
                    queue: low(w[5]),
                    len_bytes: high(w[5]),
                    operation: w[8] as u8,
                    send_flags: (w[8] >> 8) as u8,
                    segment: (w[8] >> 16) as u8,
                    segments: (w[8] >> 24) as u8,
                    took_ns: high(w[8]),
                    remote: w[9],
                    receive: flag,
                    shared: second_flag,
                    context: context(),
                }),
            ),
            kind::COMPLETION => fit(
                raw,
                header,
                9,
                Body::Completion {
                    number: w[3],
                    queue: low(w[4]),
                    len_bytes: high(w[4]),
                    operation: low(w[5]),
                    status: high(w[5]),
                    took_ns: low(w[8]),
                    idle_ns: high(w[8]),
                    context: context(),
                },
            ),
            kind::QUEUE => fit(
                raw,
                header,
                10,
                Body::Queue(QueueChange {
                    address: [w[3], w[4]],
                    queue: low(w[5]),
                    peer: high(w[5]),
                    state: w[6] as u8,
                    transport: (w[6] >> 8) as u8,
                    port: (w[6] >> 16) as u8,
                    index: (w[6] >> 24) as u8,
                    lid: (w[6] >> 32) as u16,
                    is_global: (w[6] >> 48) as u16 != 0,
                    psn: low(w[7]),
                    shared: high(w[7]),
                    device: [w[8], w[9]],
                }),
            ),
            kind::REMOTE => fit(
                raw,
                header,
                // Before version 6 of tapes: without the stream.
                if raw.len == 9 { 9 } else { 10 },
                Body::Remote {
                    addr: w[3],
                    remote: w[4],
                    peer: w[5],
                    stream: w[9],
                    position: high(w[8]),
                    len_bytes: low(w[8]),
                    write: flag,
                    atomic: second_flag,
                    context: context(),
                },
            ),
            // Before version 6 of tapes: the name alone.
            kind::ENDPOINT => fit(
                raw,
                header,
                if raw.len == 4 { 4 } else { 6 },
                Body::Endpoint { name: w[3], incoming: w[4], outgoing: w[5] },
            ),
            kind::CALL => fit(
                raw,
                header,
                10,
                Body::Call { return_address: w[3], args: [w[4], w[5], w[6], w[7], w[8], w[9]], nested: flag },
            ),
            kind::DONE => fit(raw, header, 3, Body::Done),
            kind::ALLOC => {
                fit(raw, header, 7, Body::Alloc { addr: w[3], size_bytes: w[4], old: w[5], caller: w[6] })
            }
            kind::FREE => fit(raw, header, 5, Body::Free { addr: w[3], caller: w[4] }),
            kind::MAP => {
                let flags = high(w[7]);
                fit(
                    raw,
                    header,
                    8,
                    Body::Map {
                        addr: w[3],
                        len_bytes: w[4],
                        offset_bytes: w[5],
                        file: FileId { dev: low(w[7]), inode: w[6] },
                        shared: flags & MAP_SHARED != 0,
                        exec: flags & MAP_EXEC != 0,
                        has_file: flags & MAP_FILE != 0,
                    },
                )
            }
            kind::UNMAP => fit(raw, header, 5, Body::Unmap { addr: w[3], len_bytes: w[4] }),
            kind::FORK => fit(raw, header, 4, Body::Fork { child: low(w[3]) }),
            kind::EXEC => fit(raw, header, 4, Body::Exec),
            // Older tapes do not say where.
            kind::EXIT if raw.len == 4 => fit(raw, header, 4, Body::Exit { status: low(w[3]), at: 0 }),
            kind::EXIT => fit(raw, header, 5, Body::Exit { status: low(w[3]), at: w[4] }),
            kind::VALUES => fit(
                raw,
                header,
                10,
                Body::Values {
                    serial: low(w[3]),
                    argument: high(w[3]),
                    total_bytes: low(w[4]),
                    position_bytes: high(w[4]),
                    at_return: flag,
                    words: [w[5], w[6], w[7], w[8], w[9]],
                },
            ),
            kind::RETURN => fit(
                raw,
                header,
                6,
                Body::Return {
                    serial: low(w[3]),
                    code: high(w[3]).cast_signed(),
                    argument: low(w[4]),
                    bytes: high(w[4]),
                    word: w[5],
                },
            ),
            kind::MADE => fit(raw, header, 4, Body::Made { handle: w[3] }),
            kind::HELD_UP => fit(
                raw,
                header,
                5,
                Body::HeldUp { waited_ns: w[3], own_ns: w[4], moved: flag, slept: second_flag },
            ),
            other => Err(WireError::UnknownKind(other)),
        }
    }

    /// The words that [`Record::decode`] reads: for tests and generated tapes.
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
            Body::Fork { child } => put(&[u64::from(child)]),
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
    fn flags(&self) -> u16 {
        let first = match self {
            Self::Pack { unpack, .. } => *unpack,
            Self::Cross { write, .. } => *write,
            Self::Stream { receive, .. } | Self::Work(WorkSegment { receive, .. }) => *receive,
            Self::Remote { write, .. } => *write,
            Self::Call { nested, .. } => *nested,
            Self::Values { at_return, .. } => *at_return,
            Self::HeldUp { moved, .. } => *moved,
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

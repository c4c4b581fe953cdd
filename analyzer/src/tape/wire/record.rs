//! What a record says.

/// Words of one piece of what an argument points to.
pub const PIECE_WORDS: usize = 5;
/// Stands for the arguments on the stack, as if this one pointed to them.
pub const STACK_ARGUMENTS: u32 = 6;
/// In the place of an argument: buffers of sends that have changed since these began, and are not complete. Five words for each: which
/// of the call's requests it is (from 0), where the buffer is, nanoseconds since it was looked at for the first time, which byte is the
/// first that has changed, and 0.
pub const CHANGED_BUFFERS: u32 = 64;
/// No argument.
pub const NO_ARGUMENT: u32 = 0xff;

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
    /// the arguments on the stack; [`CHANGED_BUFFERS`]: what its requests show. `serial`: calls of the thread so far.
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
    /// The thread has created another one; `in_call`: within an MPI call.
    Thread { child: u32, in_call: bool },
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

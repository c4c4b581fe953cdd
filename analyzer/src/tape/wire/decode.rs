//! From words to a record.

use super::{
    Body, CallContext, FileId, Header, MAP_EXEC, MAP_FILE, MAP_SHARED, QueueChange, RawRecord, Record,
    WireError, WorkSegment, kind,
};

/// A record, if it is as long as its kind says. Asked of each kind where it is decoded: all of it goes where it is to be at
/// once.
#[inline(always)]
fn fit(raw: &RawRecord, header: Header, words: u8, body: Body) -> Result<Record, WireError> {
    if raw.len != words {
        return Err(WireError::WrongLength { kind: raw.kind(), words: raw.len });
    }
    Ok(Record { header, body })
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
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
            kind::THREAD => fit(raw, header, 4, Body::Thread { child: low(w[3]), in_call: flag }),
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
}

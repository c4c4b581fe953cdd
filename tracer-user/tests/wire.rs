//! Both sides of the wire say the same: a C program fills the structures of `wire.h`, the Rust side
//! must find every value.

use std::fs;
use std::process::Command;

use analyzer::wire::{Body, CallContext, FileId, Header, QueueChange, RawRecord, Record, WorkSegment};

const FILL: &str = r#"
#include <stdio.h>
#include <string.h>
#include <linux/types.h>
#include "wire.h"
static struct dms_header header(__u16 kind, __u16 flags)
{
	return (struct dms_header){ .time_ns = 11, .pid = 12, .tid = 13, .kind = kind, .flags = flags, .probe = 14 };
}
#define CONTEXT { .call_return = 21, .call_probe = 22, .call_serial = 23 }
#define EMIT(...) do { __VA_ARGS__; __u64 size = sizeof(r); fwrite(&size, 8, 1, stdout); fwrite(&r, size, 1, stdout); } while (0)
int main(void)
{
	EMIT(struct dms_copy r = { header(DMS_COPY, 0), .dst = 1, .src = 2, .len_bytes = 3, .ctx = CONTEXT });
	EMIT(struct dms_pack r = { header(DMS_PACK, DMS_PACK_UNPACK), .dst = 1, .src = 2, .len_bytes = 3, .ctx = CONTEXT, .segments = 4 });
	EMIT(struct dms_cross r = { header(DMS_CROSS, DMS_CROSS_WRITE), .local = 1, .remote = 2, .len_bytes = 3, .ctx = CONTEXT, .remote_pid = 4, .segment = 5 });
	EMIT(struct dms_call r = { header(DMS_CALL, DMS_CALL_NESTED), .call_return = 1, .args = { 2, 3, 4, 5, 6, 7 } });
	EMIT(struct dms_header r = header(DMS_DONE, 0));
	EMIT(struct dms_alloc r = { header(DMS_ALLOC, 0), .addr = 1, .size_bytes = 2, .old = 3, .caller = 4 });
	EMIT(struct dms_free r = { header(DMS_FREE, 0), .addr = 1, .caller = 2 });
	EMIT(struct dms_map r = { header(DMS_MAP, 0), .addr = 1, .len_bytes = 2, .offset_bytes = 3, .inode = 4, .dev = 5, .flags = DMS_MAP_EXEC | DMS_MAP_FILE });
	EMIT(struct dms_unmap r = { header(DMS_UNMAP, 0), .addr = 1, .len_bytes = 2 });
	EMIT(struct dms_life r = { header(DMS_FORK, 0), .value = 1 });
	EMIT(struct dms_life r = { header(DMS_EXEC, 0), .value = 0 });
	EMIT(struct dms_life r = { header(DMS_THREAD, DMS_THREAD_IN_CALL), .value = 1 });
	EMIT(struct dms_stream r = { header(DMS_STREAM, DMS_STREAM_RECEIVE), .addr = 1, .stream = 2, .position = 3, .len_bytes = 4, .ctx = CONTEXT });
	EMIT(struct dms_work r = { header(DMS_WORK, DMS_WORK_RECEIVE), .addr = 1, .number = 2, .queue = 3, .len_bytes = 4, .ctx = CONTEXT, .operation = 5, .send_flags = 6, .segment = 7, .segments = 8, .took_ns = 9, .remote = 10 });
	EMIT(struct dms_work r = { header(DMS_WORK, DMS_WORK_RECEIVE | DMS_WORK_SHARED), .ctx = CONTEXT });
	EMIT(struct dms_completion r = { header(DMS_COMPLETION, 0), .number = 1, .queue = 2, .len_bytes = 3, .operation = 4, .status = 5, .ctx = CONTEXT, .took_ns = 6, .idle_ns = 7 });
	EMIT(struct dms_queue r = { header(DMS_QUEUE, 0), .address = { 1, 2 }, .queue = 3, .peer = 4, .state = 5, .type = 6, .port = 7, .index = 8, .lid = 9, .is_global = 1, .psn = 10, .shared = 11, .device = { 12, 13 } });
	EMIT(struct dms_end r = { header(DMS_EXIT, 0), .status = 9, .at = 8 });
	EMIT(struct dms_held_up r = { header(DMS_HELD_UP, DMS_HELD_UP_MOVED), .waited_ns = 1, .own_ns = 2 });
	EMIT(struct dms_held_up r = { header(DMS_HELD_UP, DMS_HELD_UP_SLEPT), .waited_ns = 1, .own_ns = 2 });
	return 0;
}
"#;

#[test]
fn what_the_kernel_part_writes_is_what_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("wire.h"), tracer_ebpf::WIRE_H).expect("written");
    fs::write(dir.path().join("fill.c"), FILL).expect("written");
    let fill = dir.path().join("fill");
    let built =
        Command::new("cc").arg("-o").arg(&fill).arg(dir.path().join("fill.c")).status().expect("cc runs");
    assert!(built.success());
    let bytes = Command::new(&fill).output().expect("fill runs").stdout;
    assert_eq!(records(&bytes), expected());
}

fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while let Some((size, rest)) = bytes.split_first_chunk::<8>() {
        let (record, rest) = rest.split_at(u64::from_ne_bytes(*size) as usize);
        let raw = RawRecord::from_bytes(record).expect("whole words");
        records.push(Record::decode(&raw).expect("a record of this version"));
        bytes = rest;
    }
    records
}

fn expected() -> Vec<Record> {
    let header = Header { time_ns: 11, pid: 12, tid: 13, probe: 14 };
    let context = CallContext { return_address: 21, probe: 22, serial: 23 };
    [
        Body::Copy { dst: 1, src: 2, len_bytes: 3, context },
        Body::Pack { dst: 1, src: 2, len_bytes: 3, segments: 4, unpack: true, context },
        Body::Cross { local: 1, remote: 2, len_bytes: 3, remote_pid: 4, segment: 5, write: true, context },
        Body::Call { return_address: 1, args: [2, 3, 4, 5, 6, 7], nested: true },
        Body::Done,
        Body::Alloc { addr: 1, size_bytes: 2, old: 3, caller: 4 },
        Body::Free { addr: 1, caller: 2 },
        Body::Map {
            addr: 1,
            len_bytes: 2,
            offset_bytes: 3,
            file: FileId { dev: 5, inode: 4 },
            shared: false,
            exec: true,
            has_file: true,
        },
        Body::Unmap { addr: 1, len_bytes: 2 },
        Body::Fork { child: 1 },
        Body::Exec,
        Body::Thread { child: 1, in_call: true },
        Body::Stream { addr: 1, stream: 2, position: 3, len_bytes: 4, receive: true, context },
        Body::Work(WorkSegment {
            addr: 1,
            number: 2,
            queue: 3,
            len_bytes: 4,
            operation: 5,
            send_flags: 6,
            segment: 7,
            segments: 8,
            took_ns: 9,
            remote: 10,
            receive: true,
            shared: false,
            context,
        }),
        Body::Work(WorkSegment { receive: true, shared: true, context, ..WorkSegment::default() }),
        Body::Completion {
            number: 1,
            queue: 2,
            len_bytes: 3,
            operation: 4,
            status: 5,
            took_ns: 6,
            idle_ns: 7,
            context,
        },
        Body::Queue(QueueChange {
            address: [1, 2],
            queue: 3,
            peer: 4,
            state: 5,
            transport: 6,
            port: 7,
            index: 8,
            lid: 9,
            is_global: true,
            psn: 10,
            shared: 11,
            device: [12, 13],
        }),
        Body::Exit { status: 9, at: 8 },
        Body::HeldUp { waited_ns: 1, own_ns: 2, moved: true, slept: false },
        Body::HeldUp { waited_ns: 1, own_ns: 2, moved: false, slept: true },
    ]
    .map(|body| Record { header, body })
    .to_vec()
}

//! Writes traces of made-up jobs readably.
#![allow(dead_code)]

pub mod agents;
pub mod calls;
pub mod naive;
pub mod nodes;
pub mod random;
pub mod random_calls;
pub mod random_streams;

use std::collections::HashMap;

use analyzer::input::{End, Input, Loss, Mapping, ProcessFacts, Start};
use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass, ProbePlace};
use analyzer::wire::{Body, CallContext, FileId, Header, Record};

pub const PROGRAM: FileId = FileId { dev: 1, inode: 10 };
pub const LIBRARY: FileId = FileId { dev: 1, inode: 11 };
pub const SEGMENT: FileId = FileId { dev: 2, inode: 20 };

pub const SEGMENT_NAME: &str = "/dev/shm/vader_segment.n.0.1";

pub const PROGRAM_AT: u64 = 0x40_0000;
pub const HEAP_AT: u64 = 0x100_0000;
pub const STACK_AT: u64 = 0x7ffe_0000_0000;
const BLOCK_BYTES: u64 = 0x1_0000;

/// Mapped elsewhere in every rank.
pub fn segment_at(rank: u32) -> u64 {
    0x7000_0000_0000 + u64::from(rank) * 0x1_0000_0000
}

/// A job under way.
#[derive(Default)]
pub struct Trace {
    pub inputs: Vec<Input>,
    pub now_ns: u64,
    ranks: u32,
    probes: HashMap<String, u32>,
    blocks: HashMap<(u32, String), u64>,
    callers: HashMap<String, u64>,
    next_block: HashMap<u32, u64>,
    context: HashMap<u32, CallContext>,
}

pub fn pid(rank: u32) -> u32 {
    1000 + rank
}

impl Trace {
    /// A job that is watched from its start, or attached to.
    pub fn new(ranks: u32, launched: bool) -> Self {
        let mut t = Self { ranks, now_ns: 1_000_000, ..Self::default() };
        t.inputs.push(Input::Start(Box::new(Start { time_ns: t.now_ns, launched, ..Start::default() })));
        for rank in 0..ranks {
            t.inputs.push(Input::Process(Box::new(facts(rank, ranks, t.now_ns))));
        }
        let files = [(PROGRAM, "/bin/job"), (LIBRARY, "/lib/libmpi.so")];
        let files = files.map(|(id, path)| PlannedFile { id, path: path.into(), ..PlannedFile::default() });
        t.inputs.push(Input::Plan(Box::new(Plan { files: files.into(), ..Plan::default() })));
        t
    }

    /// The probe at a place of the library, planned when it is first asked for.
    pub fn probe(&mut self, name: &str, class: ProbeClass) -> u32 {
        if let Some(&id) = self.probes.get(name) {
            return id;
        }
        let id = self.probes.len() as u32 + 1;
        self.probes.insert(name.into(), id);
        let probe = Probe {
            place: ProbePlace::Call,
            ..Probe::at(id, LIBRARY, 0x1000 + u64::from(id) * 16, class, name)
        };
        self.inputs.push(Input::Plan(Box::new(Plan { probes: vec![probe], ..Plan::default() })));
        id
    }

    fn caller(&mut self, name: &str) -> u64 {
        let next = PROGRAM_AT + 0x100 + self.callers.len() as u64 * 16;
        *self.callers.entry(name.into()).or_insert(next)
    }

    /// Address of a rank's heap block that has this name; the name is its allocation site.
    pub fn heap(&mut self, rank: u32, name: &str) -> u64 {
        if let Some(&addr) = self.blocks.get(&(rank, name.into())) {
            return addr;
        }
        let next = self.next_block.entry(rank).or_insert(HEAP_AT);
        let addr = *next;
        *next += 2 * BLOCK_BYTES;
        self.blocks.insert((rank, name.into()), addr);
        let caller = self.caller(name);
        self.record(rank, 0, Body::Alloc { addr, size_bytes: BLOCK_BYTES, old: 0, caller });
        addr
    }

    /// Gives it back; asking for it again allocates anew.
    pub fn free(&mut self, rank: u32, name: &str) {
        if let Some(addr) = self.blocks.remove(&(rank, name.into())) {
            self.record(rank, 0, Body::Free { addr, caller: 0 });
        }
    }

    /// An MPI call: what follows in this rank happens in it.
    pub fn call(&mut self, rank: u32, function: &str, from: &str) {
        let probe = self.probe(function, ProbeClass::Call);
        let return_address = self.caller(from) + 5;
        let serial = self.context.get(&rank).map_or(1, |c| c.serial + 1);
        self.context.insert(rank, CallContext { return_address, probe, serial });
        self.record(rank, probe, Body::Call { return_address, args: [0; 6], nested: false });
    }

    /// A rank is in no call any more.
    pub fn leave(&mut self, rank: u32) {
        self.context.remove(&rank);
    }

    /// The call that a rank is in.
    pub fn context_of(&self, rank: u32) -> CallContext {
        self.context.get(&rank).copied().unwrap_or_default()
    }

    /// A copy at a place of the library.
    pub fn copy(&mut self, rank: u32, site: &str, src: u64, dst: u64, len_bytes: u64) {
        let probe = self.probe(site, ProbeClass::Copy);
        let context = self.context_of(rank);
        self.record(rank, probe, Body::Copy { dst, src, len_bytes, context });
    }

    /// Any record of a rank's first thread.
    pub fn record(&mut self, rank: u32, probe: u32, body: Body) {
        self.record_of(rank, 0, probe, body);
    }

    /// Any record of one of a rank's threads.
    pub fn record_of(&mut self, rank: u32, thread: u32, probe: u32, body: Body) {
        self.now_ns += 1000;
        let header = Header { time_ns: self.now_ns, pid: pid(rank), tid: pid(rank) + thread * 100, probe };
        self.inputs.push(Input::Record(Record { header, body }.encode()));
    }

    pub fn tick(&mut self) {
        self.inputs.push(Input::Tick { time_ns: self.now_ns });
    }

    pub fn lose_calls(&mut self, rank: u32, calls: u64) {
        self.lose(rank, 0, calls);
    }

    pub fn lose_movements(&mut self, rank: u32, movements: u64) {
        self.lose(rank, movements, 0);
    }

    fn lose(&mut self, rank: u32, movements: u64, calls: u64) {
        let (from_ns, to_ns) = (self.now_ns, self.now_ns + 1);
        self.inputs.push(Input::Loss(Loss { pid: pid(rank), from_ns, to_ns, movements, calls, state: 0 }));
    }

    pub fn end(mut self) -> Vec<Input> {
        self.inputs.push(Input::End(End { time_ns: self.now_ns, ..End::default() }));
        self.inputs
    }
}

pub fn facts(rank: u32, size: u32, time_ns: u64) -> ProcessFacts {
    let map = |start: u64, len: u64, file: FileId, shared: bool, exec: bool, name: &str| Mapping {
        start,
        end: start + len,
        offset_bytes: 0,
        file,
        shared,
        exec,
        name: name.into(),
    };
    ProcessFacts {
        pid: pid(rank),
        namespace_pid: pid(rank),
        pid_namespace: 1,
        rank: Some(rank),
        size: Some(size),
        exe: "/bin/job".into(),
        mappings: vec![
            map(PROGRAM_AT, 0x10_0000, PROGRAM, false, true, "/bin/job"),
            map(HEAP_AT, 0x4000_0000, FileId::default(), false, false, "[heap]"),
            map(segment_at(rank), 0x100_0000, SEGMENT, true, false, SEGMENT_NAME),
            map(STACK_AT, 0x2_0000, FileId::default(), false, false, "[stack]"),
        ],
        time_ns,
    }
}

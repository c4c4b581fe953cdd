//! Sessions made of bytes: few processes, threads, probes and addresses, so that they meet, and
//! now and then numbers as large as there are.

use std::collections::HashMap;

use analyzer::input::{
    Coverage, End, Frame, Input, Loss, Mapping, MpiKind, ProcessFacts, Start, Symbol, Threads,
};
use analyzer::plan::{ProbePlace, Plan, Probe, ProbeClass};
use analyzer::wire::{Body, CallContext, FileId, Header, PIECE_WORDS, RawRecord, Record};

use crate::bytes::Bytes;
use crate::{looks, mpi};

/// Makes a session of a few inputs a byte at most.
pub fn session_of(bytes: &[u8]) -> Vec<Input> {
    let mut session = Session {
        bytes: Bytes(bytes),
        time_ns: 1_000,
        kind: MpiKind::OpenMpi,
        calls: 0,
        open: HashMap::new(),
        last_look: Threads::default(),
        inputs: Vec::new(),
    };
    while let Some(op) = session.bytes.byte() {
        session.step(op);
    }
    session.inputs
}

struct Session<'a> {
    bytes: Bytes<'a>,
    time_ns: u64,
    kind: MpiKind,
    calls: u32,
    /// Calls that have begun, with their probes: what comes at their return.
    open: HashMap<(u32, u32), (u32, Vec<Body>)>,
    last_look: Threads,
    inputs: Vec<Input>,
}

impl Session<'_> {
    fn next(&mut self) -> u8 {
        self.bytes.next()
    }

    fn pid(&mut self) -> u32 {
        self.bytes.pid()
    }

    /// Sixteen-byte steps in sixteen pages, or the end of all addresses.
    fn addr(&mut self) -> u64 {
        match self.next() {
            0xff => u64::MAX - 15,
            byte => 0x10_000 + u64::from(byte >> 4) * 0x1000 + u64::from(byte & 15) * 16,
        }
    }

    fn len_bytes(&mut self) -> u64 {
        match self.next() {
            0xff => u64::MAX,
            0xfe => 1 << 40,
            byte => u64::from(byte) * 8,
        }
    }

    fn file(&mut self) -> FileId {
        FileId { dev: 1, inode: u64::from(self.next() % 4) }
    }

    fn step(&mut self, op: u8) {
        match op {
            0xf3 => self.job(),
            0xf4..=0xf5 => {
                let thread = self.begin_call();
                self.end_call(thread);
            }
            0xf6 => drop(self.begin_call()),
            0xf7 => {
                let thread = self.bytes.thread();
                self.end_call(thread);
            }
            _ => {
                let input = self.input(op);
                self.inputs.push(input);
            }
        }
    }

    /// Five ranks whose calls are watched.
    fn job(&mut self) {
        self.kind = *self.bytes.of(&mpi::KINDS);
        self.inputs.push(Input::Plan(Box::new(mpi::plan(self.kind))));
        let time_ns = self.time_ns;
        self.inputs.extend((0..5).map(|rank| Input::Process(Box::new(mpi::rank(rank, time_ns)))));
    }

    fn begin_call(&mut self) -> (u32, u32) {
        let thread = self.bytes.thread();
        self.calls += 1;
        let call = mpi::Call::new(&mut self.bytes, self.kind, self.calls);
        self.records(thread, call.probe, call.entry);
        self.open.insert(thread, (call.probe, call.exit));
        thread
    }

    fn end_call(&mut self, thread: (u32, u32)) {
        if let Some((probe, exit)) = self.open.remove(&thread) {
            self.records(thread, probe, exit);
        }
    }

    fn records(&mut self, (pid, tid): (u32, u32), probe: u32, bodies: Vec<Body>) {
        for body in bodies {
            let header = Header { time_ns: self.clock(1), pid, tid, probe };
            self.inputs.push(Input::Record(Record { header, body }.encode()));
        }
    }

    fn input(&mut self, op: u8) -> Input {
        match op {
            0..=0xdf => Input::Record(self.record(op).encode()),
            0xe0..=0xe3 => Input::LateRecord(self.record(op & 15).encode()),
            0xe4..=0xe7 => Input::Tick { time_ns: self.clock(op) },
            0xe8..=0xe9 => Input::Loss(self.loss()),
            0xea..=0xed => Input::Process(Box::new(self.process())),
            0xee..=0xf0 => Input::Plan(Box::new(self.plan())),
            0xf1 => Input::Start(Box::new(Start { launched: self.next() % 2 == 0, ..Start::default() })),
            0xf2 => Input::End(End { time_ns: self.clock(op), ..End::default() }),
            0xf8..=0xfb => Input::Threads(Box::new(self.look(op))),
            0xfc => Input::Coverage(Box::new(self.coverage())),
            0xfd => Input::Symbols(vec![self.symbol()]),
            _ => Input::Record(self.raw_record()),
        }
    }

    /// Looks are a second apart; the last kind finds everybody where they were.
    fn look(&mut self, op: u8) -> Threads {
        self.time_ns = self.time_ns.saturating_add(1_000_000_000);
        self.last_look = match op {
            0xfb => looks::again(&self.last_look, self.time_ns),
            _ => looks::look(&mut self.bytes, self.kind, self.time_ns),
        };
        self.last_look.clone()
    }

    fn coverage(&mut self) -> Coverage {
        let flags = self.next();
        let off = (0..flags >> 6).map(|_| u32::from(self.next() % 8)).collect();
        Coverage { time_ns: self.clock(flags & 15), paused: flags & 16 != 0, keeps_calls: flags & 32 != 0, off }
    }

    fn symbol(&mut self) -> Symbol {
        let (file, offset_bytes) = (self.file(), 0x100 + u64::from(self.next() % 8) * 8);
        let names = ["main", "<script>", ""];
        let frame = Frame { function: (*self.bytes.of(&names)).to_owned(), ..Frame::default() };
        Symbol { file, offset_bytes, frames: vec![frame] }
    }

    /// Goes on, and for one byte in 256 far backwards.
    fn clock(&mut self, step: u8) -> u64 {
        self.time_ns = if step == 0x7f { 0 } else { self.time_ns.saturating_add(u64::from(step) << 8) };
        self.time_ns
    }

    fn record(&mut self, op: u8) -> Record {
        let pid = self.pid();
        let tid = pid + u32::from(op >> 6 & 1);
        let header = Header { time_ns: self.clock(op), pid, tid, probe: u32::from(self.next() % 8) };
        Record { header, body: self.body(op) }
    }

    fn context(&mut self) -> CallContext {
        let byte = self.next();
        CallContext { return_address: 0x40_0000 + u64::from(byte >> 4), probe: 1, serial: byte.into() }
    }

    /// Mostly copies: chains are what it is about.
    fn body(&mut self, op: u8) -> Body {
        match op & 15 {
            0..=5 => {
                let (dst, src, len_bytes) = (self.addr(), self.addr(), self.len_bytes());
                Body::Copy { dst, src, len_bytes, context: self.context() }
            }
            6 => Body::Pack {
                dst: self.addr(),
                src: self.addr(),
                len_bytes: self.len_bytes(),
                segments: u64::from(self.next() % 12),
                unpack: op & 16 != 0,
                context: self.context(),
            },
            7 => Body::Cross {
                local: self.addr(),
                remote: self.addr(),
                len_bytes: self.len_bytes(),
                remote_pid: self.pid(),
                segment: 0,
                write: op & 16 != 0,
                context: self.context(),
            },
            8 => Body::Call {
                return_address: 0x40_0000 + u64::from(self.next()),
                args: std::array::from_fn(|_| u64::from(self.next())),
                nested: op & 16 != 0,
            },
            9 => match op >> 4 & 3 {
                1 => self.values(),
                2 => Body::Return {
                    serial: u32::from(self.next() % 4),
                    code: i32::from(self.next() % 2),
                    argument: u32::from(self.next() % 8),
                    bytes: u32::from(self.next() % 10),
                    word: u64::from(self.next()),
                },
                3 => Body::Made { handle: u64::from(self.next()) },
                _ => Body::Done,
            },
            10 => {
                let old = if op & 16 == 0 { 0 } else { self.addr() };
                let caller = 0x40_0000 + u64::from(self.next());
                Body::Alloc { addr: self.addr(), size_bytes: self.len_bytes(), old, caller }
            }
            11 if op & 16 != 0 => Body::HeldUp {
                waited_ns: u64::from(self.next()),
                own_ns: u64::from(self.next()),
                moved: op & 32 != 0,
                slept: op & 64 != 0,
            },
            11 => Body::Free { addr: self.addr(), caller: 0x40_0000 },
            12 => Body::Map {
                addr: self.addr() & !0xfff,
                len_bytes: self.len_bytes() << 6,
                offset_bytes: self.addr() & !0xfff,
                file: self.file(),
                shared: op & 16 != 0,
                exec: op & 32 != 0,
                has_file: op & 64 != 0,
            },
            13 => Body::Unmap { addr: self.addr() & !0xfff, len_bytes: self.len_bytes() << 6 },
            14 if op & 16 != 0 => Body::Thread { child: self.pid(), in_call: op & 32 != 0 },
            14 => Body::Fork { child: self.pid() },
            _ if op & 16 == 0 => Body::Exec,
            _ => Body::Exit { status: u32::from(self.next()), at: 0 },
        }
    }

    /// A piece that need not belong to anything.
    fn values(&mut self) -> Body {
        let (serial, argument, flags) = (self.next() % 4, self.next() % 8, self.next());
        let total_bytes = match self.next() {
            0xff => u32::MAX,
            byte => u32::from(byte),
        };
        let position_bytes = if flags & 2 == 0 { 0 } else { u32::from(flags >> 2) * 8 };
        let words: [u64; PIECE_WORDS] = std::array::from_fn(|_| u64::from(self.next()));
        let (serial, argument) = (serial.into(), argument.into());
        Body::Values { serial, argument, total_bytes, position_bytes, at_return: flags & 1 != 0, words }
    }

    fn raw_record(&mut self) -> RawRecord {
        let words: Vec<u64> = (0..3 + self.next() % 8).map(|_| u64::from(self.next())).collect();
        RawRecord::from_words(&words).expect("three to ten words are a record")
    }

    fn loss(&mut self) -> Loss {
        let (movements, calls, state) = (self.next(), self.next() % 4, self.next() % 4);
        let from_ns = self.time_ns;
        Loss {
            pid: self.pid(),
            from_ns,
            to_ns: self.clock(1),
            movements: if movements == 0xff { u64::MAX } else { movements.into() },
            calls: if calls == 3 { u64::MAX } else { calls.into() },
            state: if state == 3 { u64::MAX } else { state.into() },
        }
    }

    fn process(&mut self) -> ProcessFacts {
        let pid = self.pid();
        let code = Mapping {
            start: 0x40_0000,
            end: 0x50_0000,
            file: FileId { dev: 1, inode: 1 },
            exec: true,
            name: "/bin/job".into(),
            ..Mapping::default()
        };
        let mut mappings: Vec<_> = (0..self.next() % 4).map(|_| self.mapping()).collect();
        mappings.push(code);
        ProcessFacts {
            pid,
            namespace_pid: pid % 3,
            pid_namespace: 1,
            rank: Some(pid % 5),
            size: Some(5),
            exe: "/bin/job".into(),
            mappings,
            time_ns: self.time_ns,
        }
    }

    fn mapping(&mut self) -> Mapping {
        let (start, flags) = (self.addr() & !0xfff, self.next());
        Mapping {
            start,
            end: start.wrapping_add(self.len_bytes() << 6),
            offset_bytes: u64::from(flags >> 4) << 12,
            file: self.file(),
            shared: flags & 1 != 0,
            exec: flags & 2 != 0,
            name: ["", "[heap]", "[stack]", "/dev/shm/segment.17"][usize::from(flags >> 2 & 3)].into(),
        }
    }

    fn plan(&mut self) -> Plan {
        const CLASSES: [ProbeClass; 4] =
            [ProbeClass::Copy, ProbeClass::Call, ProbeClass::Alloc, ProbeClass::Pack];
        const FUNCTIONS: [&str; 4] = ["memcpy", "MPI_Send", "malloc", "MPI_Recv"];
        let probe = |byte: u8| {
            let kind = usize::from(byte >> 3 & 3);
            let file = FileId { dev: 1, inode: u64::from(byte >> 6) };
            let offset_bytes = u64::from(byte) * 16;
            Probe {
                place: ProbePlace::Nop,
                ..Probe::at(u32::from(byte % 8), file, offset_bytes, CLASSES[kind], FUNCTIONS[kind])
            }
        };
        let probes = (0..self.next() % 8).map(|_| probe(self.next())).collect();
        Plan { probes, ..Plan::default() }
    }
}

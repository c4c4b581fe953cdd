//! Tapes of made-up jobs: what a session would have recorded of them, without root, MPI or a kernel.

use std::fs::File;
use std::path::Path;

use analyzer::input::{
    CallInProgress, CodePlace, End, Frame, Input, Mapping, MpiFacts, MpiKind, ProcessFacts, Start, Symbol,
    ThreadFacts, ThreadState, Threads,
};
use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass};
use analyzer::tape::FileTape;
use analyzer::wire::{Body, FileId, Header, Record};
use anyhow::Result;

const PROGRAM: FileId = FileId { dev: 1, inode: 10 };
const LIBRARY: FileId = FileId { dev: 1, inode: 11 };
const PROGRAM_AT: u64 = 0x40_0000;
const WORLD: u64 = 0x4400_0000;
const BEGIN_NS: u64 = 5_000_000_000;
const S: u64 = 1_000_000_000;
const FIRST_PID: u32 = 1000;

/// Names that a job gives to things.
#[derive(Clone, Debug)]
pub struct MadeUpNames {
    /// Command line of the launcher.
    pub job: String,
    /// Name of the node.
    pub host: String,
    /// Path of the program.
    pub program: String,
    /// Function that calls MPI.
    pub function: String,
    /// Source file of that function.
    pub source: String,
    /// MPI function that ranks of the cycle wait in.
    pub receive: String,
}

impl Default for MadeUpNames {
    fn default() -> Self {
        Self {
            job: "mpirun -n 4 ./solver".into(),
            host: "node1".into(),
            program: "/home/user/solver".into(),
            function: "exchange".into(),
            source: "/home/user/solver.c".into(),
            receive: "MPI_Recv".into(),
        }
    }
}

/// A job whose ranks send and receive for a while.
#[derive(Clone, Debug)]
pub struct MadeUpJob {
    /// Ranks of the job, all on one node.
    pub ranks: u32,
    /// Calls that each makes before it comes to its end.
    pub calls: u32,
    /// These wait for each other at the end, each for the next one, and all others for them in MPI_Barrier;
    /// empty: all end well.
    pub cycle: Vec<u32>,
    /// What things are called.
    pub names: MadeUpNames,
}

/// What a call is made of: MPI function, and place of the program.
#[derive(Clone, Copy)]
enum MadeUpCall {
    Send,
    Receive,
    Barrier,
    Wait,
}

impl MadeUpCall {
    const ALL: [Self; 4] = [Self::Send, Self::Receive, Self::Barrier, Self::Wait];

    fn probe(self) -> u32 {
        self as u32 + 1
    }

    /// Where the call returns to, in the program's file.
    fn return_offset(self) -> u64 {
        0x100 + 0x10 * self as u64
    }

    fn line(self) -> u32 {
        10 + self as u32
    }
}

impl MadeUpJob {
    /// A job in which the first two ranks wait for each other, and the rest for them.
    pub fn deadlock(ranks: u32) -> Self {
        Self { ranks, calls: 6, cycle: vec![0, 1], names: MadeUpNames::default() }
    }

    /// A job that ends well.
    pub fn healthy(ranks: u32) -> Self {
        Self { cycle: Vec::new(), ..Self::deadlock(ranks) }
    }

    /// Writes the tape that a session would have made of it.
    pub fn record(&self, path: &Path) -> Result<()> {
        let mut tape = FileTape::to_file(File::create(path)?);
        for input in self.inputs() {
            tape.push(&input)?;
        }
        tape.finish()?;
        Ok(())
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![self.start()];
        inputs.extend((0..self.ranks).map(|rank| self.process(rank)));
        inputs.push(self.plan());
        let mut now_ns = BEGIN_NS;
        for call in 0..self.calls {
            for rank in 0..self.ranks {
                now_ns += 1 + u64::from(rank * 7 + call * 13) % 900;
                let made = [MadeUpCall::Send, MadeUpCall::Receive, MadeUpCall::Wait, MadeUpCall::Barrier]
                    [call as usize % 4];
                inputs.push(self.call(rank, made, now_ns));
            }
            now_ns += 100_000;
            inputs.push(Input::Tick { time_ns: now_ns });
        }
        let end_ns = if self.cycle.is_empty() {
            self.end_well(now_ns, &mut inputs)
        } else {
            self.hang(now_ns, &mut inputs)
        };
        inputs.push(Input::End(End {
            time_ns: end_ns,
            reason: "the job ended".into(),
            failed_probes: Vec::new(),
            strangers: None,
        }));
        inputs.push(self.symbols());
        inputs
    }

    fn end_well(&self, mut now_ns: u64, inputs: &mut Vec<Input>) -> u64 {
        for rank in 0..self.ranks {
            now_ns += 1000;
            inputs.push(record(rank, 0, now_ns, Body::Exit { status: 0, at: 0 }));
        }
        now_ns
    }

    /// All come to their last calls, and are found there again and again.
    fn hang(&self, mut now_ns: u64, inputs: &mut Vec<Input>) -> u64 {
        for rank in 0..self.ranks {
            now_ns += 2000;
            let made = if self.cycle.contains(&rank) { MadeUpCall::Receive } else { MadeUpCall::Barrier };
            inputs.push(self.call(rank, made, now_ns));
        }
        for look in 1..8 {
            let time_ns = now_ns + look * S;
            let threads = (0..self.ranks).map(|rank| self.found(rank, look * S / 2)).collect();
            inputs.push(Input::Threads(Box::new(Threads { time_ns, threads })));
            inputs.push(Input::Tick { time_ns });
        }
        now_ns + 8 * S
    }

    fn start(&self) -> Input {
        Input::Start(Box::new(Start {
            dmscope_version: env!("CARGO_PKG_VERSION").into(),
            host: self.names.host.clone(),
            kernel: "6.12".into(),
            time_ns: BEGIN_NS,
            wall_clock_s: 1_795_254_600,
            wall_clock_rest_ns: 0,
            wall_clock_error_ns: None,
            node_clock_errors_ns: Vec::new(),
            nodes: Vec::new(),
            sums: false,
            job: self.names.job.clone(),
            launched: true,
            alloc_min_bytes: 4096,
        }))
    }

    fn process(&self, rank: u32) -> Input {
        let program = Mapping {
            start: PROGRAM_AT,
            end: PROGRAM_AT + 0x10_0000,
            file: PROGRAM,
            exec: true,
            name: self.names.program.clone(),
            ..Mapping::default()
        };
        Input::Process(Box::new(ProcessFacts {
            pid: FIRST_PID + rank,
            namespace_pid: FIRST_PID + rank,
            pid_namespace: 1,
            rank: Some(rank),
            size: Some(self.ranks),
            exe: self.names.program.clone(),
            mappings: vec![program],
            time_ns: BEGIN_NS,
        }))
    }

    fn function(&self, made: MadeUpCall) -> &str {
        match made {
            MadeUpCall::Send => "MPI_Send",
            MadeUpCall::Receive => &self.names.receive,
            MadeUpCall::Barrier => "MPI_Barrier",
            MadeUpCall::Wait => "MPI_Waitall",
        }
    }

    fn plan(&self) -> Input {
        let file = |id, path: &str| PlannedFile { id, path: path.into(), ..PlannedFile::default() };
        let probe = |made: MadeUpCall| {
            let id = made.probe();
            Probe::at(id, LIBRARY, 0x1000 + 0x10 * u64::from(id), ProbeClass::Call, self.function(made))
        };
        Input::Plan(Box::new(Plan {
            files: vec![file(PROGRAM, &self.names.program), file(LIBRARY, "/usr/lib/libmpi.so")],
            probes: MadeUpCall::ALL.map(probe).into(),
            left_out: Vec::new(),
        }))
    }

    /// Whom a rank receives from: the next one of the cycle.
    fn partner(&self, rank: u32) -> u32 {
        let at = self.cycle.iter().position(|of| *of == rank);
        at.map_or((rank + 1) % self.ranks, |at| self.cycle[(at + 1) % self.cycle.len()])
    }

    fn arguments(&self, rank: u32, made: MadeUpCall) -> [u64; 6] {
        match made {
            MadeUpCall::Send | MadeUpCall::Receive => [0x1000, 64, 5, self.partner(rank).into(), 7, WORLD],
            MadeUpCall::Barrier => [WORLD, 0, 0, 0, 0, 0],
            MadeUpCall::Wait => [2, 0x2000, 0, 0, 0, 0],
        }
    }

    fn call(&self, rank: u32, made: MadeUpCall, time_ns: u64) -> Input {
        let body = Body::Call {
            return_address: PROGRAM_AT + made.return_offset(),
            args: self.arguments(rank, made),
            nested: false,
        };
        record(rank, made.probe(), time_ns, body)
    }

    fn found(&self, rank: u32, ran_ns: u64) -> ThreadFacts {
        let made = if self.cycle.contains(&rank) { MadeUpCall::Receive } else { MadeUpCall::Barrier };
        let place = CodePlace { file: PROGRAM, offset_bytes: made.return_offset() };
        let call = CallInProgress {
            function: self.function(made).into(),
            mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
            site: Some(place),
            return_slot: 0x7000_0000,
            arguments: self.arguments(rank, made).map(Some).into(),
            ..CallInProgress::default()
        };
        let pid = FIRST_PID + rank;
        let frames = vec![CodePlace { file: LIBRARY, offset_bytes: 0x1234 }, place];
        ThreadFacts {
            pid,
            tid: pid,
            state: ThreadState::Running,
            ran_ns,
            call: Some(call),
            frames,
            cut: None,
        }
    }

    fn symbols(&self) -> Input {
        let symbol = |made: MadeUpCall| Symbol {
            file: PROGRAM,
            offset_bytes: made.return_offset() - 1,
            frames: vec![Frame {
                function: self.names.function.clone(),
                source: Some(self.names.source.clone()),
                line: Some(made.line()),
            }],
        };
        Input::Symbols(MadeUpCall::ALL.map(symbol).into())
    }
}

fn record(rank: u32, probe: u32, time_ns: u64, body: Body) -> Input {
    let pid = FIRST_PID + rank;
    Input::Record(Record { header: Header { time_ns, pid, tid: pid, probe }, body }.encode())
}

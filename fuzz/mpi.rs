//! MPI calls made of bytes: records of their entries, of what their arguments point to and of their returns.

use analyzer::calls::{self, Arg, CallRow, Does};
use analyzer::input::{Mapping, MpiKind, ProcessFacts};
use analyzer::plan::{Datatype, DatatypeGroup, MpiObjects, ProbePlace, Plan, PlannedFile, Probe, ProbeClass};
use analyzer::wire::{Body, FileId, NO_ARGUMENT, PIECE_WORDS, STACK_ARGUMENTS};

use crate::bytes::Bytes;

/// The program, and what it has of an MPI library.
pub const PROGRAM: FileId = FileId { dev: 1, inode: 1 };
/// Where it is mapped.
pub const PROGRAM_AT: u64 = 0x40_0000;
const WORLD_OFFSET: u64 = 0x40;
const COMPLETE_OFFSET: u64 = 0x80;
const INT_OFFSET: u64 = 0xc0;
/// Probes of calls have numbers from here on.
const FIRST_PROBE: u32 = 100;
const REGISTERS: usize = 6;
/// Integers that are read of what says which dimensions remain.
const REMAIN: u64 = 10;
const MPI_UNDEFINED: i32 = -32766;
/// What MPICH calls no hints.
const NO_INFO: u64 = 0x1c00_0000;
/// Those that make messages, and their ends.
const COMMON: [&str; 25] = [
    "MPI_Init",
    "MPI_Send",
    "MPI_Isend",
    "MPI_Recv",
    "MPI_Irecv",
    "MPI_Sendrecv",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Testsome",
    "MPI_Send_init",
    "MPI_Recv_init",
    "MPI_Startall",
    "MPI_Mprobe",
    "MPI_Mrecv",
    "MPI_Comm_dup",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
    "MPI_Comm_free",
    "MPI_Barrier",
    "MPI_Finalize",
];

/// The two kinds of libraries.
pub const KINDS: [MpiKind; 2] = [MpiKind::OpenMpi, MpiKind::Mpich];

/// The handle of MPI_COMM_WORLD.
pub fn world(kind: MpiKind) -> u64 {
    match kind {
        MpiKind::OpenMpi => PROGRAM_AT + WORLD_OFFSET,
        MpiKind::Mpich => 0x4400_0000,
    }
}

fn functions() -> impl Iterator<Item = &'static str> {
    let others = calls::rows().map(|row| row.name.as_str()).filter(|name| !COMMON.contains(name));
    COMMON.into_iter().chain(others).chain(["MPI_Nothing"])
}

/// A function, most often a common one.
pub fn function(bytes: &mut Bytes<'_>) -> &'static str {
    let byte = usize::from(bytes.next());
    if byte < 0xa0 {
        return COMMON[byte % COMMON.len()];
    }
    let all: Vec<&str> = functions().collect();
    all[byte % all.len()]
}

/// All calls are watched, with their returns, in a program of this kind of library.
pub fn plan(kind: MpiKind) -> Plan {
    let probe = |(id, function): (u32, &str)| Probe {
        place: ProbePlace::Nop,
        ..Probe::at(id, PROGRAM, u64::from(id) * 16, ProbeClass::CallResults, function)
    };
    let objects =
        MpiObjects { kind, comm_world: Some(WORLD_OFFSET), complete_request: Some(COMPLETE_OFFSET) };
    let file = PlannedFile {
        id: PROGRAM,
        path: "/bin/job".into(),
        mpi: Some(objects),
        datatypes: vec![Datatype { object: INT_OFFSET, size_bytes: 4, group: Some(DatatypeGroup::Integer) }],
        ..PlannedFile::default()
    };
    Plan {
        files: vec![file],
        probes: (FIRST_PROBE..).zip(functions()).map(probe).collect(),
        ..Plan::default()
    }
}

/// A rank of five, with the program mapped.
pub fn rank(rank: u32, time_ns: u64) -> ProcessFacts {
    let code = Mapping {
        start: PROGRAM_AT,
        end: PROGRAM_AT + 0x10_0000,
        file: PROGRAM,
        exec: true,
        name: "/bin/job".into(),
        ..Mapping::default()
    };
    ProcessFacts {
        pid: 10 + rank,
        namespace_pid: 10 + rank,
        pid_namespace: 1,
        rank: Some(rank),
        size: Some(5),
        exe: "/bin/job".into(),
        mappings: vec![code],
        time_ns,
    }
}

/// A call of a thread, as its records tell it.
pub struct Call {
    /// Number of its probe.
    pub probe: u32,
    /// Its entry, and what it points to then.
    pub entry: Vec<Body>,
    /// What it points to at its return, and the return.
    pub exit: Vec<Body>,
}

impl Call {
    /// Makes one.
    pub fn new(bytes: &mut Bytes<'_>, kind: MpiKind, serial: u32) -> Self {
        let name = function(bytes);
        let position = functions().position(|known| known == name).unwrap_or(0) as u32;
        let args = calls::row(name).map_or(&[][..], |row| &row.args);
        let words: Vec<u64> = args.iter().map(|arg| argument(*arg, bytes, kind)).collect();
        let register = |at: usize| words.get(at).copied().unwrap_or_default();
        let return_address = PROGRAM_AT + 0x100 + u64::from(bytes.next() % 8) * 8;
        let call = Body::Call { return_address, args: std::array::from_fn(register), nested: false };
        let (mut entry, mut exit) = (vec![call], Vec::new());
        if words.len() > REGISTERS {
            let stack: Vec<u8> = words[REGISTERS..].iter().flat_map(|word| word.to_ne_bytes()).collect();
            entry.extend(pieces(serial, STACK_ARGUMENTS, false, &stack));
        }
        if let Some(row) = calls::row(name) {
            for (at, arg) in row.args.iter().enumerate() {
                let Some((at_return, pointed)) = pointed(row, *arg, &words, bytes, kind) else { continue };
                let to = if at_return { &mut exit } else { &mut entry };
                to.extend(pieces(serial, at as u32, at_return, &pointed));
            }
        }
        let failed = bytes.next() == 0xff;
        exit.push(Body::Return { serial, code: failed.into(), argument: NO_ARGUMENT, bytes: 0, word: 0 });
        let mut call = Self { probe: FIRST_PROBE + position, entry, exit };
        call.spoil(bytes);
        call
    }

    /// Now and then something is missing, or the last value comes with the return.
    fn spoil(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.next() {
            0xff => drop(self.exit.pop()),
            0xfe => drop(self.entry.pop()),
            0xfd => drop(self.exit.drain(..self.exit.len() / 2)),
            byte if byte % 2 == 0 => self.join(),
            _ => {}
        }
    }

    /// One short value goes with the return itself.
    fn join(&mut self) {
        let [
            ..,
            Body::Values { argument: of, total_bytes, words, .. },
            Body::Return { argument, bytes, word, .. },
        ] = self.exit.as_mut_slice()
        else {
            return;
        };
        if *total_bytes <= 8 {
            (*argument, *bytes, *word) = (*of, *total_bytes, words[0]);
            self.exit.remove(self.exit.len() - 2);
        }
    }
}

/// An argument in a register or on the stack.
pub fn argument(arg: Arg, bytes: &mut Bytes<'_>, kind: MpiKind) -> u64 {
    let integer = |number: i32| u64::from(number.cast_unsigned());
    match arg {
        // Ranks, and −1 and −2, which mean anybody and nobody.
        Arg::Dest | Arg::Source | Arg::Root => integer(i32::from(bytes.next() % 8) - 2),
        Arg::SendTag | Arg::ReceiveTag | Arg::Color | Arg::Key => integer(i32::from(bytes.next() % 4) - 1),
        Arg::Comm | Arg::PeerComm => communicator(bytes, kind),
        Arg::LocalLeader | Arg::RemoteLeader => integer(i32::from(bytes.next() % 6) - 1),
        Arg::High => u64::from(bytes.next() % 2),
        Arg::SplitType => match bytes.next() {
            0xff => integer(MPI_UNDEFINED),
            byte => u64::from(byte % 2),
        },
        Arg::Info => NO_INFO + u64::from(bytes.next() == 0xff),
        Arg::Group => group(bytes, kind),
        Arg::Reorder => u64::from(bytes.next() == 0xff),
        Arg::MakingTag => u64::from(bytes.next() % 2),
        Arg::Datatype => datatype(bytes, kind),
        Arg::Buffer => match bytes.next() {
            0xff => u64::MAX - 3,
            byte => 0x10_0000 + u64::from(byte % 16) * 2,
        },
        Arg::Count | Arg::Number | Arg::SendCount | Arg::ReceiveCount => match bytes.next() {
            0xff => integer(i32::MAX),
            0xfe => integer(-1),
            byte => integer((byte % 4).into()),
        },
        _ => 0x7000 + u64::from(bytes.next()),
    }
}

fn communicator(bytes: &mut Bytes<'_>, kind: MpiKind) -> u64 {
    match (bytes.next(), kind) {
        (0..=0x7f, _) => world(kind),
        (byte, MpiKind::OpenMpi) => 0x60_0000 + u64::from(byte % 4) * 64,
        (byte, MpiKind::Mpich) => 0x8400_0000 + u64::from(byte % 4),
    }
}

/// Integers, or a type that is not known.
fn datatype(bytes: &mut Bytes<'_>, kind: MpiKind) -> u64 {
    match (bytes.next(), kind) {
        (0xff, _) => 0x6800_0000,
        (_, MpiKind::OpenMpi) => PROGRAM_AT + INT_OFFSET,
        (_, MpiKind::Mpich) => 0x4c00_0405,
    }
}

fn group(bytes: &mut Bytes<'_>, kind: MpiKind) -> u64 {
    match kind {
        MpiKind::OpenMpi => 0x68_0000 + u64::from(bytes.next() % 4) * 64,
        MpiKind::Mpich => 0x8800_0000 + u64::from(bytes.next() % 4),
    }
}

fn request(bytes: &mut Bytes<'_>, kind: MpiKind) -> u64 {
    match (bytes.next(), kind) {
        (0xff, _) => 0,
        (0xfe, MpiKind::OpenMpi) => PROGRAM_AT + COMPLETE_OFFSET,
        (0xfe, MpiKind::Mpich) => 0x6c00_0000,
        (byte, MpiKind::OpenMpi) => 0x70_0000 + u64::from(byte % 8) * 64,
        (byte, MpiKind::Mpich) => 0x9800_0000 + u64::from(byte % 8),
    }
}

fn handle_bytes(handle: u64, kind: MpiKind) -> Vec<u8> {
    match kind {
        MpiKind::OpenMpi => handle.to_ne_bytes().to_vec(),
        MpiKind::Mpich => (handle as u32).to_ne_bytes().to_vec(),
    }
}

/// What an argument points to that is recorded, and whether at the return.
fn pointed(
    row: &CallRow,
    arg: Arg,
    words: &[u64],
    bytes: &mut Bytes<'_>,
    kind: MpiKind,
) -> Option<(bool, Vec<u8>)> {
    /// The kernel part reads no more than it has room for; these are enough for several pieces.
    const MOST: u64 = 12;
    let count = row.position(Arg::Count).or(row.position(Arg::Number)).map_or(1, |at| words[at].min(MOST));
    let numbers = |bytes: &mut Bytes<'_>, count: u64| -> Vec<u8> {
        (0..count).flat_map(|_| (i32::from(bytes.next() % 6) - 1).to_ne_bytes()).collect()
    };
    Some(match arg {
        Arg::Comm if row.does == Does::FreeCommunicator => {
            (false, handle_bytes(communicator(bytes, kind), kind))
        }
        Arg::FreedWin => (false, handle_bytes(communicator(bytes, kind), kind)),
        Arg::OldGroup | Arg::OldObject => (false, handle_bytes(group(bytes, kind), kind)),
        Arg::NewGroup | Arg::NewObject => (true, handle_bytes(group(bytes, kind), kind)),
        Arg::Ranks | Arg::Dimensions => (false, numbers(bytes, count)),
        Arg::Ranges => (false, numbers(bytes, 3 * count)),
        Arg::Remain => (false, numbers(bytes, REMAIN)),
        Arg::NewComm | Arg::NewWin => (true, handle_bytes(communicator(bytes, kind), kind)),
        Arg::NewRequest | Arg::NewMessage => (true, handle_bytes(request(bytes, kind), kind)),
        Arg::Request | Arg::Message => (false, handle_bytes(request(bytes, kind), kind)),
        Arg::Requests => (false, (0..count).flat_map(|_| handle_bytes(request(bytes, kind), kind)).collect()),
        Arg::Index | Arg::OutCount => (true, numbers(bytes, 1)),
        Arg::Indices => (true, numbers(bytes, count)),
        Arg::Status => (true, status(bytes, kind)),
        Arg::Statuses => (true, (0..count).flat_map(|_| status(bytes, kind)).collect()),
        _ => return None,
    })
}

fn status(bytes: &mut Bytes<'_>, kind: MpiKind) -> Vec<u8> {
    let (source, tag) = (i32::from(bytes.next() % 7) - 1, i32::from(bytes.next() % 3));
    let (cancelled, received) = (i32::from(bytes.next() == 0xff), i32::from(bytes.next() % 16));
    let words = match kind {
        MpiKind::OpenMpi => &[source, tag, 0, cancelled, received, 0][..],
        MpiKind::Mpich => &[received, cancelled, source, tag, 0],
    };
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Records of what an argument points to.
fn pieces(serial: u32, argument: u32, at_return: bool, pointed: &[u8]) -> Vec<Body> {
    let piece = |(index, piece): (usize, &[u8])| {
        let mut words = [0; PIECE_WORDS];
        for (word, chunk) in words.iter_mut().zip(piece.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
        let (total_bytes, position_bytes) = (pointed.len() as u32, (index * PIECE_WORDS * 8) as u32);
        Body::Values { serial, argument, total_bytes, position_bytes, at_return, words }
    };
    pointed.chunks(PIECE_WORDS * 8).enumerate().map(piece).collect()
}

//! The probe plan: which places of which files are watched, and why there.

use serde::{Deserialize, Serialize};

use super::wire::FileId;

/// Kinds of MPI libraries: those that are built alike have the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiKind {
    /// Open MPI and what is made from it: handles are pointers.
    OpenMpi,
    /// MPICH and what is made from it: handles are numbers.
    Mpich,
}

/// Probes by file, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Files that the probes and code addresses belong to.
    pub files: Vec<PlannedFile>,
    /// What is watched.
    pub probes: Vec<Probe>,
    /// What is not, and why.
    pub left_out: Vec<LeftOut>,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Who it is.
    pub id: FileId,
    /// Path as the job sees it.
    pub path: String,
    /// Hexadecimal GNU build id, if it has one.
    pub build_id: Option<String>,
    /// Why its copies are watched (or none are).
    pub role: String,
    /// Heap blocks that its code asks for are the program's own, and followed whatever their size.
    #[serde(default)]
    pub own: bool,
    /// Objects of an MPI library that are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiObjects>,
    /// Datatypes of an MPI library that are in it, if their addresses are handles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datatypes: Vec<Datatype>,
    /// Reduction operations of an MPI library that are in it, if their addresses are handles; by the standard's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<NamedObject>,
}

/// An object whose address is a handle.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedObject {
    /// Distance from where the file's first byte would be if all of it were mapped as its code is.
    pub object: u64,
    /// What the MPI standard calls it.
    pub name: String,
}

/// Objects of an MPI library whose addresses are handles. A program may have copies of its own, which
/// count then. Each is given as the distance from where the file's first byte would be if all of it were
/// mapped as its code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiObjects {
    /// The kind of library.
    pub kind: MpiKind,
    /// MPI_COMM_WORLD.
    pub comm_world: Option<u64>,
    /// The request of what was complete at once.
    pub complete_request: Option<u64>,
}

/// What elements of a datatype are: groups of MPI's own datatypes (MPI 4.0, 6.9.2) that cannot stand for each other. Single
/// bytes and logical values are in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatatypeGroup {
    /// Integers of C and Fortran, addresses, offsets and counts.
    Integer,
    /// Floating point numbers.
    FloatingPoint,
    /// Complex numbers.
    Complex,
}

/// A datatype that MPI has from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datatype {
    /// Its object, given as those of [`MpiObjects`].
    pub object: u64,
    /// Of one element.
    pub size_bytes: u8,
    /// What its elements are; none: something else, or a tape of an older version.
    #[serde(default)]
    pub group: Option<DatatypeGroup>,
}

/// One place that is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// What records call it; unique in a session, from 1.
    pub id: u32,
    /// The file it is in.
    pub file: FileId,
    /// Offset of the probed instruction in the file.
    pub offset_bytes: u64,
    /// Offset that names the place for people: the call instruction of a copy, the function's start of a call.
    pub site_offset_bytes: u64,
    /// What it watches.
    pub class: ProbeClass,
    /// Function of the library that it watches (`memcpy`, `MPI_Send`, `malloc`, …).
    pub function: String,
    /// How the kernel runs the displaced instruction.
    pub place: ProbePlace,
    /// Bytes pushed onto the stack between the function's entry and the place:
    /// the return address is at rsp + this (entry probes).
    pub stack_bytes: u32,
    /// What the kernel part must know besides, by class. Pack and Unpack: where in the convertor (first
    /// argument) the pointer to the user's buffer is. Call: which argument (from 1) points to where a handle is stored, 32 if
    /// handles are half a word, and from bit 6 on how many arguments on the stack are recorded. PollReturn: which argument (from 0) points to the
    /// answer. Free: [`FREE_WITH_HEADER`] if blocks have the C library's header before them. Error: which of its arguments say what.
    /// VerbsPost: 0 to send, 1 to receive, 2 to receive from a shared queue, 3 what was built. VerbsBuild: the operation of a new work
    /// request, or from 256 on what else. VerbsPoll: 0 a list; else what of an extended completion queue. Else 0.
    #[serde(default)]
    pub argument: u64,
    /// What its arguments point to that is recorded as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Why here.
    pub reason: String,
}

impl Probe {
    /// A probe at the `push` that a function begins with; nothing is recorded besides what its class always records.
    pub fn at(id: u32, file: FileId, offset_bytes: u64, class: ProbeClass, function: &str) -> Self {
        Self {
            id,
            file,
            offset_bytes,
            site_offset_bytes: offset_bytes,
            class,
            function: function.to_owned(),
            place: ProbePlace::Push,
            stack_bytes: 0,
            argument: 0,
            results: None,
            reason: String::new(),
        }
    }

    /// Whether it watches `free` of the C library's own allocator, which all that a process allocates is from.
    pub fn is_free_of_c_library(&self) -> bool {
        self.class == ProbeClass::Free && self.argument == FREE_WITH_HEADER
    }
}

/// Argument of a probe at `free` if blocks have the C library's header, with their size, before them.
pub const FREE_WITH_HEADER: u64 = 1;

/// What is recorded of an MPI call besides its arguments in registers, and that it returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Results {
    /// What is read.
    pub reads: Vec<Read>,
    /// How many arguments on the stack.
    pub stack_arguments: u32,
    /// Which argument (from 0) points to the answer of a polling call: nothing is recorded if it is no.
    pub answer: Option<u8>,
    /// What it does with buffers of sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<SentBuffers>,
}

/// What a call does with buffers of sends: these are looked at when a send begins, and whether they have changed before it is complete.
/// Of calls that start and complete requests, what is read first are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentBuffers {
    /// It begins a send, or prepares one.
    Sent {
        /// Which argument (from 0) is the buffer …
        buffer: u8,
        /// … how many elements are in it …
        count: u8,
        /// … and of which datatype …
        datatype: u8,
        /// … and which one points to the new request.
        request: u8,
    },
    /// It starts requests.
    Started,
    /// All requests that it names are complete.
    Complete,
    /// Some of them are.
    SomeComplete,
}

/// Something that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Read {
    /// Which argument, from 0.
    pub argument: u8,
    /// At the return, not at the entry.
    pub at_return: bool,
    /// Size of one element.
    pub element_bytes: u8,
    /// How many there are.
    pub count: ReadCount,
}

/// How many elements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadCount {
    /// One.
    One,
    /// So many as the argument says.
    Argument(u8),
    /// So many as is written where the argument points to.
    Behind(u8),
}

/// What a probe watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeClass {
    /// Call site (or cheap place) of memcpy and its like.
    Copy,
    /// Entry of a function that packs a derived datatype.
    Pack,
    /// Entry of a function that unpacks one.
    Unpack,
    /// MPI entry point.
    Call,
    /// MPI entry point, with results: entry and return.
    CallResults,
    /// Place that a polling call reaches only when its answer is yes.
    PollSuccess,
    /// Polling call without such a place: entry and return, the flag is read by the kernel part.
    PollReturn,
    /// Entry and return of malloc and its like.
    Alloc,
    /// Entry of free.
    Free,
    /// Entry and return of the function that MPI calls report their errors through.
    Error,
    /// Entry and return of a provider's function that posts work requests.
    VerbsPost,
    /// Entry and return of one that polls a completion queue, or reads what was polled.
    VerbsPoll,
    /// Entry of the function that sets up and connects queue pairs.
    VerbsQueue,
    /// Entry of a provider's function that builds work requests, which are posted together.
    VerbsBuild,
}

impl ProbeClass {
    /// Whether it is one for MPI calls: what is known of messages follows from these.
    pub fn watches_calls(self) -> bool {
        matches!(self, Self::Call | Self::CallResults)
    }

    /// Whether it is one for RDMA verbs.
    pub fn is_of_verbs(self) -> bool {
        matches!(self, Self::VerbsPost | Self::VerbsPoll | Self::VerbsQueue | Self::VerbsBuild)
    }
}

/// How the kernel runs the instruction under a probe: what a hit costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbePlace {
    /// A five-byte nop (newer kernels turn the trap into a system call).
    Nop5,
    /// Any other nop.
    Nop,
    /// `push`.
    Push,
    /// `call rel32`.
    Call,
    /// `jmp rel`.
    Jump,
    /// A conditional jump.
    ConditionalJump,
    /// Run out of line, one step: about sixteen times as dear.
    SingleStep,
    /// No instruction is displaced: the call's slot in the linkage table leads to code that records it, without the kernel.
    Slot,
}

/// Something that is not watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The file it is in.
    pub file: FileId,
    /// Where, if it is one place.
    pub offset_bytes: Option<u64>,
    /// What it is.
    pub what: String,
    /// Why it is left out.
    pub reason: String,
}

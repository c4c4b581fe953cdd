//! What Open MPI keeps behind its handles. The places are those of Open MPI 4; nothing is believed
//! that was not held against what is known: who is in MPI_COMM_WORLD, and this process's rank in it.

use analyzer::input::{CommunicatorFacts, PendingMessage, PendingRequest};

use super::memory::Memory;

// A communicator.
const CONTEXT_ID: u64 = 0xe0;
const MY_RANK: u64 = 0xe4;
const LOCAL_GROUP: u64 = 0xf8;
// A group.
const GROUP_SIZE: u64 = 0x10;
const GROUP_RANK: u64 = 0x14;
const GROUP_PROCESSES: u64 = 0x20;
// A process.
const PROCESS_NUMBER: u64 = 0x2c;
// A request.
const COMPLETE: u64 = 0x58;
const STATE: u64 = 0x60;
const OBJECT: u64 = 0x98;
const KIND: u64 = 0xa8;
const COMMUNICATOR: u64 = 0xb0;
const BUFFER: u64 = 0x1c8;
const COUNT: u64 = 0x1d0;
const PEER: u64 = 0x1d8;
const TAG: u64 = 0x1dc;

/// What `req_complete` is when it is done.
const COMPLETED: u64 = 1;
/// `OMPI_REQUEST_INACTIVE`: null, or persistent and not started. Waiting for it is over at once.
const INACTIVE: u32 = 1;
/// `OMPI_REQUEST_ACTIVE`.
const ACTIVE: u32 = 2;
const SENDS: u32 = 1;
const RECEIVES: u32 = 2;

/// More members than any communicator has.
const MOST_MEMBERS: u32 = 1 << 22;

/// The library of one process.
pub struct OpenMpi<'a> {
    memory: &'a dyn Memory,
    world: u64,
}

impl<'a> OpenMpi<'a> {
    /// `None`: things are not where Open MPI 4 has them. `world`: address of MPI_COMM_WORLD; `rank` and
    /// `size`: of this process in it.
    pub fn checked(memory: &'a dyn Memory, world: u64, rank: u32, size: u32) -> Option<Self> {
        let library = Self { memory, world };
        let found = library.communicator(world)?;
        let own = memory.half(world + MY_RANK)?;
        let is_world = found.context_id == 0 && own == rank && found.members.iter().copied().eq(0..size);
        is_world.then_some(library)
    }

    /// A communicator, if it is one.
    pub fn communicator(&self, handle: u64) -> Option<CommunicatorFacts> {
        if handle == 0 || handle & 7 != 0 {
            return None;
        }
        let group = self.memory.word(handle.checked_add(LOCAL_GROUP)?)?;
        let size = self.memory.half(group.checked_add(GROUP_SIZE)?).filter(|size| *size <= MOST_MEMBERS)?;
        let own = self.memory.half(handle + MY_RANK)?;
        let processes = self.memory.word(group.checked_add(GROUP_PROCESSES)?)?;
        if own >= size || self.memory.half(group + GROUP_RANK)? != own {
            return None;
        }
        let members = (0..u64::from(size)).map(|member| self.number(processes.checked_add(8 * member)?));
        Some(CommunicatorFacts {
            handle,
            context_id: self.memory.half(handle + CONTEXT_ID)?,
            members: members.collect::<Option<_>>()?,
        })
    }

    /// Rank in MPI_COMM_WORLD of a process in a list. One that was never spoken to has its name in the
    /// place of the pointer.
    fn number(&self, at: u64) -> Option<u32> {
        let process = self.memory.word(at)?;
        if process & 1 == 1 {
            return Some((process >> 1) as u32 & 0x7fff_ffff);
        }
        self.memory.half(process.checked_add(PROCESS_NUMBER)?)
    }

    /// The message of a request that stands for a blocking call with these arguments.
    pub fn message_of(&self, handle: u64, buffer: u64, count: u64, comm: u64) -> Option<PendingMessage> {
        let found = self.request(handle).message.filter(|message| message.comm == comm)?;
        let same = self.memory.word(handle + BUFFER)? == buffer && self.memory.word(handle + COUNT)? == count;
        same.then_some(found)
    }

    /// A request: whether it is done, and its message, if it is one of point-to-point communication.
    pub fn request(&self, handle: u64) -> PendingRequest {
        let complete = self.is_complete(handle);
        let message = complete.filter(|complete| !complete).and_then(|_| self.message(handle));
        PendingRequest { handle, complete, message, started: None }
    }

    /// Done, whatever it was: small sends all have one and the same request, which stands for nothing.
    fn is_complete(&self, handle: u64) -> Option<bool> {
        if handle == 0 || handle & 7 != 0 {
            return None;
        }
        match self.memory.half(handle.checked_add(STATE)?)? {
            INACTIVE => Some(true),
            ACTIVE => Some(self.memory.word(handle + COMPLETE)? == COMPLETED),
            _ => None,
        }
    }

    fn message(&self, handle: u64) -> Option<PendingMessage> {
        let comm = self.memory.word(handle.checked_add(COMMUNICATOR)?)?;
        let kind = self.memory.half(handle + KIND)?;
        let is_message = matches!(kind, SENDS | RECEIVES)
            && self.memory.word(handle + OBJECT)? == comm
            && (comm == self.world || self.communicator(comm).is_some());
        if !is_message {
            return None;
        }
        Some(PendingMessage {
            sends: kind == SENDS,
            peer: self.memory.half(handle + PEER)? as i32,
            tag: self.memory.half(handle + TAG)? as i32,
            comm,
        })
    }
}

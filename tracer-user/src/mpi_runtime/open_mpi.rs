//! What Open MPI keeps behind its handles. The places are those of Open MPI 4; nothing is believed
//! that was not held against what is known: who is in MPI_COMM_WORLD, and this process's rank in it.

use std::collections::BTreeSet;

use analyzer::input::{CommunicatorFacts, PendingMessage, PendingRequest};

use crate::host::memory::RemoteMemory;

// A communicator.
const CONTEXT_ID: u64 = 0xe0;
const MY_RANK: u64 = 0xe4;
const LOCAL_GROUP: u64 = 0xf8;
const REMOTE_GROUP: u64 = 0x100;
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

/// Of a window's words the first ones, behind its name too.
const MOST_WINDOW_WORDS: u64 = 64;
/// More members than any communicator has.
const MOST_MEMBERS: u32 = 1 << 22;

/// The library of one process.
pub struct OpenMpi<'a> {
    memory: &'a dyn RemoteMemory,
    world: u64,
    /// Of this process in MPI_COMM_WORLD.
    rank: u32,
    size: u32,
}

impl<'a> OpenMpi<'a> {
    /// `None`: things are not where Open MPI 4 has them. `world`: address of MPI_COMM_WORLD; `rank` and
    /// `size`: of this process in it.
    pub fn checked(memory: &'a dyn RemoteMemory, world: u64, rank: u32, size: u32) -> Option<Self> {
        let library = Self { memory, world, rank, size };
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
        // Calls on an intercommunicator name ranks of another group.
        if self.memory.word(handle.checked_add(REMOTE_GROUP)?)? != group {
            return None;
        }
        let own = self.memory.half(handle + MY_RANK)?;
        if self.memory.half(group.checked_add(GROUP_RANK)?)? != own {
            return None;
        }
        let context_id = self.memory.half(handle + CONTEXT_ID)?;
        Some(CommunicatorFacts { handle, context_id, members: self.members(group)? })
    }

    /// Ranks in MPI_COMM_WORLD of the members of a group that this process is in.
    fn members(&self, group: u64) -> Option<Vec<u32>> {
        let half = |distance| self.memory.half(group.checked_add(distance)?);
        let size = half(GROUP_SIZE).filter(|size| *size <= MOST_MEMBERS)?;
        half(GROUP_RANK).filter(|own| *own < size)?;
        self.processes(group, size)
    }

    fn processes(&self, group: u64, size: u32) -> Option<Vec<u32>> {
        let processes = self.memory.word(group.checked_add(GROUP_PROCESSES)?)?;
        (0..u64::from(size)).map(|member| self.number(processes.checked_add(8 * member)?)).collect()
    }

    /// A group, if it is one: this process need not be in it.
    pub fn group(&self, handle: u64) -> Option<CommunicatorFacts> {
        if handle == 0 || handle & 7 != 0 {
            return None;
        }
        let size = self.memory.half(handle.checked_add(GROUP_SIZE)?).filter(|size| *size <= self.size)?;
        let members = self.processes(handle, size)?;
        let is_sound = self.are_different(&members);
        is_sound.then_some(CommunicatorFacts { handle, context_id: CommunicatorFacts::GROUP, members })
    }

    /// A window: which group it is of, one of its first words says.
    pub fn window(&self, handle: u64) -> Option<CommunicatorFacts> {
        if handle == 0 || handle & 7 != 0 {
            return None;
        }
        let words = (0..MOST_WINDOW_WORDS).filter_map(|word| self.memory.word(handle.checked_add(8 * word)?));
        let groups = words.filter(|group| *group != 0 && group & 7 == 0);
        let members = groups.filter_map(|group| self.sound_members(group)).next()?;
        Some(CommunicatorFacts { handle, context_id: CommunicatorFacts::WINDOW, members })
    }

    /// Members of what may be a group that this process is in.
    fn sound_members(&self, group: u64) -> Option<Vec<u32>> {
        self.memory.half(group.checked_add(GROUP_SIZE)?).filter(|size| *size <= self.size)?;
        let members = self.members(group)?;
        let own = self.memory.half(group.checked_add(GROUP_RANK)?)?;
        let is_sound = members.get(own as usize) == Some(&self.rank) && self.are_different(&members);
        is_sound.then_some(members)
    }

    /// Whether they are ranks of MPI_COMM_WORLD, each once.
    fn are_different(&self, members: &[u32]) -> bool {
        let different: BTreeSet<u32> = members.iter().copied().collect();
        different.len() == members.len() && members.iter().all(|member| *member < self.size)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::memory::Halves;

    const WORLD: u64 = 0x7000_0000_1000;
    const WINDOW: u64 = WORLD + 0x4000;
    const GROUP: u64 = WORLD + 0x5000;
    const PROCESSES: u64 = WORLD + 0x6000;

    /// A group of processes that were never spoken to.
    fn put_group(memory: &mut Halves, at: u64, own: u32, members: &[u32]) {
        memory.put(at + GROUP_SIZE, &[members.len() as u32, own]);
        let processes = at + (PROCESSES - GROUP);
        memory.put_word(at + GROUP_PROCESSES, processes);
        for (number, member) in (0..).zip(members) {
            memory.put_word(processes + 8 * number, u64::from(*member) << 1 | 1);
        }
    }

    fn world(rank: u32) -> Halves {
        let mut memory = Halves::default();
        memory.put(WORLD + CONTEXT_ID, &[0, rank]);
        memory.put_word(WORLD + LOCAL_GROUP, WORLD + 0x400);
        memory.put_word(WORLD + REMOTE_GROUP, WORLD + 0x400);
        put_group(&mut memory, WORLD + 0x400, rank, &[0, 1, 2, 3]);
        memory
    }

    fn window(own: u32, members: &[u32], rank: u32) -> Option<Vec<u32>> {
        let mut memory = world(rank);
        // A lock, a name, and the group.
        memory.put_word(WINDOW + 0x10, 0x7000_0000_0008);
        memory.put_word(WINDOW + 0x90, GROUP);
        put_group(&mut memory, GROUP, own, members);
        let library = OpenMpi::checked(&memory, WORLD, rank, 4).expect("world is there");
        let found = library.window(WINDOW)?;
        assert_eq!((found.handle, found.context_id), (WINDOW, CommunicatorFacts::WINDOW));
        Some(found.members)
    }

    #[test]
    fn of_a_group_this_process_need_not_be_a_member() {
        let group = |members: &[u32]| {
            let mut memory = world(2);
            put_group(&mut memory, GROUP, u32::MAX, members);
            let library = OpenMpi::checked(&memory, WORLD, 2, 4).expect("world is there");
            library.group(GROUP).map(|found| found.members)
        };
        assert_eq!(group(&[3, 0]), Some(vec![3, 0]));
        assert_eq!(group(&[3, 3]), None);
        assert_eq!(group(&[4]), None);
    }

    #[test]
    fn who_is_in_a_window_is_in_the_group_that_it_points_to() {
        assert_eq!(window(1, &[3, 2], 2), Some(vec![3, 2]));
    }

    #[test]
    fn of_an_intercommunicator_nothing_is_said() {
        const INTER: u64 = WORLD + 0x8000;
        let mut memory = world(1);
        memory.put(INTER + CONTEXT_ID, &[5, 0]);
        put_group(&mut memory, INTER + 0x400, 0, &[1, 2]);
        memory.put_word(INTER + LOCAL_GROUP, INTER + 0x400);
        memory.put_word(INTER + REMOTE_GROUP, INTER + 0x400);
        let members = |memory: &Halves| {
            let library = OpenMpi::checked(memory, WORLD, 1, 4).expect("world is there");
            library.communicator(INTER).map(|found| found.members)
        };
        assert_eq!(members(&memory), Some(vec![1, 2]));
        memory.put_word(INTER + REMOTE_GROUP, INTER + 0x800);
        assert_eq!(members(&memory), None);
    }

    #[test]
    fn what_contradicts_itself_is_no_window() {
        assert_eq!(window(1, &[3, 1], 2), None);
        assert_eq!(window(2, &[3, 2], 2), None);
        assert_eq!(window(1, &[2, 2], 2), None);
        assert_eq!(window(1, &[4, 2], 2), None);
        assert_eq!(window(1, &[0, 2, 1, 3, 0], 2), None);
    }
}

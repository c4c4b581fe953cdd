//! What MPICH keeps behind its handles. The places are those of MPICH 4 (device ch4); nothing is believed
//! that was not held against what is known: who is in MPI_COMM_WORLD, and this process's rank in it.
//!
//! A handle is a number, and the tables that lead from it to an object have no names. Objects are found where
//! they must be: those of communicators in the library's data, those of what a call uses on its stack.

use std::collections::BTreeSet;
use std::ops::Range;

use analyzer::input::{CommunicatorFacts, PendingRequest};

use crate::host::memory::RemoteMemory;

/// `MPI_COMM_WORLD`.
pub const WORLD: u64 = 0x4400_0000;

// Any object.
const REFERENCES: u64 = 4;
// A communicator.
const CONTEXT_ID: u64 = 0x40;
const MY_RANK: u64 = 0x48;
const SIZE: u64 = 0x58;
const MAP: u64 = 0x310;
const COMMUNICATOR_BYTES: u64 = 0x368;
// How it maps its ranks to processes, from MAP on.
const MAP_SET: u64 = 4;
const MAP_SIZE: u64 = 8;
const MAP_FIRST: u64 = 0xc;
const MAP_SECOND: u64 = 0x10;
const MAP_THIRD: u64 = 0x14;
const MAP_TABLE: u64 = 0x20;
// A request.
const KIND: u64 = 8;
const COUNTER: u64 = 0x10;

/// More members than any communicator has.
const MOST_MEMBERS: u32 = 1 << 22;
/// More references than any object has.
const MOST_REFERENCES: u32 = 1 << 20;
/// Kinds of requests have lower numbers.
const MOST_KINDS: u32 = 32;
/// Parts of one request that are counted down to its end are fewer.
const MOST_PARTS: u32 = 1 << 16;
/// In the first words of a window is where its communicator is.
const MOST_WINDOW_WORDS: u64 = 64;
/// Communicators that lie beside MPI_COMM_WORLD, on each side of it.
const NEIGHBOURS: u64 = 16;
/// Of the library's data so much is looked through.
const MOST_DATA_BYTES: u64 = 16 << 20;

/// The library of one process.
pub struct Mpich<'a> {
    memory: &'a dyn RemoteMemory,
    /// Of this process in MPI_COMM_WORLD.
    rank: u32,
    size: u32,
    /// Addresses of communicators that lie in the library's data.
    communicators: Vec<u64>,
    /// Words that a call and what it calls have in registers and on the stack.
    inner: &'a [u64],
}

/// Where MPI_COMM_WORLD lies in the library's data.
pub fn find_world(memory: &dyn RemoteMemory, data: Range<u64>, rank: u32, size: u32) -> Option<u64> {
    let end = data.end.min(data.start.saturating_add(MOST_DATA_BYTES));
    let library = Mpich { memory, rank, size, communicators: Vec::new(), inner: &[] };
    (data.start.next_multiple_of(8)..end).step_by(8).find(|&at| library.is_world(at))
}

impl<'a> Mpich<'a> {
    /// `None`: MPI_COMM_WORLD is not at this address as MPICH 4 has it. `rank` and `size`: of this process in it.
    pub fn checked(
        memory: &'a dyn RemoteMemory,
        world: u64,
        (rank, size): (u32, u32),
        inner: &'a [u64],
    ) -> Option<Self> {
        let mut library = Self { memory, rank, size, communicators: Vec::new(), inner };
        if !library.is_world(world) {
            return None;
        }
        let first = world.saturating_sub(NEIGHBOURS * COMMUNICATOR_BYTES);
        library.communicators =
            (0..=2 * NEIGHBOURS).map(|number| first + number * COMMUNICATOR_BYTES).collect();
        Some(library)
    }

    fn is_world(&self, at: u64) -> bool {
        self.memory.half(at).map(u64::from) == Some(WORLD)
            && self
                .communicator_at(at)
                .is_some_and(|found| found.context_id == 0 && found.members.iter().copied().eq(0..self.size))
    }

    /// Whether an object in use may be there.
    fn is_object(&self, at: u64) -> bool {
        at & 7 == 0
            && self.memory.half(at + REFERENCES).is_some_and(|count| (1..MOST_REFERENCES).contains(&count))
    }

    /// Communicators, but for MPI_COMM_WORLD: all that lie in the library's data, and those that a call uses.
    pub fn communicators(&self, named: &[u64]) -> Vec<CommunicatorFacts> {
        let of_calls = self.inner.iter().copied().filter(|&at| {
            at & 7 == 0
                && at > u64::from(u32::MAX)
                && self.memory.half(at).is_some_and(|h| named.contains(&h.into()))
        });
        let all = self.communicators.iter().copied().chain(of_calls);
        let mut seen = BTreeSet::new();
        all.filter_map(|at| self.communicator_at(at))
            .filter(|found| found.handle != WORLD && seen.insert(found.handle))
            .collect()
    }

    /// A window: it has a communicator of its own. Its references are not counted.
    pub fn window(&self, handle: u64) -> Option<CommunicatorFacts> {
        let is_it = |at: &u64| {
            *at > u64::from(u32::MAX)
                && at & 7 == 0
                && self.memory.half(*at).map(u64::from) == Some(handle & u64::from(u32::MAX))
        };
        let windows = self.inner.iter().copied().filter(is_it);
        let words =
            windows.flat_map(|at| (1..MOST_WINDOW_WORDS).filter_map(move |word| at.checked_add(8 * word)));
        let objects = words.filter_map(|at| self.memory.word(at)).filter(|at| *at > u64::from(u32::MAX));
        let mut found = objects.filter_map(|at| self.communicator_at(at));
        found.next().map(|of_it| CommunicatorFacts { handle, ..of_it })
    }

    fn communicator_at(&self, at: u64) -> Option<CommunicatorFacts> {
        /// Bits that say what a handle is of, and what they are for communicators.
        const TYPE: u32 = 0xf << 26;
        const COMMUNICATOR: u32 = 1 << 26;
        if !self.is_object(at) {
            return None;
        }
        let handle = self.memory.half(at).filter(|handle| handle & TYPE == COMMUNICATOR)?;
        let own = self.memory.half(at + MY_RANK)?;
        let size =
            self.memory.half(at + SIZE).filter(|size| own < *size && *size <= self.size.min(MOST_MEMBERS))?;
        if self.memory.half(at + MAP + MAP_SET)? != 0 || self.memory.half(at + MAP + MAP_SIZE)? != size {
            return None;
        }
        let members: Vec<u32> = (0..size).map(|member| self.member(at, member)).collect::<Option<_>>()?;
        let different: BTreeSet<u32> = members.iter().copied().collect();
        let is_sound = members[own as usize] == self.rank
            && different.len() == members.len()
            && members.iter().all(|member| *member < self.size);
        let context_id = self.memory.half(at + CONTEXT_ID)? & 0xffff;
        is_sound.then_some(CommunicatorFacts { handle: handle.into(), context_id, members })
    }

    /// Rank in MPI_COMM_WORLD of a member.
    fn member(&self, at: u64, member: u32) -> Option<u32> {
        let number = |distance| self.memory.half(at + MAP + distance);
        // Each has a second number for communicators whose members are all on one node.
        match number(0)? / 2 {
            0 => Some(member),
            1 => member.checked_add(number(MAP_FIRST)?),
            2 => member.checked_mul(number(MAP_FIRST)?)?.checked_add(number(MAP_THIRD)?),
            3 => {
                let (stride, block) = (number(MAP_FIRST)?, number(MAP_SECOND)?);
                let first = member.checked_div(block)?.checked_mul(stride)?;
                first.checked_add(member % block)?.checked_add(number(MAP_THIRD)?)
            }
            4 => {
                let table = self.memory.word(at + MAP + MAP_TABLE)?;
                self.memory.half(table.checked_add(4 * u64::from(member))?)
            }
            _ => None,
        }
    }

    /// A request: whether it is done. What it stands for is not to be seen.
    pub fn request(&self, handle: u64) -> PendingRequest {
        let is_it = |at: u64| {
            at > u64::from(u32::MAX)
                && self.memory.half(at).map(u64::from) == Some(handle)
                && self.is_object(at)
        };
        let found = self.inner.iter().copied().find(|&at| is_it(at));
        PendingRequest {
            handle,
            complete: found.and_then(|at| self.is_complete(at)),
            ..PendingRequest::default()
        }
    }

    fn is_complete(&self, at: u64) -> Option<bool> {
        self.memory.half(at + KIND).filter(|kind| *kind < MOST_KINDS)?;
        let counter = self.memory.word(at + COUNTER)?;
        self.memory.half(counter).filter(|parts| *parts < MOST_PARTS).map(|parts| parts == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::memory::Halves;

    const OBJECT: u64 = 0x7000_0000_1000;

    fn put_communicator(memory: &mut Halves, at: u64, handle: u32, own: u32, size: u32) {
        memory.put(at, &[handle, 1]);
        memory.put(at + CONTEXT_ID, &[0xffff_0000]);
        memory.put(at + MY_RANK, &[own]);
        memory.put(at + SIZE, &[size]);
        memory.put(at + MAP, &[1, 0, size]);
    }

    fn world(rank: u32) -> Halves {
        let mut memory = Halves::default();
        put_communicator(&mut memory, OBJECT, WORLD as u32, rank, 4);
        memory
    }

    fn members(map: &[u32], table: &[u32], own: u32, rank: u32) -> Option<Vec<u32>> {
        let mut memory = world(rank);
        let at = OBJECT + COMMUNICATOR_BYTES;
        put_communicator(&mut memory, at, 0x8400_0001, own, 2);
        memory.put(at + MAP, map);
        memory.put(at + MAP + MAP_TABLE, &[0x5000, 0]);
        memory.put(0x5000, table);
        let library = Mpich::checked(&memory, OBJECT, (rank, 4), &[])?;
        library.communicators(&[]).into_iter().next().map(|found| found.members)
    }

    #[test]
    fn world_is_found_in_the_librarys_data_and_only_if_it_is_this_process_s() {
        let memory = world(2);
        assert_eq!(find_world(&memory, OBJECT - 0x800..OBJECT + 0x800, 2, 4), Some(OBJECT));
        assert_eq!(find_world(&memory, OBJECT - 0x800..OBJECT + 0x800, 1, 4), None);
        assert_eq!(find_world(&memory, OBJECT - 0x800..OBJECT + 0x800, 2, 5), None);
    }

    #[test]
    fn members_are_told_by_each_kind_of_map() {
        assert_eq!(members(&[2, 0, 2, 1], &[], 1, 2), Some(vec![1, 2]));
        assert_eq!(members(&[4, 0, 2, 2, 0, 1], &[], 1, 3), Some(vec![1, 3]));
        assert_eq!(members(&[6, 0, 2, 3, 1, 0], &[], 1, 3), Some(vec![0, 3]));
        assert_eq!(members(&[8, 0, 2], &[3, 0], 1, 0), Some(vec![3, 0]));
    }

    #[test]
    fn what_contradicts_itself_is_no_communicator() {
        assert_eq!(members(&[8, 0, 2], &[3, 1], 1, 0), None);
        assert_eq!(members(&[8, 0, 2], &[0, 0], 1, 0), None);
        assert_eq!(members(&[8, 0, 2], &[9, 0], 1, 0), None);
        assert_eq!(members(&[8, 1, 2], &[3, 0], 1, 0), None);
        assert_eq!(members(&[12, 0, 2], &[3, 0], 1, 0), None);
        assert_eq!(members(&[6, 0, 2, 3, 0, 0], &[], 1, 3), None);
    }

    #[test]
    fn a_request_is_done_when_its_counter_says_so() {
        let request = OBJECT + 0x4000;
        let done = |counter: u32| {
            let mut memory = world(0);
            memory.put(
                request,
                &[0xac00_0001, 2, 2, 0, (request + 0x18) as u32, (request >> 32) as u32, counter],
            );
            let inner = [7, request];
            let library = Mpich::checked(&memory, OBJECT, (0, 4), &inner).expect("world is there");
            (library.request(0xac00_0001).complete, library.request(0xac00_0002).complete)
        };
        assert_eq!(done(1), (Some(false), None));
        assert_eq!(done(0), (Some(true), None));
        assert_eq!(done(u32::MAX), (None, None));
    }

    #[test]
    fn a_window_has_the_members_of_a_communicator_that_it_points_to() {
        const HANDLE: u64 = 0xa000_0001;
        let window = OBJECT + 0x4000;
        let mut memory = world(1);
        put_communicator(&mut memory, OBJECT + 0x8000, 0x8400_0002, 0, 2);
        memory.put(OBJECT + 0x8000 + MAP, &[2, 0, 2, 1]);
        memory.put(window, &[HANDLE as u32, 0]);
        memory.put_word(window + 0x20, OBJECT + 0x8000);
        let inner = [window];
        let library = Mpich::checked(&memory, OBJECT, (1, 4), &inner).expect("world is there");
        let found = library.window(HANDLE).expect("a window");
        assert_eq!((found.handle, found.members), (HANDLE, vec![1, 2]));
        assert_eq!(library.window(0xa000_0002), None);
    }
}

//! The memory that all ranks of a job share: each one's clock and what it waits for, announcements of messages, and who has
//! come to collective calls.
//!
//! It is a file that the first rank makes. Zeros are a board on which nobody has written. All ranks of a job are one program of one
//! user: what they write is believed.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

use replay::logical::{Announcement, RankSet};

/// Announcements that one rank may be ahead of another one.
const RING_SLOTS: usize = 1024;
/// Communicators that a job may make, each counted once.
pub(crate) const MAX_COMMS: usize = 1 << 16;
const HEADER_BYTES: usize = 4096;
/// Behind the header and the groups.
const CELLS_AT: usize = HEADER_BYTES + MAX_GROUPS * size_of::<GroupCell>();

/// What a rank is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum WaitKind {
    /// It runs.
    Runs = 0,
    /// A message of some ranks.
    AnyOf = 1,
    /// A collective call.
    AllOf = 2,
    /// Something else: a send, or others' clocks.
    Other = 3,
    /// It has called MPI_Finalize.
    Finalized = 4,
}

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub kind: WaitKind,
    /// Those that may send, or that take part in the collective call.
    pub ranks: RankSet,
    /// The smallest time of the messages that are known.
    pub known: u64,
    /// The communicator of the collective call, and which call on it.
    pub comm: u32,
    pub meeting: u64,
    /// It can go on against the rules, if nobody else can.
    pub can_be_forced: bool,
}

impl Wait {
    pub(crate) const NONE: Self =
        Self { kind: WaitKind::Runs, ranks: RankSet(0), known: 0, comm: 0, meeting: 0, can_be_forced: false };
}

/// What a rank says of itself.
#[repr(C, align(128))]
pub(crate) struct RankCell {
    /// Changes with the wait; odd while it is written.
    version: AtomicU64,
    /// What it sends from now on has this time at least.
    pub floor: AtomicU64,
    /// How often it has looked in vain.
    pub turns: AtomicU64,
    kind: AtomicU32,
    comm: AtomicU32,
    meeting: AtomicU64,
    known: AtomicU64,
    ranks: [AtomicU64; 2],
    can_be_forced: AtomicU32,
}

impl RankCell {
    /// Its own rank: what it waits for from now on.
    pub(crate) fn set(&self, wait: &Wait) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.kind.store(wait.kind as u32, Ordering::Relaxed);
        self.comm.store(wait.comm, Ordering::Relaxed);
        self.meeting.store(wait.meeting, Ordering::Relaxed);
        self.known.store(wait.known, Ordering::Relaxed);
        self.ranks[0].store(wait.ranks.0 as u64, Ordering::Relaxed);
        self.ranks[1].store((wait.ranks.0 >> 64) as u64, Ordering::Relaxed);
        self.can_be_forced.store(wait.can_be_forced.into(), Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::SeqCst);
    }

    /// It is another one after each change of the wait.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// What it waits for, with the version of that; whoever relies on it looks at the version again. None: it is being written.
    pub(crate) fn wait(&self) -> Option<(u64, Wait)> {
        let version = self.version();
        let word = |at: usize| u128::from(self.ranks[at].load(Ordering::Relaxed));
        let kind = match self.kind.load(Ordering::Relaxed) {
            0 => WaitKind::Runs,
            1 => WaitKind::AnyOf,
            2 => WaitKind::AllOf,
            4 => WaitKind::Finalized,
            _ => WaitKind::Other,
        };
        let wait = Wait {
            kind,
            ranks: RankSet(word(0) | word(1) << 64),
            known: self.known.load(Ordering::Relaxed),
            comm: self.comm.load(Ordering::Relaxed),
            meeting: self.meeting.load(Ordering::Relaxed),
            can_be_forced: self.can_be_forced.load(Ordering::Relaxed) != 0,
        };
        fence(Ordering::Acquire);
        (version.is_multiple_of(2) && self.version() == version).then_some((version, wait))
    }
}

#[repr(C)]
struct RingSlot {
    time: AtomicU64,
    comm: AtomicU32,
    tag: AtomicI32,
}

/// Announcements of one rank to another one, in their order.
#[repr(C, align(128))]
pub(crate) struct AnnouncementRing {
    written: AtomicU64,
    _apart: [u64; 15],
    read: AtomicU64,
    _slots_apart: [u64; 15],
    slots: [RingSlot; RING_SLOTS],
}

impl AnnouncementRing {
    /// The sender: one more, if there is room.
    pub(crate) fn push(&self, message: &Announcement) -> bool {
        let at = self.written.load(Ordering::Relaxed);
        if at.wrapping_sub(self.read.load(Ordering::Acquire)) >= RING_SLOTS as u64 {
            return false;
        }
        let slot = &self.slots[at as usize % RING_SLOTS];
        slot.time.store(message.time, Ordering::Relaxed);
        slot.comm.store(message.comm, Ordering::Relaxed);
        slot.tag.store(message.tag, Ordering::Relaxed);
        self.written.store(at.wrapping_add(1), Ordering::SeqCst);
        true
    }

    /// The receiver: the one at a place, if it is there.
    pub(crate) fn get(&self, at: u64) -> Option<Announcement> {
        if at == self.written.load(Ordering::SeqCst) {
            return None;
        }
        let slot = &self.slots[at as usize % RING_SLOTS];
        Some(Announcement {
            comm: slot.comm.load(Ordering::Relaxed),
            tag: slot.tag.load(Ordering::Relaxed),
            time: slot.time.load(Ordering::Relaxed),
        })
    }

    /// The receiver: all before a place were taken, and what it waits for is said as it is after that.
    pub(crate) fn set_read(&self, at: u64) {
        if self.read.load(Ordering::Relaxed) != at {
            self.read.store(at, Ordering::SeqCst);
        }
    }

    /// Whether all were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.read.load(Ordering::SeqCst) == self.written.load(Ordering::SeqCst)
    }
}

/// How often a rank has come to collective calls on a communicator, and when. Nobody comes to the next but one before all have
/// left this one.
#[repr(C)]
pub(crate) struct MeetingCell {
    count: AtomicU64,
    times: [AtomicU64; 2],
}

impl MeetingCell {
    /// It comes to the next one; gives its number, from 1.
    pub(crate) fn come(&self, time: u64) -> u64 {
        let meeting = self.count.load(Ordering::Relaxed) + 1;
        self.times[meeting as usize % 2].store(time, Ordering::Relaxed);
        self.count.store(meeting, Ordering::SeqCst);
        meeting
    }

    /// When it came to one, if it has.
    pub(crate) fn time_of(&self, meeting: u64) -> Option<u64> {
        (self.count.load(Ordering::SeqCst) >= meeting)
            .then(|| self.times[meeting as usize % 2].load(Ordering::Relaxed))
    }
}

/// A group of ranks that meets without a communicator of its own, and the number of its meetings.
#[repr(C)]
struct GroupCell {
    /// Whether somebody writes it, or has written it.
    state: AtomicU32,
    number: AtomicU32,
    tag: AtomicI32,
    _apart: u32,
    ranks: [AtomicU64; 2],
}

/// Groups with different tags.
const MAX_GROUPS: usize = 4096;
const GROUP_IS_WRITTEN: u32 = 1;
const GROUP_IS_THERE: u32 = 2;

/// Mapped until the process ends.
pub(crate) struct Board {
    start: NonNull<u8>,
    ranks: usize,
}

// SAFETY: all that is in it is atomic.
unsafe impl Send for Board {}

impl Board {
    /// That of a job with so many ranks.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn open(path: &Path, ranks: usize) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let bytes = CELLS_AT
            + ranks * size_of::<RankCell>()
            + ranks * ranks * size_of::<AnnouncementRing>()
            + MAX_COMMS * ranks * size_of::<MeetingCell>();
        // All ranks say the same; what nobody writes to takes no room.
        file.set_len(bytes as u64)?;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, ranks })
    }

    /// How many ranks there are.
    pub(crate) fn ranks(&self) -> usize {
        self.ranks
    }

    /// A value at an offset that is within the mapping.
    ///
    /// # Safety
    /// So it is, it is aligned, and nothing else lies there.
    unsafe fn at<T>(&self, offset: usize) -> &T {
        // SAFETY: the caller's promise; zeros are a value of all that lies here, and it is atomic.
        unsafe { self.start.add(offset).cast().as_ref() }
    }

    /// A number for a new communicator: 0 and 1 are the world and the rank itself.
    pub(crate) fn new_comm(&self) -> Option<u32> {
        // SAFETY: the header begins with it.
        let next: &AtomicU32 = unsafe { self.at(0) };
        let number = next.fetch_add(1, Ordering::Relaxed).saturating_add(2);
        ((number as usize) < MAX_COMMS).then_some(number)
    }

    /// The number of a group with a tag: the same for all of its ranks. None: there are too many.
    pub(crate) fn group(&self, ranks: RankSet, tag: i32) -> Option<u32> {
        let words = [ranks.0 as u64, (ranks.0 >> 64) as u64];
        (0..MAX_GROUPS)
            .find_map(|place| {
                // SAFETY: so many follow the header.
                let cell: &GroupCell = unsafe { self.at(HEADER_BYTES + place * size_of::<GroupCell>()) };
                let claimed =
                    cell.state.compare_exchange(0, GROUP_IS_WRITTEN, Ordering::Acquire, Ordering::Relaxed);
                if claimed.is_ok() {
                    cell.number.store(self.new_comm().unwrap_or(u32::MAX), Ordering::Relaxed);
                    cell.tag.store(tag, Ordering::Relaxed);
                    cell.ranks.iter().zip(words).for_each(|(at, word)| at.store(word, Ordering::Relaxed));
                    cell.state.store(GROUP_IS_THERE, Ordering::Release);
                }
                while cell.state.load(Ordering::Acquire) != GROUP_IS_THERE {
                    std::thread::yield_now();
                }
                let is_it = cell.tag.load(Ordering::Relaxed) == tag
                    && cell.ranks.iter().zip(words).all(|(at, word)| at.load(Ordering::Relaxed) == word);
                is_it.then(|| cell.number.load(Ordering::Relaxed))
            })
            .filter(|number| *number != u32::MAX)
    }

    fn checked(&self, rank: u32) -> usize {
        assert!((rank as usize) < self.ranks, "rank {rank}");
        rank as usize
    }

    pub(crate) fn cell(&self, rank: u32) -> &RankCell {
        let offset = CELLS_AT + self.checked(rank) * size_of::<RankCell>();
        // SAFETY: cells of all ranks follow the groups, at a multiple of their alignment.
        unsafe { self.at(offset) }
    }

    /// Of what `from` announces to `to`.
    pub(crate) fn ring(&self, from: u32, to: u32) -> &AnnouncementRing {
        let place = self.checked(from) * self.ranks + self.checked(to);
        let offset = CELLS_AT + self.ranks * size_of::<RankCell>() + place * size_of::<AnnouncementRing>();
        // SAFETY: one for each pair follows the cells; the sizes of both are multiples of their alignment.
        unsafe { self.at(offset) }
    }

    /// A rank's cell of a communicator.
    pub(crate) fn meeting(&self, comm: u32, rank: u32) -> &MeetingCell {
        assert!((comm as usize) < MAX_COMMS, "communicator {comm}");
        let place = comm as usize * self.ranks + self.checked(rank);
        let rings = self.ranks * self.ranks * size_of::<AnnouncementRing>();
        let offset = CELLS_AT + self.ranks * size_of::<RankCell>() + rings + place * size_of::<MeetingCell>();
        // SAFETY: one for each rank and communicator follows the rings.
        unsafe { self.at(offset) }
    }
}

const _: () = assert!(
    CELLS_AT.is_multiple_of(128)
        && size_of::<RankCell>().is_multiple_of(128)
        && size_of::<AnnouncementRing>().is_multiple_of(128)
);

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let path = std::env::temp_dir().join(format!("dmscope-board-{:?}", std::thread::current().id()));
        let board = Board::open(&path, 3).expect("there is room");
        std::fs::remove_file(&path).expect("ours");
        board
    }

    #[test]
    fn announcements_come_in_order_until_the_ring_is_full() {
        let board = board();
        let ring = board.ring(1, 2);
        let message = |time| Announcement { comm: 3, tag: -1, time };
        assert!((0..RING_SLOTS as u64).all(|time| ring.push(&message(time))));
        assert!(!ring.push(&message(0)) && !ring.is_empty() && board.ring(2, 1).is_empty());
        assert_eq!(ring.get(0), Some(message(0)));
        ring.set_read(1);
        assert!(ring.push(&message(9)) && !ring.push(&message(9)));
        assert_eq!(ring.get(RING_SLOTS as u64), Some(message(9)));
        assert_eq!(ring.get(RING_SLOTS as u64 + 1), None);
    }

    #[test]
    fn a_wait_is_read_as_it_was_written() {
        let board = board();
        let wait = Wait {
            kind: WaitKind::AllOf,
            ranks: [0, 127].into_iter().collect(),
            known: 4,
            comm: 5,
            meeting: 6,
            can_be_forced: true,
        };
        board.cell(2).set(&wait);
        let (version, read) = board.cell(2).wait().expect("nobody writes");
        assert_eq!((version, read), (board.cell(2).version(), wait));
    }

    #[test]
    fn a_group_has_one_number_for_all_and_another_one_with_another_tag() {
        let board = board();
        let (group, other): (RankSet, RankSet) = ([0, 2].into_iter().collect(), [0, 1].into_iter().collect());
        let number = board.group(group, 5).expect("there is room");
        assert_eq!(board.group(group, 5), Some(number));
        assert_ne!(board.group(group, 6), Some(number));
        assert_ne!(board.group(other, 5), board.group(group, 6));
        assert_eq!(board.group(group, 5), Some(number));
    }

    #[test]
    fn who_has_come_to_a_meeting_says_when() {
        let board = board();
        let cell = board.meeting(7, 1);
        assert_eq!((cell.come(30), cell.time_of(1), cell.time_of(2)), (1, Some(30), None));
        assert_eq!((cell.come(40), cell.time_of(1), cell.time_of(2)), (2, Some(30), Some(40)));
        assert_eq!(board.meeting(7, 2).time_of(1), None);
    }
}

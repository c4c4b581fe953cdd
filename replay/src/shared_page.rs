//! What a rank and dmscope share while the rank runs: a file that both have mapped. What is written there outlives the rank.
//!
//! The file begins with this page; the record follows it. The rank writes, dmscope reads.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// How long the page is; the record begins behind it.
pub const PAGE_BYTES: usize = 4096;
/// Most bytes of a record: what is mapped of the file.
pub const MAX_RECORD_BYTES: usize = 1 << 30;
/// Threads that the page has room for.
pub const PAGE_THREADS: usize = 64;
/// Most bytes of a text.
pub const MAX_TEXT_BYTES: usize = 512;

/// The format of the page, which wrappers carry: those of other versions of dmscope are refused.
pub const FORMAT_BYTES: [u8; 8] = *b"dmspage\x05";
const FORMAT: u64 = u64::from_le_bytes(FORMAT_BYTES);

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PageState {
    /// Outside of the calls that are looked at.
    Outside = 0,
    /// In one of them.
    InCall = 1,
    /// It has called MPI_Finalize.
    Finalized = 2,
    /// It was stopped at a call that the record does not have.
    Diverged = 3,
}

/// Texts on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageText {
    /// The MPI library's own words for its version.
    Library = 0,
    /// Path of the program.
    Program = 1,
    /// Why the rank is no longer recorded, or where it diverged.
    Message = 2,
    /// Where in the program a rank diverged: how far into which file, `1f30 /home/user/app`.
    Place = 3,
}

/// The page itself. Zeros are a page on which nothing was written.
#[repr(C)]
#[derive(Debug)]
pub struct SharedPage {
    format: AtomicU64,
    /// The rank's process, in its own pid namespace.
    pub pid: AtomicU32,
    /// Rank in MPI_COMM_WORLD.
    pub rank: AtomicU32,
    /// Size of MPI_COMM_WORLD.
    pub size: AtomicU32,
    /// The level that MPI_Init_thread gave, from 0 (single) to 3 (multiple); of both libraries alike.
    pub thread_level: AtomicU32,
    /// Length and a checksum of the program's file.
    pub program_bytes: AtomicU64,
    /// See [`SharedPage::program_bytes`].
    pub program_checksum: AtomicU64,
    /// A [`PageState`].
    state: AtomicU32,
    /// The call that it is in or was in last: a number of the wrapper's table of names.
    pub call: AtomicU32,
    /// How many calls it has begun.
    pub calls: AtomicU64,
    /// Its arguments, as far as they are the same in every run.
    pub arguments: [AtomicI32; 3],
    /// The source that a receive waits for in place of anybody; negative: none.
    pub due_source: AtomicI32,
    /// Where it was called from.
    pub return_address: AtomicU64,
    /// Whole entries of the record.
    record_bytes: AtomicU64,
    /// Polls that answered no since then.
    pub polls: AtomicU64,
    /// Not zero: the rank is recorded no longer.
    pub stopped: AtomicU32,
    /// What was used that a record does not cover: bits of [`UNCOVERED`].
    pub uncovered: AtomicU32,
    /// Answers that were given or recorded.
    pub answers: AtomicU64,
    /// The call with which the record ended, from 1; 0: it has not.
    pub ended_at_call: AtomicU64,
    /// Calls of a rank that runs alone that have sent other data than they did.
    pub other_data: AtomicU64,
    /// Not zero: the rank sees that nobody can go on (deterministic runs).
    pub deadlocked: AtomicU32,
    /// How many threads have made calls, where they may do so at the same time; 0: they may not.
    pub threads: AtomicU32,
    /// The position among the calls of all ranks that the end of its call waits for, from 1; 0: it does not.
    pub position: AtomicU64,
    /// The kernel's numbers of such threads that are in a call, of as many as there is room for; 0: none.
    pub thread_ids: [AtomicU32; PAGE_THREADS],
    /// Polls of such threads that answered no since the last entry of each.
    pub thread_polls: [AtomicU64; PAGE_THREADS],
    /// How many threads wait for others to post before.
    pub waiting_for_turn: AtomicU32,
    /// Zero: there are no gaps between fields.
    _reserved: AtomicU32,
    texts: [[AtomicU32; MAX_TEXT_BYTES / 4]; 4],
}

/// Bytes of all fields before the texts: there are no gaps between them.
const FIELDS_BYTES: usize = 152 + 12 * PAGE_THREADS;
const _: () = assert!(size_of::<SharedPage>() == FIELDS_BYTES + 4 * MAX_TEXT_BYTES);
const _: () = assert!(size_of::<SharedPage>() <= PAGE_BYTES);

/// What a record does not cover, by bits, in words for people.
pub const UNCOVERED: [&str; 8] = [
    "windows (MPI_Win_…): the order in which ranks access them is not recorded",
    "processes that the job has spawned or connected to: they are not recorded",
    "parallel files (MPI_File_…): what is in them is not recorded",
    "MPI_Cancel: whether it comes in time is recorded for receives from anybody only",
    "communicators that were made by calls which are not looked at (sessions), or more than 65,534",
    "MPI_Isendrecv: MPICH 4.0 does not say whose message it received from anybody",
    "MPI from several threads: what they do to each other between calls is not recorded",
    "windows by locks (MPI_Win_lock, MPI_Win_lock_all): who accesses one first is not decided",
];
/// Of those.
pub const SEVERAL_THREADS: u32 = 6;

/// Counts one more. Only the rank's thread writes: it takes no bus lock, which a poll would feel.
#[inline]
pub fn count_one(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl SharedPage {
    /// A copy of the page as it was read.
    pub fn from_bytes(bytes: &[u8; PAGE_BYTES]) -> Self {
        // SAFETY: the page is not longer than this, and all its fields are atomic integers, of which any bytes are a value.
        unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
    }

    /// The page as bytes; behind its fields zeros.
    pub fn to_bytes(&self) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        // SAFETY: the page is not longer than this, all its fields are atomic integers, and there are no gaps between them.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(self).cast(),
                bytes.as_mut_ptr(),
                size_of::<Self>(),
            );
        }
        bytes
    }

    /// Says that everything before was written.
    pub fn begin(&self) {
        self.format.store(FORMAT, Ordering::Release);
    }

    /// Whether a rank of this version has begun.
    pub fn has_begun(&self) -> bool {
        self.format.load(Ordering::Acquire) == FORMAT
    }

    /// Where the rank is.
    pub fn state(&self) -> PageState {
        match self.state.load(Ordering::Acquire) {
            1 => PageState::InCall,
            2 => PageState::Finalized,
            3 => PageState::Diverged,
            _ => PageState::Outside,
        }
    }

    /// Says where the rank is.
    #[inline]
    pub fn set_state(&self, state: PageState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Bytes of the record that are whole.
    pub fn record_bytes(&self) -> usize {
        usize::try_from(self.record_bytes.load(Ordering::Acquire)).unwrap_or(0).min(MAX_RECORD_BYTES)
    }

    /// Says how many are; those were written before.
    #[inline]
    pub fn set_record_bytes(&self, bytes: usize) {
        self.record_bytes.store(bytes as u64, Ordering::Release);
    }

    /// A text; what is not UTF-8 is replaced.
    pub fn text(&self, text: PageText) -> String {
        let words = &self.texts[text as usize];
        let bytes: Vec<u8> =
            words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Writes a text, as much of it as there is room for.
    pub fn set_text(&self, text: PageText, words: &str) {
        let mut bytes = [0; MAX_TEXT_BYTES];
        let len = words.len().min(MAX_TEXT_BYTES - 1);
        bytes[..len].copy_from_slice(&words.as_bytes()[..len]);
        for (word, four) in self.texts[text as usize].iter().zip(bytes.chunks_exact(4)) {
            word.store(u32::from_le_bytes([four[0], four[1], four[2], four[3]]), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> SharedPage {
        SharedPage::from_bytes(&[0; PAGE_BYTES])
    }

    #[test]
    fn a_page_of_zeros_has_not_begun() {
        let page = blank();
        assert!(!page.has_begun());
        assert_eq!((page.state(), page.text(PageText::Message)), (PageState::Outside, String::new()));
    }

    #[test]
    fn a_page_goes_through_bytes_as_it_is() {
        let page = blank();
        page.rank.store(7, Ordering::Relaxed);
        page.position.store(1 << 40, Ordering::Relaxed);
        page.set_text(PageText::Place, "the end");
        let again = SharedPage::from_bytes(&page.to_bytes());
        assert_eq!(again.rank.load(Ordering::Relaxed), 7);
        assert_eq!(again.position.load(Ordering::Relaxed), 1 << 40);
        assert_eq!(again.text(PageText::Place), "the end");
    }

    #[test]
    fn texts_are_cut_to_their_room_and_kept_apart() {
        let page = blank();
        page.set_text(PageText::Program, &"x".repeat(2 * MAX_TEXT_BYTES));
        page.set_text(PageText::Library, "a library");
        assert_eq!(page.text(PageText::Program).len(), MAX_TEXT_BYTES - 1);
        assert_eq!(page.text(PageText::Library), "a library");
        assert_eq!(page.text(PageText::Message), "");
    }
}

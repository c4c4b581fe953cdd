//! Numbers of address spaces and threads, and the spaces that processes share.

use rustc_hash::FxHashMap;

use super::ids::SpaceId;
use super::ids::ThreadId;
use crate::tape::wire::FileId;

/// Numbers that are given out again.
#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// A file that processes share, and how much of it they have mapped.
#[derive(Clone, Copy)]
struct SharedFile {
    file: FileId,
    mapped_bytes: u64,
}

/// What address spaces and threads there are.
#[derive(Default)]
pub(crate) struct Spaces {
    spaces: Numbers,
    threads: Numbers,
    shared: FxHashMap<FileId, SpaceId>,
    shared_files: FxHashMap<SpaceId, SharedFile>,
}

impl Spaces {
    /// A space that nobody uses.
    pub fn new_space(&mut self) -> SpaceId {
        SpaceId(self.spaces.take())
    }

    /// A thread that nobody is.
    pub fn new_thread(&mut self) -> ThreadId {
        ThreadId(self.threads.take())
    }

    /// Nobody uses a space any more.
    pub fn give_back_space(&mut self, space: SpaceId) {
        self.spaces.free.push(space.0);
    }

    /// A thread is gone.
    pub fn give_back_thread(&mut self, thread: ThreadId) {
        self.threads.free.push(thread.0);
    }

    /// Numbers of spaces and of threads that were ever given out.
    #[inline(always)]
    pub fn counts(&self) -> (usize, usize) {
        (self.spaces.next as usize, self.threads.next as usize)
    }

    /// The space of a file that processes share.
    pub fn shared(&mut self, file: FileId) -> SpaceId {
        if let Some(&space) = self.shared.get(&file) {
            return space;
        }
        let space = self.new_space();
        self.shared.insert(file, space);
        self.shared_files.insert(space, SharedFile { file, mapped_bytes: 0 });
        space
    }

    /// So much more of a space is mapped, if it is a shared one.
    pub fn retain(&mut self, space: SpaceId, bytes: u64) {
        if let Some(shared) = self.shared_files.get_mut(&space) {
            shared.mapped_bytes = shared.mapped_bytes.saturating_add(bytes);
        }
    }

    /// So much less of it is mapped. True: nobody maps any of it any more, so that it is gone.
    pub fn release(&mut self, space: SpaceId, bytes: u64) -> bool {
        let Some(shared) = self.shared_files.get_mut(&space) else { return false };
        shared.mapped_bytes = shared.mapped_bytes.saturating_sub(bytes);
        if shared.mapped_bytes > 0 {
            return false;
        }
        self.shared.remove(&shared.file);
        self.shared_files.remove(&space);
        self.give_back_space(space);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { dev: 1, inode: 5 };

    #[test]
    fn a_shared_space_is_gone_when_nobody_maps_any_of_it() {
        let mut spaces = Spaces::default();
        let space = spaces.shared(FILE);
        assert_eq!(spaces.shared(FILE), space);
        spaces.retain(space, 10);
        spaces.retain(space, 10);
        assert!(!spaces.release(space, 10));
        assert!(spaces.release(space, 10));
        assert!(!spaces.release(space, 10));
    }

    #[test]
    fn numbers_that_were_given_back_are_given_out_again() {
        let mut spaces = Spaces::default();
        let (first, second) = (spaces.new_space(), spaces.new_space());
        spaces.give_back_space(first);
        assert_eq!(spaces.new_space(), first);
        assert_ne!(first, second);
        assert_eq!(spaces.counts(), (2, 0));
    }
}

//! What a search for a cycle keeps, and the next one uses again.

/// A search from thread to thread, in depth.
#[derive(Debug, Default)]
pub(super) struct CycleSearch {
    /// Threads each of which waits for the next.
    pub path: Vec<usize>,
    /// Threads to look at, and how long the path to each is.
    pub open: Vec<(usize, usize)>,
    /// By thread: the last search that has looked at it.
    looked_at: Vec<u64>,
    searches: u64,
}

impl CycleSearch {
    pub fn begin(&mut self, threads: usize) {
        self.path.clear();
        self.open.clear();
        self.looked_at.resize(threads, 0);
        self.searches += 1;
    }

    /// From now on it has.
    pub fn has_looked_at(&mut self, thread: usize) -> bool {
        std::mem::replace(&mut self.looked_at[thread], self.searches) == self.searches
    }
}

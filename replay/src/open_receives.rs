//! Receives from anybody, by number, whose message is not yet known: those open for longest have the lowest numbers.

/// Numbers of the open ones, in order, with what is kept of each; all from `next` on are open as well, or not yet posted.
#[derive(Clone, Debug)]
pub(crate) struct OpenReceives<T> {
    open: Vec<(u64, T)>,
    next: u64,
}

impl<T> Default for OpenReceives<T> {
    fn default() -> Self {
        Self { open: Vec::new(), next: 0 }
    }
}

impl<T> OpenReceives<T> {
    /// The number of the next receive.
    pub(crate) fn post(&mut self, kept: T) -> u64 {
        let number = self.next;
        self.open.push((number, kept));
        self.next += 1;
        number
    }

    /// How many have been open longer than this one, which is open no more.
    pub(crate) fn close(&mut self, number: u64) -> Option<u64> {
        let at = self.open.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.open.remove(at);
        Some(at as u64)
    }

    /// What is kept of those that are open, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.open.iter().map(|(_, kept)| kept)
    }
}

impl OpenReceives<()> {
    /// The number of the one before which so many are open; it is open no more. None: more than `most` would be open.
    pub(crate) fn close_behind(&mut self, longer: u64, most: usize) -> Option<u64> {
        let at = usize::try_from(longer).ok().filter(|at| *at < most)?;
        while self.open.len() <= at {
            self.post(());
        }
        Some(self.open.remove(at).0)
    }
}

//! Receives from anybody, by number, whose message is not yet known: those open for longest have the lowest numbers.

/// Numbers of the open ones, in order; all from `next` on are open as well, or not yet posted.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenReceives {
    open: Vec<u64>,
    next: u64,
}

impl OpenReceives {
    /// The number of the next receive.
    pub(crate) fn post(&mut self) -> u64 {
        let number = self.next;
        self.open.push(number);
        self.next += 1;
        number
    }

    /// How many have been open longer than this one, which is open no more.
    pub(crate) fn close(&mut self, number: u64) -> Option<u64> {
        let at = self.open.binary_search(&number).ok()?;
        self.open.remove(at);
        Some(at as u64)
    }

    /// The number of the one before which so many are open; it is open no more. None: more than `most` would be open.
    pub(crate) fn close_behind(&mut self, longer: u64, most: usize) -> Option<u64> {
        let at = usize::try_from(longer).ok().filter(|at| *at < most)?;
        while self.open.len() <= at {
            self.post();
        }
        Some(self.open.remove(at))
    }

    /// Numbers of those that are open, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().copied()
    }
}

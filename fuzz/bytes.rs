//! Numbers made of bytes: few of each sort, so that they meet.

/// Bytes that are used up from the front; 0 when there are none left.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// The next one, if there is one.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next one, 0 at the end.
    pub fn next(&mut self) -> u8 {
        self.byte().unwrap_or(0)
    }

    /// One of five processes.
    pub fn pid(&mut self) -> u32 {
        u32::from(self.next() % 5) + 10
    }

    /// A process with one of its two threads.
    pub fn thread(&mut self) -> (u32, u32) {
        let byte = self.next();
        let pid = u32::from(byte % 5) + 10;
        // Most of them call MPI from their first thread alone.
        (pid, pid + u32::from(byte >= 0xe0))
    }

    /// One of a list.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::from(self.next()) % all.len()]
    }
}

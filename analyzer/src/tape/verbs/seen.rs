//! From when on all that matters is seen.

use rustc_hash::FxHashMap;

use crate::tape::wire::Header;

/// Most processes of which something of their own is known.
const MAX_PROCESSES: usize = 1 << 16;

/// What is set up after a moment is seen from its beginning: of all processes, and of some.
#[derive(Debug)]
pub(super) struct SeenFrom {
    all_ns: u64,
    by_process: FxHashMap<u32, u64>,
}

impl Default for SeenFrom {
    fn default() -> Self {
        Self { all_ns: u64::MAX, by_process: FxHashMap::default() }
    }
}

impl SeenFrom {
    pub(super) fn begin(&mut self, time_ns: u64) {
        self.all_ns = time_ns;
    }

    /// Something may not have been seen up to a moment: of one process, or of all.
    pub(super) fn lose(&mut self, pid: Option<u32>, until_ns: u64) {
        let pid =
            pid.filter(|pid| self.by_process.len() < MAX_PROCESSES || self.by_process.contains_key(pid));
        match pid {
            Some(pid) => {
                let from_ns = self.by_process.entry(pid).or_default();
                *from_ns = until_ns.max(*from_ns);
            }
            None if self.all_ns < u64::MAX => self.all_ns = self.all_ns.max(until_ns),
            None => {}
        }
    }

    pub(super) fn forget_process(&mut self, pid: u32) {
        self.by_process.remove(&pid);
    }

    /// Whether what is set up now is seen from its beginning.
    pub(super) fn has(&self, h: &Header) -> bool {
        let of_process = self.by_process.get(&h.pid).copied().unwrap_or(0);
        h.time_ns > self.all_ns.max(of_process)
    }
}

//! When memory was last copied: what a process with several threads posted at the same time is told apart by that.

use std::collections::HashMap;

use analyzer::wire::Body;

/// Of one process: by the address at which a copy begins, in the process's space, when one was made last.
#[derive(Debug, Default)]
pub(super) struct RecentCopies {
    into: HashMap<u64, u64>,
    out_of: HashMap<u64, u64>,
}

/// So many addresses are remembered, each way.
const MOST_ADDRESSES: usize = 1 << 20;

impl RecentCopies {
    /// Takes what a thread of the process copied.
    pub fn take(&mut self, body: &Body, time_ns: u64) {
        match *body {
            Body::Copy { dst, src, .. } | Body::Pack { dst, src, .. } => {
                remember(&mut self.into, dst, time_ns);
                remember(&mut self.out_of, src, time_ns);
            }
            Body::Cross { local, write, .. } => {
                remember(if write { &mut self.out_of } else { &mut self.into }, local, time_ns);
            }
            _ => {}
        }
    }

    /// When something was last copied to the address, if that was not before.
    pub fn last_into(&self, address: u64, from_ns: u64) -> Option<u64> {
        self.into.get(&address).copied().filter(|time_ns| *time_ns >= from_ns)
    }

    /// When something was last copied from there, if that was not before.
    pub fn last_out_of(&self, address: u64, from_ns: u64) -> Option<u64> {
        self.out_of.get(&address).copied().filter(|time_ns| *time_ns >= from_ns)
    }
}

fn remember(times: &mut HashMap<u64, u64>, address: u64, time_ns: u64) {
    if times.len() >= MOST_ADDRESSES && !times.contains_key(&address) {
        times.clear();
    }
    times.insert(address, time_ns);
}

#[cfg(test)]
mod tests {
    use analyzer::wire::CallContext;

    use super::*;

    #[test]
    fn the_last_copy_counts_unless_it_was_before() {
        let mut copies = RecentCopies::default();
        let copy = Body::Copy { dst: 10, src: 20, len_bytes: 4, context: CallContext::default() };
        copies.take(&copy, 100);
        copies.take(&copy, 200);
        assert_eq!(
            [150, 200, 201].map(|from_ns| copies.last_into(10, from_ns)),
            [Some(200), Some(200), None]
        );
        assert_eq!(
            (copies.last_out_of(20, 0), copies.last_out_of(10, 0), copies.last_into(20, 0)),
            (Some(200), None, None)
        );
    }

    #[test]
    fn what_another_process_writes_here_is_its_own() {
        let cross = |write| Body::Cross {
            local: 10,
            remote: 20,
            len_bytes: 4,
            remote_pid: 2,
            segment: 0,
            write,
            context: CallContext::default(),
        };
        let mut copies = RecentCopies::default();
        copies.take(&cross(false), 100);
        copies.take(&cross(true), 200);
        assert_eq!((copies.last_into(10, 0), copies.last_out_of(10, 0)), (Some(100), Some(200)));
    }
}

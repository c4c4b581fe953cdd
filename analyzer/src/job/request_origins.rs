//! What handles stand for: the calls that made them.
//!
//! Of completions nothing needs to be known: a library gives a handle out again only when what it stood for is
//! over, and who waits for a handle waits for what it stood for last.

use rustc_hash::FxHashMap;

use crate::job::last_calls::CallEntry;
use crate::tape::input::CallInProgress;

/// Handles that are kept of all processes.
const MOST: usize = 1 << 20;

/// By process and handle.
#[derive(Default)]
pub(crate) struct RequestOrigins {
    calls: FxHashMap<(u32, u64), CallEntry>,
}

impl RequestOrigins {
    /// A call has stored a handle.
    pub fn note(&mut self, pid: u32, handle: u64, by: CallEntry) {
        if self.calls.len() < MOST || self.calls.contains_key(&(pid, handle)) {
            self.calls.insert((pid, handle), by);
        }
    }

    /// The call that made it.
    pub fn maker(&self, pid: u32, handle: u64) -> Option<&CallEntry> {
        self.calls.get(&(pid, handle))
    }

    /// Calls of a process may have stored handles unseen.
    pub fn forget(&mut self, pid: u32) {
        self.calls.retain(|key, _| key.0 != pid);
    }

    /// Calls of all may have.
    pub fn clear(&mut self) {
        self.calls.clear();
    }

    /// Adds which calls started the requests that a call waits for. `function`: of the probe in a slot.
    pub fn complete(&self, pid: u32, call: &mut CallInProgress, function: impl Fn(usize) -> Option<String>) {
        for request in call.requests.iter_mut().filter(|r| r.message.is_none() && r.started.is_none()) {
            let Some(maker) = self.maker(pid, request.handle) else { continue };
            request.started = function(maker.probe).map(|function| crate::tape::input::StartedCall {
                function,
                arguments: maker.arguments.to_vec(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::input::PendingRequest;

    fn begun(probe: usize) -> CallEntry {
        CallEntry { probe, return_address: 0, arguments: [7; 6] }
    }

    #[test]
    fn a_handle_stands_for_what_it_was_last_given_to() {
        let mut made = RequestOrigins::default();
        made.note(1, 0x100, begun(3));
        made.note(1, 0x100, begun(4));
        made.note(2, 0x100, begun(5));
        let mut call = CallInProgress {
            requests: vec![PendingRequest { handle: 0x100, ..PendingRequest::default() }],
            ..CallInProgress::default()
        };
        made.complete(1, &mut call, |probe| Some(format!("call {probe}")));
        let started = call.requests[0].started.as_ref().map(|started| started.function.as_str());
        assert_eq!(started, Some("call 4"));
        made.forget(1);
        assert!(made.maker(1, 0x100).is_none() && made.maker(2, 0x100).is_some());
    }
}

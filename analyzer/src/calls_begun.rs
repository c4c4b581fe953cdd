//! What the pipeline keeps of MPI calls that have begun, for whoever looks at a thread that does not come back: the way
//! from records to [`hang`](crate::hang).

use crate::mpi::calls::CallRow;
use crate::pipeline::Pipeline;
use crate::tape::wire::Header;

/// An MPI call of a thread, as it was recorded when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCall {
    /// The thread.
    pub tid: u32,
    /// Name as in the standard.
    pub function: String,
    /// Where it returns to, in the process's space.
    pub return_address: u64,
    /// Those in registers.
    pub arguments: [u64; 6],
}

impl Pipeline {
    /// The last MPI call of each thread of a process, as it began: for whoever looks at what the thread is doing.
    pub fn last_calls(&self, pid: u32) -> impl Iterator<Item = LastCall> {
        self.calls_seen.of(pid).filter_map(move |(tid, begun)| {
            Some(LastCall {
                tid,
                function: self.probes.get(begun.probe)?.function.clone(),
                return_address: begun.return_address,
                arguments: begun.arguments,
            })
        })
    }

    /// Calls of a process may have begun unseen, or it is gone.
    pub(crate) fn forget_calls(&mut self, pid: u32) {
        self.calls_seen.forget(pid);
        self.handles_made.forget(pid);
        self.locks.forget(pid);
        self.failures.errors.forget(pid);
    }

    /// Errors under way stay: whether a program goes on after one is seen in a pause too.
    pub(crate) fn forget_all_calls(&mut self) {
        self.calls_seen.clear();
        self.handles_made.clear();
        self.locks.clear();
    }

    /// A call has returned; what `argument` points to may be a handle that it made.
    pub(crate) fn returned(&mut self, h: &Header, slot: usize, argument: u32, word: u64) {
        let row = self.probes.get(slot).and_then(|probe| probe.row);
        if row.and_then(CallRow::made) == Some(argument as usize) {
            self.made(h, slot, word);
        }
    }

    /// A thread's last call has stored a handle.
    pub(crate) fn made(&mut self, h: &Header, slot: usize, handle: u64) {
        if let Some(begun) = self.calls_seen.last(h.pid, h.tid).filter(|begun| begun.probe == slot) {
            self.handles_made.note(h.pid, handle, *begun);
        }
    }
}

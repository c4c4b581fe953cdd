//! Keeps a link open in a thread with a descriptor table of its own.
//!
//! When a link is closed the kernel waits for a grace period, tenths of a second on a busy machine. A process that is
//! killed closes the descriptors of one table one after the other; those of several tables are closed at the same time,
//! each by the thread that has it. So links of a killed session are gone as soon as one of them is.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::host::placement;

/// It waits, and closes one descriptor.
const STACK_BYTES: usize = 64 << 10;

/// A link that is open until this is told to close it, or the process ends.
pub(super) enum Keeper {
    /// Moved to the table of a thread, which ends when the sender is gone.
    Thread(Sender<()>, JoinHandle<()>),
    /// No thread could be had: it is closed like any other, which only takes longer.
    Here(OwnedFd),
}

/// A link on its way into a thread.
pub(super) struct Moving {
    link: OwnedFd,
    thread: Option<(Sender<()>, Receiver<()>, JoinHandle<()>)>,
}

impl Moving {
    /// Begins to move a link: several move at the same time.
    pub(super) fn begin(link: OwnedFd) -> Self {
        let fd = link.as_raw_fd();
        let (ready_sender, ready) = bounded(1);
        let (close_sender, close) = bounded::<()>(0);
        let thread = std::thread::Builder::new().name("dms-link".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || {
            placement::run_early();
            let Some(kept) = keep_only(fd) else { return };
            if ready_sender.send(()).is_err() {
                return;
            }
            // Nothing is ever sent: it ends when the sender does.
            let _ = close.recv();
            drop(kept);
        });
        Self { link, thread: thread.ok().map(|thread| (close_sender, ready, thread)) }
    }

    /// Waits until the thread has it.
    pub(super) fn finish(self) -> Keeper {
        match self.thread {
            // Closes ours, which is not the last one.
            Some((close, ready, thread)) if ready.recv().is_ok() => Keeper::Thread(close, thread),
            _ => Keeper::Here(self.link),
        }
    }
}

impl Keeper {
    /// Begins to close the link; the thread that does it can be waited for.
    pub(super) fn close(self) -> Option<JoinHandle<()>> {
        match self {
            Self::Thread(close, thread) => {
                drop(close);
                Some(thread)
            }
            Self::Here(link) => {
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn(move || drop(link)).ok()
            }
        }
    }
}

/// Gives the calling thread a descriptor table of its own with this descriptor and no other. `None`: the kernel
/// refused, and nothing has changed or nothing is left open.
fn keep_only(fd: RawFd) -> Option<OwnedFd> {
    let number = u32::try_from(fd).ok()?;
    // SAFETY: descriptors above `fd` are closed in a new table, which this thread alone has; it uses none of them, and
    // those of the other threads stay as they are.
    let unshared = unsafe { libc::close_range(number + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE as i32) };
    if unshared != 0 {
        return None;
    }
    // SAFETY: the table is this thread's own now; it uses none of the descriptors below `fd`.
    let is_alone = number == 0 || unsafe { libc::close_range(0, number - 1, 0) } == 0;
    // SAFETY: `fd` is open in the new table, since it was when the table was copied, and nothing else owns it there.
    let kept = unsafe { OwnedFd::from_raw_fd(fd) };
    is_alone.then_some(kept)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_descriptor_is_kept_by_a_thread_when_everybody_else_has_closed_it() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let fd = writer.as_raw_fd();
        let (ready_sender, ready) = bounded(1);
        let (close_sender, close) = bounded::<()>(0);
        let thread = std::thread::spawn(move || {
            let kept = keep_only(fd).expect("a table of its own");
            let others = std::fs::read_dir("/proc/thread-self/fd").expect("proc").count();
            ready_sender.send(others).expect("the test waits");
            let _ = close.recv();
            drop(kept);
        });
        // The one that lists them is open too.
        assert_eq!(ready.recv(), Ok(2));
        drop(writer);
        let reads = std::thread::spawn(move || reader.read(&mut [0]).expect("a pipe"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!reads.is_finished(), "the pipe has a writer still");
        drop(close_sender);
        thread.join().expect("it ends");
        assert_eq!(reads.join().expect("it ends"), 0);
    }
}

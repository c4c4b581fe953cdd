//! Reads that a process can keep from ever ending: its memory may be a mapping of a file system that it serves itself.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use procfs::ProcResult;
use procfs::process::{Process, Stat};
use rustix::thread::{Pid, gettid};

/// How long to wait for what takes microseconds …
const PATIENCE: Duration = Duration::from_secs(2);
/// … and for one that could go on, and has no processor.
const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// What a read gives, in a thread of its own; `None`: it has not ended in time, and the thread stays behind.
pub fn in_time<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (begun, beginning) = channel();
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("dms-read".into());
    // Nobody may listen any more.
    let work = move || begun.send(gettid()).is_ok() && sender.send(read()).is_ok();
    thread.spawn(work).ok()?;
    let deadline = Instant::now() + MOST_PATIENCE;
    let tid = beginning.recv_timeout(MOST_PATIENCE).ok()?;
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(read) => return Some(read),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline && can_run(tid) => {}
            Err(_) => return None,
        }
    }
}

fn can_run(tid: Pid) -> bool {
    lacks_a_processor(Process::myself().and_then(|own| own.task_from_tid(tid.as_raw_pid())?.stat()))
}

/// Whether a process or thread waits for nothing but a processor, or has one.
pub(super) fn lacks_a_processor(stat: ProcResult<Stat>) -> bool {
    stat.is_ok_and(|stat| stat.state == 'R')
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn one_that_could_go_on_is_waited_for() {
        let end = Instant::now() + PATIENCE + PATIENCE / 4;
        let spin = move || while Instant::now() < end {};
        assert_eq!(in_time(spin), Some(()));
    }

    #[test]
    fn a_read_that_never_ends_is_given_up() {
        assert_eq!(in_time(|| 7), Some(7));
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let begin = Instant::now();
        assert_eq!(in_time(move || reader.read(&mut [0]).is_ok()), None);
        assert!((PATIENCE..3 * PATIENCE).contains(&begin.elapsed()));
        drop(writer);
    }
}

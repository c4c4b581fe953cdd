//! Reads that a process can keep from ever ending: its memory may be a mapping of a file system that it serves itself.

use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for what takes microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a read gives, in a thread of its own; `None`: it has not ended in time, and the thread stays behind.
pub fn in_time<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("dms-read".into());
    // Nobody may listen any more.
    thread.spawn(move || sender.send(read()).is_ok()).ok()?;
    receiver.recv_timeout(PATIENCE).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use super::*;

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

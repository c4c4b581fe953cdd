//! Reads that a process can keep from ever ending: its memory may be a mapping of a file system that it serves itself.

use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for what takes microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// It does not become less than this.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// What a read gives, in a thread of its own; `None`: it has not ended in time, and the thread stays behind.
pub fn in_time<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    Patience::default().wait_for(read)
}

/// For reads of many processes: the more of them never end, the less each is waited for.
pub struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(PATIENCE)
    }
}

impl Patience {
    /// As [`in_time`].
    pub fn wait_for<T: Send + 'static>(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new().name("dms-read".into());
        // Nobody may listen any more.
        thread.spawn(move || sender.send(read()).is_ok()).ok()?;
        let found = receiver.recv_timeout(self.0).ok();
        if found.is_none() {
            self.0 = (self.0 / 2).max(LEAST_PATIENCE);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thousand_reads_that_never_end_are_given_up_within_half_a_minute() {
        let mut patience = Patience::default();
        let (mut waited, mut readers) = (Duration::ZERO, Vec::new());
        for _ in 0..8 {
            let (mut reader, writer) = std::io::pipe().expect("a pipe");
            readers.push(writer);
            waited += patience.0;
            assert_eq!(patience.wait_for(move || reader.read(&mut [0]).is_ok()), None);
        }
        assert_eq!(patience.0, LEAST_PATIENCE);
        assert!(waited + 1000 * LEAST_PATIENCE < Duration::from_secs(30), "{waited:?}");
        assert_eq!(patience.wait_for(|| 7), Some(7));
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

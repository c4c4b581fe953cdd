//! Lines that another process writes, as they come.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::patience;

/// Lines of one output, filled by a thread that reads it.
#[derive(Default)]
pub(crate) struct Lines {
    lines: Mutex<(Vec<String>, bool)>, // the lines, and whether the end was reached
    changed: Condvar,
}

impl Lines {
    /// Fills it from a thread of its own.
    pub(crate) fn read(self: &Arc<Self>, output: impl Read + Send + 'static) {
        let lines = Arc::clone(self);
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                lines.lines.lock().expect("lines").0.push(String::from_utf8_lossy(&line).into_owned());
                lines.changed.notify_all();
            }
            lines.lines.lock().expect("lines").1 = true;
            lines.changed.notify_all();
        });
    }

    /// Waits until all of it is read. Processes that outlive the one they come from may hold the output open: false then.
    pub(crate) fn wait_for_end(&self, timeout: Duration) -> bool {
        let guard = self.lines.lock().expect("lines");
        self.changed.wait_timeout_while(guard, patience(timeout), |(_, ended)| !*ended).expect("lines").0.1
    }

    /// What was read so far.
    pub(crate) fn so_far(&self) -> Vec<String> {
        self.lines.lock().expect("lines").0.clone()
    }

    /// The first line that `wanted` accepts; nothing if there is none until the deadline or the output's end.
    pub(crate) fn wait_for(&self, timeout: Duration, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let guard = self.lines.lock().expect("lines");
        let goes_on =
            |(lines, ended): &mut (Vec<String>, bool)| !*ended && !lines.iter().any(|line| wanted(line));
        let (guard, _) = self.changed.wait_timeout_while(guard, patience(timeout), goes_on).expect("lines");
        guard.0.iter().find(|line| wanted(line)).cloned()
    }
}

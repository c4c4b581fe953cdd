//! A program that the tests put hooks into: it says where its slots are, and does what it is asked for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use injector::{CounterClock, RecordedCall, SharedRings, counter};

/// A child of the test.
pub struct RunningProgram {
    child: Child,
    lines: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl RunningProgram {
    /// Builds and starts a program in C.
    pub fn start(source_text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, binary) = (folder.path().join("slots.c"), folder.path().join("slots"));
        std::fs::write(&source, source_text).expect("ours");
        let built = Command::new("gcc").args(["-O1", "-pthread", "-o"]).args([&binary, &source]).status();
        assert!(built.expect("a compiler").success());
        let mut child =
            Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was built");
        let lines = BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, lines, _folder: folder }
    }

    /// The addresses in its next line, two by two: of slots, and where each leads.
    pub fn pairs(&mut self) -> Vec<(u64, u64)> {
        let line = self.line();
        let address =
            |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("an address");
        let addresses: Vec<u64> = line.split_whitespace().map(address).collect();
        addresses.as_chunks::<2>().0.iter().map(|[at, to]| (*at, *to)).collect()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it do something; what it says when that is done.
    pub fn ask(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_mut().expect("it was piped"), "{what}").expect("it runs");
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it says something");
        line
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was recorded since the last time.
pub fn drain(shared: &mut SharedRings) -> Vec<RecordedCall> {
    shared
        .drain(Vec::new, |found: &mut Vec<_>, call| found.push(*call))
        .map(|(_, records)| records)
        .unwrap_or_default()
}

/// Has the program record from now on.
pub fn record_for_long(shared: &SharedRings) {
    shared.switch().record_until(counter() + CounterClock::begin().steps(Duration::from_secs(60)));
}

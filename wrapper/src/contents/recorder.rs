//! Records what a rank's calls get.

use std::sync::atomic::Ordering;

use replay::contents::ContentWriter;

use super::ring::MappedRing;
use crate::refusal::say;

pub(super) struct ContentRecorder {
    ring: MappedRing,
    writer: ContentWriter,
    rank: u32,
    /// Bytes on their way to the ring.
    out: Vec<u8>,
    is_stopped: bool,
}

impl ContentRecorder {
    pub(super) fn new(ring: MappedRing, rank: u32) -> Self {
        Self { ring, writer: ContentWriter::default(), rank, out: Vec::with_capacity(256), is_stopped: false }
    }

    pub(super) fn call(&mut self, call: u32, compared: &[i64], sum: Option<u32>) {
        self.put(|writer, out| writer.call(call, compared, sum, out));
    }

    pub(super) fn no(&mut self, call: u32, compared: &[i64]) {
        self.put(|writer, out| writer.no(call, compared, out));
    }

    pub(super) fn numbers(&mut self, numbers: &[i64]) {
        self.put(|writer, out| writer.numbers(numbers, out));
    }

    /// So many bytes follow with [`ContentRecorder::more`].
    pub(super) fn head(&mut self, len: u64) {
        self.put(|writer, out| writer.head(len, out));
    }

    pub(super) fn more(&mut self, bytes: &[u8]) {
        if !self.is_stopped && self.ring.write(bytes).is_err() {
            self.give_up();
        }
    }

    pub(super) fn end(&mut self) {
        self.put(|writer, out| writer.end(out));
        self.is_stopped = true;
    }

    /// From this call on nothing is recorded.
    pub(super) fn refuse(&mut self, call: u32, why: &str) {
        self.put(|writer, out| writer.refused(call, why, out));
        self.is_stopped = true;
        self.ring.page().stopped.store(1, Ordering::Release);
    }

    fn put(&mut self, write: impl FnOnce(&mut ContentWriter, &mut Vec<u8>)) {
        if self.is_stopped {
            return;
        }
        write(&mut self.writer, &mut self.out);
        let written = if self.out.is_empty() { Ok(()) } else { self.ring.write(&self.out) };
        self.out.clear();
        self.ring.page().again.store(self.writer.again(), Ordering::Release);
        if written.is_err() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.is_stopped = true;
        say(&format!("rank {} is not recorded any further: dmscope is gone", self.rank));
    }
}

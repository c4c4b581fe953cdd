//! Records what a rank's calls get.

use std::sync::atomic::Ordering;

use replay::contents::{ContentWriter, FRAMES, FrameWriter, MOST_FRAMED_THREADS};
use replay::thread_name::FIRST_THREAD;

use super::ring::MappedRing;
use crate::refusal::say;
use crate::thread;

pub(super) struct ContentRecorder {
    ring: MappedRing,
    /// Of threads that may call at the same time one each, by their places in frames; else one for all.
    writers: Vec<ContentWriter>,
    frames: Option<FrameWriter>,
    rank: u32,
    /// Bytes on their way to the ring.
    out: Vec<u8>,
    is_stopped: bool,
}

impl ContentRecorder {
    /// `has_frames`: threads may call at the same time.
    pub(super) fn new(ring: MappedRing, rank: u32, has_frames: bool) -> Self {
        let mut recorder = Self {
            ring,
            writers: vec![ContentWriter::default()],
            frames: has_frames.then(FrameWriter::default),
            rank,
            out: Vec::with_capacity(256),
            is_stopped: false,
        };
        if has_frames {
            recorder.write(&[FRAMES]);
        }
        recorder
    }

    pub(super) fn call(&mut self, call: u32, compared: &[i64], sum: Option<u32>) {
        if let Some(frames) = &self.frames {
            let name = thread::name();
            if name == 0 {
                return self.refuse(call, "by a thread that neither pthread_create nor thrd_create has made");
            }
            if frames.threads() >= MOST_FRAMED_THREADS && frames.place(name).is_none() {
                return self.refuse(call, &format!("by more than {MOST_FRAMED_THREADS} threads"));
            }
        }
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
        if !self.is_stopped {
            self.write_frame(bytes);
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
        let mut out = std::mem::take(&mut self.out);
        let place =
            self.frames.as_ref().map_or(0, |frames| frames.place(self.name()).unwrap_or(frames.threads()));
        if place == self.writers.len() {
            self.writers.push(ContentWriter::default());
        }
        write(&mut self.writers[place], &mut out);
        if !out.is_empty() {
            self.write_frame(&out);
        }
        out.clear();
        self.out = out;
        if self.frames.is_none() {
            self.ring.page().again.store(self.writers[place].again(), Ordering::Release);
        }
    }

    /// Whose frames this thread's are.
    fn name(&self) -> u64 {
        match thread::name() {
            // Its refusal is all that it leaves.
            0 => FIRST_THREAD,
            name => name,
        }
    }

    fn write_frame(&mut self, bytes: &[u8]) {
        let name = self.name();
        if let Some(frames) = &mut self.frames {
            let mut head = Vec::with_capacity(32);
            frames.head(name, bytes.len() as u64, &mut head);
            self.write(&head);
        }
        self.write(bytes);
    }

    fn write(&mut self, bytes: &[u8]) {
        if !self.is_stopped && self.ring.write(bytes).is_err() {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.is_stopped = true;
        say(&format!("rank {} is not recorded any further: dmscope is gone", self.rank));
    }
}

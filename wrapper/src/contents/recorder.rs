//! Records what a rank's calls get.

use std::sync::atomic::Ordering;

use replay::contents::{ContentWriter, FRAMES, FrameWriter, MOST_FRAMED_THREADS};

use super::ring::MappedRing;
use crate::refusal::say;
use crate::thread;

pub(super) struct ContentRecorder {
    ring: MappedRing,
    /// Of threads that may call at the same time one each, by place; else one for all.
    writers: Vec<ContentWriter>,
    frames: Option<FrameWriter>,
    rank: u32,
    /// Bytes on their way to the ring, and what stands before them.
    out: Vec<u8>,
    head: Vec<u8>,
    is_stopped: bool,
}

impl ContentRecorder {
    /// `has_frames`: threads may call at the same time.
    pub(super) fn new(ring: MappedRing, rank: u32, has_frames: bool) -> Self {
        let mut recorder = Self {
            ring,
            writers: Vec::new(),
            frames: has_frames.then(FrameWriter::default),
            rank,
            out: Vec::with_capacity(256),
            head: Vec::with_capacity(32),
            is_stopped: false,
        };
        if has_frames {
            recorder.write(&[FRAMES]);
        }
        recorder
    }

    pub(super) fn call(&mut self, call: u32, compared: &[i64], sum: Option<u32>) {
        if !self.knows_thread(call) {
            return;
        }
        self.put(|writer, out| writer.call(call, compared, sum, out));
    }

    pub(super) fn no(&mut self, call: u32, compared: &[i64]) {
        if !self.knows_thread(call) {
            return;
        }
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
        let place = self.place();
        if place == self.writers.len() {
            self.writers.push(ContentWriter::default());
        }
        let mut out = std::mem::take(&mut self.out);
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

    /// Gives the thread its place, when it calls first. False: it cannot be recorded.
    fn knows_thread(&mut self, call: u32) -> bool {
        if self.frames.is_none() || thread::place().is_some() {
            return true;
        }
        if thread::name() == 0 {
            self.refuse(call, "by a thread that neither pthread_create nor thrd_create has made");
        } else if self.writers.len() >= MOST_FRAMED_THREADS {
            self.refuse(call, &format!("by more than {MOST_FRAMED_THREADS} threads"));
        } else {
            thread::set_place(self.writers.len());
        }
        thread::place().is_some()
    }

    /// Whose frames this thread's are. Of one that has no place its refusal is all that it leaves, with the first one's.
    fn place(&self) -> usize {
        self.frames.as_ref().and_then(|_| thread::place()).unwrap_or(0)
    }

    fn write_frame(&mut self, bytes: &[u8]) {
        let place = self.place();
        if let Some(frames) = &mut self.frames {
            let mut head = std::mem::take(&mut self.head);
            frames.head(place, thread::name(), bytes.len() as u64, &mut head);
            self.write(&head);
            head.clear();
            self.head = head;
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

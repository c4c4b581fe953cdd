//! Gives the answers that are due.

use std::sync::atomic::Ordering;

use replay::shared_page::SharedPage;
use replay::{AskedFor, Divergence, Due, ReceiveEnd, TurnDue};

use crate::mapped_file::RankMapping;
use crate::played_clocks::PlayedClocks;

pub(crate) struct Player {
    file: RankMapping,
    played: Box<PlayedClocks>,
    pub holds: bool,
}

impl Player {
    pub(crate) fn new(file: RankMapping, played: Box<PlayedClocks>, holds: bool) -> Self {
        Self { file, played, holds }
    }

    /// What clocks have shown before MPI_Init.
    pub(crate) fn read_early(&self) -> &[(u8, i64)] {
        self.played.read_early()
    }

    pub(crate) fn page(&self) -> &'static SharedPage {
        self.file.page()
    }

    pub(crate) fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.played.playback.call(call, arguments);
    }

    pub(crate) fn due(&mut self, asked: AskedFor, requests: u32) -> Result<Due, Divergence> {
        let due = self.played.playback.due(asked, requests)?;
        let page = self.page();
        page.answers.store(self.played.playback.played(), Ordering::Relaxed);
        if due == Due::Anything
            && page.ended_at_call.load(Ordering::Relaxed) == 0
            && self.played.playback.has_ended()
        {
            page.ended_at_call.store(page.calls.load(Ordering::Relaxed), Ordering::Release);
        }
        Ok(due)
    }

    /// The program reads a clock that really shows `real`.
    pub(crate) fn clock(&mut self, clock: u8, real: i64) -> Result<i64, Divergence> {
        self.played.read(clock, real)
    }

    pub(crate) fn position(&mut self) -> Result<Option<u64>, Divergence> {
        self.played.playback.position()
    }

    pub(crate) fn last_position(&self) -> Option<u64> {
        self.played.playback.last_position()
    }

    /// The number of a thread in the record.
    pub(crate) fn thread(&mut self, name: u64) -> usize {
        self.played.playback.thread(name)
    }

    /// See [`Playback::clocks_beside_threads`](replay::Playback::clocks_beside_threads).
    pub(crate) fn clocks_beside_threads(&self) -> Option<usize> {
        self.played.playback.clocks_beside_threads()
    }

    /// See [`Playback::threads_compute`](replay::Playback::threads_compute).
    pub(crate) fn threads_compute(&mut self) {
        self.played.playback.threads_compute();
    }

    /// This thread acts from here on.
    #[inline]
    pub(crate) fn speak(&mut self, thread: usize) {
        self.played.playback.speak(thread);
    }

    /// Whether it may post.
    pub(crate) fn turn(&self) -> TurnDue {
        self.played.playback.turn()
    }

    pub(crate) fn turn_taken(&mut self) {
        self.played.playback.turn_taken();
    }

    pub(crate) fn posted(&mut self) -> Option<ReceiveEnd> {
        self.played.playback.posted()
    }

    pub(crate) fn end(&mut self) -> Result<(), Divergence> {
        let result = self.played.playback.end();
        self.page().answers.store(self.played.playback.played(), Ordering::Relaxed);
        result
    }
}

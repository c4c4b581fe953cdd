//! Gives the answers that are due.

use std::sync::atomic::Ordering;

use replay::shared_page::SharedPage;
use replay::{AskedFor, Divergence, Due, Playback, ReceiveEnd};

use crate::mapped_file::RankMapping;

pub(crate) struct Player {
    file: RankMapping,
    playback: Playback,
    /// Of the answer that was due last.
    pub indices: Vec<u32>,
    pub holds: bool,
}

impl Player {
    pub(crate) fn new(file: RankMapping, playback: Playback, holds: bool) -> Self {
        Self { file, playback, indices: Vec::new(), holds }
    }

    pub(crate) fn page(&self) -> &SharedPage {
        self.file.page()
    }

    pub(crate) fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.playback.call(call, arguments);
    }

    pub(crate) fn due(&mut self, asked: AskedFor, requests: u32) -> Result<Due, Divergence> {
        let due = self.playback.due(asked, requests)?;
        let page = self.page();
        page.answers.store(self.playback.played(), Ordering::Relaxed);
        if due == Due::Anything && page.ended_at_call.load(Ordering::Relaxed) == 0 {
            page.ended_at_call.store(page.calls.load(Ordering::Relaxed), Ordering::Release);
        }
        Ok(due)
    }

    pub(crate) fn posted(&mut self) -> Option<ReceiveEnd> {
        self.playback.posted()
    }

    pub(crate) fn end(&mut self) -> Result<(), Divergence> {
        self.playback.end()
    }
}

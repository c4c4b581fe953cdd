//! In which order the threads of a rank post sends and receives, and take messages.

use std::collections::VecDeque;

/// Whether a thread may post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnDue {
    /// It is next.
    Now,
    /// Others are before it.
    Later,
    /// The record does not say more: whoever comes first.
    Free,
}

/// The order that is still to come: threads, and how often each posts until another one does.
#[derive(Debug, Default)]
pub(super) struct TurnOrder(VecDeque<(usize, u64)>);

impl TurnOrder {
    /// At its end a thread posts so often.
    pub(super) fn take_many(&mut self, thread: usize, count: u64) {
        match self.0.back_mut() {
            Some((last, times)) if *last == thread => *times = times.saturating_add(count),
            _ if count > 0 => self.0.push_back((thread, count)),
            _ => {}
        }
    }

    pub(super) fn due(&self, thread: usize) -> TurnDue {
        match self.0.front() {
            None => TurnDue::Free,
            Some((next, _)) if *next == thread => TurnDue::Now,
            Some(_) => TurnDue::Later,
        }
    }

    /// The one that was due has posted.
    pub(super) fn next(&mut self) {
        if let Some((_, times)) = self.0.front_mut() {
            *times -= 1;
            if *times == 0 {
                self.0.pop_front();
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

//! How both ends find out where a direction is whose first messages were not seen: by moments at which nothing is under way.
//!
//! When all that was posted to a reliable connection has completed, all of it has arrived. A receiver that then finds its
//! completion queue empty has taken all of it. What is posted after that is what it takes next.

use std::collections::VecDeque;

/// Between a completion at the sender and the completion at the receiver, which the device may write later.
const MOST_LATE_NS: u64 = 20_000;
/// Most moments that are remembered of each end.
const MAX_MOMENTS: usize = 8;
/// A number that was used so many requests ago may be that of a request of then.
const MAX_NUMBERS: usize = 8;

/// From a moment on all had completed, until more was posted.
#[derive(Clone, Copy, Debug)]
struct QuietSpell {
    from_ns: u64,
    to_ns: u64,
    /// Of what was posted then.
    position: u32,
}

/// What an end has sent, and when all of it had completed.
#[derive(Clone, Debug, Default)]
pub(super) struct SenderMoments {
    /// Of the last requests, the last one at the end.
    numbers: VecDeque<u64>,
    /// Since when all have completed.
    since_ns: Option<u64>,
    spells: VecDeque<QuietSpell>,
}

impl SenderMoments {
    /// A request begins to be posted at a moment; what it sends goes to a position.
    pub(super) fn note_post(&mut self, number: u64, begin_ns: u64, position: u32) {
        let since_ns = self.since_ns.take().filter(|since_ns| *since_ns <= begin_ns);
        if let Some(from_ns) = since_ns {
            push_bounded(&mut self.spells, QuietSpell { from_ns, to_ns: begin_ns, position }, MAX_MOMENTS);
        }
        push_bounded(&mut self.numbers, number, MAX_NUMBERS);
    }

    /// A request has completed, as is known from a moment on.
    pub(super) fn note_completion(&mut self, number: u64, time_ns: u64) {
        // Programs that do not number their requests do not say which one it was.
        let is_only = self.numbers.iter().filter(|posted| **posted == number).count() == 1;
        if is_only && self.numbers.back() == Some(&number) {
            self.since_ns = Some(time_ns);
        }
    }
}

/// When an end found nothing to take.
#[derive(Clone, Copy, Debug)]
struct IdleMoment {
    time_ns: u64,
    /// Of what it has taken next.
    position: u32,
}

/// What an end has taken, and when there was nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiverMoments(VecDeque<IdleMoment>);

impl ReceiverMoments {
    /// A message is taken at a position; there was nothing before at a moment.
    pub(super) fn note_message(&mut self, idle_at_ns: u64, position: u32) {
        if self.0.back().is_none_or(|last| last.time_ns < idle_at_ns) {
            push_bounded(&mut self.0, IdleMoment { time_ns: idle_at_ns, position }, MAX_MOMENTS);
        }
    }
}

/// How far the sender is ahead in counting, if there was a moment that tells.
pub(super) fn lead(sender: &SenderMoments, receiver: &ReceiverMoments) -> Option<u32> {
    let is_quiet = |spell: &QuietSpell, idle: &IdleMoment| {
        spell.from_ns.saturating_add(MOST_LATE_NS) <= idle.time_ns && idle.time_ns <= spell.to_ns
    };
    let lead_at = |idle: &IdleMoment| {
        let spell = sender.spells.iter().rev().find(|spell| is_quiet(spell, idle))?;
        Some(spell.position.wrapping_sub(idle.position))
    };
    receiver.0.iter().rev().find_map(lead_at)
}

fn push_bounded<T>(to: &mut VecDeque<T>, item: T, most: usize) {
    if to.len() >= most {
        to.pop_front();
    }
    to.push_back(item);
}

//! How both ends find out where a direction is whose first messages were not seen: by moments at which nothing is under way.
//!
//! When all that was posted to a reliable connection has completed, all of it has arrived. A receiver that then finds its
//! completion queue empty has taken all of it. What is posted after that is what it takes next.

use std::collections::VecDeque;

/// Between a completion at the sender and the completion at the receiver, which the device may write later.
const MOST_LATE_NS: u64 = 20_000;
/// Most moments that are remembered of each end.
const MAX_MOMENTS: usize = 8;
/// Completions that may be those of requests from before, and have the number of a later one: UCX gives each request that asks for
/// one the same number, and rarely has more of them under way.
const FOREIGN_COMPLETIONS: u32 = 8;
/// Most requests that are waited for.
const MAX_UNDER_WAY: usize = 1 << 10;

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
    /// Numbers of requests that have not completed.
    under_way: VecDeque<u64>,
    /// Requests that followed each other had the same number: it is not known which ones complete.
    is_unnumbered: bool,
    last_number: Option<u64>,
    /// That were seen, up to [`FOREIGN_COMPLETIONS`].
    completions: u32,
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
        self.is_unnumbered |= self.last_number.replace(number) == Some(number);
        if self.under_way.len() >= MAX_UNDER_WAY {
            // As if they had been posted before anybody watched.
            *self =
                Self { is_unnumbered: self.is_unnumbered, last_number: self.last_number, ..Self::default() };
        }
        if !self.is_unnumbered {
            self.under_way.push_back(number);
        }
    }

    /// A request has completed, and with it all that were posted before it, as is known from a moment on.
    pub(super) fn note_completion(&mut self, number: u64, time_ns: u64) {
        let is_own = self.completions >= FOREIGN_COMPLETIONS;
        self.completions += u32::from(!is_own);
        // They complete in their order: of those with one number it is the first.
        let Some(at) = self.under_way.iter().position(|posted| *posted == number) else { return };
        self.under_way.drain(..=at);
        if is_own && !self.is_unnumbered && self.under_way.is_empty() {
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

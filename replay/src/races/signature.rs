//! Numbers for histories: two runs that have come to the same place by the same messages have the same one.
//!
//! Calls are not named by their numbers, which polls change: a receive is the nth of its rank, a message the nth of its channel.

use std::collections::HashMap;

use super::history::EventHistory;
use super::run::Run;

/// Sums over what was decided in a rank before each of its calls.
#[derive(Debug)]
pub(super) struct Signatures {
    /// Of each rank: the call, and the sum over all that is complete up to there.
    sums: Vec<Vec<(u32, u64)>>,
    /// Of each receive, probe and choice: which of its rank it is.
    receives: Vec<u64>,
    probes: Vec<u64>,
    choices: Vec<u64>,
    /// Of each send: a number for its channel, and which of it it is.
    sends: Vec<u64>,
}

/// One number from several.
pub(super) fn mixed(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, number| {
        let sum = (sum ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ sum >> 32
    })
}

impl Signatures {
    pub(super) fn of(run: &Run) -> Self {
        let mut receives = vec![0; run.receives.len()];
        for posts in &run.posts {
            posts.iter().zip(0..).for_each(|(at, nth): (&usize, u64)| receives[*at] = nth);
        }
        let mut sends = vec![0; run.sends.len()];
        for channel in &run.channels {
            for (send, nth) in channel.sends.iter().zip(0..) {
                sends[*send] = mixed(&[channel.source as u64, nth]);
            }
        }
        let ranks = run.calls.len();
        let count = |ranks_of: &mut dyn Iterator<Item = usize>| -> Vec<u64> {
            let mut counts = HashMap::new();
            ranks_of
                .map(|rank| {
                    let count = counts.entry(rank).or_insert(0);
                    *count += 1;
                    *count
                })
                .collect()
        };
        let probes = count(&mut run.probes.iter().map(|probe| probe.asks.rank));
        let choices = count(&mut run.choices.iter().map(|choice| choice.rank));
        let mut all = Self { sums: vec![Vec::new(); ranks], receives, probes, choices, sends };
        for (at, receive) in run.receives.iter().enumerate() {
            if let (Some(completed), Some(_)) = (receive.completed, receive.message) {
                let number = all.receive(run, at);
                all.sums[receive.rank].push((completed, number));
            }
        }
        for (at, probe) in run.probes.iter().enumerate() {
            if let Some(message) = probe.asks.message {
                let number = mixed(&[2, probe.asks.rank as u64, all.probes[at], all.sends[message]]);
                all.sums[probe.asks.rank].push((probe.asks.posted, number));
            }
        }
        for (at, choice) in run.choices.iter().enumerate() {
            let taken = choice.taken.iter().map(|index| u64::from(*index));
            let numbers: Vec<u64> =
                [3, choice.rank as u64, all.choices[at]].into_iter().chain(taken).collect();
            all.sums[choice.rank].push((choice.call, mixed(&numbers)));
        }
        for sums in &mut all.sums {
            sums.sort_unstable();
            let mut sum = 0_u64;
            for (_, number) in sums.iter_mut() {
                sum = sum.wrapping_add(*number);
                *number = sum;
            }
        }
        all
    }

    fn receive(&self, run: &Run, at: usize) -> u64 {
        let receive = &run.receives[at];
        let message = receive.message.map_or(0, |message| self.sends[message]);
        mixed(&[1, receive.rank as u64, self.receives[at], message])
    }

    /// Of a place, and of all that happens without what comes there.
    pub(super) fn of_place(
        &self,
        run: &Run,
        after: &[u32],
        histories: &[EventHistory<'_>],
        kind: u64,
        rank: usize,
        place: u64,
    ) -> u64 {
        let mut sum = 0_u64;
        for (sums, call) in self.sums.iter().zip(after) {
            let complete = sums.partition_point(|(completed, _)| completed < call);
            sum = sum.wrapping_add(complete.checked_sub(1).map_or(0, |last| sums[last].1));
        }
        for early in histories.iter().flat_map(EventHistory::early) {
            sum = sum.wrapping_add(self.receive(run, early));
        }
        let place = place as usize;
        let nth = match kind {
            0 | 1 => self.receives.get(place),
            2 => self.probes.get(place),
            _ => self.choices.get(place),
        };
        // A receive that is posted and one that waits are the same.
        mixed(&[sum, kind.max(1), rank as u64, nth.copied().unwrap_or(0)])
    }
}

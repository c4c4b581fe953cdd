//! Rounds, in each of which all nodes tell each other what they have seen: the next begins when all have confirmed the one
//! before. What a node may conclude from them is said in [`NodePipeline::begin_round`](analyzer::pipeline::NodePipeline::begin_round).

use std::time::{Duration, Instant};

/// From one to the next it is so long at least …
const PERIOD: Duration = Duration::from_millis(50);
/// … and with many nodes so long for each of them.
const PERIOD_OF_A_NODE: Duration = Duration::from_micros(500);
/// One that is not over is told of again: the word may have been lost, or its confirmation.
const REPEATED_AFTER: Duration = Duration::from_secs(1);

/// See the [module](self).
pub struct Rounds {
    number: u64,
    begun: Instant,
    told: Instant,
    /// The last one that each node has confirmed.
    confirmed: Vec<u64>,
}

impl Rounds {
    /// None has begun.
    pub fn new(now: Instant) -> Self {
        Self { number: 0, begun: now, told: now, confirmed: Vec::new() }
    }

    /// A node has confirmed one; another session of the same node may have confirmed others.
    pub fn confirm(&mut self, node: usize, round: u64) {
        if node >= self.confirmed.len() {
            self.confirmed.resize(node + 1, 0);
        }
        self.confirmed[node] = round;
    }

    /// The round that all are to be told of now. `awaited`: nodes that must have confirmed the last one.
    pub fn due(&mut self, now: Instant, awaited: &[usize]) -> Option<u64> {
        let period = PERIOD.max(PERIOD_OF_A_NODE * u32::try_from(awaited.len()).unwrap_or(u32::MAX));
        let has_confirmed = |node: &usize| self.confirmed.get(*node).is_some_and(|last| *last == self.number);
        let is_over = self.number == 0 || awaited.iter().all(has_confirmed);
        if is_over && !awaited.is_empty() && now.duration_since(self.begun) >= period {
            self.number += 1;
            self.begun = now;
        } else if now.duration_since(self.told) < REPEATED_AFTER || self.number == 0 {
            return None;
        }
        self.told = now;
        Some(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_when_all_who_are_waited_for_have_confirmed_the_last() {
        let begun = Instant::now();
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let mut rounds = Rounds::new(begun);
        assert_eq!(rounds.due(at(60), &[]), None, "nobody is there");
        assert_eq!(rounds.due(at(70), &[0, 1]), Some(1));
        rounds.confirm(1, 1);
        assert_eq!(rounds.due(at(500), &[0, 1]), None);
        assert_eq!(rounds.due(at(1070), &[0, 1]), Some(1), "it may have been lost");
        rounds.confirm(0, 1);
        assert_eq!(rounds.due(at(1080), &[0, 1]), Some(2));
        rounds.confirm(0, 2);
        rounds.confirm(1, 1);
        assert_eq!(rounds.due(at(1090), &[0, 1]), None, "that was the one before");
        assert_eq!(rounds.due(at(1200), &[0]), Some(3), "the other one has been silent for too long");
        rounds.confirm(0, 3);
        assert_eq!(rounds.due(at(1210), &[0]), None, "not that soon");
        assert_eq!(rounds.due(at(1260), &[0]), Some(4));
    }

    #[test]
    fn with_many_nodes_rounds_are_further_apart() {
        let begun = Instant::now();
        let mut rounds = Rounds::new(begun);
        let all: Vec<usize> = (0..1000).collect();
        assert_eq!(rounds.due(begun + Duration::from_millis(499), &all), None);
        assert_eq!(rounds.due(begun + Duration::from_millis(500), &all), Some(1));
    }
}

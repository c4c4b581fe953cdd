//! Which race is turned round next: pure.
//!
//! Each run that was made shows races of its own. Those that have the same history, and where the same comes, are turned
//! round once. What comes next is what has been tried least: another place of the program before the same place again, a message of
//! another kind before one of the same, few turns before many.

use std::collections::{HashMap, HashSet};

use replay::races::{Alternative, Race, Races, with_choice};

use super::swap::Swap;

/// A race of a run that may be turned round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The run that it is a race of.
    pub run: usize,
    pub swap: Swap,
    pub signature: u64,
    /// How many races were turned round to come to that run.
    depth: usize,
    place: TurnPlace,
}

/// A call of the program, and whether the message that comes has another tag than the one that came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TurnPlace {
    module: String,
    offset_bytes: u64,
    call: u32,
    is_other_tag: bool,
}

/// All that may be turned round.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    turns: Vec<Turn>,
    seen: HashSet<u64>,
    tried: HashMap<TurnPlace, usize>,
    /// Turns for which there was no room.
    pub dropped: usize,
}

/// More are not kept.
const MOST_TURNS: usize = 1 << 18;

impl Frontier {
    /// Says that something was tried.
    pub(super) fn was_tried(&mut self, signature: u64) {
        self.seen.insert(signature);
        self.turns.retain(|turn| turn.signature != signature);
    }

    /// Takes the races of a run.
    pub(super) fn take(&mut self, run: usize, depth: usize, races: &Races) {
        self.seen.extend(&races.decided);
        self.turns.retain(|turn| !races.decided.contains(&turn.signature));
        for race in &races.found {
            for other in &race.others {
                let signature = with_choice(race.signature, *other);
                if !self.seen.insert(signature) {
                    continue;
                }
                if self.turns.len() >= MOST_TURNS {
                    self.dropped += 1;
                    continue;
                }
                let (swap, place) = (Swap::of(race, *other), TurnPlace::of(race, *other));
                self.turns.push(Turn { run, swap, signature, depth, place });
            }
        }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Option<Turn> {
        let tried = |turn: &Turn| self.tried.get(&turn.place).copied().unwrap_or(0);
        let order = |(at, turn): &(usize, &Turn)| (tried(turn), !turn.place.is_other_tag, turn.depth, *at);
        let (at, _) = self.turns.iter().enumerate().min_by_key(order)?;
        let turn = self.turns.remove(at);
        *self.tried.entry(turn.place.clone()).or_default() += 1;
        Some(turn)
    }

    /// How many are left.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }
}

impl TurnPlace {
    fn of(race: &Race, other: Alternative) -> Self {
        let tag = |alternative: &Alternative| match alternative {
            Alternative::Message { tag, .. } => Some(*tag),
            Alternative::Request { .. } => None,
        };
        let site = race.site.as_ref();
        Self {
            module: site.map(|site| site.module.clone()).unwrap_or_default(),
            offset_bytes: site.map_or(0, |site| site.offset_bytes),
            call: site.map_or(0, |site| site.call),
            is_other_tag: race.taken.iter().any(|taken| tag(taken) != tag(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use replay::messages::{MessageEnvelope, MessageJournal, Pattern};

    use super::*;

    /// Rank 0 receives from everybody, in this order, at two places in turn.
    fn races(order: &[u32]) -> Races {
        let size = order.len() as u32 + 1;
        let group: Vec<u32> = (0..size).collect();
        let mut all = Vec::new();
        for rank in 0..size {
            let (mut journal, mut out) = (MessageJournal::default(), Vec::new());
            journal.new_comm(0, &group, &[], &mut out);
            for (nth, source) in order.iter().enumerate().filter(|_| rank == 0) {
                journal.call();
                let site = journal.site(nth as u64 % 2, 1, &mut out, || (String::new(), nth as u64 % 2));
                let got = Some(MessageEnvelope { source: *source, tag: 5 });
                journal.received(site, Pattern { comm: 0, source: None, tag: None }, false, got, &mut out);
            }
            if rank > 0 {
                journal.call();
                journal.send(0, 0, 5, false, false, &mut out);
            }
            all.push(out);
        }
        Races::find(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("a run")
    }

    #[test]
    fn other_places_come_before_the_same_place_again() {
        let mut frontier = Frontier::default();
        frontier.take(0, 0, &races(&[1, 2, 3]));
        assert_eq!(frontier.len(), 3);
        let calls: Vec<u64> =
            std::iter::from_fn(|| frontier.next()).map(|turn| turn.swap.point.call).collect();
        assert_eq!(calls, [1, 2, 1]);
    }

    #[test]
    fn all_orders_are_come_to_once() {
        let mut frontier = Frontier::default();
        let mut runs = vec![vec![1, 2, 3]];
        frontier.take(0, 0, &races(&runs[0]));
        while let Some(turn) = frontier.next() {
            let mut order: Vec<u32> = runs[turn.run].clone();
            let at = turn.swap.point.call as usize - 1;
            let from = order.iter().position(|source| *source == turn.swap.number).expect("it comes");
            let source = order.remove(from);
            order.insert(at, source);
            assert!(!runs.contains(&order), "{order:?} again");
            runs.push(order);
            frontier.take(runs.len() - 1, 1, &races(&runs[runs.len() - 1]));
        }
        assert_eq!(runs.len(), 6);
    }
}

//! What a node's clock shows beside ours, as an interval, from pings.
//!
//! A ping leaves when our clock shows `sent`, and its answer is back at `back`. In between the node's clock showed
//! `node`. So the node's clock is ahead of ours by at least `node - back` and at most `node - sent` (F. Cristian, "Probabilistic
//! clock synchronization", Distributed Computing 3, 1989). Each ping narrows what is known; clocks drift, which widens it again.

use analyzer::input::Input;

use crate::host::clock::{ClockPair, pair};

/// By so much per second of the other two clocks may go apart: crystals are better than that.
const DRIFT_NS_PER_S: i64 = 100_000;
const NS_PER_S: i64 = 1_000_000_000;

/// By how much a clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// At least.
    pub least_ns: i64,
    /// At most.
    pub most_ns: i64,
}

impl ClockOffset {
    /// The middle.
    pub fn middle_ns(self) -> i64 {
        self.least_ns + (self.most_ns - self.least_ns) / 2
    }

    /// What the wall clocks say, if pings do not contradict them: those of a cluster are mostly kept together to less than
    /// a ping takes on a busy machine. Otherwise the middle.
    pub fn likely_ns(self, by_wall_clocks_ns: i64) -> i64 {
        let may_be = (self.least_ns..=self.most_ns).contains(&by_wall_clocks_ns);
        if may_be { by_wall_clocks_ns } else { self.middle_ns() }
    }

    /// How far an offset in between may be off.
    pub fn error_ns(self, offset_ns: i64) -> u64 {
        (self.most_ns - offset_ns).max(offset_ns - self.least_ns).unsigned_abs()
    }
}

/// A ping that came back.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredPing {
    /// When it left, our clock.
    pub sent_ns: u64,
    /// When the answer was here, our clock.
    pub back_ns: u64,
    /// When it was answered, the node's clock.
    pub node_ns: u64,
    /// For how long it had been at the node by then.
    pub held_ns: u64,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeClock {
    known: Option<(ClockOffset, u64)>,
}

impl NodeClock {
    /// Takes a ping. Answers that cannot be are left aside.
    pub fn take(&mut self, ping: AnsweredPing) {
        let ns = |time_ns: u64| i64::try_from(time_ns).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        if ping.back_ns < ping.sent_ns || ping.held_ns > ping.back_ns - ping.sent_ns {
            return;
        }
        let node_ns = ns(ping.node_ns);
        let now = ClockOffset {
            least_ns: node_ns - ns(ping.back_ns),
            most_ns: node_ns - ns(ping.held_ns) - ns(ping.sent_ns),
        };
        let before = self.at(ping.back_ns);
        let both = before.map(|before| ClockOffset {
            least_ns: now.least_ns.max(before.least_ns),
            most_ns: now.most_ns.min(before.most_ns),
        });
        // A clock that jumped is somewhere else than was thought.
        let offset = both.filter(|both| both.least_ns <= both.most_ns).unwrap_or(now);
        self.known = Some((offset, ping.back_ns));
    }

    /// What the last ping told.
    fn latest(&self) -> Option<ClockOffset> {
        self.known.map(|(offset, _)| offset)
    }

    /// What is known at a time of our clock.
    fn at(&self, now_ns: u64) -> Option<ClockOffset> {
        let (offset, since_ns) = self.known?;
        let age_ns = i64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(i64::MAX);
        let drift_ns = (age_ns / NS_PER_S).saturating_mul(DRIFT_NS_PER_S)
            + age_ns % NS_PER_S * DRIFT_NS_PER_S / NS_PER_S;
        Some(ClockOffset {
            least_ns: offset.least_ns.saturating_sub(drift_ns),
            most_ns: offset.most_ns.saturating_add(drift_ns),
        })
    }
}

/// Our clocks when the session began. The wall clock may be set later; what nodes are told by goes on from here.
#[derive(Clone, Copy, Debug)]
pub struct OwnClocks(ClockPair);

impl OwnClocks {
    /// Reads them.
    pub fn now() -> Self {
        Self(pair())
    }

    /// Makes the wall clock in an input of a node what ours would have shown, if pings tell.
    pub fn correct(&self, input: &mut Input, node: &NodeClock) {
        let corrected = |time_ns: u64, wall_ns: u64| {
            // What is known now holds for when it was read, a moment ago.
            let offset = node.latest()?;
            let (own_ns, own_wall_ns) = (i128::from(self.0.monotonic_ns), i128::from(self.0.wall_clock_ns()));
            let by_wall_clocks_ns = i128::from(time_ns) - own_ns - (i128::from(wall_ns) - own_wall_ns);
            let ahead_ns = offset.likely_ns(i64::try_from(by_wall_clocks_ns).unwrap_or(i64::MAX));
            let wall_ns = own_wall_ns + i128::from(time_ns) - i128::from(ahead_ns) - own_ns;
            Some((u64::try_from(wall_ns).ok()?, Some(offset.error_ns(ahead_ns))))
        };
        match input {
            Input::Start(start) => {
                if let Some((wall_ns, error_ns)) = corrected(start.time_ns, start.wall_clock_ns()) {
                    start.wall_clock_s = wall_ns / NS_PER_S as u64;
                    start.wall_clock_rest_ns = (wall_ns % NS_PER_S as u64) as u32;
                    start.wall_clock_error_ns = error_ns;
                }
            }
            Input::Clock(reading) => {
                if let Some((wall_ns, error_ns)) = corrected(reading.time_ns, reading.wall_clock_ns) {
                    (reading.wall_clock_ns, reading.error_ns) = (wall_ns, error_ns);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use analyzer::input::ClockReading;

    use super::*;

    /// A ping that takes so long there and back, to a node whose clock is ahead by `ahead_ns`.
    fn ping(sent_ns: u64, there_ns: u64, held_ns: u64, back_ns: u64, ahead_ns: i64) -> AnsweredPing {
        let at_node_ns = sent_ns + there_ns + held_ns;
        AnsweredPing {
            sent_ns,
            back_ns: at_node_ns + back_ns,
            node_ns: at_node_ns.wrapping_add_signed(ahead_ns),
            held_ns,
        }
    }

    #[test]
    fn readings_of_a_node_are_told_by_our_wall_clock_as_far_as_pings_contradict_its_own() {
        let ours = ClockPair { monotonic_ns: 1_000, wall_clock_s: 50, wall_clock_rest_ns: 0, apart_ns: 0 };
        let mut node = NodeClock::default();
        let read = |node: &NodeClock, wall_clock_ns| {
            let mut input =
                Input::Clock(ClockReading { time_ns: 7_000, wall_clock_ns, ..ClockReading::default() });
            OwnClocks(ours).correct(&mut input, node);
            let Input::Clock(reading) = input else { panic!("{input:?}") };
            (reading.wall_clock_ns, reading.error_ns)
        };
        assert_eq!(read(&node, 99), (99, None), "nothing was asked yet");
        node.take(ping(1_000, 10, 0, 10, 500));
        // It was read when ours showed 6,500, which is 5,500 after the session began.
        assert_eq!(read(&node, 99), (50_000_005_500, Some(10)));
        assert_eq!(read(&node, 50_000_005_504), (50_000_005_504, Some(14)));
    }

    #[test]
    fn what_is_known_has_the_truth_in_it_and_gets_narrower() {
        let mut clock = NodeClock::default();
        let ahead_ns = -7_000_000_000_i64;
        let mut error_ns = u64::MAX;
        let trips = [(900, 0, 5), (10, 70, 800), (20, 0, 20), (5000, 5000, 5000)];
        for (at, (there, held, back)) in (10_000_000_000_u64..).step_by(1000).zip(trips) {
            let ping = ping(at, there, held, back, ahead_ns);
            clock.take(ping);
            let known = clock.at(ping.back_ns).expect("it was answered");
            assert!(known.least_ns <= ahead_ns && ahead_ns <= known.most_ns, "{known:?}");
            let error_now_ns = known.error_ns(known.middle_ns());
            assert!(error_now_ns <= error_ns.saturating_add(1), "{known:?}");
            error_ns = error_now_ns;
        }
        assert!(error_ns <= 25, "{error_ns}");
    }

    #[test]
    fn what_is_known_widens_with_time_and_follows_a_clock_that_jumps() {
        let mut clock = NodeClock::default();
        clock.take(ping(1_000, 10, 0, 10, 500));
        let wide = clock.at(10_000_001_020).expect("it was answered");
        assert_eq!(wide.error_ns(wide.middle_ns()), 10 + 10 * DRIFT_NS_PER_S as u64);
        clock.take(ping(2_000, 10, 0, 10, 900_000));
        let known = clock.at(2_020).expect("it was answered");
        assert!(known.least_ns <= 900_000 && 900_000 <= known.most_ns, "{known:?}");
    }

    #[test]
    fn wall_clocks_are_believed_as_far_as_pings_do_not_contradict_them() {
        let offset = ClockOffset { least_ns: -100, most_ns: 300 };
        assert_eq!((offset.likely_ns(-7), offset.error_ns(-7)), (-7, 307));
        assert_eq!(offset.likely_ns(301), 100);
        assert_eq!((offset.likely_ns(i64::MIN), offset.error_ns(100)), (100, 200));
    }

    #[test]
    fn answers_that_cannot_be_say_nothing() {
        let mut clock = NodeClock::default();
        for (sent_ns, back_ns, held_ns) in [(10, 9, 0), (10, 12, 3), (0, u64::MAX, u64::MAX)] {
            clock.take(AnsweredPing { sent_ns, back_ns, node_ns: u64::MAX, held_ns });
        }
        clock.take(AnsweredPing { sent_ns: 0, back_ns: 1, node_ns: u64::MAX, held_ns: 0 });
        let _ = clock.at(u64::MAX);
    }
}

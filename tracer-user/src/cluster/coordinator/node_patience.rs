//! For how long nodes are waited for: as usual, or longer where they are given more time to come back.

use std::time::Duration;

use analyzer::tape::Patience;

/// The least of [`NodePatience::silent_after`]: with less patience than usual, nodes take as long to speak.
const LEAST_SILENCE: Duration = Duration::from_secs(3);

/// The least of [`NodePatience::speaks_within`].
const LEAST_TO_SPEAK: Duration = Duration::from_secs(5);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct NodePatience {
    /// One that was not heard of for so long has no session any more: those end by themselves before, when they hear nothing
    /// either.
    pub lost_after: Duration,
    /// One whose part has failed is not waited for any longer than this, if it is the last one.
    pub given_up_after: Duration,
}

impl NodePatience {
    /// A node that was not heard of for so long is silent: it is said.
    pub fn silent_after(self) -> Duration {
        LEAST_SILENCE.max(self.lost_after / 10)
    }

    /// A node that was not heard of for so long does not keep others waiting for what it tells them, nor the session from its
    /// end.
    pub fn speaks_within(self) -> Duration {
        LEAST_TO_SPEAK.max(self.lost_after / 6)
    }

    /// The same for inputs of nodes that are joined.
    pub fn of_inputs(self) -> Patience {
        let usual = Patience::default();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Patience {
            at_first_ns: usual.at_first_ns.max(ns(self.lost_after / 15)),
            silence_ns: usual.silence_ns.max(ns(self.speaks_within())),
            inputs_ns: usual.inputs_ns.max(ns(self.lost_after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seconds: u64) -> NodePatience {
        let lost_after = Duration::from_secs(seconds);
        NodePatience { lost_after, given_up_after: lost_after / 2 }
    }

    #[test]
    fn nodes_that_are_given_more_time_may_be_silent_for_longer_and_with_less_for_as_long_as_usual() {
        let silence =
            |seconds| [of(seconds).silent_after(), of(seconds).speaks_within()].map(|time| time.as_secs());
        assert_eq!([silence(6), silence(30), silence(300)], [[3, 5], [3, 5], [30, 50]]);
    }

    #[test]
    fn inputs_are_waited_for_as_usual_unless_nodes_are_given_more_time() {
        assert_eq!([of(6), of(30)].map(NodePatience::of_inputs), [Patience::default(); 2]);
        let long =
            Patience { at_first_ns: 20_000_000_000, silence_ns: 50_000_000_000, inputs_ns: 300_000_000_000 };
        assert_eq!(of(300).of_inputs(), long);
    }
}

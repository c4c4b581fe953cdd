//! When a call would have ended: the rules.
//!
//! A call ends when its thread has come to it and whatever it waits for is there, and then takes the work of its own:
//! `end = max(begin, arrival) + work`. Corrected times are told as *shifts*, corrected less measured. Along the way of the
//! thread itself a shift becomes less by what watching cost there. Where the thread waited, its own way does not count: the
//! end is shifted as much as what it waited for, less what watching cost from there to here. So what is spent while waiting
//! is not counted as cost.
//!
//! Which of both it was is told by the measured times, and where they leave it open, both bounds hold. Only comparisons of
//! times of different threads need a common clock: shifts are each by the own one.

use super::bounds::Bounds;
use super::transfers::TransferTimes;

/// A moment of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// As measured, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Corrected, less measured.
    pub shift: Bounds,
}

impl Moment {
    /// As early as another one in all bounds, if it is later.
    pub(super) fn not_after(self, end: Self) -> Self {
        let took_ns = end.at_ns.saturating_sub(self.at_ns) as f64;
        let shift = self.shift.min(end.shift + Bounds::exactly(took_ns));
        Self { shift, ..self }
    }
}

/// The way of the thread itself through a call.
#[derive(Clone, Copy, Debug)]
pub struct OwnWay {
    /// Where it begins.
    pub begin: Moment,
    /// Where it ends, as measured.
    pub end_ns: u64,
    /// What watching cost in between.
    pub cost: Bounds,
    /// What such a call takes where nothing is waited for.
    pub work: Option<TransferTimes>,
    /// It asks again and again instead of waiting, and may do something else in between.
    pub polls: bool,
}

/// Something that a call may have waited for.
#[derive(Clone, Copy, Debug)]
pub struct WaitCause {
    /// Where it comes from: the beginning of a send, say.
    pub from: Moment,
    /// What watching cost from there to the end of the call.
    pub cost: Bounds,
    /// The call cannot end before it.
    pub is_certain: bool,
    /// How long it takes from there to the end of a call that waits.
    pub transfer: Option<TransferTimes>,
}

/// By how much two clocks may differ, ns; 0: it is the same.
pub type ClockSlackNs = f64;

fn since(from_ns: u64, to_ns: u64) -> f64 {
    // Both are of the same session: their difference fits.
    to_ns.wrapping_sub(from_ns).cast_signed() as f64
}

impl WaitCause {
    fn took_ns(&self, way: &OwnWay) -> f64 {
        since(self.from.at_ns, way.end_ns)
    }

    /// It may have come after the thread.
    fn may_be_late(&self, way: &OwnWay, slack_ns: ClockSlackNs) -> bool {
        let ahead_ns = since(self.from.at_ns, way.begin.at_ns);
        let is_past = self.took_ns(way) >= -slack_ns;
        is_past && self.transfer.is_none_or(|transfer| transfer.most_ns + slack_ns >= ahead_ns)
    }

    /// It may have been there before the thread.
    fn may_be_early(&self, way: &OwnWay, slack_ns: ClockSlackNs) -> bool {
        let ahead_ns = since(self.from.at_ns, way.begin.at_ns);
        self.transfer.map_or(0.0, |transfer| transfer.least_ns) <= ahead_ns + slack_ns
    }

    fn was_probably_late(&self, way: &OwnWay) -> bool {
        let Some(transfer) = self.transfer else { return self.from.at_ns > way.begin.at_ns };
        let ahead_ns = since(self.from.at_ns, way.begin.at_ns);
        let is_late = transfer.typical_ns > ahead_ns && self.took_ns(way) >= 0.0;
        let came_at_once = self.took_ns(way) <= 4.0 * transfer.typical_ns;
        if way.polls {
            self.took_ns(way) <= 2.0 * transfer.typical_ns
        } else {
            is_late && (self.is_certain || came_at_once)
        }
    }

    /// The likely shift of an end at the moment at which this begins.
    fn sent_ns(&self, way: &OwnWay) -> f64 {
        self.from.shift.likely_ns - self.took_ns(way).max(0.0)
    }

    /// The shift of the end if the call waited for this.
    fn waited(&self) -> Bounds {
        self.from.shift - self.cost
    }

    /// The end cannot be before this: what is sent later, or comes later to a thread that would have been there earlier, is
    /// waited for. What clocks tell of it, and what was learnt by them, may be off by `slack_ns`.
    fn floor(&self, way: &OwnWay, slack_ns: ClockSlackNs) -> Bounds {
        let took_ns = (self.took_ns(way) + slack_ns).max(0.0);
        let ahead_ns = since(self.from.at_ns, way.begin.at_ns).max(0.0);
        let transfer = self.transfer.unwrap_or_default();
        let spare_ns = |transfer_ns: f64| (ahead_ns - transfer_ns).max(0.0);
        let least_ns = (transfer.least_ns - slack_ns).max(0.0);
        let shift = self.from.shift;
        Bounds {
            least_ns: shift.least_ns - (took_ns - least_ns.min(took_ns)),
            likely_ns: shift.likely_ns - spare_ns(transfer.typical_ns) - way.cost.likely_ns,
            most_ns: shift.most_ns - spare_ns(transfer.most_ns + 2.0 * slack_ns),
        }
    }
}

/// What dmscope held up between the beginning of what a call waited for and the call's end: no more than that came late. `took_ns`:
/// in between; `cost`: what hits cost there; `transfer`: how long it takes.
pub fn held_up_on_the_way(
    held_up: Bounds,
    took_ns: f64,
    cost: Bounds,
    transfer: Option<TransferTimes>,
) -> Bounds {
    let late_ns = |transfer_ns: f64, cost_ns: f64| (took_ns - transfer_ns - cost_ns).max(0.0);
    let least_late_ns = transfer.map_or(0.0, |transfer| late_ns(transfer.most_ns, cost.most_ns));
    let TransferTimes { least_ns, typical_ns, .. } = transfer.unwrap_or_default();
    Bounds::of(
        held_up.least_ns.min(least_late_ns),
        held_up.likely_ns.min(late_ns(typical_ns, cost.likely_ns)),
        held_up.most_ns.min(late_ns(least_ns, cost.least_ns)),
    )
}

/// The shift of the end of a call.
pub fn shift_of_end(way: &OwnWay, dependencies: &[WaitCause], slack_ns: ClockSlackNs) -> Bounds {
    // Without its hits it took at least what calls of its kind do.
    let took_ns = since(way.begin.at_ns, way.end_ns).max(0.0);
    let work_ns = if way.polls { 0.0 } else { way.work.map_or(0.0, |work| work.least_ns.min(took_ns)) };
    let own = way.begin.shift - way.cost.at_most(took_ns - work_ns);
    let certain = || dependencies.iter().filter(|dependency| dependency.is_certain);
    let late = || dependencies.iter().filter(|dependency| dependency.may_be_late(way, slack_ns));
    let may_not_have_waited = way.polls || certain().all(|one| one.may_be_early(way, slack_ns));

    let mut least_ns = if may_not_have_waited { own.least_ns } else { f64::INFINITY };
    let mut most_ns =
        own.most_ns - if may_not_have_waited { 0.0 } else { waited_ns(way, certain(), slack_ns) };
    for waited in late().map(WaitCause::waited) {
        least_ns = least_ns.min(waited.least_ns);
        most_ns = most_ns.max(waited.most_ns);
    }
    least_ns = least_ns.max(way.begin.shift.least_ns - (took_ns - work_ns));
    for floor in certain().map(|dependency| dependency.floor(way, slack_ns)) {
        least_ns = least_ns.max(floor.least_ns);
        if may_not_have_waited {
            most_ns = most_ns.max(floor.most_ns);
        }
    }
    // Contradictions of different clocks: then it is as if nothing was waited for.
    if !least_ns.is_finite() {
        least_ns = own.least_ns;
    }
    Bounds::of(least_ns.min(most_ns), likely_ns(way, own, dependencies), most_ns)
}

/// For so long the thread was there, and what it waited for had not even been sent.
fn waited_ns<'a>(way: &OwnWay, certain: impl Iterator<Item = &'a WaitCause>, slack_ns: ClockSlackNs) -> f64 {
    certain.map(|dependency| since(way.begin.at_ns, dependency.from.at_ns) - slack_ns).fold(0.0, f64::max)
}

fn likely_ns(way: &OwnWay, own: Bounds, dependencies: &[WaitCause]) -> f64 {
    let last = dependencies
        .iter()
        .filter(|dependency| dependency.was_probably_late(way))
        .max_by_key(|dependency| dependency.from.at_ns);
    let took_ns = since(way.begin.at_ns, way.end_ns).max(0.0);
    let certain = || dependencies.iter().filter(|dependency| dependency.is_certain);
    let ns = match last {
        Some(last) => {
            let floor = way.begin.shift.likely_ns - (took_ns - likely_work_ns(way, last, took_ns));
            last.waited().likely_ns.max(floor)
        }
        None => {
            certain().map(|dependency| dependency.floor(way, 0.0).likely_ns).fold(own.likely_ns, f64::max)
        }
    };
    // Whatever else is likely, nothing is received before it is sent.
    certain().map(|dependency| dependency.sent_ns(way)).fold(ns, f64::max)
}

/// What remains to be done when all is there; in no case more than there was time for after that was sent.
fn likely_work_ns(way: &OwnWay, last: &WaitCause, took_ns: f64) -> f64 {
    if way.polls {
        return 0.0;
    }
    let limit_ns = took_ns.min(last.took_ns(way).max(0.0));
    let typical = way.work.or(last.transfer);
    typical.map_or(limit_ns, |work| work.typical_ns.min(limit_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_ns: u64, shift_ns: f64) -> Moment {
        Moment { at_ns, shift: Bounds::exactly(shift_ns) }
    }

    fn way(begin: Moment, end_ns: u64, cost_ns: f64) -> OwnWay {
        OwnWay { begin, end_ns, cost: Bounds::exactly(cost_ns), work: None, polls: false }
    }

    fn from(from: Moment, cost_ns: f64) -> WaitCause {
        let transfer = TransferTimes { least_ns: 50.0, typical_ns: 100.0, most_ns: 200.0 };
        WaitCause { from, cost: Bounds::exactly(cost_ns), is_certain: true, transfer: Some(transfer) }
    }

    #[test]
    fn a_call_that_would_have_ended_before_it_begins_begins_earlier() {
        let begin = moment(1000, -10.0);
        assert_eq!(begin.not_after(moment(1020, -25.0)), begin, "it begins before it ends");
        assert_eq!(begin.not_after(moment(1020, -300.0)), moment(1000, -280.0));
        let wide = Moment { at_ns: 1020, shift: Bounds::of(-300.0, -25.0, 5.0) };
        let begun = begin.not_after(wide);
        assert_eq!(begun.shift, Bounds::of(-280.0, -10.0, -10.0), "each bound by itself");
    }

    #[test]
    fn a_call_that_waits_for_nothing_is_earlier_by_what_watching_cost() {
        let way = way(moment(1000, -30.0), 1500, 20.0);
        assert_eq!(shift_of_end(&way, &[], 0.0), Bounds::exactly(-50.0));
        // It was there long before.
        assert_eq!(shift_of_end(&way, &[from(moment(10, 0.0), 0.0)], 0.0), Bounds::exactly(-50.0));
    }

    #[test]
    fn what_is_spent_while_waiting_is_no_cost() {
        let way = way(moment(1000, -30.0), 5100, 400.0);
        let send = from(moment(5000, -7.0), 3.0);
        assert_eq!(shift_of_end(&way, &[send], 0.0), Bounds::exactly(-10.0));
    }

    #[test]
    fn who_was_held_up_while_nothing_was_there_lost_nothing_by_it() {
        let transfer = Some(TransferTimes { least_ns: 50.0, typical_ns: 100.0, most_ns: 200.0 });
        let (held_up, cost) = (Bounds::exactly(5000.0), Bounds::exactly(10.0));
        let on_the_way = |took_ns| held_up_on_the_way(held_up, took_ns, cost, transfer);
        assert_eq!(on_the_way(110.0), Bounds::of(0.0, 0.0, 50.0));
        assert_eq!(on_the_way(1110.0), Bounds::of(900.0, 1000.0, 1050.0));
        assert_eq!(on_the_way(9000.0), held_up);
        assert_eq!(on_the_way(-9000.0), Bounds::default());
        let unknown = held_up_on_the_way(held_up, 1010.0, cost, None);
        assert_eq!(unknown, Bounds::of(0.0, 1000.0, 1000.0));
    }

    #[test]
    fn a_call_that_waited_waits_less_if_the_sender_would_have_been_earlier() {
        let way = way(moment(1000, 0.0), 5100, 0.0);
        let send = from(moment(5000, -3000.0), 0.0);
        assert_eq!(shift_of_end(&way, &[send], 0.0).likely_ns, -3000.0);
        // But it does not end before it begins, and does its work.
        let send = from(moment(5000, -4500.0), 0.0);
        let end = shift_of_end(&way, &[send], 0.0);
        assert_eq!(end.likely_ns, -4000.0);
        assert!(end.least_ns >= -4100.0, "{end:?}");
    }

    #[test]
    fn a_call_that_did_not_wait_waits_if_its_thread_would_have_been_earlier() {
        // The message was there for 700 ns; without watching the thread would have come 900 ns earlier.
        let way = way(moment(1900, -900.0), 2000, 0.0);
        let send = from(moment(1000, 0.0), 0.0);
        let end = shift_of_end(&way, &[send], 0.0);
        // It would have come before the message, which typically takes 100 ns.
        assert_eq!((end.least_ns, end.likely_ns), (-900.0, -800.0));
        let way = OwnWay { begin: moment(1900, -2000.0), ..way };
        let end = shift_of_end(&way, &[send], 0.0);
        // Not before it has arrived: at 1100, or at 1050.
        assert_eq!((end.least_ns, end.likely_ns, end.most_ns), (-950.0, -800.0, -700.0));
    }

    #[test]
    fn where_it_cannot_be_told_both_are_possible() {
        let way = way(moment(1100, -500.0), 1200, 0.0);
        let end = shift_of_end(&way, &[from(moment(1000, 0.0), 0.0)], 0.0);
        assert_eq!((end.least_ns, end.most_ns), (-150.0, 0.0));
        // A clock that is not the same makes the certain uncertain.
        let way = OwnWay { begin: moment(1100, -30.0), ..way };
        let early = from(moment(500, 0.0), 0.0);
        assert_eq!(shift_of_end(&way, &[early], 0.0).most_ns, -30.0);
        assert_eq!(shift_of_end(&way, &[early], 1000.0).most_ns, 0.0);
    }

    #[test]
    fn nothing_is_shifted_where_nothing_cost_anything() {
        for (begin, end, sent) in [(0, 10, 5), (100, 110, 0), (100, 500, 490), (100, 101, 99), (0, 9000, 20)]
        {
            for polls in [false, true] {
                let way = OwnWay { polls, ..way(moment(begin, 0.0), end, 0.0) };
                for is_certain in [false, true] {
                    let send = WaitCause { is_certain, ..from(moment(sent, 0.0), 0.0) };
                    assert_eq!(shift_of_end(&way, &[send], 0.0), Bounds::default(), "{begin} {end} {sent}");
                }
            }
        }
    }
}

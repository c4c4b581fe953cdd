//! Ranks that died, and which of them did so first: the rest is mostly a consequence.

use crate::errors::reported::Reported;
use crate::tape::input::CodePlace;

/// Deaths that are kept: the first ones.
const MOST_DEATHS: usize = 1024;

/// An error that ends its rank is known before the rank is gone, and others may be gone sooner: so long after the first
/// death, who is the origin is left open.
const OPEN_NS: u64 = 1_000_000_000;

/// The end of a rank that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub rank: u32,
    pub pid: u32,
    pub time_ns: u64,
    /// As wait(2) gives it.
    pub status: u32,
    /// Where it was.
    pub place: Option<CodePlace>,
    /// The last that it was seen to call was MPI_Finalize.
    pub at_its_end: bool,
    /// The call that failed, and never came back.
    pub reported: Option<Reported>,
    /// It ended as if all were well, but without MPI_Finalize.
    pub unfinished: bool,
}

/// The first deaths, of the same cause; and all others, which came after them.
pub(crate) type DeathOrigin<'a> = (Vec<&'a Death>, Vec<&'a Death>);

impl Death {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<u32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }

    /// A program that has come to its end says by its status what it thinks of its results; it is no death.
    fn is_a_verdict(&self) -> bool {
        self.at_its_end && self.signal().is_none() && self.reported.is_none()
    }

    /// Since when it was bound to end.
    fn since_ns(&self) -> u64 {
        self.reported.as_ref().map_or(self.time_ns, |reported| reported.time_ns)
    }

    /// Launchers and people end ranks like this; it is no fault.
    fn was_asked_for(&self) -> bool {
        const HUP: u32 = 1;
        const INT: u32 = 2;
        const TERM: u32 = 15;
        self.reported.is_none() && matches!(self.signal(), Some(HUP | INT | TERM))
    }

    /// Whether two died of the same at the same place.
    fn is_like(&self, other: &Self) -> bool {
        match (&self.reported, &other.reported) {
            (Some(own), Some(others)) => own.is_like(others),
            (None, None) if self.unfinished => other.unfinished,
            (None, None) => {
                self.place.is_some() && self.place == other.place && self.signal() == other.signal()
            }
            _ => false,
        }
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Deaths {
    all: Vec<Death>,
}

impl Deaths {
    /// A rank ended, well or not.
    pub fn note(&mut self, death: Death) {
        let is_well = death.status == 0 && death.reported.is_none() && !death.unfinished;
        if !is_well && !death.is_a_verdict() && self.all.len() < MOST_DEATHS {
            self.all.push(death);
        }
    }

    /// The first death, unless it was asked for, with those that died of the same at the same place; and
    /// all others, which came after it.
    pub fn origin(&self) -> Option<DeathOrigin<'_>> {
        let first = self.all.iter().min_by_key(|death| death.since_ns())?;
        if first.was_asked_for() {
            return None;
        }
        Some(self.all.iter().partition(|death| death.pid == first.pid || first.is_like(death)))
    }

    /// Whether a process is among them.
    pub fn is_among(&self, pid: u32) -> bool {
        self.all.iter().any(|death| death.pid == pid)
    }

    /// Whether a rank that reports an error since then may turn out to be the origin.
    pub fn is_open(&self, under_way_since_ns: Option<u64>, now_ns: u64) -> bool {
        let Some(first) = self.all.iter().min_by_key(|death| death.since_ns()) else { return false };
        let is_earlier = under_way_since_ns.is_some_and(|since_ns| since_ns < first.since_ns());
        is_earlier && now_ns < first.time_ns.saturating_add(OPEN_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::input::CallInProgress;
    use crate::tape::wire::FileId;

    const KILL: u32 = 9;
    const SEGV: u32 = 11;
    const TERM: u32 = 15;

    fn death(rank: u32, status: u32, at: Option<u64>) -> Death {
        let place = at.map(|offset_bytes| CodePlace { file: FileId::default(), offset_bytes });
        let (at_its_end, reported, unfinished) = (false, None, false);
        Death { rank, pid: 100 + rank, time_ns: 0, status, place, at_its_end, reported, unfinished }
    }

    fn origin(all: &[Death]) -> Option<(Vec<u32>, Vec<u32>)> {
        let mut deaths = Deaths::default();
        all.iter().for_each(|death| deaths.note(death.clone()));
        let ranks = |deaths: Vec<&Death>| deaths.iter().map(|death| death.rank).collect();
        deaths.origin().map(|(first, rest)| (ranks(first), ranks(rest)))
    }

    #[test]
    fn who_died_first_is_the_origin_and_who_was_ended_by_that_is_not() {
        let all = [death(2, SEGV, Some(7)), death(0, TERM, None), death(1, 1 << 8, None)];
        assert_eq!(origin(&all), Some((vec![2], vec![0, 1])));
    }

    #[test]
    fn ranks_that_died_of_the_same_at_the_same_place_are_named_together() {
        let all =
            [death(2, SEGV, Some(7)), death(0, SEGV, Some(7)), death(1, SEGV, Some(8)), death(3, 9, None)];
        assert_eq!(origin(&all), Some((vec![2, 0], vec![1, 3])));
    }

    #[test]
    fn a_status_after_the_end_is_a_verdict_and_a_signal_is_not() {
        let at_end = |death| Death { at_its_end: true, ..death };
        assert_eq!(origin(&[at_end(death(0, 1 << 8, None)), at_end(death(1, 1 << 8, None))]), None);
        assert_eq!(origin(&[at_end(death(0, SEGV, None))]), Some((vec![0], vec![])));
    }

    #[test]
    fn a_job_that_was_ended_or_ended_well_has_no_origin() {
        assert_eq!(origin(&[death(0, TERM, None), death(1, SEGV, Some(7))]), None);
        assert_eq!(origin(&[death(0, 0, None)]), None);
    }

    fn failed(rank: u32, since_ns: u64, time_ns: u64) -> Death {
        let call = CallInProgress { function: "MPI_Recv".into(), ..CallInProgress::default() };
        let reported = Reported::after_finalize(since_ns, call);
        Death { time_ns, reported: Some(reported), ..death(rank, KILL, None) }
    }

    #[test]
    fn who_reported_an_error_before_all_died_is_the_origin_although_it_died_last() {
        let all = [Death { time_ns: 20, ..death(0, KILL, None) }, failed(1, 10, 30)];
        assert_eq!(origin(&all), Some((vec![1], vec![0])));
        let all = [Death { time_ns: 5, ..death(0, SEGV, None) }, failed(1, 10, 30)];
        assert_eq!(origin(&all), Some((vec![0], vec![1])));
    }

    #[test]
    fn the_origin_is_left_open_for_a_while_as_long_as_an_earlier_error_is_under_way() {
        let mut deaths = Deaths::default();
        assert!(!deaths.is_open(Some(10), 20));
        deaths.note(Death { time_ns: 20, ..death(0, KILL, None) });
        assert!(deaths.is_open(Some(10), 21));
        assert!(!deaths.is_open(Some(10), 20 + OPEN_NS));
        assert!(!deaths.is_open(Some(21), 22));
        assert!(!deaths.is_open(None, 22));
    }

    #[test]
    fn ranks_that_end_without_finalizing_are_named_together() {
        let unfinished = |rank| Death { unfinished: true, ..death(rank, 0, None) };
        assert_eq!(
            origin(&[unfinished(3), death(0, TERM, None), unfinished(1)]),
            Some((vec![3, 1], vec![0]))
        );
    }
}

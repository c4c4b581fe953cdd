//! Ranks that died, and which of them did so first: the rest is mostly a consequence.

use crate::input::CodePlace;

/// Deaths that are kept: the first ones.
const MOST_DEATHS: usize = 1024;

/// The end of a rank that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Death {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<u32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }

    /// A program that has come to its end says by its status what it thinks of its results; it is no death.
    fn is_a_verdict(&self) -> bool {
        self.at_its_end && self.signal().is_none()
    }

    /// Launchers and people end ranks like this; it is no fault.
    fn was_asked_for(&self) -> bool {
        const HUP: u32 = 1;
        const INT: u32 = 2;
        const TERM: u32 = 15;
        matches!(self.signal(), Some(HUP | INT | TERM))
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
        if death.status != 0 && !death.is_a_verdict() && self.all.len() < MOST_DEATHS {
            self.all.push(death);
        }
    }

    /// The first death, unless it was asked for, with those that died of the same at the same place; and
    /// all others, which came after it.
    pub fn origin(&self) -> Option<(Vec<Death>, Vec<Death>)> {
        let first = self.all.first().filter(|first| !first.was_asked_for())?;
        let is_first = |death: &Death| death.pid == first.pid;
        let same = |death: &Death| {
            first.place.is_some() && death.place == first.place && death.signal() == first.signal()
        };
        Some(self.all.iter().partition(|death| is_first(death) || same(death)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FileId;

    const SEGV: u32 = 11;
    const TERM: u32 = 15;

    fn death(rank: u32, status: u32, at: Option<u64>) -> Death {
        let place = at.map(|offset_bytes| CodePlace { file: FileId::default(), offset_bytes });
        Death { rank, pid: 100 + rank, time_ns: 0, status, place, at_its_end: false }
    }

    fn origin(all: &[Death]) -> Option<(Vec<u32>, Vec<u32>)> {
        let mut deaths = Deaths::default();
        all.iter().for_each(|&death| deaths.note(death));
        let ranks = |deaths: Vec<Death>| deaths.iter().map(|death| death.rank).collect();
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
}

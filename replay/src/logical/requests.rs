//! Which of several requests is complete, by logical time.

use super::{DELAY, NEVER};

/// When a request is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// At this time.
    At(u64),
    /// Not before this time: it depends on what others have yet to do.
    NotBefore(u64),
    /// It is none, or not active.
    Inactive,
}

/// What a call for several requests answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestChoice {
    /// This one.
    Index(usize),
    /// None of them can be: none is active.
    NoneActive,
    /// A test: none is complete.
    No,
    /// It depends on what others have yet to do.
    NotYet,
}

/// Whether a test at this time sees a request complete. None: it is not known yet; `forced`: what is not known does not happen.
pub fn is_due(completion: Completion, now: u64, forced: bool) -> Option<bool> {
    match completion {
        Completion::At(time) => Some(time.saturating_add(DELAY) <= now),
        Completion::NotBefore(time) if forced || time.saturating_add(DELAY) > now => Some(false),
        Completion::NotBefore(_) => None,
        Completion::Inactive => Some(true),
    }
}

/// The request that is complete first; of equal ones, that with the lowest index. What is not certain yet has to be waited for.
pub fn any_complete(all: &[Completion], forced: bool) -> RequestChoice {
    let mut first: Option<(u64, usize)> = None;
    let mut bound: Option<(u64, usize)> = None;
    for (index, completion) in all.iter().enumerate() {
        let (place, time) = match completion {
            Completion::At(time) => (&mut first, *time),
            Completion::NotBefore(time) => (&mut bound, *time),
            Completion::Inactive => continue,
        };
        *place = Some(place.map_or((time, index), |old| old.min((time, index))));
    }
    match (first, bound) {
        (None, None) => RequestChoice::NoneActive,
        (Some(first), bound) if forced || bound.is_none_or(|bound| bound > first) => {
            RequestChoice::Index(first.1)
        }
        _ => RequestChoice::NotYet,
    }
}

/// Those that a test at this time sees complete, earliest first. None: it is not known yet.
pub fn some_due(all: &[Completion], now: u64, forced: bool) -> Option<Vec<usize>> {
    let mut due = Vec::new();
    for (index, completion) in all.iter().enumerate() {
        if *completion != Completion::Inactive && is_due(*completion, now, forced)? {
            due.push(index);
        }
    }
    due.sort_by_key(|index| match all[*index] {
        Completion::At(time) => (time, *index),
        _ => (NEVER, *index),
    });
    Some(due)
}

#[cfg(test)]
mod tests {
    use super::Completion::{At, Inactive, NotBefore};
    use super::*;

    #[test]
    fn a_test_waits_only_for_what_may_be_visible() {
        assert_eq!(is_due(At(5), 15, false), Some(true));
        assert_eq!(is_due(At(6), 15, false), Some(false));
        assert_eq!(is_due(NotBefore(6), 15, false), Some(false));
        assert_eq!(is_due(NotBefore(5), 15, false), None);
        assert_eq!(is_due(NotBefore(5), 15, true), Some(false));
        assert_eq!(is_due(NotBefore(NEVER), 15, false), Some(false));
    }

    #[test]
    fn the_first_request_is_certain_when_no_other_can_be_earlier() {
        assert_eq!(any_complete(&[At(5), At(4)], false), RequestChoice::Index(1));
        assert_eq!(any_complete(&[At(5), At(5)], false), RequestChoice::Index(0));
        assert_eq!(any_complete(&[NotBefore(5), At(5)], false), RequestChoice::NotYet);
        assert_eq!(any_complete(&[At(5), NotBefore(5)], false), RequestChoice::Index(0));
        assert_eq!(any_complete(&[NotBefore(3), At(5)], true), RequestChoice::Index(1));
        assert_eq!(any_complete(&[NotBefore(3)], true), RequestChoice::NotYet);
        assert_eq!(any_complete(&[Inactive], false), RequestChoice::NoneActive);
    }

    #[test]
    fn a_test_for_some_gives_the_earliest_first() {
        assert_eq!(some_due(&[At(4), Inactive, At(2), At(9)], 15, false), Some(vec![2, 0]));
        assert_eq!(some_due(&[At(4), NotBefore(1)], 15, false), None);
        assert_eq!(some_due(&[At(4), NotBefore(1)], 15, true), Some(vec![0]));
    }
}

//! Which of the program's threads may call.

/// Levels of [`SharedPage::thread_level`](replay::shared_page::SharedPage::thread_level).
pub(crate) const SERIALIZED: u32 = 2;
pub(crate) const MULTIPLE: u32 = 3;

/// Which of the program's threads may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallingThreads {
    /// The rank's own: others only compute, if there are any.
    One,
    OneAtATime,
    Several,
}

impl CallingThreads {
    /// Those of a program that has created threads, by the level that it asked for. None: the second one that calls ends the record, since
    /// messages are written down of one.
    pub(crate) fn at_level(level: u32, writes_messages: bool) -> Option<Self> {
        match level {
            SERIALIZED => Some(Self::OneAtATime),
            MULTIPLE => (!writes_messages).then_some(Self::Several),
            _ => Some(Self::One),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_says_who_calls_and_messages_are_of_one_thread_at_a_time() {
        let of_levels = |writes_messages| {
            [0, 1, SERIALIZED, MULTIPLE].map(|level| CallingThreads::at_level(level, writes_messages))
        };
        let (one, in_turn) = (Some(CallingThreads::One), Some(CallingThreads::OneAtATime));
        assert_eq!(of_levels(false), [one, one, in_turn, Some(CallingThreads::Several)]);
        assert_eq!(of_levels(true), [one, one, in_turn, None]);
    }
}

//! How much is missing where inputs are.

use super::input::Input;
use super::wire::{RawRecord, kind};

/// What a run of inputs weighs when it is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// All inputs.
    pub inputs: u64,
    /// Those that are records of copies and calls.
    pub movements: u64,
    /// Those without which memory, processes or probes are not known: other records, facts, losses.
    pub state: u64,
}

impl Weight {
    /// The weight of one input.
    pub fn of(input: &Input) -> Self {
        let (movements, state) = match input {
            Input::Record(record) | Input::LateRecord(record) => return Self::of_record(record),
            Input::Process(_)
            | Input::Plan(_)
            | Input::Loss(_)
            | Input::Coverage(_)
            | Input::Threads(_)
            | Input::Digest(_) => (0, 1),
            Input::Start(_)
            | Input::Tick { .. }
            | Input::Clock(_)
            | Input::ReplayableRank(_)
            | Input::Answers(_)
            | Input::Messages(_)
            | Input::Contents(_)
            | Input::ProbeCosts(_)
            | Input::Unrecorded(_)
            | Input::Symbols(_)
            | Input::End(_) => (0, 0),
        };
        Self { inputs: 1, movements, state }
    }

    /// The weight of a record, late or not.
    #[inline]
    pub(crate) fn of_record(record: &RawRecord) -> Self {
        let movement = is_movement(record);
        Self { inputs: 1, movements: u64::from(movement), state: u64::from(!movement) }
    }

    /// Both together. Saturates: a hostile tape may claim anything.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            inputs: self.inputs.saturating_add(other.inputs),
            movements: self.movements.saturating_add(other.movements),
            state: self.state.saturating_add(other.state),
        }
    }

    /// What lies between an earlier total and this one; `None` if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            inputs: self.inputs.checked_sub(earlier.inputs)?,
            movements: self.movements.saturating_sub(earlier.movements),
            state: self.state.saturating_sub(earlier.state),
        })
    }
}

#[inline]
pub(super) fn is_movement(record: &RawRecord) -> bool {
    matches!(
        record.words()[2] as u16,
        kind::COPY
            | kind::PACK
            | kind::CROSS
            | kind::STREAM
            | kind::WORK
            | kind::COMPLETION
            | kind::REMOTE
            | kind::CALL
            | kind::DONE
            | kind::VALUES
            | kind::RETURN
            | kind::MADE
    )
}

//! Process facts and changes of what is watched, put in order with the records.
//!
//! What `/proc` says at a time holds after all older records: were it given out ahead of the
//! fork or exec that it is about, these would undo it.

use std::collections::VecDeque;

use analyzer::input::Input;

use super::feed::Feed;

/// Inputs that wait for older records, each with its time.
#[derive(Default)]
pub(super) struct PendingFacts(VecDeque<(u64, Input)>);

impl PendingFacts {
    /// They are made one after the other, so they come in order of time.
    pub(super) fn add(&mut self, time_ns: u64, facts: Input) {
        self.0.push_back((time_ns, facts));
    }

    /// Passes on an input, and before it the facts that are older.
    pub(super) fn push_with(&mut self, input: Input, feed: &mut Feed) {
        if let Input::Record(record) | Input::LateRecord(record) = &input {
            self.push_until(record.time_ns(), feed);
        }
        feed.push(input);
    }

    /// Passes on the facts up to a time.
    pub(super) fn push_until(&mut self, time_ns: u64, feed: &mut Feed) {
        while let Some(facts) = self.0.pop_front_if(|(of_ns, _)| *of_ns <= time_ns) {
            feed.push(facts.1);
        }
    }
}

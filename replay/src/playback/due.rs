//! What a call must answer.

use crate::answer::Answer;

/// What a call must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// This.
    Answer(Answer),
    /// Anything: the record has ended.
    Anything,
}

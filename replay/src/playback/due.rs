//! What a call must answer.

use crate::answer::Answer;

/// What a call must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// This.
    Answer(Answer),
    /// No, though the record has something else here: how often a thread polls before others let it go on is chance.
    NoInVain,
    /// Anything: the record has ended.
    Anything,
}

//! Kinds of faults.

/// What is wrong in the use of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GeneratedFault {
    /// One rank does another operation in its place.
    OtherOperation,
    /// One rank does two operations the other way round.
    OtherOrder,
    /// One rank uses another communicator, or window.
    OtherCommunicator,
    /// One rank names another root.
    OtherRoot,
    /// One rank uses another tag.
    OtherTag,
    /// One rank communicates with a third one in place of its partner.
    OtherRank,
    /// One rank leaves the operation out.
    MissingCall,
    /// One rank does not start its persistent operation.
    MissingStart,
    /// One rank does not complete what it began.
    MissingWait,
}

impl GeneratedFault {
    /// Name in arguments and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherOperation => "other_operation",
            Self::OtherOrder => "other_order",
            Self::OtherCommunicator => "other_communicator",
            Self::OtherRoot => "other_root",
            Self::OtherTag => "other_tag",
            Self::OtherRank => "other_rank",
            Self::MissingCall => "missing_call",
            Self::MissingStart => "missing_start",
            Self::MissingWait => "missing_wait",
        }
    }

    /// How many ranks it needs.
    pub fn least_ranks(self) -> u32 {
        if self == Self::OtherRank { 3 } else { 2 }
    }
}

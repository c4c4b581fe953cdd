//! What is true of a program with a fault: by construction, not by what some library does.

use super::verdict::FindingClass;

/// What becomes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// Some rank waits forever for what nobody does.
    Hangs,
    /// That is up to the library: what is wrong may be noticed by nobody, be an error, or hang.
    Open,
}

/// What is true of a program.
#[derive(Clone, Debug)]
pub struct Truth {
    /// What becomes of it.
    pub outcome: ExpectedOutcome,
    /// What its fault is rightly called.
    pub classes: &'static [FindingClass],
    /// Who may rightly be named: the rank that makes the fault must be, others are just as well its partners in it.
    pub may_be_named: Vec<u32>,
    /// Where ranks are then, as marks of source lines: a finding must have one of these.
    pub lines: Vec<(u32, Vec<String>)>,
}

/// Where ranks are that are through, and those that left out what the others wait for.
pub(super) const FINALIZE: &str = "finalize";

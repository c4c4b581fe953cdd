//! What is true of a program with a fault: by construction, not by what some library does.

use super::operations::Kind;
use super::{Case, Class, collectives, messages, windows};

/// What becomes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Some rank waits forever for what nobody does.
    Hangs,
    /// That is up to the library: what is wrong may be noticed by nobody, be an error, or hang.
    Open,
}

/// What is true of a program.
#[derive(Clone, Debug)]
pub struct Truth {
    /// What becomes of it.
    pub outcome: Outcome,
    /// What its fault is rightly called.
    pub classes: &'static [Class],
    /// Who may rightly be named: the rank that makes the fault must be, others are just as well its partners in it.
    pub may_be_named: Vec<u32>,
    /// Where ranks are then, as marks of source lines: a finding must have one of these.
    pub lines: Vec<(u32, Vec<String>)>,
}

/// Where ranks are that are through, and those that left out what the others wait for.
pub(super) const FINALIZE: &str = "finalize";

impl Case {
    /// What is true of it.
    pub fn truth(&self) -> Truth {
        match self.operation.kind {
            Kind::Collective(flow, form) => collectives::truth(self, flow, form),
            Kind::Maker => collectives::truth_of_maker(self),
            Kind::Fence => collectives::truth_of_fence(self),
            Kind::Send(mode, form) => messages::truth_of_send(self, mode, form),
            Kind::Receive(from, form) => messages::truth_of_receive(self, from, form),
            Kind::Completion | Kind::Probe => messages::truth_of_completion(self),
            Kind::Active(role) => windows::truth_of_active(self, role),
            Kind::Lock => windows::truth_of_lock(self),
            Kind::Unlock | Kind::Flush => windows::truth_of_unlock(self),
        }
    }
}

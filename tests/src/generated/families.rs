//! What is true of a case, family by family.

use super::operations::OperationKind;
use super::truth::Truth;
use super::{Case, collectives, messages, windows};

impl Case {
    /// What is true of it.
    pub fn truth(&self) -> Truth {
        match self.operation.kind {
            OperationKind::Collective(flow, form) => collectives::truth(self, flow, form),
            OperationKind::Maker => collectives::truth_of_maker(self),
            OperationKind::Fence => collectives::truth_of_fence(self),
            OperationKind::Send(mode, form) => messages::truth_of_send(self, mode, form),
            OperationKind::Receive(from, form) => messages::truth_of_receive(self, from, form),
            OperationKind::Completion | OperationKind::Probe => messages::truth_of_completion(self),
            OperationKind::Active(role) => windows::truth_of_active(self, role),
            OperationKind::Lock => windows::truth_of_lock(self),
            OperationKind::Unlock | OperationKind::Flush => windows::truth_of_unlock(self),
        }
    }
}

//! What earlier plans of a session have: a plan of what is loaded later goes on from there.

use analyzer::plan::Plan;
use serde::{Deserialize, Serialize};

use super::heap::HeapFunctions;
use super::slots::PlannedCalls;
use super::table_slot::FileSlots;

/// See the [module](self); by default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPlans {
    probes: u32,
    pub(super) calls: PlannedCalls,
    pub(super) heap: HeapFunctions,
}

impl EarlierPlans {
    /// So that the next probe has this number.
    pub(super) fn up_to(next_id: u32) -> Self {
        Self { probes: next_id.saturating_sub(1), ..Self::default() }
    }

    /// Adds one, with the slots that were found.
    pub fn add(&mut self, plan: &Plan, slots: &[FileSlots]) {
        self.probes += plan.probes.len() as u32;
        self.calls.add(plan);
        self.heap.add(slots);
    }

    /// Number of the next probe.
    pub(super) fn next_id(&self) -> u32 {
        self.probes + 1
    }
}

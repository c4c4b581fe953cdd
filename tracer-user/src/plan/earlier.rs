//! What earlier plans of a session have: a plan of what is loaded later goes on from there.

use analyzer::plan::Plan;
use serde::{Deserialize, Serialize};

use super::slots::PlannedCalls;

/// See the [module](self); by default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPlans {
    probes: u32,
    pub(super) calls: PlannedCalls,
}

impl EarlierPlans {
    /// So that the next probe has this number.
    pub(super) fn up_to(next_id: u32) -> Self {
        Self { probes: next_id.saturating_sub(1), ..Self::default() }
    }

    /// Adds one.
    pub fn add(&mut self, plan: &Plan) {
        self.probes += plan.probes.len() as u32;
        self.calls.add(plan);
    }

    /// Number of the next probe.
    pub(super) fn next_id(&self) -> u32 {
        self.probes + 1
    }
}

//! Chains of runs that are known to be good, by name, so that another run can be held against them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::names::OpName;

/// Version of the form that references are kept in.
pub const REFERENCE_SCHEMA: u32 = 1;

/// Chain groups of good runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// [`REFERENCE_SCHEMA`] of the version that made it.
    pub schema: u32,
    /// The groups, in order of their operations' names.
    pub groups: Vec<ReferenceGroup>,
}

/// One group of a [`Reference`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReferenceGroup {
    /// Its operations.
    pub ops: Vec<ReferenceOp>,
    /// Chains of it.
    pub chains: u64,
}

/// One operation of a [`ReferenceGroup`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReferenceOp {
    /// What it is.
    pub name: OpName,
    /// Largest number of segments seen.
    pub segments: u32,
}

impl Reference {
    /// Adds the chains of another good run.
    pub fn merge(&mut self, other: Self) {
        let mut all: BTreeMap<Vec<OpName>, ReferenceGroup> = BTreeMap::new();
        for group in std::mem::take(&mut self.groups).into_iter().chain(other.groups) {
            let key = group.ops.iter().map(|op| op.name.clone()).collect();
            match all.get_mut(&key) {
                Some(known) => known.absorb(&group),
                None => drop(all.insert(key, group)),
            }
        }
        self.groups = all.into_values().collect();
        self.schema = REFERENCE_SCHEMA;
    }
}

impl ReferenceGroup {
    fn absorb(&mut self, other: &Self) {
        self.chains = self.chains.saturating_add(other.chains);
        for (own, other) in self.ops.iter_mut().zip(&other.ops) {
            own.segments = own.segments.max(other.segments);
        }
    }
}

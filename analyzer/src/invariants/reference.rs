//! Chains of runs that are known to be good, by name, so that another run can be held against them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chains::groups::Groups;
use crate::job::names::{Names, OpName};

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

    pub(crate) fn from_groups(groups: &Groups, names: &Names) -> Self {
        let counted = groups.all().iter().filter(|g| g.count > 0);
        let group = |g: &crate::chains::groups::Group| ReferenceGroup {
            ops: g
                .symbols
                .iter()
                .zip(&g.ops)
                .map(|(&s, o)| ReferenceOp { name: names.op_name(s), segments: o.segments })
                .collect(),
            chains: g.count,
        };
        let mut groups: Vec<ReferenceGroup> = counted.map(group).collect();
        groups.sort();
        Self { schema: REFERENCE_SCHEMA, groups }
    }

    pub(crate) fn add_to(&self, groups: &mut Groups, names: &mut Names) {
        for group in &self.groups {
            let symbols: Vec<_> = group.ops.iter().map(|op| names.symbol_named(&op.name)).collect();
            let segments: Vec<_> = group.ops.iter().map(|op| op.segments).collect();
            groups.add_reference(&symbols, &segments, group.chains);
        }
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

//! Chain groups of a run that is known to be good: from a run, and into another one.

use crate::chains::group::ChainGroup;
use crate::chains::groups::ChainGroups;
use crate::chains::op_names::OpNames;
use crate::job::names::Names;
use crate::options::reference::{REFERENCE_SCHEMA, Reference, ReferenceGroup, ReferenceOp};

/// The chains of a run, by name.
pub(crate) fn from_groups(groups: &ChainGroups, ops: &OpNames, names: &Names) -> Reference {
    let counted = groups.all().iter().filter(|g| g.count > 0);
    let group = |g: &ChainGroup| ReferenceGroup {
        ops: g
            .symbols
            .iter()
            .zip(&g.ops)
            .map(|(&s, o)| ReferenceOp { name: ops.op_name(s, names), segments: o.segments })
            .collect(),
        chains: g.count,
    };
    let mut groups: Vec<ReferenceGroup> = counted.map(group).collect();
    groups.sort();
    Reference { schema: REFERENCE_SCHEMA, groups }
}

/// Adds the chains of good runs to what a run is held against.
pub(crate) fn add(reference: &Reference, groups: &mut ChainGroups, ops: &mut OpNames, names: &mut Names) {
    for group in &reference.groups {
        let symbols: Vec<_> = group.ops.iter().map(|op| ops.symbol_named(&op.name, names)).collect();
        let segments: Vec<_> = group.ops.iter().map(|op| op.segments).collect();
        groups.add_reference(&symbols, &segments, group.chains);
    }
}

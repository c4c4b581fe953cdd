//! Where processes run, of jobs on several nodes. Their numbers among all nodes are for the analysis; people and programs hear
//! those that the nodes themselves give.

use rustc_hash::FxHashMap;

use super::views::Sources;
use crate::findings::finding::*;
use crate::job::process::Who;
use crate::tape::{node_of, pid_on_node};

/// Says of all findings where they are.
pub(super) fn place(p: &Sources<'_>, findings: &mut [Finding]) {
    if p.job.start.nodes.is_empty() {
        return;
    }
    let ranks = p.job.processes.all().iter().filter_map(|process| Some((process.rank?, process.pid)));
    let pid_of_rank: FxHashMap<u32, u32> = ranks.collect();
    for finding in findings {
        let on_node = |who: &Who| {
            let pid = match who {
                Who::Pid(pid) => *pid,
                Who::Rank(rank) => *pid_of_rank.get(rank)?,
            };
            Some(WhoOnNode { who: *who, node: node_name(p, pid)? })
        };
        finding.nodes = finding.who.iter().filter_map(on_node).collect();
        renumber(&mut finding.evidence);
    }
}

/// The name of the node of a process; none if all are on one.
pub(super) fn node_name(p: &Sources<'_>, pid: u32) -> Option<String> {
    p.job.start.nodes.get(node_of(pid)).cloned()
}

/// What its node calls a process.
pub(super) fn own_pid(p: &Sources<'_>, pid: u32) -> u32 {
    if p.job.start.nodes.is_empty() { pid } else { pid_on_node(pid) }
}

fn renumber(evidence: &mut Evidence) {
    match evidence {
        Evidence::OddChain(chain) => {
            let examples = chain.examples.iter_mut();
            for op in examples.flat_map(|example| example.ops.iter_mut().chain(&mut example.before)) {
                (op.pid, op.tid) = (pid_on_node(op.pid), pid_on_node(op.tid));
            }
        }
        Evidence::Hang(hang) => renumber_ranks(hang),
        Evidence::CollectiveMismatch(mismatch) => {
            mismatch.hang.iter_mut().chain(&mut mismatch.death).for_each(renumber_ranks);
        }
        Evidence::OddRank(_)
        | Evidence::DatatypeMismatch(_)
        | Evidence::BufferConflict(_)
        | Evidence::OverlappingBuffers(_)
        | Evidence::HeapMisuse(_)
        | Evidence::OutsideWindow(_)
        | Evidence::AccessConflict(_)
        | Evidence::PotentialDeadlock(_)
        | Evidence::Leak(_)
        | Evidence::ErrorReturned(_) => {}
    }
}

fn renumber_ranks(hang: &mut Hang) {
    hang.ranks.iter_mut().for_each(|rank| rank.pid = pid_on_node(rank.pid));
}

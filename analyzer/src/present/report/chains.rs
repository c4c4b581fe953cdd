//! Odd chains and odd ranks as findings.

use super::views::{Views, finding, whos};
use crate::chains::group::{Example, OpInstance};
use crate::chains::groups::GroupId;
use crate::chains::op_names::ContextId;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::invariants::frequent_chains::Violation;
use crate::invariants::rank_mix::Outlier;
use crate::invariants::scores::rounded;

/// Other frequent chains listed with a finding.
const MAX_OTHERS: usize = 5;

impl Views<'_> {
    pub(super) fn odd_chain(&self, v: &Violation) -> Finding {
        let odd = self.group(v.odd);
        let frequent = self.group(v.frequent);
        let group = self.p.chains.groups.get(v.odd);
        let mut examples: Vec<ExampleView> = group.examples.iter().map(|e| self.example(e, v)).collect();
        examples.sort_by_key(|e| !e.context_match);
        let evidence = OddChain {
            abnormality: rounded(v.abnormality),
            similarity: rounded(v.similarity),
            rareness: rounded(v.rareness),
            common: CommonView {
                odd_from: v.common.odd_from,
                frequent_from: v.common.frequent_from,
                ops: v.common.len,
                uniqueness: v.common.uniqueness,
            },
            context: self.context(v, &frequent),
            others: v.others.iter().take(MAX_OTHERS).map(|o| self.other(o)).collect(),
            examples,
            odd,
            frequent,
        };
        let who = evidence.odd.ops.iter().flat_map(|op| op.who.iter().copied());
        let who = who.chain(evidence.owners_of_unread());
        let id = ids::odd_chain(&evidence.odd.id, &evidence.frequent.id);
        finding(id, v.verdict, v.severity, who.collect(), Evidence::OddChain(Box::new(evidence)))
    }

    pub(super) fn odd_rank(&self, o: &Outlier) -> Finding {
        let who = self.p.job.processes.who(o.who);
        let evidence = OddRank {
            who,
            distance: rounded(o.distance),
            nearest: o.nearest as u64,
            average: rounded(o.average),
            part: o.part as u64,
            from_ns: o.from_ns,
            to_ns: o.to_ns,
            chains: o.chains,
            compared_by: o.compared_by,
            group: self.group(o.group),
            share: rounded(o.share),
            peers_share: rounded(o.peers_share),
            peers_running: o.peers_running as u64,
            peers: whos(self.p, o.peers.iter().copied()),
        };
        let id = ids::odd_rank(who, &evidence.group.id);
        finding(id, o.verdict, o.severity, vec![who], Evidence::OddRank(Box::new(evidence)))
    }

    pub(super) fn context(&self, v: &Violation, frequent: &GroupView) -> ContextView {
        let from = usize::from(v.common.frequent_from);
        let to = from + usize::from(v.common.len);
        let missing = |there: Option<ContextId>, at: Option<usize>| {
            there.and(at).and_then(|i| frequent.ops.get(i)).cloned()
        };
        ContextView {
            matched: v.context.matched,
            matched_before: v.context.matched_before,
            matched_after: v.context.matched_after,
            known: v.context.known,
            missing_before: missing(v.context.before, from.checked_sub(1)),
            missing_after: missing(v.context.after, Some(to)),
        }
    }

    pub(super) fn other(&self, &(id, abnormality): &(GroupId, f64)) -> OtherView {
        let view = self.group(id);
        let chains =
            if self.p.chains.options.reference.is_some() { view.reference_chains } else { view.chains };
        OtherView { ops: view.ops, chains, abnormality: rounded(abnormality) }
    }

    pub(super) fn example(&self, example: &Example, v: &Violation) -> ExampleView {
        ExampleView {
            context_match: example.context.is_some_and(|set| v.context.matches(&set)),
            ops: example.ops.iter().map(|op| self.example_op(op)).collect(),
            before: example.before.iter().map(|op| self.example_op(op)).collect(),
        }
    }

    pub(super) fn example_op(&self, op: &OpInstance) -> ExampleOp {
        ExampleOp {
            place: self.place(self.p.chains.ops.context_site(op.context)),
            time_ns: op.time_ns,
            who: self.p.job.processes.who(op.who),
            pid: op.pid,
            tid: op.tid,
            source: op.source,
            destination: op.destination,
            destination_buffer: self.buffer(op.destination_buffer),
            len_bytes: op.len_bytes,
        }
    }
}

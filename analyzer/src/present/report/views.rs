//! Views of what is interned: places, buffers, operations, chain groups by name.

use crate::chains::groups::GroupId;
use crate::errors::error_analysis::ErrorAnalysis;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::hang::hang_analysis::HangAnalysis;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::invariants::frequent_chains::Evaluation;
use crate::invariants::rank_mix::Comparison;
use crate::job::Job;
use crate::job::ids::WhoId;
use crate::job::names::{BufferId, BufferName, OpName, SiteId, SiteName};
use crate::job::process::Who;
use crate::present::text;
use crate::tape::input::CodePlace;

/// What findings are made from.
pub(crate) struct Sources<'a> {
    pub job: &'a Job,
    pub chains: &'a ChainAnalysis,
    pub errors: &'a ErrorAnalysis,
    pub hang: &'a HangAnalysis,
    pub evaluation: &'a Evaluation,
    pub comparison: &'a Comparison,
}

/// Makes views of what is interned.
pub(crate) struct Views<'a> {
    pub p: &'a Sources<'a>,
}

impl Views<'_> {
    pub(super) fn code_place(&self, place: CodePlace, behind: u64) -> Place {
        Place {
            module: self.p.job.names.path(place.file),
            file: Some(place.file),
            offset_bytes: place.offset_bytes.saturating_sub(behind),
            frames: Vec::new(),
        }
    }

    /// A call of the program that returns there.
    pub(super) fn call_from(&self, function: &str, place: Option<CodePlace>) -> StuckCall {
        let place = place.map_or_else(Place::default, |place| self.code_place(place, 1));
        StuckCall { function: function.to_owned(), arguments: Vec::new(), place }
    }

    pub(super) fn group(&self, id: GroupId) -> GroupView {
        let group = self.p.chains.groups.get(id);
        let weights = self.p.chains.frequent.ops(id);
        let ops = (0..group.symbols.len()).map(|i| self.op(id, i, weights.get(i).map_or(0, |w| w.1)));
        let mut by_who: Vec<WhoCount> = Vec::new();
        for &who in &group.ops[0].who.iter().collect::<Vec<_>>() {
            let count = self.p.chains.groups.by_group.total(id, who);
            by_who.push(WhoCount { who: self.p.job.processes.who(who), count });
        }
        by_who.sort_by_key(|c| c.who);
        let by_who_left_out = by_who.len().saturating_sub(MOST_COUNTED) as u64;
        by_who.truncate(MOST_COUNTED);
        GroupView {
            id: self.group_hash(id),
            chains: group.count,
            reference_chains: group.reference,
            uniqueness: self.p.chains.frequent.uniqueness(id),
            ops: ops.collect(),
            by_who,
            by_who_left_out,
        }
    }

    /// Depends on names only, so that it is the same in every run of the same binaries.
    pub(super) fn group_hash(&self, id: GroupId) -> String {
        let symbols = self.p.chains.groups.get(id).symbols.iter();
        let names: Vec<OpName> =
            symbols.map(|&symbol| self.p.chains.ops.op_name(symbol, &self.p.job.names)).collect();
        ids::group(names.iter())
    }

    pub(super) fn op(&self, id: GroupId, at: usize, uniqueness: u32) -> OpView {
        let group = self.p.chains.groups.get(id);
        let (symbol, counts) = (self.p.chains.ops.symbol_parts(group.symbols[at]), &group.ops[at]);
        let mut calls: Vec<CallView> =
            counts.calls.iter().map(|&(call, count)| self.call(call, count)).collect();
        let name =
            |call: &CallView| (call.function.clone(), call.place.module.clone(), call.place.offset_bytes);
        calls.sort_by_cached_key(|call| (std::cmp::Reverse(call.count), name(call)));
        OpView {
            kind: symbol.kind,
            place: self.place(symbol.site),
            source: self.buffer(symbol.source),
            destination: self.buffer(symbol.destination),
            crosses: symbol.crosses,
            segments: counts.segments,
            uniqueness,
            who: whos(self.p, counts.who.iter()),
            calls,
        }
    }

    pub(super) fn call(&self, call: crate::job::ids::CallSiteId, count: u64) -> CallView {
        let (function, site) = self.p.job.probes.call_parts(call);
        CallView { function, place: self.place(site), count }
    }

    pub(crate) fn place(&self, id: SiteId) -> Place {
        let names = &self.p.job.names;
        let mut place = text::place(names.site_name(id));
        place.file = names.site_file(id).map(|(file, _)| file);
        place
    }

    pub(crate) fn buffer(&self, id: BufferId) -> BufferView {
        let view = |what| BufferView { what, name: String::new(), allocated: None };
        match self.p.job.names.buffer_name(id) {
            BufferName::Heap { site } => {
                BufferView { allocated: Some(self.named_place(site)), ..view(BufferKind::Heap) }
            }
            BufferName::Shared { name } => BufferView { name: name.clone(), ..view(BufferKind::Shared) },
            BufferName::Static { module } => BufferView { name: module.clone(), ..view(BufferKind::Static) },
            BufferName::HeapBeforeAttach => view(BufferKind::HeapBeforeAttach),
            BufferName::Stack => view(BufferKind::Stack),
            BufferName::Anonymous => view(BufferKind::Anonymous),
            BufferName::NotWatched => view(BufferKind::NotWatched),
            BufferName::TcpStream => view(BufferKind::TcpStream),
            BufferName::QueuePair => view(BufferKind::QueuePair),
            BufferName::Unknown => view(BufferKind::Unknown),
        }
    }

    pub(super) fn named_place(&self, site: &SiteName) -> Place {
        let id = self.p.job.names.find_site(site);
        id.map_or_else(|| text::place(site), |id| self.place(id))
    }
}

pub(super) fn whos(p: &Sources<'_>, ids: impl Iterator<Item = WhoId>) -> Vec<Who> {
    let mut whos: Vec<Who> = ids.map(|id| p.job.processes.who(id)).collect();
    whos.sort_unstable();
    whos.dedup();
    whos
}

pub(super) fn owned(arguments: &[(&str, String)]) -> Vec<(String, String)> {
    arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

pub(super) fn finding(
    id: String,
    verdict: Verdict,
    severity: Severity,
    who: Vec<Who>,
    evidence: Evidence,
) -> Finding {
    let mut who = who;
    who.sort_unstable();
    who.dedup();
    let (summary, nodes, next_steps) = (String::new(), Vec::new(), Vec::new());
    let mut finding = Finding { id, verdict, severity, summary, who, nodes, evidence, next_steps };
    crate::present::say::say(&mut finding);
    finding
}

/// Each rank once, in order.
pub(super) fn distinct(ranks: impl Iterator<Item = u32>) -> Vec<Who> {
    let mut ranks: Vec<Who> = ranks.map(Who::Rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

//! A chain group: what is counted of the chains that are alike.

use super::context_set::ContextSet;
use super::ids::PathId;
use super::who_set::WhoSet;
use crate::chains::op_names::{ContextId, SymbolId};
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::names::{BufferId, SiteId};

/// Different contexts kept of a group.
const MAX_CONTEXTS: usize = 64;
/// Different MPI calls kept of an operation of a group.
const MAX_CALLS: usize = 16;
/// Instances of a group kept as examples.
const MAX_EXAMPLES: usize = 3;

/// One operation of a finished chain, all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpInstance {
    pub context: ContextId,
    pub who: WhoId,
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
    pub source: u64,
    pub destination: u64,
    pub destination_buffer: BufferId,
    pub len_bytes: u64,
}

/// One operation of a finished chain, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedOp {
    pub who: WhoId,
    pub call: CallSiteId,
    pub segments: u32,
}

/// What a chain begins with: where its first movement is, for which MPI call of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Work {
    pub site: SiteId,
    pub call: CallSiteId,
}

/// A chain that will not grow any more.
pub(crate) struct Finished<'a> {
    pub path: PathId,
    pub work: Work,
    pub ops: &'a [FinishedOp],
    /// When it began.
    pub time_ns: u64,
    /// `None`: a loss may have changed it.
    pub context: Option<&'a ContextSet>,
    pub begin_edge: bool,
    pub end_edge: bool,
}

/// An instance kept for people.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub ops: Vec<OpInstance>,
    pub before: Vec<OpInstance>,
    pub context: Option<ContextSet>,
}

/// What is counted of one operation of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpCounts {
    /// Largest number of segments seen.
    pub segments: u32,
    /// Ranks that ran it.
    pub who: WhoSet,
    /// MPI calls that it ran in.
    pub calls: Vec<(CallSiteId, u64)>,
    pub calls_not_kept: u64,
}

/// Chains that met an edge of what was watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    pub begin_only: u64,
    pub end_only: u64,
    pub both: u64,
}

impl Edges {
    fn plus(self, other: Self) -> Self {
        Self {
            begin_only: self.begin_only.saturating_add(other.begin_only),
            end_only: self.end_only.saturating_add(other.end_only),
            both: self.both.saturating_add(other.both),
        }
    }
}

/// What was counted of a group, in some time or on some node.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupCounts {
    pub count: u64,
    pub edges: Edges,
    pub contexts: Vec<(ContextSet, u64)>,
    pub contexts_not_kept: u64,
    pub ops: Vec<OpNews>,
}

/// The same of one of its operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpNews {
    /// Largest number of segments that was ever seen.
    pub segments: u32,
    /// Ranks that ran it.
    pub who: Vec<WhoId>,
    /// MPI calls that it ran in.
    pub calls: Vec<(CallSiteId, u64)>,
    pub calls_not_kept: u64,
}

/// A chain group.
#[derive(Clone, Debug)]
pub(crate) struct ChainGroup {
    pub symbols: Vec<SymbolId>,
    pub count: u64,
    /// It had a chain once, whether or not that was taken.
    pub was_counted: bool,
    /// Chains of it in the reference.
    pub reference: u64,
    pub ops: Vec<OpCounts>,
    pub edges: Edges,
    pub contexts: Vec<(ContextSet, u64)>,
    /// Of the same, in the same order.
    context_keys: Vec<u32>,
    pub contexts_not_kept: u64,
    pub examples: Vec<Example>,
}

impl ChainGroup {
    pub(super) fn new(symbols: Vec<SymbolId>) -> Self {
        Self {
            count: 0,
            was_counted: false,
            reference: 0,
            ops: vec![OpCounts { segments: 1, ..OpCounts::default() }; symbols.len()],
            symbols,
            edges: Edges::default(),
            contexts: Vec::new(),
            context_keys: Vec::new(),
            contexts_not_kept: 0,
            examples: Vec::new(),
        }
    }

    /// Returns whether an operation has more segments than ever before.
    pub(super) fn add(
        &mut self,
        chain: &Finished<'_>,
        segments_max: u32,
        example: impl FnOnce() -> Option<Example>,
    ) -> bool {
        self.count += 1;
        match (chain.begin_edge, chain.end_edge) {
            (true, true) => self.edges.both += 1,
            (true, false) => self.edges.begin_only += 1,
            (false, true) => self.edges.end_only += 1,
            (false, false) => {}
        }
        self.add_context(chain.context, 1);
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.extend(example());
        }
        let mut grew = false;
        for (counts, op) in self.ops.iter_mut().zip(chain.ops) {
            grew |= counts.add(op, segments_max);
        }
        grew
    }

    /// What surrounded so many chains.
    #[inline(always)]
    fn add_context(&mut self, context: Option<&ContextSet>, count: u64) {
        let Some(context) = context else {
            self.contexts_not_kept = self.contexts_not_kept.saturating_add(count);
            return;
        };
        let key = context.key();
        let keys = self.context_keys.iter().enumerate();
        let mut same = keys.filter(|&(at, k)| *k == key && self.contexts[at].0 == *context);
        if let Some(at) = same.next().map(|(at, _)| at) {
            self.contexts[at].1 = self.contexts[at].1.saturating_add(count);
            if at > 0 && self.contexts[at].1 > self.contexts[at - 1].1 {
                self.contexts.swap(at, at - 1);
                self.context_keys.swap(at, at - 1);
            }
        } else if self.contexts.len() < MAX_CONTEXTS {
            self.contexts.push((*context, count));
            self.context_keys.push(key);
        } else {
            self.contexts_not_kept = self.contexts_not_kept.saturating_add(count);
        }
    }

    /// What was counted since this was asked for last; what stays is what does not grow with the number of chains.
    pub(super) fn take_counts(&mut self) -> GroupCounts {
        self.context_keys.clear();
        let take = |op: &mut OpCounts| OpNews {
            segments: op.segments,
            who: Vec::new(),
            calls: std::mem::take(&mut op.calls),
            calls_not_kept: std::mem::take(&mut op.calls_not_kept),
        };
        GroupCounts {
            count: std::mem::take(&mut self.count),
            edges: std::mem::take(&mut self.edges),
            contexts: std::mem::take(&mut self.contexts),
            contexts_not_kept: std::mem::take(&mut self.contexts_not_kept),
            ops: self.ops.iter_mut().map(take).collect(),
        }
    }

    /// Takes what was counted elsewhere; returns whether an operation has more segments than ever before.
    pub(super) fn absorb(&mut self, counts: &GroupCounts, examples: Vec<Example>, segments_max: u32) -> bool {
        self.count = self.count.saturating_add(counts.count);
        self.edges = self.edges.plus(counts.edges);
        counts.contexts.iter().for_each(|(set, count)| self.add_context(Some(set), *count));
        self.add_context(None, counts.contexts_not_kept);
        let has_room = MAX_EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(examples.into_iter().take(has_room));
        let mut grew = false;
        for (own, counts) in self.ops.iter_mut().zip(&counts.ops) {
            grew |= own.absorb(counts, segments_max);
        }
        grew
    }
}

impl OpCounts {
    fn add(&mut self, op: &FinishedOp, segments_max: u32) -> bool {
        let segments = op.segments.min(segments_max);
        let grew = segments > self.segments;
        self.segments = self.segments.max(segments);
        self.who.insert(op.who);
        self.add_call(op.call, 1);
        grew
    }

    #[inline(always)]
    fn add_call(&mut self, call: CallSiteId, count: u64) {
        if let Some(at) = self.calls.iter().position(|(c, _)| *c == call) {
            self.calls[at].1 = self.calls[at].1.saturating_add(count);
        } else if self.calls.len() < MAX_CALLS {
            self.calls.push((call, count));
        } else {
            self.calls_not_kept = self.calls_not_kept.saturating_add(count);
        }
    }

    /// Takes what was counted elsewhere; returns whether it has more segments than ever before.
    fn absorb(&mut self, counts: &OpNews, segments_max: u32) -> bool {
        let segments = counts.segments.min(segments_max);
        let grew = segments > self.segments;
        self.segments = self.segments.max(segments);
        counts.who.iter().for_each(|who| self.who.insert(*who));
        counts.calls.iter().for_each(|(call, count)| self.add_call(*call, *count));
        self.calls_not_kept = self.calls_not_kept.saturating_add(counts.calls_not_kept);
        grew
    }
}

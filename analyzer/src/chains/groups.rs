//! Finished chains, counted by group.

use rustc_hash::FxHashMap;

use super::ids::PathId;
use super::rank_counts::RankCounts;
use super::time_buckets::TimeAxis;
use crate::chains::op_names::{ContextId, SymbolId};
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::names::{BufferId, SiteId, id};
use crate::options::{MAX_CONTEXT_WINDOW, Options};

id!(/// A chain group.
    GroupId);

/// Most nodes of the trie of groups.
const MAX_PATHS: usize = 1 << 20;
/// Different contexts kept of a group.
const MAX_CONTEXTS: usize = 64;
/// Different MPI calls kept of an operation of a group.
const MAX_CALLS: usize = 16;
/// Ranks whose part in a group is kept.
const MAX_WHO: usize = 1 << 12;
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

/// What surrounded an instance: operations near it that are linked to nothing.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct ContextSet {
    before: [ContextId; MAX_CONTEXT_WINDOW],
    after: [ContextId; MAX_CONTEXT_WINDOW],
    /// A number that is the same for equal sets, and mostly another for others.
    key: u32,
}

impl PartialEq for ContextSet {
    /// All are looked at at once: mostly they are equal.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let differences = |a: &[ContextId; MAX_CONTEXT_WINDOW], b: &[ContextId; MAX_CONTEXT_WINDOW]| {
            a.iter().zip(b).fold(0, |all, (a, b)| all | (a.0 ^ b.0))
        };
        differences(&self.before, &other.before) | differences(&self.after, &other.after) == 0
    }
}

impl ContextSet {
    /// Nothing around.
    pub const EMPTY: Self = Self {
        before: [ContextId::NONE; MAX_CONTEXT_WINDOW],
        after: [ContextId::NONE; MAX_CONTEXT_WINDOW],
        key: 0,
    };

    /// Adds an operation before the chain.
    #[inline]
    pub fn add_before(&mut self, op: ContextId) {
        const FACTOR: u32 = 0x9e37_79b1;
        self.key = self.key.wrapping_add(op.0.wrapping_add(1).wrapping_mul(FACTOR));
        insert(&mut self.before, op);
    }

    /// Adds an operation behind it.
    #[inline]
    pub fn add_after(&mut self, op: ContextId) {
        const FACTOR: u32 = 0x85eb_ca77;
        self.key = self.key.wrapping_add(op.0.wrapping_add(1).wrapping_mul(FACTOR));
        insert(&mut self.after, op);
    }

    pub fn has_before(&self, op: ContextId) -> bool {
        self.before.contains(&op)
    }

    pub fn has_after(&self, op: ContextId) -> bool {
        self.after.contains(&op)
    }
}

/// Keeps the order. Where there is no room the largest goes: no window has that many.
///
/// Not inlined: else the set is kept in more registers than there are.
#[inline(never)]
fn insert(ops: &mut [ContextId; MAX_CONTEXT_WINDOW], op: ContextId) {
    let mut op = op;
    for slot in ops {
        (*slot, op) = (op.min(*slot), op.max(*slot));
        if !op.is_some() {
            return;
        }
    }
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
    pub who: Vec<u64>,
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

/// A chain group.
#[derive(Clone, Debug)]
pub(crate) struct ChainGroup {
    pub symbols: Vec<SymbolId>,
    pub count: u64,
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

struct PathNode {
    parent: PathId,
    symbol: SymbolId,
    group: GroupId,
    /// The operation that last came next, and where that leads.
    last_next: (SymbolId, PathId),
}

/// All groups.
pub(crate) struct ChainGroups {
    paths: Vec<PathNode>,
    /// By the first operation.
    roots: Vec<PathId>,
    /// All others, by what is before them.
    children: FxHashMap<(PathId, SymbolId), PathId>,
    groups: Vec<ChainGroup>,
    pub by_group: RankCounts<GroupId>,
    pub by_work: RankCounts<Work>,
    pub axis: TimeAxis,
    pack_uniqueness_max: u32,
    /// Chains in groups.
    pub chains: u64,
    /// Chains that there was no room for.
    pub not_kept: u64,
    /// Grows when an operation's largest number of segments does.
    pub shape_version: u64,
}

impl ChainGroups {
    pub fn new(options: &Options) -> Self {
        Self {
            paths: Vec::new(),
            roots: Vec::new(),
            children: FxHashMap::default(),
            groups: Vec::new(),
            by_group: RankCounts::new(),
            by_work: RankCounts::new(),
            axis: TimeAxis::default(),
            pack_uniqueness_max: options.pack_uniqueness_max,
            chains: 0,
            not_kept: 0,
            shape_version: 0,
        }
    }

    /// The clock goes on.
    #[inline(always)]
    pub fn advance(&mut self, time_ns: u64) {
        let halvings = self.axis.advance(time_ns);
        for _ in 0..halvings {
            self.by_group.halve();
            self.by_work.halve();
        }
    }

    /// Counts over this stretch of time are not complete.
    pub fn touch(&mut self, from_ns: u64, to_ns: u64) {
        self.axis.touch(from_ns, to_ns);
    }

    /// The chain so far and one more operation. `PathId::NONE`: nothing so far.
    #[inline(always)]
    pub fn path(&mut self, parent: PathId, symbol: SymbolId) -> PathId {
        match self.paths.get(parent.index()) {
            Some(node) if node.last_next.0 == symbol => node.last_next.1,
            Some(_) => self.other_path(parent, symbol),
            None => match self.roots.get(symbol.index()) {
                Some(&path) if path.is_some() => path,
                _ => self.new_root(symbol),
            },
        }
    }

    fn new_root(&mut self, symbol: SymbolId) -> PathId {
        let path = self.new_path(PathId::NONE, symbol);
        if symbol.index() >= self.roots.len() {
            self.roots.resize(symbol.index() + 1, PathId::NONE);
        }
        self.roots[symbol.index()] = path;
        path
    }

    fn other_path(&mut self, parent: PathId, symbol: SymbolId) -> PathId {
        let path = match self.children.get(&(parent, symbol)) {
            Some(&path) => path,
            None => {
                let path = self.new_path(parent, symbol);
                if path.is_some() {
                    self.children.insert((parent, symbol), path);
                }
                path
            }
        };
        if let Some(node) = self.paths.get_mut(parent.index())
            && path.is_some()
        {
            node.last_next = (symbol, path);
        }
        path
    }

    fn new_path(&mut self, parent: PathId, symbol: SymbolId) -> PathId {
        if self.paths.len() >= MAX_PATHS {
            return PathId::NONE;
        }
        let path = PathId(self.paths.len() as u32);
        let last_next = (SymbolId::NONE, PathId::NONE);
        self.paths.push(PathNode { parent, symbol, group: GroupId::NONE, last_next });
        path
    }

    /// Counts a chain; `example` tells all of it, if it is to be kept.
    pub fn add(&mut self, chain: &Finished<'_>, example: impl FnOnce() -> Example) {
        let Some(group) = self.group_of(chain.path).filter(|g| self.has_length(*g, chain.ops.len())) else {
            self.not_kept += 1;
            return;
        };
        self.chains += 1;
        self.distribute(group, chain);
        let grew = self.groups[group.index()].add(chain, self.pack_uniqueness_max, example);
        self.shape_version += u64::from(grew);
    }

    /// Counts chains of a reference.
    pub fn add_reference(&mut self, symbols: &[SymbolId], segments: &[u32], count: u64) {
        if symbols.is_empty() || symbols.len() > usize::from(u8::MAX) {
            return;
        }
        let path = symbols.iter().fold(PathId::NONE, |path, &s| self.path(path, s));
        let Some(group) = self.group_of(path).filter(|g| self.has_length(*g, symbols.len())) else { return };
        let group = &mut self.groups[group.index()];
        group.reference = group.reference.saturating_add(count);
        for (op, &n) in group.ops.iter_mut().zip(segments) {
            op.segments = op.segments.max(n);
        }
    }

    pub fn all(&self) -> &[ChainGroup] {
        &self.groups
    }

    pub fn get(&self, id: GroupId) -> &ChainGroup {
        &self.groups[id.index()]
    }

    /// When there are too many paths, a path may be cut short.
    fn has_length(&self, group: GroupId, ops: usize) -> bool {
        self.groups[group.index()].symbols.len() == ops
    }

    fn group_of(&mut self, path: PathId) -> Option<GroupId> {
        let node = self.paths.get(path.index())?;
        if node.group.is_some() {
            return Some(node.group);
        }
        let mut symbols = Vec::new();
        let mut at = path;
        while at.is_some() {
            symbols.push(self.paths[at.index()].symbol);
            at = self.paths[at.index()].parent;
        }
        symbols.reverse();
        let group = GroupId(self.groups.len() as u32);
        self.groups.push(ChainGroup::new(symbols));
        self.paths[path.index()].group = group;
        Some(group)
    }

    fn distribute(&mut self, group: GroupId, chain: &Finished<'_>) {
        let (who, bucket) = (chain.ops[0].who, self.axis.bucket(chain.time_ns));
        let has_room = self.by_group.add(group, who, bucket) & self.by_work.add(chain.work, who, bucket);
        if !has_room {
            self.axis.touch(chain.time_ns, chain.time_ns);
        }
    }
}

impl ChainGroup {
    fn new(symbols: Vec<SymbolId>) -> Self {
        Self {
            count: 0,
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
    fn add(&mut self, chain: &Finished<'_>, segments_max: u32, example: impl FnOnce() -> Example) -> bool {
        self.count += 1;
        match (chain.begin_edge, chain.end_edge) {
            (true, true) => self.edges.both += 1,
            (true, false) => self.edges.begin_only += 1,
            (false, true) => self.edges.end_only += 1,
            (false, false) => {}
        }
        self.add_context(chain.context);
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(example());
        }
        let mut grew = false;
        for (counts, op) in self.ops.iter_mut().zip(chain.ops) {
            grew |= counts.add(op, segments_max);
        }
        grew
    }

    fn add_context(&mut self, context: Option<&ContextSet>) {
        let Some(context) = context else {
            self.contexts_not_kept += 1;
            return;
        };
        let key = context.key;
        let keys = self.context_keys.iter().enumerate();
        let mut same = keys.filter(|&(at, k)| *k == key && self.contexts[at].0 == *context);
        if let Some(at) = same.next().map(|(at, _)| at) {
            self.contexts[at].1 += 1;
            if at > 0 && self.contexts[at].1 > self.contexts[at - 1].1 {
                self.contexts.swap(at, at - 1);
                self.context_keys.swap(at, at - 1);
            }
        } else if self.contexts.len() < MAX_CONTEXTS {
            self.contexts.push((*context, 1));
            self.context_keys.push(key);
        } else {
            self.contexts_not_kept += 1;
        }
    }
}

impl OpCounts {
    fn add(&mut self, op: &FinishedOp, segments_max: u32) -> bool {
        let segments = op.segments.min(segments_max);
        let grew = segments > self.segments;
        self.segments = self.segments.max(segments);
        let (word, bit) = (op.who.index().min(MAX_WHO) / 64, op.who.index() % 64);
        if word >= self.who.len() {
            self.who.resize(word + 1, 0);
        }
        self.who[word] |= 1 << bit;
        if let Some(at) = self.calls.iter().position(|(c, _)| *c == op.call) {
            self.calls[at].1 += 1;
        } else if self.calls.len() < MAX_CALLS {
            self.calls.push((op.call, 1));
        } else {
            self.calls_not_kept += 1;
        }
        grew
    }

    /// Ranks that ran it.
    pub fn who(&self) -> impl Iterator<Item = WhoId> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 == 1);
        self.who
            .iter()
            .enumerate()
            .flat_map(move |(i, &word)| bits(word).map(move |b| WhoId(i as u32 * 64 + b)))
    }
}

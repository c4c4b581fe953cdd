//! Finished chains, counted by group.

use rustc_hash::FxHashMap;

use super::group::{ChainGroup, Example, Finished, GroupCounts, Work};
use super::ids::PathId;
use super::rank_counts::RankCounts;
use super::time_buckets::TimeAxis;
use crate::chains::op_names::SymbolId;
use crate::job::ids::WhoId;
use crate::job::names::id;
use crate::options::Options;

id!(/// A chain group.
    GroupId);

/// Most nodes of the trie of groups.
const MAX_PATHS: usize = 1 << 20;
/// What chains of ranks are told apart by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RankedBy {
    Group(GroupId),
    Work(Work),
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
    /// Those with counts that nobody has [taken](ChainGroups::take_counted).
    counted: Vec<GroupId>,
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
            counted: Vec::new(),
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
        for is_odd in self.axis.advance(time_ns) {
            self.by_group.halve(is_odd);
            self.by_work.halve(is_odd);
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
    pub fn add(&mut self, chain: &Finished<'_>, example: impl FnOnce() -> Option<Example>) {
        let Some(group) = self.group_of(chain.path).filter(|g| self.has_length(*g, chain.ops.len())) else {
            self.not_kept += 1;
            return;
        };
        self.chains += 1;
        self.distribute(group, chain);
        let known = &mut self.groups[group.index()];
        if known.count == 0 {
            known.was_counted = true;
            self.counted.push(group);
        }
        let grew = known.add(chain, self.pack_uniqueness_max, example);
        self.shape_version += u64::from(grew);
    }

    /// The group of chains of these operations, if there is room for it.
    pub fn group(&mut self, symbols: &[SymbolId]) -> Option<GroupId> {
        if symbols.is_empty() || symbols.len() > usize::from(u8::MAX) {
            return None;
        }
        let path = symbols.iter().fold(PathId::NONE, |path, &s| self.path(path, s));
        self.group_of(path).filter(|group| self.has_length(*group, symbols.len()))
    }

    /// Groups with counts that were not [taken](ChainGroups::take_counts).
    pub fn take_counted(&mut self) -> Vec<GroupId> {
        std::mem::take(&mut self.counted)
    }

    /// What was counted of a group since this was asked for last.
    pub fn take_counts(&mut self, group: GroupId) -> GroupCounts {
        self.groups[group.index()].take_counts()
    }

    /// Counts chains of a group that were counted elsewhere.
    pub fn absorb(&mut self, group: GroupId, counts: &GroupCounts, examples: Vec<Example>) {
        self.chains = self.chains.saturating_add(counts.count);
        let grew = self.groups[group.index()].absorb(counts, examples, self.pack_uniqueness_max);
        self.shape_version += u64::from(grew);
    }

    /// Counts chains of a rank that were counted elsewhere; they began in a bucket that all nodes call so.
    pub fn absorb_ranks(&mut self, what: RankedBy, who: WhoId, bucket: usize, count: u64) {
        let has_room = match what {
            RankedBy::Group(group) => self.by_group.add_many(group, who, bucket, count),
            RankedBy::Work(work) => self.by_work.add_many(work, who, bucket, count),
        };
        if !has_room {
            let time_ns = self.axis.bucket_begin_ns(bucket);
            self.axis.touch(time_ns, time_ns);
        }
    }

    /// Counts chains of a reference.
    pub fn add_reference(&mut self, symbols: &[SymbolId], segments: &[u32], count: u64) {
        let Some(group) = self.group(symbols) else { return };
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

//! Chains that go on on another node.
//!
//! What is written into a stream that another node reads is told to that node as soon as it is heard of, in *pieces*: a run of
//! pieces that follow one another in memory and in the stream has a number, its *handle*. There a *placeholder* stands for
//! what wrote them, and what reads them is linked to it as to any operation. A chain that begins in a placeholder is not
//! counted where it ends: its operations go back, as the *end* of a chain whose beginning is where the pieces came from. The
//! operation that wrote them is *held* meanwhile, as if it had one more child, until all of its pieces are *over*.
//!
//! No node waits for what another one has found out, only for what it has heard of: else nodes that answer each other would
//! go on as slowly as letters do. So nobody knows how long a chain is by then. One that is passed on again and again is *cut*:
//! what is behind the cut is a chain of its own.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::group::OpInstance;
use super::ids::NodeId;
use crate::chains::op_names::{ContextId, SymbolId};
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::names::SiteId;

/// Operations that are held at most; the first is cut for another one.
pub(super) const MOST_HELD: usize = 1 << 16;
/// Placeholders at most; what comes beyond is not linked.
const MOST_PLACEHOLDERS: usize = 1 << 20;
/// An operation that passes on what came from another node is held for so many ticks …
const PASSED_ON_TICKS: u64 = 16;
/// … and rounds, in each of which all nodes tell what they have seen: those that are slow have the time that they need.
const PASSED_ON_ROUNDS: u64 = 8;
/// Handles of cut holds that are remembered: ends of theirs may be under way.
const MOST_CUT: usize = 1 << 16;
/// Kinds of ends whose instances are counted.
const MOST_SHOWN: usize = 1 << 16;
/// Instances of each kind of end that are told whole, for people.
const SHOWN_OF_A_KIND: u8 = 3;

/// A part of a stream that was written here and is read on another node; or what was done to memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FarPiece {
    /// The node that reads it.
    pub to: u32,
    pub stream: u64,
    /// Where in the stream it begins, as TCP numbers it; or where the stream was when it was done.
    pub position: u32,
    pub len_bytes: u32,
    /// What it is a piece of; none: that is not known any more.
    pub handle: Option<u64>,
    /// No part of the stream: memory of the process that reads it.
    pub memory: Option<FarMemory>,
}

/// What a one-sided operation does to memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarAccess {
    Write,
    Read,
    /// Reads it, and puts something else there.
    Replace,
}

/// The memory of a one-sided operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FarMemory {
    pub access: FarAccess,
    /// In the process at the other end.
    pub addr: u64,
}

/// Handles of what is read belong to whoever has the memory, and are given by whoever reads.
const OF_READ: u64 = 1 << 63;

/// The handle of the n-th that a node gives.
pub(crate) fn handle_of_read(node: u32, number: u64) -> u64 {
    OF_READ | u64::from(node & 0xffff) << 40 | (number & ((1 << 40) - 1))
}

/// Whether a handle is one that a node gave to what it reads.
pub(crate) fn is_read_by(handle: u64, node: u32) -> bool {
    handle >> 40 == handle_of_read(node, 0) >> 40
}

/// One operation of the end of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndOp {
    pub symbol: SymbolId,
    pub who: WhoId,
    pub call: CallSiteId,
    pub segments: u32,
}

/// The end of a chain that goes back to the node on which what is before it is.
#[derive(Clone, Debug)]
pub(crate) struct ChainEnd {
    pub to: u32,
    /// What it follows.
    pub handle: u64,
    pub ops: Vec<EndOp>,
    /// When the first of them happened.
    pub begin_ns: u64,
    /// What came after it in its thread.
    pub after: Vec<ContextId>,
    /// What is before the first of them may not have been seen, if nothing was.
    pub begin_edge: bool,
    /// It ends where nobody looked any further.
    pub end_edge: bool,
    /// A loss may have changed it.
    pub is_tainted: bool,
    /// All of its operations, for people; none if there were enough like that.
    pub instances: Vec<OpInstance>,
}

/// What has become of pieces: nothing more comes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PiecesOver {
    pub to: u32,
    pub handle: u64,
    /// How many they are.
    pub pieces: u32,
    /// An operation went on with them.
    pub had_child: bool,
    /// They were read, whether or not anything went on.
    pub was_read: bool,
    /// They were there when nobody looked any further.
    pub end_edge: bool,
    /// A loss may have hidden that they were read.
    pub is_tainted: bool,
}

/// Tells apart what is before pieces: ends that follow other operations are another kind of chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceKind {
    pub to: u32,
    pub handle: u64,
    pub kind: u32,
}

/// A handle that another node is to treat as a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainCut {
    pub to: u32,
    pub handle: u64,
}

/// What is known of a run of pieces that another node reads.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// That node.
    pub to: u32,
    /// What wrote them, once that is known.
    pub node: Option<NodeId>,
    /// Pieces that were told, …
    pub told: u32,
    /// … those of which it is known what wrote them, …
    pub bound: u32,
    /// … and those that are over.
    pub over: u32,
    /// Together, for all that are over.
    pub fate: PiecesOver,
    /// Nobody here had read it when it was first held.
    pub was_unread: bool,
    /// Nothing wrote it that might have been seen.
    pub is_first: bool,
    /// An end was added to its chain.
    pub has_end: bool,
    /// One was not: it became a chain of its own.
    pub has_cut_end: bool,
    /// Ends that came before it was known what they follow.
    pub early: Vec<ChainEnd>,
}

impl Hold {
    /// Nothing more comes of it.
    pub fn is_over(&self) -> bool {
        self.over >= self.told && self.bound >= self.told
    }
}

/// What stands for an operation of another node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placeholder {
    pub owner: u32,
    pub handle: u64,
    pub pieces: u32,
    /// Of what is before it, once that is known.
    pub kind: Option<u32>,
    /// Another one of the same handle.
    pub earlier: Option<NodeId>,
}

/// How far time has gone.
#[derive(Clone, Copy, Default)]
struct Age {
    ticks: u64,
    rounds: u64,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct FarChains {
    holds: FxHashMap<u64, Hold>,
    /// All of them, and some that are over, in the order in which they were first told.
    in_order: VecDeque<u64>,
    /// Operations that pass on what came from elsewhere, and since when they are held.
    passed_on: VecDeque<(Age, u64)>,
    age: Age,
    /// Those cut lately, in order.
    cut: VecDeque<u64>,
    is_cut: FxHashSet<u64>,
    placeholders: FxHashMap<NodeId, Placeholder>,
    /// The last placeholder of each handle.
    by_handle: FxHashMap<(u32, u64), NodeId>,
    /// By a number made of the node and all of the chain's operations.
    shown: FxHashMap<u64, u8>,
    /// Sites of operations that go on with what another node wrote.
    pub joined: FxHashSet<SiteId>,
    /// What other nodes are to be told, in order.
    pub ends: Vec<ChainEnd>,
    pub over: Vec<PiecesOver>,
    pub kinds: Vec<PieceKind>,
    pub cuts: Vec<ChainCut>,
}

impl FarChains {
    /// Runs of pieces that are held.
    pub fn held(&self) -> usize {
        self.holds.len()
    }

    /// One more piece of a run was told to a node.
    pub(super) fn tell(&mut self, handle: u64, to: u32) {
        if !self.holds.contains_key(&handle) {
            self.note_order(handle);
        }
        let hold = self.holds.entry(handle).or_insert_with(|| Hold {
            to,
            node: None,
            told: 0,
            bound: 0,
            over: 0,
            fate: PiecesOver::default(),
            was_unread: false,
            is_first: false,
            has_end: false,
            has_cut_end: false,
            early: Vec::new(),
        });
        hold.told = hold.told.saturating_add(1);
    }

    /// The first hold, if there are too many.
    pub(super) fn surplus(&mut self) -> Option<u64> {
        if self.holds.len() <= MOST_HELD {
            return None;
        }
        while let Some(first) = self.in_order.pop_front() {
            if self.holds.contains_key(&first) {
                return Some(first);
            }
        }
        None
    }

    fn note_order(&mut self, handle: u64) {
        if self.in_order.len() > 2 * MOST_HELD {
            let Self { in_order, holds, .. } = self;
            in_order.retain(|handle| holds.contains_key(handle));
        }
        self.in_order.push_back(handle);
    }

    pub(super) fn get(&self, handle: u64) -> Option<&Hold> {
        self.holds.get(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: u64) -> Option<&mut Hold> {
        self.holds.get_mut(&handle)
    }

    pub(super) fn remove(&mut self, handle: u64) -> Option<Hold> {
        self.holds.remove(&handle)
    }

    /// Handles of what is held for a node, or for any; in order.
    pub(super) fn held_for(&self, to: Option<u32>) -> Vec<u64> {
        let wanted = self.holds.iter().filter(|(_, hold)| to.is_none_or(|to| hold.to == to));
        let mut handles: Vec<u64> = wanted.map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        handles
    }

    /// What a handle stands for passes on what came from elsewhere.
    pub(super) fn note_passed_on(&mut self, handle: u64) {
        self.passed_on.push_back((self.age, handle));
    }

    /// Time goes on.
    pub(super) fn tick(&mut self) {
        self.age.ticks += 1;
    }

    /// One more round has passed.
    pub fn pass_round(&mut self) {
        self.age.rounds += 1;
    }

    /// A handle of those that pass on, if it is held for too long; `at_once`: for however long.
    pub(super) fn take_passed_on(&mut self, at_once: bool) -> Option<u64> {
        let Age { ticks, rounds } = self.age;
        let is_old = |(since, _): &mut (Age, u64)| {
            at_once || (since.ticks + PASSED_ON_TICKS <= ticks && since.rounds + PASSED_ON_ROUNDS <= rounds)
        };
        self.passed_on.pop_front_if(is_old).map(|(_, handle)| handle)
    }

    /// Remembers a cut, and tells it.
    pub(super) fn note_cut(&mut self, handle: u64, to: u32) {
        if self.cut.len() >= MOST_CUT
            && let Some(first) = self.cut.pop_front()
        {
            self.is_cut.remove(&first);
        }
        self.cut.push_back(handle);
        self.is_cut.insert(handle);
        self.cuts.push(ChainCut { to, handle });
    }

    /// Whether a handle was cut lately.
    pub(super) fn was_cut(&self, handle: u64) -> bool {
        self.is_cut.contains(&handle)
    }

    /// The last placeholder of a handle.
    pub(super) fn placeholder_of(&self, owner: u32, handle: u64) -> Option<NodeId> {
        self.by_handle.get(&(owner, handle)).copied()
    }

    pub(super) fn placeholder(&self, node: NodeId) -> Option<&Placeholder> {
        self.placeholders.get(&node)
    }

    /// One more piece of a placeholder.
    pub(super) fn add_piece(&mut self, node: NodeId) {
        if let Some(placeholder) = self.placeholders.get_mut(&node) {
            placeholder.pieces = placeholder.pieces.saturating_add(1);
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.placeholders.len() < MOST_PLACEHOLDERS
    }

    pub(super) fn add_placeholder(&mut self, node: NodeId, owner: u32, handle: u64) {
        let earlier = self.by_handle.insert((owner, handle), node);
        let kind = earlier.and_then(|earlier| self.placeholder(earlier)?.kind);
        self.placeholders.insert(node, Placeholder { owner, handle, pieces: 1, kind, earlier });
    }

    /// What is before the pieces of a handle is known.
    pub fn note_kind(&mut self, owner: u32, of: &PieceKind) {
        let node = self.placeholder_of(owner, of.handle);
        if let Some(placeholder) = node.and_then(|node| self.placeholders.get_mut(&node)) {
            placeholder.kind = Some(of.kind);
        }
    }

    pub(super) fn remove_placeholder(&mut self, node: NodeId) -> Option<Placeholder> {
        let placeholder = self.placeholders.remove(&node)?;
        let key = (placeholder.owner, placeholder.handle);
        if self.by_handle.get(&key) == Some(&node) {
            self.by_handle.remove(&key);
        }
        Some(placeholder)
    }

    /// Placeholders of a node, in no order.
    pub(super) fn placeholders_of(&self, owner: u32) -> Vec<NodeId> {
        let all = self.placeholders.iter().filter(|(_, placeholder)| placeholder.owner == owner);
        all.map(|(node, _)| *node).collect()
    }

    /// Whether an end that follows a placeholder is to be told whole.
    pub(super) fn is_shown(&mut self, behind: &Placeholder, ops: &[EndOp]) -> bool {
        let Some(kind) = behind.kind else { return true };
        let mut hasher = FxHasher::default();
        (behind.owner, kind).hash(&mut hasher);
        ops.iter().for_each(|op| op.symbol.hash(&mut hasher));
        let key = hasher.finish();
        let is_full = self.shown.len() >= MOST_SHOWN && !self.shown.contains_key(&key);
        let shown = if is_full { return false } else { self.shown.entry(key).or_default() };
        let is_shown = *shown < SHOWN_OF_A_KIND;
        *shown += u8::from(is_shown);
        is_shown
    }
}

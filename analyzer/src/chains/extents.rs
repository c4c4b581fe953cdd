//! Ranges of addresses that do not overlap, in order, each with the operation that wrote it.
//!
//! They lie in leaves of a few, so that a change moves little. Buffers are used again and again: hints
//! remember where in a leaf an address was found last. A hint may be wrong, which shows by looking
//! there; then the leaf is searched for.

use super::ids::NodeId;

/// Ranges of a leaf.
const LEAF: usize = 16;
/// Leaves whose ranges would fit into so much become one.
const MERGED: usize = LEAF / 2;
/// Bits of a hint that say which of a leaf's places is meant: its end is one of them.
const SLOT_BITS: u32 = LEAF.ilog2() + 1;
const NO_LEAF: u32 = u32::MAX;

/// A range, still as an operation wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub start: u64,
    pub end: u64,
    pub node: NodeId,
}

const NOTHING: Extent = Extent { start: 0, end: 0, node: NodeId::NONE };

/// A range, or the place behind the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    leaf: u32,
    slot: u32,
}

struct Leaf {
    len: u32,
    next: u32,
    extents: [Extent; LEAF],
}

impl Leaf {
    #[inline]
    fn all(&self) -> &[Extent] {
        &self.extents[..self.len as usize]
    }
}

/// See the [module](self). What most questions touch is one line of the cache.
#[repr(C, align(64))]
pub(crate) struct Extents {
    /// Places that were found, by their addresses, the last one first.
    hints: Vec<[u32; 2]>,
    leaves: Vec<Leaf>,
    /// No range was ever below this …
    low: u64,
    /// … or reached above this.
    high: u64,
    /// First address of each leaf that is in use, in order; of the very first leaf, that or less.
    firsts: Vec<u64>,
    /// Which leaves these are.
    order: Vec<u32>,
    free: Vec<u32>,
    len: usize,
}

impl Default for Extents {
    fn default() -> Self {
        Self {
            hints: Vec::new(),
            leaves: Vec::new(),
            low: u64::MAX,
            high: 0,
            firsts: Vec::new(),
            order: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

impl Extents {
    /// Whether there never were ranges between two addresses, if that is seen at once.
    #[inline]
    pub fn is_outside(&self, start: u64, end: u64) -> bool {
        end <= self.low || self.high <= start
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The place of the range that has an address, if that is seen at once.
    #[inline(always)]
    pub fn near(&self, addr: u64) -> Option<(At, &Extent)> {
        for &hint in self.hints.get(hint_slot(addr, self.hints.len()))? {
            let at = At { leaf: hint >> SLOT_BITS, slot: hint % (1 << SLOT_BITS) };
            // What is behind a leaf's last range has no addresses.
            let extent =
                self.leaves.get(at.leaf as usize).and_then(|leaf| leaf.extents.get(at.slot as usize));
            if let Some(extent) = extent.filter(|extent| extent.start <= addr && addr < extent.end) {
                return Some((at, extent));
            }
        }
        None
    }

    /// The first range that ends behind an address.
    pub fn find(&mut self, addr: u64) -> At {
        let slot = hint_slot(addr, self.hints.len());
        let Some(&hints) = self.hints.get(slot) else { return self.search(addr) };
        for hint in hints {
            let at = At { leaf: hint >> SLOT_BITS, slot: hint % (1 << SLOT_BITS) };
            if self.is_first_behind(addr, at) {
                return at;
            }
        }
        let at = self.search(addr);
        self.hints[slot] = [at.leaf << SLOT_BITS | at.slot, hints[0]];
        at
    }

    /// Whether the first range that ends behind an address is at a place.
    #[inline]
    fn is_first_behind(&self, addr: u64, at: At) -> bool {
        let Some(leaf) = self.leaves.get(at.leaf as usize) else { return false };
        let (all, slot) = (leaf.all(), at.slot as usize);
        match all.get(slot) {
            Some(extent) if extent.start <= addr => addr < extent.end,
            Some(_) if slot == 0 => self.order.first() == Some(&at.leaf),
            Some(_) => all[slot - 1].end <= addr,
            None => leaf.next == NO_LEAF && slot > 0 && slot == all.len() && all[slot - 1].end <= addr,
        }
    }

    fn search(&self, addr: u64) -> At {
        let index = self.index_of(addr);
        let Some(&leaf) = self.order.get(index) else { return At { leaf: NO_LEAF, slot: 0 } };
        let all = self.leaves[leaf as usize].all();
        let slot = all.partition_point(|extent| extent.end <= addr);
        self.settled(At { leaf, slot: slot as u32 })
    }

    /// Which of the leaves in order an address belongs to.
    fn index_of(&self, addr: u64) -> usize {
        self.firsts.partition_point(|first| *first <= addr).saturating_sub(1)
    }

    /// The first of the next leaf in place of the end of one.
    #[inline]
    fn settled(&self, at: At) -> At {
        let leaf = &self.leaves[at.leaf as usize];
        if at.slot == leaf.len && leaf.next != NO_LEAF { At { leaf: leaf.next, slot: 0 } } else { at }
    }

    /// The range at a place; `None` behind the last one.
    #[inline]
    pub fn get(&self, at: At) -> Option<&Extent> {
        self.leaves.get(at.leaf as usize)?.all().get(at.slot as usize)
    }

    /// Another operation wrote a range; gives back the one before.
    #[inline(always)]
    pub fn set_node(&mut self, at: At, node: NodeId) -> NodeId {
        std::mem::replace(&mut self.leaves[at.leaf as usize].extents[at.slot as usize].node, node)
    }

    /// A range ends elsewhere, before the next one begins.
    pub fn set_end(&mut self, at: At, end: u64) {
        self.leaves[at.leaf as usize].extents[at.slot as usize].end = end;
        self.high = self.high.max(end);
    }

    /// A range begins elsewhere, behind the one before it.
    pub fn set_start(&mut self, at: At, start: u64) {
        let extent = &mut self.leaves[at.leaf as usize].extents[at.slot as usize];
        let old = std::mem::replace(&mut extent.start, start);
        if at.slot == 0 {
            let index = self.index_of(old);
            self.firsts[index] = start;
        }
    }

    /// The place behind a range.
    #[inline]
    pub fn next(&self, at: At) -> At {
        self.settled(At { slot: at.slot + 1, ..at })
    }

    /// The range before a place.
    pub fn previous(&self, at: At) -> Option<At> {
        if at.slot > 0 {
            return Some(At { slot: at.slot - 1, ..at });
        }
        let first = self.get(at)?.start;
        let leaf = *self.order.get(self.index_of(first).checked_sub(1)?)?;
        Some(At { leaf, slot: self.leaves[leaf as usize].len - 1 })
    }

    /// Puts a range before a place; it overlaps none. Gives back its place.
    pub fn insert(&mut self, at: At, extent: Extent) -> At {
        self.len += 1;
        self.low = self.low.min(extent.start);
        self.high = self.high.max(extent.end);
        if at.leaf == NO_LEAF {
            let leaf = self.new_leaf();
            self.firsts.push(extent.start);
            self.order.push(leaf);
            return self.put(At { leaf, slot: 0 }, extent);
        }
        let at = if self.leaves[at.leaf as usize].len as usize == LEAF { self.split(at) } else { at };
        if at.slot == 0 {
            let old = self.leaves[at.leaf as usize].extents[0].start;
            let index = self.index_of(old);
            self.firsts[index] = extent.start;
        }
        self.put(at, extent)
    }

    fn put(&mut self, at: At, extent: Extent) -> At {
        let leaf = &mut self.leaves[at.leaf as usize];
        let (slot, len) = (at.slot as usize, leaf.len as usize);
        leaf.extents.copy_within(slot..len, slot + 1);
        leaf.extents[slot] = extent;
        leaf.len += 1;
        at
    }

    /// Moves half of a full leaf to a new one; gives back where a place is then.
    fn split(&mut self, at: At) -> At {
        const HALF: usize = LEAF / 2;
        let new = self.new_leaf();
        let leaf = &mut self.leaves[at.leaf as usize];
        let (first, next) = (leaf.extents[0].start, std::mem::replace(&mut leaf.next, new));
        let mut moved = [NOTHING; LEAF];
        moved[..HALF].copy_from_slice(&leaf.extents[HALF..]);
        leaf.len = HALF as u32;
        leaf.extents[HALF..].fill(NOTHING);
        self.leaves[new as usize] = Leaf { len: HALF as u32, next, extents: moved };
        let index = self.index_of(first) + 1;
        self.firsts.insert(index, moved[0].start);
        self.order.insert(index, new);
        // Between the two halves it is at the end of the first.
        match at.slot as usize {
            slot if slot > HALF => At { leaf: new, slot: (slot - HALF) as u32 },
            _ => at,
        }
    }

    fn new_leaf(&mut self) -> u32 {
        let empty = Leaf { len: 0, next: NO_LEAF, extents: [NOTHING; LEAF] };
        if let Some(leaf) = self.free.pop() {
            self.leaves[leaf as usize] = empty;
            return leaf;
        }
        self.leaves.push(empty);
        let wanted = self.leaves.len() * LEAF;
        if wanted > self.hints.len() {
            self.hints.clear();
            self.hints.resize(2 * wanted.next_power_of_two(), [0; 2]);
        }
        self.leaves.len() as u32 - 1
    }

    /// Removes a range; gives back the place behind it.
    pub fn remove(&mut self, at: At) -> At {
        self.len -= 1;
        let leaf = &mut self.leaves[at.leaf as usize];
        let (slot, len, first) = (at.slot as usize, leaf.len as usize, leaf.extents[0].start);
        leaf.extents.copy_within(slot + 1..len, slot);
        leaf.extents[len - 1] = NOTHING;
        leaf.len -= 1;
        if len > MERGED && slot > 0 {
            return self.settled(at);
        }
        let index = self.index_of(first);
        if len == 1 {
            return self.drop_leaf(index);
        }
        if slot == 0 {
            self.firsts[index] = self.leaves[at.leaf as usize].extents[0].start;
        }
        let at = self.merge(index, at);
        let at = match index.checked_sub(1) {
            Some(before) => self.merge(before, at),
            None => at,
        };
        self.settled(at)
    }

    /// Forgets an empty leaf; gives back the place behind it.
    fn drop_leaf(&mut self, index: usize) -> At {
        let leaf = self.order.remove(index);
        self.firsts.remove(index);
        self.free.push(leaf);
        let next = self.leaves[leaf as usize].next;
        let before = index.checked_sub(1).map(|before| self.order[before]);
        if let Some(before) = before {
            self.leaves[before as usize].next = next;
        }
        match (next, before) {
            (NO_LEAF, Some(before)) => At { leaf: before, slot: self.leaves[before as usize].len },
            (next, _) => At { leaf: next, slot: 0 },
        }
    }

    /// Makes one of a leaf and the next, if both have few ranges; gives back where a place is then.
    fn merge(&mut self, index: usize, at: At) -> At {
        let (Some(&leaf), Some(&next)) = (self.order.get(index), self.order.get(index + 1)) else {
            return at;
        };
        let Leaf { len: more, next: last, extents: moved } = self.leaves[next as usize];
        let into = &mut self.leaves[leaf as usize];
        let len = into.len as usize;
        if len + more as usize > MERGED {
            return at;
        }
        into.extents[len..len + more as usize].copy_from_slice(&moved[..more as usize]);
        into.len += more;
        into.next = last;
        self.leaves[next as usize] = Leaf { len: 0, next: NO_LEAF, extents: [NOTHING; LEAF] };
        self.order.remove(index + 1);
        self.firsts.remove(index + 1);
        self.free.push(next);
        if at.leaf == next { At { leaf, slot: at.slot + len as u32 } } else { at }
    }
}

/// All bits of an address count, since buffers begin at round ones. What is near each other (a header and its
/// payload) is so here too.
#[inline(always)]
fn hint_slot(addr: u64, hints: usize) -> usize {
    let product = u128::from(addr >> 9) * 0x9e37_79b9_7f4a_7c15;
    let mixed = (product >> 64) as u64 ^ product as u64;
    let within = (mixed >> 60 ^ addr ^ addr >> 3 ^ addr >> 6) & 3;
    (mixed << 2 | within) as usize & hints.wrapping_sub(1)
}

//! What surrounded a chain.

use crate::chains::op_names::ContextId;
use crate::options::MAX_CONTEXT_WINDOW;

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

    /// A number that is the same for equal sets, and mostly another for others.
    #[inline]
    pub fn key(&self) -> u32 {
        self.key
    }

    /// Operations before the chain.
    pub fn before(&self) -> impl ExactSizeIterator<Item = ContextId> {
        known(&self.before)
    }

    /// Operations behind it.
    pub fn after(&self) -> impl ExactSizeIterator<Item = ContextId> {
        known(&self.after)
    }

    pub fn has_before(&self, op: ContextId) -> bool {
        self.before.contains(&op)
    }

    pub fn has_after(&self, op: ContextId) -> bool {
        self.after.contains(&op)
    }
}

/// What is there comes first.
fn known(ops: &[ContextId; MAX_CONTEXT_WINDOW]) -> impl ExactSizeIterator<Item = ContextId> {
    let count = ops.iter().take_while(|op| op.is_some()).count();
    ops[..count].iter().copied()
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

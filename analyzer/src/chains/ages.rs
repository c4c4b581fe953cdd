//! Live nodes in order of age.

use super::ids::NodeId;

/// One entry an operation, so that a node is found, and forgotten when it dies, by its number alone.
#[derive(Default)]
pub struct Ages {
    /// The node of an operation is at the last bits of its number: as many entries as a power of two.
    ring: Vec<NodeId>,
    /// The oldest operation with an entry.
    first_op: u64,
    /// The next operation.
    next_op: u64,
}

impl Ages {
    /// Adds the node of the next operation.
    #[inline(always)]
    pub fn push(&mut self, node: NodeId) {
        if self.next_op - self.first_op == self.ring.len() as u64 {
            self.grow();
        }
        let at = self.at(self.next_op);
        self.ring[at] = node;
        self.next_op += 1;
    }

    #[inline(always)]
    fn at(&self, op: u64) -> usize {
        op as usize & (self.ring.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        const FIRST: usize = 256;
        let mut ring = vec![NodeId::NONE; FIRST.max(2 * self.ring.len())];
        for op in self.first_op..self.next_op {
            ring[op as usize & (2 * self.ring.len() - 1)] = self.ring[self.at(op)];
        }
        self.ring = ring;
    }

    /// The operation's node is not live any more.
    #[inline]
    pub fn forget(&mut self, op: u64) {
        if op >= self.first_op {
            let at = self.at(op);
            self.ring[at] = NodeId::NONE;
        }
    }

    /// Takes the oldest live node, if its operation was before `op`.
    #[inline(always)]
    pub fn pop_before(&mut self, op: u64) -> Option<NodeId> {
        while self.first_op < self.next_op {
            let node = self.ring[self.at(self.first_op)];
            if node.is_some() && self.first_op >= op {
                return None;
            }
            self.first_op += 1;
            if node.is_some() {
                return Some(node);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_not_forgotten_comes_first() {
        let mut ages = Ages::default();
        for op in 0..1000 {
            ages.push(NodeId(op));
            if op % 10 != 0 {
                ages.forget(u64::from(op));
            }
        }
        assert_eq!(ages.pop_before(0), None);
        assert_eq!(ages.pop_before(11), Some(NodeId(0)));
        assert_eq!(ages.pop_before(11), Some(NodeId(10)));
        assert_eq!(ages.pop_before(11), None);
        // Gone already: nothing happens to whoever has its entry now.
        ages.forget(0);
        let rest = std::iter::from_fn(|| ages.pop_before(u64::MAX));
        assert_eq!(rest.map(|node| node.0).collect::<Vec<_>>(), (2..100).map(|n| n * 10).collect::<Vec<_>>());
    }
}

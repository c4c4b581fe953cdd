//! Which operation wrote the bytes of an address space last.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::chains::NodeId;

/// Some bytes of an operation's destination, still as it wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    end: u64,
    node: NodeId,
}

/// Bytes that an operation lost.
pub(crate) type Loss = (NodeId, u64);

/// The live destinations of one space: ranges that do not overlap.
///
/// Buffers are mostly used again as they are: ranges are found by their first address, and
/// the tree is asked only when that fails.
#[derive(Default)]
pub(crate) struct LiveMap {
    extents: FxHashMap<u64, Extent>,
    /// End by start of the same ranges.
    order: BTreeMap<u64, u64>,
}

impl LiveMap {
    /// The operation that wrote all of a range, if that is seen at once.
    #[inline]
    pub fn writer_of_all(&self, start: u64, end: u64) -> Option<NodeId> {
        self.extents.get(&start).filter(|e| e.end >= end).map(|e| e.node)
    }

    /// Calls `f` with each operation that wrote bytes of a range.
    pub fn read(&self, start: u64, end: u64, mut f: impl FnMut(NodeId, u64)) {
        for (s, e) in self.order.range(..end).rev().take_while(|(_, e)| **e > start) {
            f(self.extents[s].node, (*e).min(end) - (*s).max(start));
        }
    }

    /// `node` writes a range; what others had there is lost to them.
    pub fn write(&mut self, start: u64, end: u64, node: NodeId, lost: &mut Vec<Loss>) {
        if let Some(extent) = self.extents.get_mut(&start).filter(|e| e.end == end) {
            lost.push((extent.node, end - start));
            extent.node = node;
            return;
        }
        self.remove(start, end, lost);
        let before = self.order.range(..start).next_back().map(|(&s, &e)| (s, e));
        match before {
            // One operation goes on: one range.
            Some((s, e)) if e == start && self.extents[&s].node == node => self.set_end(s, end),
            _ => self.insert(start, Extent { end, node }),
        }
    }

    /// Nobody's bytes from here on.
    pub fn remove(&mut self, start: u64, end: u64, lost: &mut Vec<Loss>) {
        while let Some((s, e)) = self.last_within(start, end) {
            let extent = Extent { end: e, ..self.extents[&s] };
            if s < start {
                self.set_end(s, start);
            } else {
                self.order.remove(&s);
                self.extents.remove(&s);
            }
            if e > end {
                self.insert(end, extent);
            }
            lost.push((extent.node, e.min(end) - s.max(start)));
        }
    }

    /// Removes what one operation still has in a range.
    pub fn remove_node(&mut self, start: u64, end: u64, node: NodeId) {
        let inside = self.order.range(..end).rev().take_while(|(_, e)| **e > start);
        let own: Vec<u64> = inside.map(|(&s, _)| s).filter(|s| self.extents[s].node == node).collect();
        for start in own {
            self.order.remove(&start);
            self.extents.remove(&start);
        }
    }

    /// Removes everything.
    pub fn clear(&mut self, lost: &mut Vec<Loss>) {
        let extents = std::mem::take(&mut self.extents);
        let order = std::mem::take(&mut self.order);
        lost.extend(order.into_iter().map(|(start, end)| (extents[&start].node, end - start)));
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The last range that has bytes between these.
    fn last_within(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&s, &e) = self.order.range(..end).next_back()?;
        (e > start).then_some((s, e))
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        self.order.insert(start, extent.end);
        self.extents.insert(start, extent);
    }

    fn set_end(&mut self, start: u64, end: u64) {
        self.order.insert(start, end);
        if let Some(extent) = self.extents.get_mut(&start) {
            extent.end = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_write_inside_a_range_leaves_both_ends() {
        let mut map = LiveMap::default();
        let mut lost = Vec::new();
        map.write(0, 100, NodeId(1), &mut lost);
        map.write(40, 60, NodeId(2), &mut lost);
        assert_eq!(lost, [(NodeId(1), 20)]);
        let mut seen = Vec::new();
        map.read(30, 70, |node, bytes| seen.push((node.0, bytes)));
        assert_eq!(seen, [(1, 10), (2, 20), (1, 10)]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, u64),
        Remove(u64, u64),
        RemoveNode(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..60u64, 1..12u64).prop_map(|(s, n)| Step::Write(s, s + n)),
            1 => (0..60u64, 1..12u64).prop_map(|(s, n)| Step::Remove(s, s + n)),
            1 => (0..40u32).prop_map(Step::RemoveNode),
        ];
        proptest::collection::vec(step, 1..40)
    }

    proptest! {
        #[test]
        fn ranges_say_what_single_bytes_say(steps in steps()) {
            let mut map = LiveMap::default();
            let mut bytes = [None; 80];
            for (number, step) in steps.iter().enumerate() {
                let node = NodeId(number as u32);
                let before = bytes;
                let mut lost = Vec::new();
                match *step {
                    Step::Write(s, e) => {
                        map.write(s, e, node, &mut lost);
                        bytes[s as usize..e as usize].fill(Some(node));
                    }
                    Step::Remove(s, e) => {
                        map.remove(s, e, &mut lost);
                        bytes[s as usize..e as usize].fill(None);
                    }
                    Step::RemoveNode(n) => {
                        map.remove_node(0, 80, NodeId(n));
                        bytes.iter_mut().filter(|b| **b == Some(NodeId(n))).for_each(|b| *b = None);
                    }
                }
                let mut read = [None; 80];
                let mut at = 0;
                for i in 0..80u64 {
                    map.read(i, i + 1, |node, _| read[i as usize] = Some(node));
                }
                map.read(0, 80, |_, bytes| at += bytes);
                prop_assert_eq!(read, bytes);
                prop_assert_eq!(at, bytes.iter().flatten().count() as u64);
                if !matches!(step, Step::RemoveNode(_)) {
                    let changed = (0..80).filter(|&i| before[i].is_some() && before[i] != bytes[i]).count();
                    let told: u64 = lost.iter().map(|l| l.1).sum();
                    prop_assert_eq!(told, changed as u64);
                }
            }
        }
    }
}

//! Which operation wrote the bytes of an address space last.

use std::collections::BTreeMap;

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
#[derive(Default)]
pub(crate) struct LiveMap {
    extents: BTreeMap<u64, Extent>,
}

impl LiveMap {
    /// Calls `f` with each operation that wrote bytes of a range, in order of address.
    pub fn read(&self, start: u64, end: u64, mut f: impl FnMut(NodeId, u64)) {
        let before = self.extents.range(..start).next_back();
        if let Some((_, e)) = before.filter(|(_, e)| e.end > start) {
            f(e.node, e.end.min(end) - start);
        }
        for (&s, e) in self.extents.range(start..end) {
            f(e.node, e.end.min(end) - s);
        }
    }

    /// `node` writes a range; what others had there is lost to them.
    pub fn write(&mut self, start: u64, end: u64, node: NodeId, lost: &mut Vec<Loss>) {
        if self.rewrite(start, end, node, lost) {
            return;
        }
        self.remove(start, end, lost);
        if let Some((_, before)) = self.extents.range_mut(..start).next_back()
            && before.end == start
            && before.node == node
        {
            before.end = end;
            return;
        }
        self.extents.insert(start, Extent { end, node });
    }

    /// The common case: exactly the range of an older operation.
    fn rewrite(&mut self, start: u64, end: u64, node: NodeId, lost: &mut Vec<Loss>) -> bool {
        let Some(extent) = self.extents.get_mut(&start).filter(|e| e.end == end) else { return false };
        lost.push((extent.node, end - start));
        extent.node = node;
        true
    }

    /// Nobody's bytes from here on.
    pub fn remove(&mut self, start: u64, end: u64, lost: &mut Vec<Loss>) {
        if let Some((_, before)) = self.extents.range_mut(..start).next_back()
            && before.end > start
        {
            let old = *before;
            before.end = start;
            lost.push((old.node, old.end.min(end) - start));
            if old.end > end {
                self.extents.insert(end, old);
                return;
            }
        }
        while let Some((&s, &e)) = self.extents.range(start..end).next() {
            self.extents.remove(&s);
            lost.push((e.node, e.end.min(end) - s));
            if e.end > end {
                self.extents.insert(end, e);
                return;
            }
        }
    }

    /// Removes what one operation still has in a range.
    pub fn remove_node(&mut self, start: u64, end: u64, node: NodeId) {
        let first = self.extents.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let own = self.extents.range(first..end).filter(|(_, e)| e.node == node);
        let own: Vec<u64> = own.map(|(&s, _)| s).collect();
        for start in own {
            self.extents.remove(&start);
        }
    }

    /// Removes everything.
    pub fn clear(&mut self, lost: &mut Vec<Loss>) {
        lost.extend(std::mem::take(&mut self.extents).into_iter().map(|(s, e)| (e.node, e.end - s)));
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.extents.len()
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

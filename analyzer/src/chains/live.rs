//! Which operation wrote the bytes of an address space last.

use super::extents::{At, Extent, Extents};
use super::ids::NodeId;

/// Bytes that an operation lost.
pub(crate) type Overwritten = (NodeId, u64);

/// The live destinations of one space.
#[derive(Default)]
pub(crate) struct LiveMap {
    extents: Extents,
}

impl LiveMap {
    /// Whether nobody ever wrote bytes of a range, if that is seen at once.
    #[inline(always)]
    pub fn is_outside(&self, start: u64, end: u64) -> bool {
        self.extents.is_outside(start, end)
    }

    /// The operation that wrote all of a range, if that is seen at once.
    #[inline(always)]
    pub fn whole(&self, start: u64, end: u64) -> Option<NodeId> {
        let (_, extent) = self.extents.near(start)?;
        (extent.end >= end).then_some(extent.node)
    }

    /// Calls `f` with each operation that wrote bytes of a range, once for each piece.
    pub fn read(&mut self, start: u64, end: u64, mut f: impl FnMut(NodeId, u64)) {
        let mut at = self.extents.find(start);
        while let Some(e) = self.extents.get(at).filter(|e| e.start < end) {
            f(e.node, e.end.min(end) - e.start.max(start));
            if e.end >= end {
                return;
            }
            at = self.extents.next(at);
        }
    }

    /// A range that an operation wrote as it is, if that is seen at once, and the operation.
    #[inline(always)]
    pub fn same(&self, start: u64, end: u64) -> Option<(At, NodeId)> {
        let (at, extent) = self.extents.near(start)?;
        (extent.start == start && extent.end == end).then_some((at, extent.node))
    }

    /// `node` writes the same range again.
    #[inline(always)]
    pub fn replace(&mut self, at: At, node: NodeId) {
        self.extents.set_node(at, node);
    }

    /// `node` writes a range; what others had there is lost to them.
    pub fn write(&mut self, start: u64, end: u64, node: NodeId, lost: &mut Vec<Overwritten>) {
        let at = self.extents.find(start);
        if self.extents.get(at).is_some_and(|e| e.start == start && e.end == end) {
            lost.push((self.extents.set_node(at, node), end - start));
            return;
        }
        self.remove(start, end, lost);
        let at = self.extents.find(start);
        let before = self.extents.previous(at);
        let goes_on = |e: &Extent| e.end == start && e.node == node;
        match before.filter(|&before| self.extents.get(before).is_some_and(goes_on)) {
            // One operation goes on: one range.
            Some(before) => self.extents.set_end(before, end),
            None => {
                self.extents.insert(at, Extent { start, end, node });
            }
        }
    }

    /// Nobody's bytes from here on. What is lost is told from the highest address on.
    pub fn remove(&mut self, start: u64, end: u64, lost: &mut Vec<Overwritten>) {
        let first = lost.len();
        let mut at = self.extents.find(start);
        while let Some(&e) = self.extents.get(at).filter(|e| e.start < end) {
            lost.push((e.node, e.end.min(end) - e.start.max(start)));
            match (e.start < start, e.end > end) {
                (true, true) => {
                    self.extents.set_end(at, start);
                    let rest = self.extents.next(at);
                    self.extents.insert(rest, Extent { start: end, ..e });
                    break;
                }
                (true, false) => {
                    self.extents.set_end(at, start);
                    at = self.extents.next(at);
                }
                (false, true) => {
                    self.extents.set_start(at, end);
                    break;
                }
                (false, false) => at = self.extents.remove(at),
            }
        }
        lost[first..].reverse();
    }

    /// Removes what one operation still has in a range.
    pub fn remove_node(&mut self, start: u64, end: u64, node: NodeId) {
        let mut at = self.extents.find(start);
        while let Some(e) = self.extents.get(at).filter(|e| e.start < end) {
            at = if e.node == node { self.extents.remove(at) } else { self.extents.next(at) };
        }
    }

    /// Removes everything.
    pub fn clear(&mut self, lost: &mut Vec<Overwritten>) {
        let mut extents = std::mem::take(&mut self.extents);
        let mut at = extents.find(0);
        while let Some(e) = extents.get(at) {
            lost.push((e.node, e.end - e.start));
            at = extents.next(at);
        }
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

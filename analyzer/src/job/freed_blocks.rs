//! Heap blocks of a process that were given back, and where nothing has been allocated or mapped since.

use std::collections::BTreeMap;

use super::names::BufferId;

/// More are forgotten, all together.
const MOST: usize = 1 << 12;

/// What was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedBlock {
    pub start: u64,
    pub end: u64,
    pub buffer: BufferId,
    /// Where the call of the allocator returns to, in the process's space.
    pub return_address: u64,
    /// When that was, CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// See the [module](self). They do not overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreedBlocks(BTreeMap<u64, FreedBlock>);

impl FreedBlocks {
    /// A block was given back.
    pub fn add(&mut self, block: FreedBlock) {
        self.forget(block.start, block.end);
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(block.start, block);
    }

    /// There is something else in a range now.
    #[inline]
    pub fn forget(&mut self, start: u64, end: u64) {
        if self.0.is_empty() {
            return;
        }
        while let Some((&first, _)) = self.0.range(..end).next_back().filter(|(_, block)| block.end > start) {
            self.0.remove(&first);
        }
    }

    /// The one that an address was in.
    pub fn around(&self, addr: u64) -> Option<&FreedBlock> {
        let (_, block) = self.0.range(..=addr).next_back()?;
        (addr < block.end).then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(start: u64, end: u64) -> FreedBlock {
        FreedBlock { start, end, buffer: BufferId(1), return_address: 0x10, time_ns: 5 }
    }

    #[test]
    fn a_block_is_known_until_there_is_something_else() {
        let mut blocks = FreedBlocks::default();
        [(0x1000, 0x2000), (0x2000, 0x3000), (0x4000, 0x5000)]
            .into_iter()
            .for_each(|(start, end)| blocks.add(freed(start, end)));
        assert_eq!(blocks.around(0x1fff), Some(&freed(0x1000, 0x2000)));
        assert_eq!((blocks.around(0xfff), blocks.around(0x3000)), (None, None));
        blocks.forget(0x1fff, 0x2001);
        assert_eq!((blocks.around(0x1000), blocks.around(0x2800)), (None, None));
        assert_eq!(blocks.around(0x4000), Some(&freed(0x4000, 0x5000)));
        blocks.forget(0x3000, 0x4000);
        blocks.forget(0x5000, 0x6000);
        assert!(blocks.around(0x4fff).is_some());
    }

    #[test]
    fn few_are_kept() {
        let mut blocks = FreedBlocks::default();
        (0..=MOST as u64).for_each(|at| blocks.add(freed(at << 12, (at << 12) + 1)));
        assert_eq!(blocks.0.len(), 1);
    }
}

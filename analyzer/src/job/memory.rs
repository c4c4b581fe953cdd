//! What one process has mapped and allocated: where an address really is, and what the
//! buffer there is called.

use std::collections::BTreeMap;

use super::freed_blocks::{FreedBlock, FreedBlocks};
use super::ids::SpaceId;
use super::names::{BufferId, BufferName, HEAP_BEFORE_ATTACH, Names, STACK, SiteId, segment_pattern};
use super::places::{AddressRange, BufferAt, PlaceCache};
use crate::tape::input::CodePlace;
use crate::tape::wire::FileId;

/// Most mappings of a process: twice what Linux allows by default.
const MAX_REGIONS: usize = 1 << 17;
/// Most heap blocks of a process that are kept.
const MAX_BLOCKS: usize = 1 << 21;
/// How far above the heap's mapping an address is still taken for the heap's.
const HEAP_GROWTH_BYTES: u64 = 1 << 36;
/// How far below a stack's mapping an address is still taken for the stack's.
const STACK_GROWTH_BYTES: u64 = 8 << 20;

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub end: u64,
    pub buffer: BufferId,
    /// Space of a shared file mapping, else none.
    pub space: SpaceId,
    pub file: FileId,
    pub offset_bytes: u64,
    pub exec: bool,
}

/// A new mapping, as it is told.
pub(crate) struct NewRegion<'a> {
    pub start: u64,
    pub end: u64,
    pub offset_bytes: u64,
    pub file: FileId,
    pub exec: bool,
    /// The space, if it is shared.
    pub space: SpaceId,
    /// As in `/proc/PID/maps`; `None`: take the file's name.
    pub name: Option<&'a str>,
}

#[derive(Clone, Copy)]
struct HeapBlock {
    end: u64,
    buffer: BufferId,
}

/// A range of addresses with one name.
#[derive(Clone, Copy)]
struct Named {
    start: u64,
    end: u64,
    buffer: BufferId,
}

/// A process's memory.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Memory {
    /// Ranges asked for lately; first, so that it is at hand with what else a record asks of a process.
    cache: PlaceCache,
    private: SpaceId,
    regions: BTreeMap<u64, Region>,
    blocks: BTreeMap<u64, HeapBlock>,
    freed: FreedBlocks,
    /// Start, end, space, offset of the shared ones, by start.
    shared: Vec<(u64, u64, SpaceId, u64)>,
    /// Mappings and blocks that there was no room for.
    pub refused: u64,
}

impl Memory {
    pub fn new(private: SpaceId) -> Self {
        Self {
            private,
            regions: BTreeMap::new(),
            blocks: BTreeMap::new(),
            freed: FreedBlocks::default(),
            shared: Vec::new(),
            cache: PlaceCache::default(),
            refused: 0,
        }
    }

    /// How many regions and blocks it has.
    pub fn len(&self) -> usize {
        self.regions.len() + self.blocks.len()
    }

    /// A copy of which there is no room for: what the child has is not known.
    pub fn not_kept(private: SpaceId, count: usize) -> Self {
        Self { refused: count as u64, ..Self::new(private) }
    }

    /// The same memory in another process, after fork.
    pub fn forked(&self, private: SpaceId) -> Self {
        Self { private, cache: PlaceCache::default(), ..self.clone() }
    }

    pub fn private(&self) -> SpaceId {
        self.private
    }

    /// Shared spaces and how many bytes of them are mapped.
    pub fn shared_bytes(&self) -> Vec<(SpaceId, u64)> {
        self.shared.iter().map(|&(start, end, space, _)| (space, end - start)).collect()
    }

    /// Adds a mapping in place of the mappings that were there; heap blocks stay. Returns the
    /// shared bytes that went.
    pub fn map(&mut self, new: &NewRegion<'_>, names: &mut Names) -> Vec<(SpaceId, u64)> {
        if new.start >= new.end {
            return Vec::new();
        }
        self.freed.forget(new.start, new.end);
        let gone = self.remove_regions(new.start, new.end);
        if self.regions.len() >= MAX_REGIONS {
            self.refused += 1;
            return gone;
        }
        let buffer = names.buffer(&self.region_name(new, names));
        let region = Region {
            end: new.end,
            buffer,
            space: new.space,
            file: new.file,
            offset_bytes: new.offset_bytes,
            exec: new.exec,
        };
        self.regions.insert(new.start, region);
        self.cache.clear();
        if new.space.is_some() {
            self.collect_shared();
        }
        gone
    }

    /// Removes mappings, whole or in part, and the heap blocks in them. Returns the shared bytes
    /// that went.
    pub fn unmap(&mut self, start: u64, end: u64) -> Vec<(SpaceId, u64)> {
        self.remove_blocks(start, end);
        self.freed.forget(start, end);
        self.remove_regions(start, end)
    }

    /// Where a segment ends that is attached at an address; the address itself if there is none. Parts of it may have other
    /// rights than the rest.
    pub fn end_of_shared(&self, addr: u64) -> u64 {
        let from = self.shared.partition_point(|&(start, ..)| start < addr);
        let mut end = addr;
        let mut expected = None;
        for &(start, part_end, space, offset) in &self.shared[from..] {
            if start != end || expected.is_some_and(|next| next != (space, offset)) {
                break;
            }
            end = part_end;
            expected = Some((space, offset.wrapping_add(part_end - start)));
        }
        end
    }

    fn remove_regions(&mut self, start: u64, end: u64) -> Vec<(SpaceId, u64)> {
        let mut gone = Vec::new();
        if start >= end {
            return gone;
        }
        let first = self.regions.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let hit: Vec<(u64, Region)> =
            self.regions.range(first..end).filter(|(_, r)| r.end > start).map(|(&s, &r)| (s, r)).collect();
        for &(s, region) in &hit {
            self.regions.remove(&s);
            if s < start {
                self.regions.insert(s, Region { end: start, ..region });
            }
            if region.end > end {
                let offset_bytes = region.offset_bytes.wrapping_add(end - s);
                self.regions.insert(end, Region { offset_bytes, ..region });
            }
            if region.space.is_some() {
                gone.push((region.space, region.end.min(end) - s.max(start)));
            }
        }
        if !hit.is_empty() {
            self.cache.clear();
        }
        if !gone.is_empty() {
            self.collect_shared();
        }
        gone
    }

    /// Takes the place of all mappings; heap blocks stay. Returns the shared bytes that went.
    pub fn clear_regions(&mut self) -> Vec<(SpaceId, u64)> {
        let gone = self.shared_bytes();
        self.regions.clear();
        self.shared.clear();
        self.cache.clear();
        gone
    }

    /// Adds a heap block in place of what was there.
    pub fn allocate(&mut self, addr: u64, size_bytes: u64, buffer: BufferId) {
        let end = addr.saturating_add(size_bytes.max(1));
        self.remove_blocks(addr, end);
        self.freed.forget(addr, end);
        if self.blocks.len() >= MAX_BLOCKS {
            self.refused += 1;
            return;
        }
        self.blocks.insert(addr, HeapBlock { end, buffer });
        self.cache.forget(addr, end);
    }

    /// Removes the heap block at an address; returns its end.
    pub fn free(&mut self, addr: u64) -> Option<u64> {
        let block = self.blocks.remove(&addr)?;
        self.cache.forget(addr, block.end);
        Some(block.end)
    }

    /// The same, by a call of the allocator that returns there; of blocks of at least so many bytes it is kept for a while.
    pub fn give_back(
        &mut self,
        addr: u64,
        (return_address, time_ns): (u64, u64),
        kept_from_bytes: u64,
    ) -> Option<u64> {
        let (start, end, buffer) = self.block_around(addr).filter(|(start, ..)| *start == addr)?;
        if end - start >= kept_from_bytes {
            self.freed.add(FreedBlock { start, end, buffer, return_address, time_ns });
        }
        self.free(addr)
    }

    /// Start and end of the heap block that an address is in, and what it is called.
    pub fn block_around(&self, addr: u64) -> Option<(u64, u64, BufferId)> {
        let (&start, block) = self.blocks.range(..=addr).next_back()?;
        (addr < block.end).then_some((start, block.end, block.buffer))
    }

    /// The heap block that an address was in, if nothing has been there since.
    pub fn freed_around(&self, addr: u64) -> Option<&FreedBlock> {
        self.freed.around(addr)
    }

    /// What the buffer at an address is called, and where it is.
    #[inline(always)]
    pub fn find(&mut self, addr: u64) -> BufferAt {
        match self.cache.find(addr) {
            Some(place) => place.found(addr),
            None => self.find_far(addr),
        }
    }

    fn find_far(&mut self, addr: u64) -> BufferAt {
        let named = self.name_range(addr);
        let (first, space, limit) = self.space_range(addr);
        let place = AddressRange {
            start: named.start.max(first.0),
            end: named.end.min(limit),
            buffer: named.buffer,
            space,
            offset: first.1.wrapping_add(named.start.saturating_sub(first.0)),
            limit,
        };
        self.cache.add(place);
        place.found(addr)
    }

    /// The addresses around one that are in the same space: the first of them with its offset there,
    /// and the end.
    fn space_range(&self, addr: u64) -> ((u64, u64), SpaceId, u64) {
        let at = self.shared.partition_point(|&(start, ..)| start <= addr);
        let below = at.checked_sub(1).map(|i| self.shared[i]);
        if let Some((start, end, space, offset)) = below
            && addr < end
        {
            return ((start, offset), space, end);
        }
        let start = below.map_or(0, |(_, end, ..)| end);
        let end = self.shared.get(at).map_or(u64::MAX, |&(start, ..)| start);
        ((start, start), self.private, end)
    }

    /// File and offset of code at an address.
    pub fn code_at(&self, addr: u64) -> Option<(FileId, u64)> {
        let (&start, region) = self.regions.range(..=addr).next_back()?;
        let inside = addr < region.end && region.exec && region.file.inode != 0;
        inside.then(|| (region.file, region.offset_bytes.wrapping_add(addr - start)))
    }

    /// Whether code of a file is mapped in a range.
    pub fn holds_code(&self, addr: u64, len_bytes: u64) -> bool {
        let end = addr.saturating_add(len_bytes);
        let before = self.regions.range(..addr).next_back().filter(|(_, region)| region.end > addr);
        let mut regions = before.into_iter().chain(self.regions.range(addr..end));
        regions.any(|(_, region)| region.exec && region.file.inode != 0)
    }

    /// Where code is that is mapped now.
    pub fn code(&self) -> CodeMap {
        let code = self.regions.iter().filter(|(_, region)| region.exec && region.file.inode != 0);
        CodeMap(code.map(|(&start, region)| (start, region.end, region.file, region.offset_bytes)).collect())
    }

    /// The place of a return address. It lies behind its call, and may be the first byte behind a mapping.
    pub fn return_place(&self, address: u64) -> Option<CodePlace> {
        let (file, offset_bytes) = self.code_at(address.checked_sub(1)?)?;
        Some(CodePlace { file, offset_bytes: offset_bytes.wrapping_add(1) })
    }

    /// Where a file's first byte would be if all of it were mapped as its code is.
    pub fn code_start(&self, file: FileId) -> Option<u64> {
        let is_code = |region: &Region| region.exec && region.file == file;
        let (start, region) = self.regions.iter().find(|(_, region)| is_code(region))?;
        Some(start.wrapping_sub(region.offset_bytes))
    }

    /// Removes the heap blocks that reach into a range.
    pub fn remove_blocks(&mut self, start: u64, end: u64) {
        if let Some((&s, block)) = self.blocks.range(..start).next_back()
            && block.end > start
        {
            let block_end = block.end;
            self.blocks.remove(&s);
            self.cache.forget(s, block_end);
        }
        while let Some((&s, block)) = self.blocks.range(start..end).next() {
            let block_end = block.end;
            self.blocks.remove(&s);
            self.cache.forget(s, block_end);
        }
    }

    /// What is allocated and given back is not seen any more: neither blocks nor what was given back before are known.
    pub fn forget_heap(&mut self) {
        self.remove_blocks(0, u64::MAX);
        self.freed = FreedBlocks::default();
    }

    fn collect_shared(&mut self) {
        let shared = self.regions.iter().filter(|(_, r)| r.space.is_some());
        self.shared = shared.map(|(&start, r)| (start, r.end, r.space, r.offset_bytes)).collect();
    }

    /// The block or region around an address, as far as its name goes.
    fn name_range(&self, addr: u64) -> Named {
        if let Some((start, end, buffer)) = self.block_around(addr) {
            return Named { start, end, buffer };
        }
        let below = self.blocks.range(..=addr).next_back();
        let from = below.map_or(0, |(_, b)| b.end);
        let to = self.blocks.range(addr..).next().map_or(u64::MAX, |(&s, _)| s);
        let region = self.region_range(addr);
        Named { start: region.start.max(from), end: region.end.min(to), buffer: region.buffer }
    }

    fn region_range(&self, addr: u64) -> Named {
        let below = self.regions.range(..=addr).next_back();
        if let Some((&start, region)) = below
            && addr < region.end
        {
            return Named { start, end: region.end, buffer: region.buffer };
        }
        let above = self.regions.range(addr..).next();
        let end = above.map_or(u64::MAX, |(&s, _)| s);
        let start = below.map_or(0, |(_, r)| r.end);
        // The program break moves without a record, and stacks grow without one.
        if let Some((&s, region)) = above
            && region.buffer == STACK
            && s - addr <= STACK_GROWTH_BYTES
        {
            return Named { start: start.max(s.saturating_sub(STACK_GROWTH_BYTES)), end, buffer: STACK };
        }
        if let Some((_, region)) = below
            && region.buffer == HEAP_BEFORE_ATTACH
            && addr - region.end < HEAP_GROWTH_BYTES
        {
            let end = end.min(region.end.saturating_add(HEAP_GROWTH_BYTES));
            return Named { start, end, buffer: HEAP_BEFORE_ATTACH };
        }
        Named { start, end, buffer: BufferId(0) }
    }

    fn region_name(&self, new: &NewRegion<'_>, names: &Names) -> BufferName {
        let path = match new.name {
            Some(name) => name.to_owned(),
            None if new.file.inode != 0 => names.path(new.file),
            None => String::new(),
        };
        if new.space.is_some() {
            return BufferName::Shared { name: segment_pattern(&path) };
        }
        match path.as_str() {
            "[heap]" => BufferName::HeapBeforeAttach,
            p if p.starts_with("[stack") => BufferName::Stack,
            _ if new.file.inode != 0 => BufferName::Static { module: path },
            _ => self.bss_of(new.start, names).unwrap_or(BufferName::Anonymous),
        }
    }

    /// Zeroed static data lies right behind the file's mapping.
    fn bss_of(&self, start: u64, names: &Names) -> Option<BufferName> {
        let (_, before) = self.regions.range(..start).next_back()?;
        (before.end == start && before.file.inode != 0 && !before.space.is_some())
            .then(|| names.buffer_name(before.buffer).clone())
    }
}

/// Where code was mapped at some time: start, end, file, and where the start is in the file; in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeMap(Vec<(u64, u64, FileId, u64)>);

impl CodeMap {
    /// As [`Memory::return_place`].
    pub fn return_place(&self, address: u64) -> Option<CodePlace> {
        let inside = address.checked_sub(1)?;
        let below = self.0.partition_point(|&(start, ..)| start <= inside);
        let &(start, end, file, offset_bytes) = self.0.get(below.checked_sub(1)?)?;
        let place = CodePlace { file, offset_bytes: offset_bytes.wrapping_add(address - start) };
        (inside < end).then_some(place)
    }
}

/// The site that a return address stands for: the byte before it is in the call instruction.
pub(crate) fn call_site(memory: &Memory, return_address: u64, names: &mut Names) -> SiteId {
    let place = return_address.checked_sub(1).and_then(|addr| memory.code_at(addr));
    place.map_or(SiteId(0), |(file, offset)| names.site(file, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::places::Location;

    const LIBRARY: FileId = FileId { dev: 1, inode: 5 };
    const SEGMENT: SpaceId = SpaceId(7);

    fn region<'a>(start: u64, end: u64, file: FileId, name: &'a str) -> NewRegion<'a> {
        NewRegion {
            start,
            end,
            offset_bytes: 0x100,
            file,
            exec: true,
            space: SpaceId::NONE,
            name: Some(name),
        }
    }

    fn shared(start: u64, end: u64) -> NewRegion<'static> {
        NewRegion {
            space: SEGMENT,
            exec: false,
            ..region(start, end, FileId { dev: 1, inode: 6 }, "/dev/shm/s.1")
        }
    }

    #[test]
    fn a_segment_is_the_same_place_wherever_it_is_mapped() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&shared(0x1000, 0x2000), &mut names);
        let at = Location { space: SEGMENT, offset: 0x180, limit_bytes: 0xf80 };
        assert_eq!(memory.find(0x1080).at, at);
        assert_eq!(memory.find(0x2000).at.space, SpaceId(0));
        assert_eq!(memory.find(0xfff).at.limit_bytes, 1);
    }

    #[test]
    fn a_hole_in_a_segment_leaves_both_ends_where_they_were() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&shared(0x1000, 0x4000), &mut names);
        assert_eq!(memory.unmap(0x2000, 0x3000), [(SEGMENT, 0x1000)]);
        assert_eq!(memory.find(0x2800).at.space, SpaceId(0));
        assert_eq!(memory.find(0x3010).at.offset, 0x2110);
        assert_eq!(memory.shared_bytes(), [(SEGMENT, 0x1000), (SEGMENT, 0x1000)]);
    }

    #[test]
    fn a_segment_is_detached_as_a_whole_and_another_one_behind_it_stays() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&shared(0x1000, 0x2000), &mut names);
        memory.map(&NewRegion { offset_bytes: 0x1100, ..shared(0x2000, 0x4000) }, &mut names);
        memory.map(&shared(0x4000, 0x5000), &mut names);
        assert_eq!(memory.end_of_shared(0x1000), 0x4000);
        assert_eq!(memory.end_of_shared(0x4000), 0x5000);
        assert_eq!(memory.end_of_shared(0x1800), 0x1800, "nothing is attached there");
        assert_eq!(memory.end_of_shared(0x9000), 0x9000);
    }

    #[test]
    fn a_block_names_its_bytes_until_it_is_freed() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(
            &NewRegion { exec: false, ..region(0x1_0000, 0x2_0000, FileId::default(), "[heap]") },
            &mut names,
        );
        let site = names.site(LIBRARY, 16);
        let block = names.heap_buffer(site);
        assert_eq!(memory.find(0x1_0010).buffer, HEAP_BEFORE_ATTACH);
        memory.allocate(0x1_0010, 0x100, block);
        assert_eq!(memory.find(0x1_0010).buffer, block);
        assert_eq!(memory.find(0x1_010f).buffer, block);
        assert_eq!(memory.find(0x1_0110).buffer, HEAP_BEFORE_ATTACH);
        assert_eq!(memory.free(0x1_0010), Some(0x1_0110));
        assert_eq!(memory.find(0x1_0010).buffer, HEAP_BEFORE_ATTACH);
    }

    #[test]
    fn what_was_given_back_before_allocations_are_unseen_may_be_allocated_again() {
        let mut memory = Memory::new(SpaceId(0));
        let blocks = [0x1000, 0x9000];
        blocks.iter().for_each(|start| memory.allocate(*start, 0x2000, BufferId(7)));
        memory.give_back(0x1000, (0x400, 5), 0);
        assert!(memory.freed_around(0x1800).is_some() && memory.block_around(0x9800).is_some());
        memory.forget_heap();
        assert!(memory.freed_around(0x1800).is_none() && memory.block_around(0x9800).is_none());
    }

    #[test]
    fn the_heap_and_the_stack_grow_without_a_record() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&region(0x1_0000, 0x2_0000, FileId::default(), "[heap]"), &mut names);
        memory.map(&region(0x7fff_0000_0000, 0x7fff_0001_0000, FileId::default(), "[stack]"), &mut names);
        assert_eq!(memory.find(0x2_0000).buffer, HEAP_BEFORE_ATTACH);
        assert_eq!(memory.find(0x7ffe_ffff_f000).buffer, STACK);
        assert_eq!(memory.find(0x7000_0000_0000).buffer, BufferId(0));
    }

    #[test]
    fn zeroed_data_behind_a_file_is_the_files() {
        let mut names = Names::new();
        names.file(LIBRARY, "/lib/x", None, false);
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&region(0x1000, 0x2000, LIBRARY, "/lib/x"), &mut names);
        memory.map(&region(0x2000, 0x3000, FileId::default(), ""), &mut names);
        memory.map(&region(0x5000, 0x6000, FileId::default(), ""), &mut names);
        let (bss, anonymous) = (memory.find(0x2800).buffer, memory.find(0x5800).buffer);
        assert_eq!(names.buffer_name(bss), &BufferName::Static { module: "/lib/x".into() });
        assert_eq!(names.buffer_name(anonymous), &BufferName::Anonymous);
    }

    #[test]
    fn a_return_address_stands_for_the_call_before_it() {
        let mut names = Names::new();
        let mut memory = Memory::new(SpaceId(0));
        memory.map(&region(0x1000, 0x2000, LIBRARY, "/lib/x"), &mut names);
        let site = call_site(&memory, 0x1005, &mut names);
        assert_eq!(names.site_file(site), Some((LIBRARY, 0x104)));
        assert_eq!(call_site(&memory, 0x1000, &mut names), SiteId(0));
        assert_eq!(call_site(&memory, 0, &mut names), SiteId(0));
    }
}

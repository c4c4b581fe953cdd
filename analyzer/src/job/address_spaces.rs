//! How the memory of processes changes: mappings, heap blocks, forks, new programs, ends.

use super::Job;
use super::event::Gone;
use super::ids::SpaceId;
use super::lifecycle::MpiLife;
use super::memory::{Memory, NewRegion};
use crate::tape::input::{Mapping, ProcessFacts};
use crate::tape::wire::FileId;

/// A mapping as a record tells it.
pub(crate) struct MapRecord {
    pub addr: u64,
    pub len_bytes: u64,
    pub offset_bytes: u64,
    pub file: Option<FileId>,
    pub shared: bool,
    pub exec: bool,
}

impl Job {
    /// Takes what `/proc` says of a process.
    pub(super) fn learn_process(&mut self, facts: &ProcessFacts) {
        let process = self.process(facts.pid);
        self.processes.learn(process, facts);
        let gone = self.processes.get_mut(process).memory.clear_regions();
        for mapping in &facts.mappings {
            self.add_mapping(process, mapping);
        }
        self.processes.get_mut(process).forget_code();
        self.release(gone);
    }

    fn add_mapping(&mut self, process: usize, mapping: &Mapping) {
        let has_file = mapping.file.inode != 0;
        if has_file {
            self.names.file(mapping.file, &mapping.name, None, false);
        }
        if !self.has_room_for(1) {
            self.processes.get_mut(process).memory.refused += 1;
            return;
        }
        let space = if mapping.shared && has_file { self.spaces.shared(mapping.file) } else { SpaceId::NONE };
        self.map_region(
            process,
            &NewRegion {
                start: mapping.start,
                end: mapping.end,
                offset_bytes: mapping.offset_bytes,
                file: mapping.file,
                exec: mapping.exec,
                space,
                name: Some(&mapping.name),
            },
        );
    }

    /// A new mapping. `time_ns`: what `/proc` said later holds already.
    pub(super) fn map(&mut self, process: usize, time_ns: u64, map: &MapRecord) {
        if time_ns < self.processes.get(process).facts_time_ns {
            return;
        }
        let end = map.addr.saturating_add(map.len_bytes);
        let memory = &mut self.processes.get_mut(process).memory;
        let private = memory.private();
        if map.addr < end {
            memory.remove_blocks(map.addr, end);
        }
        self.range_gone(private, map.addr, end);
        let space = match map.file {
            Some(file) if map.shared && file.inode != 0 => self.spaces.shared(file),
            _ => SpaceId::NONE,
        };
        self.map_region(
            process,
            &NewRegion {
                start: map.addr,
                end,
                offset_bytes: map.offset_bytes,
                file: map.file.unwrap_or_default(),
                exec: map.exec,
                space,
                name: None,
            },
        );
        self.processes.get_mut(process).forget_code();
    }

    fn map_region(&mut self, process: usize, region: &NewRegion<'_>) {
        // Counted first: mapping a segment over itself must not end it.
        self.spaces.retain(region.space, region.end.saturating_sub(region.start));
        let memory = &mut self.processes.get_mut(process).memory;
        let refused = memory.refused;
        let mut gone = memory.map(region, &mut self.names);
        if memory.refused > refused {
            gone.push((region.space, region.end.saturating_sub(region.start)));
        }
        self.release(gone);
    }

    /// A range that is not mapped any more; without a length, that of the segment which is attached there.
    pub(super) fn unmap(&mut self, process: usize, time_ns: u64, addr: u64, len_bytes: u64) {
        if time_ns < self.processes.get(process).facts_time_ns {
            return;
        }
        let p = self.processes.get_mut(process);
        let end = match len_bytes {
            0 => p.memory.end_of_shared(addr),
            _ => addr.saturating_add(len_bytes),
        };
        let gone = p.memory.unmap(addr, end);
        p.forget_code();
        let private = p.memory.private();
        if addr < end {
            self.range_gone(private, addr, end);
        }
        self.release(gone);
    }

    /// A heap block; `old` is the one that realloc gave back.
    pub(super) fn allocate(&mut self, process: usize, addr: u64, size_bytes: u64, old: u64, caller: u64) {
        if old != 0 && old != addr && (addr != 0 || size_bytes == 0) {
            self.remove_block(process, old);
        }
        if addr == 0 {
            return;
        }
        let site = self.site_of(process, caller);
        let buffer = self.names.heap_buffer(site);
        let memory = &mut self.processes.get_mut(process).memory;
        let end = addr.saturating_add(size_bytes);
        // A block resized in place keeps its content as far as it reaches.
        let stale =
            if old == addr { memory.free(addr).map(|old_end| (end, old_end)) } else { Some((addr, end)) };
        memory.allocate(addr, size_bytes, buffer);
        let private = memory.private();
        if let Some((start, end)) = stale.filter(|(start, end)| start < end) {
            self.range_gone(private, start, end);
        }
    }

    /// A heap block given back; `by`: where the call of the allocator returns to, and when that was, if it is to be kept.
    pub(super) fn free(&mut self, process: usize, addr: u64, by: Option<(u64, u64)>) {
        let Some(by) = by else { return self.remove_block(process, addr) };
        let kept_from_bytes = self.start.alloc_min_bytes;
        let memory = &mut self.processes.get_mut(process).memory;
        let private = memory.private();
        if let Some(end) = memory.give_back(addr, by, kept_from_bytes) {
            self.range_gone(private, addr, end);
        }
    }

    /// One of which nothing is kept: if it was moved, another thread may have got its place before that was told.
    pub(super) fn remove_block(&mut self, process: usize, addr: u64) {
        let memory = &mut self.processes.get_mut(process).memory;
        let private = memory.private();
        if let Some(end) = memory.free(addr) {
            self.range_gone(private, addr, end);
        }
    }

    /// A child with a copy of the parent's memory.
    pub(super) fn fork(&mut self, process: usize, child: u32) {
        if let Some(old) = self.processes.find(child) {
            if old == process {
                return;
            }
            self.exit(old, None);
        }
        let child = self.process(child);
        let parent = self.processes.get(process);
        let (namespace, exe) = (parent.namespace, parent.exe.clone());
        let (private, len) = (self.processes.get(child).memory.private(), parent.memory.len());
        let memory = if self.has_room_for(len) {
            self.processes.get(process).memory.forked(private)
        } else {
            Memory::not_kept(private, len)
        };
        for (space, bytes) in memory.shared_bytes() {
            self.spaces.retain(space, bytes);
        }
        let gone = self.processes.get(child).memory.shared_bytes();
        let p = self.processes.get_mut(child);
        p.memory = memory;
        p.namespace = namespace;
        p.exe = exe;
        self.release(gone);
    }

    /// Whether so many regions and blocks more may be kept, of all processes together.
    fn has_room_for(&mut self, count: usize) -> bool {
        let records = self.totals.records as usize;
        let processes = &self.processes;
        self.memory_room.take(count, records, || processes.all().iter().map(|p| p.memory.len()).sum())
    }

    /// Another program in the same process.
    pub(super) fn exec(&mut self, process: usize) {
        self.forget_memory(process);
        let p = self.processes.get_mut(process);
        p.facts_time_ns = 0;
        p.life = MpiLife::default();
    }

    /// The process is gone.
    pub(super) fn exit(&mut self, process: usize, status: Option<u32>) {
        self.forget_memory(process);
        self.processes.get_mut(process).exit_status = status;
        self.processes.end(process);
    }

    fn forget_memory(&mut self, process: usize) {
        for thread in self.processes.get_mut(process).take_threads() {
            self.spaces.give_back_thread(thread);
            self.calls_seen.forget(thread);
            self.memory_changes.push(Gone::Thread(thread));
        }
        let p = self.processes.get_mut(process);
        p.forget_code();
        let (old, gone) = (p.memory.private(), p.memory.shared_bytes());
        self.spaces.give_back_space(old);
        self.memory_changes.push(Gone::Space(old));
        let new = self.spaces.new_space();
        self.processes.get_mut(process).memory = Memory::new(new);
        self.release(gone);
    }

    /// Allocations are not seen any more: which blocks there are is not known from here on.
    pub(super) fn forget_heap(&mut self) {
        for process in 0..self.processes.all().len() {
            self.processes.get_mut(process).memory.forget_heap();
        }
    }

    fn range_gone(&mut self, space: SpaceId, start: u64, end: u64) {
        self.memory_changes.push(Gone::Range { space, start, end });
    }

    /// A segment that nobody maps any more is gone.
    fn release(&mut self, gone: Vec<(SpaceId, u64)>) {
        for (space, bytes) in gone {
            if self.spaces.release(space, bytes) {
                self.memory_changes.push(Gone::Space(space));
            }
        }
    }
}

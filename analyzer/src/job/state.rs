//! What the job is made of: processes, their memory, shared segments; and how it changes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::memory::{NewRegion, SpaceId, call_site};
use super::names::{Names, SiteId};
use super::process::{Processes, Remote};
use crate::chains::groups::Groups;
use crate::chains::{Chains, ThreadId};
use crate::job::lifecycle::MpiLife;
use crate::options::Options;
use crate::tape::input::{Mapping, ProcessFacts};
use crate::tape::wire::FileId;

/// A file that processes share, and how much of it they have mapped.
#[derive(Clone, Copy)]
struct SharedFile {
    file: FileId,
    mapped_bytes: u64,
}

/// The job.
pub(crate) struct State {
    pub names: Names,
    pub processes: Processes,
    pub chains: Chains,
    pub groups: Groups,
    /// Programs and messaging libraries.
    pub own_files: FxHashSet<FileId>,
    shared: FxHashMap<FileId, SpaceId>,
    shared_files: FxHashMap<SpaceId, SharedFile>,
}

/// A mapping as a record tells it.
pub(crate) struct MapRecord {
    pub addr: u64,
    pub len_bytes: u64,
    pub offset_bytes: u64,
    pub file: Option<FileId>,
    pub shared: bool,
    pub exec: bool,
}

impl State {
    pub fn new(options: &Options) -> Self {
        Self {
            names: Names::new(),
            processes: Processes::new(),
            chains: Chains::new(options),
            groups: Groups::new(options),
            own_files: FxHashSet::default(),
            shared: FxHashMap::default(),
            shared_files: FxHashMap::default(),
        }
    }

    /// The process of a pid, known or not.
    #[inline]
    pub fn process(&mut self, pid: u32) -> usize {
        let chains = &mut self.chains;
        self.processes.find_or_add(pid, || chains.new_space())
    }

    /// The thread of a process.
    #[inline(always)]
    pub fn thread(&mut self, process: usize, tid: u32) -> ThreadId {
        let chains = &mut self.chains;
        self.processes.get_mut(process).thread(tid, || chains.new_thread())
    }

    /// Takes what `/proc` says of a process.
    pub fn learn(&mut self, facts: &ProcessFacts) {
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
        let space = if mapping.shared && has_file { self.shared_space(mapping.file) } else { SpaceId::NONE };
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
    pub fn map(&mut self, process: usize, time_ns: u64, map: &MapRecord) {
        if time_ns < self.processes.get(process).facts_time_ns {
            return;
        }
        let end = map.addr.saturating_add(map.len_bytes);
        let memory = &mut self.processes.get_mut(process).memory;
        let private = memory.private();
        if map.addr < end {
            memory.remove_blocks(map.addr, end);
        }
        self.chains.remove_range(private, map.addr, end, &mut self.names, &mut self.groups);
        let space = match map.file {
            Some(file) if map.shared && file.inode != 0 => self.shared_space(file),
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
        self.retain(region.space, region.end.saturating_sub(region.start));
        let memory = &mut self.processes.get_mut(process).memory;
        let refused = memory.refused;
        let mut gone = memory.map(region, &mut self.names);
        if memory.refused > refused {
            gone.push((region.space, region.end.saturating_sub(region.start)));
        }
        self.release(gone);
    }

    /// A range that is not mapped any more.
    pub fn unmap(&mut self, process: usize, time_ns: u64, addr: u64, len_bytes: u64) {
        if time_ns < self.processes.get(process).facts_time_ns {
            return;
        }
        let end = addr.saturating_add(len_bytes);
        let p = self.processes.get_mut(process);
        let gone = p.memory.unmap(addr, end);
        p.forget_code();
        let private = p.memory.private();
        if addr < end {
            self.chains.remove_range(private, addr, end, &mut self.names, &mut self.groups);
        }
        self.release(gone);
    }

    /// A heap block; `old` is the one that realloc gave back.
    pub fn allocate(&mut self, process: usize, addr: u64, size_bytes: u64, old: u64, caller: u64) {
        if old != 0 && old != addr && (addr != 0 || size_bytes == 0) {
            self.free(process, old);
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
            self.chains.remove_range(private, start, end, &mut self.names, &mut self.groups);
        }
    }

    /// A heap block given back.
    pub fn free(&mut self, process: usize, addr: u64) {
        let memory = &mut self.processes.get_mut(process).memory;
        let private = memory.private();
        if let Some(end) = memory.free(addr) {
            self.chains.remove_range(private, addr, end, &mut self.names, &mut self.groups);
        }
    }

    /// A child with a copy of the parent's memory.
    pub fn fork(&mut self, process: usize, child: u32) {
        if let Some(old) = self.processes.find(child) {
            if old == process {
                return;
            }
            self.exit(old, None);
        }
        let child = self.process(child);
        let parent = self.processes.get(process);
        let (namespace, exe) = (parent.namespace, parent.exe.clone());
        let memory = parent.memory.forked(self.processes.get(child).memory.private());
        for (space, bytes) in memory.shared_bytes() {
            self.retain(space, bytes);
        }
        let gone = self.processes.get(child).memory.shared_bytes();
        let p = self.processes.get_mut(child);
        p.memory = memory;
        p.namespace = namespace;
        p.exe = exe;
        self.release(gone);
    }

    /// Another program in the same process.
    pub fn exec(&mut self, process: usize) {
        self.forget_memory(process);
        let p = self.processes.get_mut(process);
        p.facts_time_ns = 0;
        p.life = MpiLife::default();
    }

    /// The process is gone.
    pub fn exit(&mut self, process: usize, status: Option<u32>) {
        self.forget_memory(process);
        self.processes.get_mut(process).exit_status = status;
        self.processes.end(process);
    }

    fn forget_memory(&mut self, process: usize) {
        for thread in self.processes.get_mut(process).take_threads() {
            self.chains.end_thread(thread);
        }
        let p = self.processes.get_mut(process);
        p.forget_code();
        let (old, gone) = (p.memory.private(), p.memory.shared_bytes());
        self.chains.remove_space(old, &mut self.names, &mut self.groups);
        let new = self.chains.new_space();
        self.processes.get_mut(process).memory = crate::job::memory::Memory::new(new);
        self.release(gone);
    }

    /// Code site of a return address, remembered until code is mapped elsewhere.
    pub fn site_of(&mut self, process: usize, return_address: u64) -> SiteId {
        const MAX_REMEMBERED: usize = 1 << 16;
        let p = self.processes.get_mut(process);
        if let Some(&site) = p.sites.get(&return_address) {
            return site;
        }
        let site = call_site(&p.memory, return_address, &mut self.names);
        if p.sites.len() < MAX_REMEMBERED {
            p.sites.insert(return_address, site);
        }
        site
    }

    /// Whether code is the program's or a messaging library's.
    pub fn is_own(&mut self, process: usize, return_address: u64) -> bool {
        let site = self.site_of(process, return_address);
        self.names.site_file(site).is_some_and(|(file, _)| self.own_files.contains(&file))
    }

    /// Allocations are not seen any more: which blocks there are is not known from here on.
    pub fn forget_heap(&mut self) {
        for process in 0..self.processes.all().len() {
            self.processes.get_mut(process).memory.remove_blocks(0, u64::MAX);
        }
    }

    /// Whom a process means by a pid.
    pub fn remote(&mut self, caller: usize, pid: u32) -> Remote {
        let chains = &mut self.chains;
        self.processes.remote(caller, pid, || chains.new_space())
    }

    fn shared_space(&mut self, file: FileId) -> SpaceId {
        if let Some(&space) = self.shared.get(&file) {
            return space;
        }
        let space = self.chains.new_space();
        self.shared.insert(file, space);
        self.shared_files.insert(space, SharedFile { file, mapped_bytes: 0 });
        space
    }

    fn retain(&mut self, space: SpaceId, bytes: u64) {
        if let Some(shared) = self.shared_files.get_mut(&space) {
            shared.mapped_bytes = shared.mapped_bytes.saturating_add(bytes);
        }
    }

    /// A segment that nobody maps any more is gone.
    fn release(&mut self, gone: Vec<(SpaceId, u64)>) {
        for (space, bytes) in gone {
            let Some(shared) = self.shared_files.get_mut(&space) else { continue };
            shared.mapped_bytes = shared.mapped_bytes.saturating_sub(bytes);
            if shared.mapped_bytes == 0 {
                self.shared.remove(&shared.file);
                self.shared_files.remove(&space);
                self.chains.remove_space(space, &mut self.names, &mut self.groups);
            }
        }
    }
}

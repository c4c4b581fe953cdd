//! Names as a publisher tells them: each once, in the order of its number.

use super::lists::WrittenLists;
use crate::chains::groups::{ChainGroups, GroupId};
use crate::chains::op_names::{ContextId, OpNames, SymbolId};
use crate::job::Job;
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::names::{BufferId, BufferName, SiteId, SiteName};
use crate::job::process::Who;
use crate::tape::bytes::ByteWriter;

/// What names are looked up in.
#[derive(Clone, Copy)]
pub(crate) struct NameTables<'a> {
    pub job: &'a Job,
    pub ops: &'a OpNames,
}

/// Numbers of one sort of names, and those that are new.
#[derive(Debug, Default)]
struct ToldNames {
    /// By the number here, from 1; 0: it was not told.
    numbers: Vec<u32>,
    told: u64,
    /// How many had been told before what is written now.
    first: u64,
    new: ByteWriter,
}

impl ToldNames {
    /// The number of a name if it was told.
    fn known(&self, id: u32) -> Option<u64> {
        self.numbers.get(id as usize).filter(|number| **number > 0).map(|number| u64::from(*number) - 1)
    }

    /// A number for one that was not. What it consists of must have been told before.
    fn tell(&mut self, id: u32, put: impl FnOnce(&mut ByteWriter)) -> u64 {
        put(&mut self.new);
        let at = id as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, 0);
        }
        self.told += 1;
        self.numbers[at] = self.told as u32;
        self.told - 1
    }

    fn put(&mut self, w: &mut ByteWriter) {
        w.number(self.first);
        w.number(self.told - self.first);
        w.append(std::mem::take(&mut self.new));
        self.first = self.told;
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// All names that were told. In the order in which they are written: later ones speak of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct NamesWriter {
    sites: ToldNames,
    buffers: ToldNames,
    calls: ToldNames,
    whos: ToldNames,
    symbols: ToldNames,
    contexts: ToldNames,
    groups: ToldNames,
    processes: ToldNames,
    pub lists: WrittenLists,
}

impl NamesWriter {
    /// Bytes of what is new.
    pub(crate) fn len(&self) -> usize {
        self.all().map(|told| told.new.len()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &ToldNames> {
        let Self { sites, buffers, calls, whos, symbols, contexts, groups, processes, .. } = self;
        [sites, buffers, calls, whos, symbols, contexts, groups, processes].into_iter()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut ToldNames> {
        let Self { sites, buffers, calls, whos, symbols, contexts, groups, processes, .. } = self;
        [sites, buffers, calls, whos, symbols, contexts, groups, processes].into_iter()
    }

    /// Writes what is new; gives back the lists that all that was written speaks of.
    pub(crate) fn put(&mut self, w: &mut ByteWriter) -> WrittenLists {
        self.all_mut().for_each(|told| told.put(w));
        std::mem::take(&mut self.lists)
    }

    /// Nothing counts as told any more.
    pub(crate) fn forget(&mut self) {
        self.all_mut().for_each(ToldNames::forget);
    }

    pub(crate) fn site(&mut self, id: SiteId, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.sites.known(id.0) {
            return number;
        }
        let file = from.job.names.site_file(id).map(|(file, _)| self.lists.files.place(file));
        let name = from.job.names.site_name(id);
        self.sites.tell(id.0, |w| {
            put_site(w, name);
            w.optional(file, ByteWriter::number);
        })
    }

    pub(crate) fn buffer(&mut self, id: BufferId, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.buffers.known(id.0) {
            return number;
        }
        let name = from.job.names.buffer_name(id);
        let site = match name {
            // It was interned when the buffer got its name.
            BufferName::Heap { site } => from.job.names.find_site(site).map(|site| self.site(site, from)),
            _ => None,
        };
        self.buffers.tell(id.0, |w| put_buffer(w, name, site))
    }

    /// None: outside of MPI, or not known.
    pub(crate) fn call(&mut self, id: CallSiteId, from: NameTables<'_>) -> u64 {
        if !id.is_some() {
            return 0;
        }
        if let Some(number) = self.calls.known(id.0) {
            return number + 1;
        }
        let (function, site) = from.job.probes.call_parts(id);
        let site = self.site(site, from);
        let number = self.calls.tell(id.0, |w| {
            w.text(&function);
            w.number(site);
        });
        number + 1
    }

    pub(crate) fn who(&mut self, id: WhoId, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.whos.known(id.0) {
            return number;
        }
        let (is_rank, number) = match from.job.processes.who(id) {
            Who::Rank(rank) => (true, rank.into()),
            Who::Pid(pid) => (false, self.lists.pids.place(pid)),
        };
        self.whos.tell(id.0, |w| {
            w.flag(is_rank);
            w.number(number);
        })
    }

    pub(crate) fn symbol(&mut self, id: SymbolId, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.symbols.known(id.0) {
            return number;
        }
        let parts = *from.ops.symbol_parts(id);
        let site = self.site(parts.site, from);
        let (source, destination) = (self.buffer(parts.source, from), self.buffer(parts.destination, from));
        self.symbols.tell(id.0, |w| {
            w.number(site);
            w.number(parts.kind as u64);
            w.flag(parts.pack);
            w.flag(parts.crosses);
            w.number(source);
            w.number(destination);
        })
    }

    pub(crate) fn context(&mut self, id: ContextId, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.contexts.known(id.0) {
            return number;
        }
        let (site, kind, source) = from.ops.context_parts(id);
        let (site, source) = (self.site(site, from), self.buffer(source, from));
        self.contexts.tell(id.0, |w| {
            w.number(site);
            w.number(kind as u64);
            w.number(source);
        })
    }

    pub(crate) fn group(&mut self, id: GroupId, groups: &ChainGroups, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.groups.known(id.0) {
            return number;
        }
        let symbols = groups.get(id).symbols.iter();
        let symbols: Vec<u64> = symbols.map(|symbol| self.symbol(*symbol, from)).collect();
        self.groups.tell(id.0, |w| w.list(symbols.into_iter(), ByteWriter::number))
    }

    /// A process by its index.
    pub(crate) fn process(&mut self, index: usize, from: NameTables<'_>) -> u64 {
        if let Some(number) = self.processes.known(index as u32) {
            return number;
        }
        let process = from.job.processes.get(index);
        let pid = self.lists.pids.place(process.pid);
        let before = &from.job.processes.all()[..index];
        let earlier = (!process.alive).then(|| before.iter().filter(|p| p.pid == process.pid).count() as u64);
        self.processes.tell(index as u32, |w| {
            w.number(pid);
            // Another one may have its number by now.
            w.optional(earlier, ByteWriter::number);
        })
    }
}

fn put_site(w: &mut ByteWriter, name: &SiteName) {
    match name {
        SiteName::Unknown => w.number(0),
        SiteName::File { module, build_id, offset_bytes } => {
            w.number(1);
            w.text(module);
            w.optional(build_id.as_deref(), ByteWriter::text);
            w.number(*offset_bytes);
        }
        SiteName::Kernel { call } => {
            w.number(2);
            w.text(call);
        }
    }
}

/// `site`: of a heap block.
fn put_buffer(w: &mut ByteWriter, name: &BufferName, site: Option<u64>) {
    let mut named = |sort: u64, text: &str| {
        w.number(sort);
        w.text(text);
    };
    match name {
        BufferName::Heap { .. } => {
            w.number(0);
            w.optional(site, ByteWriter::number);
        }
        BufferName::Shared { name } => named(1, name),
        BufferName::Static { module } => named(2, module),
        BufferName::HeapBeforeAttach => w.number(3),
        BufferName::Stack => w.number(4),
        BufferName::Anonymous => w.number(5),
        BufferName::NotWatched => w.number(6),
        BufferName::TcpStream => w.number(7),
        BufferName::Unknown => w.number(8),
        BufferName::QueuePair => w.number(9),
    }
}

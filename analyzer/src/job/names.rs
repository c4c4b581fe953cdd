//! Names of code places and buffers, the same for all ranks and all runs, and small
//! numbers for them.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::tape::wire::FileId;

/// Defines a number for something interned.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(pub u32);

        #[allow(dead_code)]
        impl $name {
            /// Stands for "there is none".
            pub const NONE: Self = Self(u32::MAX);

            /// As an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Whether there is one.
            pub fn is_some(self) -> bool {
                self != Self::NONE
            }
        }
    };
}
pub(crate) use id;

id!(/// A code site.
    SiteId);
id!(/// A kind of buffer: an allocation site or a region.
    BufferId);
id!(/// What an operation of a chain is, as far as groups are concerned.
    SymbolId);
id!(/// What of an operation counts in a context: code site, kind and source.
    ContextId);
id!(/// What of an operation is known when it happens: code site, kind and both buffers.
    ShapeId);

/// Most names of one sort: what hostile input can make us keep.
const MAX_NAMES: usize = 1 << 20;

/// Gives equal things equal numbers, in the order in which they come.
pub(crate) struct Interner<T> {
    ids: FxHashMap<T, u32>,
    items: Vec<T>,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    /// `overflow` is number 0, and what everything is when there are too many.
    pub fn new(overflow: T) -> Self {
        let mut new = Self { ids: FxHashMap::default(), items: Vec::new() };
        new.intern(&overflow);
        new
    }

    pub fn intern(&mut self, item: &T) -> u32 {
        if let Some(&id) = self.ids.get(item) {
            return id;
        }
        if self.items.len() >= MAX_NAMES {
            return 0;
        }
        let id = self.items.len() as u32;
        self.ids.insert(item.clone(), id);
        self.items.push(item.clone());
        id
    }

    pub fn find(&self, item: &T) -> Option<u32> {
        self.ids.get(item).copied()
    }

    pub fn get(&self, id: u32) -> &T {
        &self.items[id as usize]
    }
}

/// A place in code, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
pub enum SiteName {
    /// In a program or library.
    File {
        /// Its path.
        module: String,
        /// Its build id, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        build_id: Option<String>,
        /// Offset in the file.
        offset_bytes: u64,
    },
    /// A system call.
    Kernel {
        /// Which.
        call: String,
    },
    /// Not in a file that is known.
    Unknown,
}

/// What a buffer is, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum BufferName {
    /// A heap block.
    Heap {
        /// Who asked for it.
        site: SiteName,
    },
    /// On the heap, from before the allocations were watched.
    HeapBeforeAttach,
    /// A segment that processes share.
    Shared {
        /// Its name, with what differs between ranks replaced by `*`.
        name: String,
    },
    /// Static data of a program or library.
    Static {
        /// Its path.
        module: String,
    },
    /// A stack.
    Stack,
    /// An anonymous mapping.
    Anonymous,
    /// In a process that is not watched.
    NotWatched,
    /// Not in a mapping that is known.
    Unknown,
}

/// How an operation moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A memory copy.
    Copy,
    /// A derived datatype into one piece.
    Pack,
    /// One piece into a derived datatype.
    Unpack,
    /// `process_vm_readv`.
    CrossRead,
    /// `process_vm_writev`.
    CrossWrite,
    /// A message whose data moved unseen.
    Message,
}

/// What an operation of a chain is: two groups are equal if and only if these are, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Symbol {
    pub site: SiteId,
    pub kind: Kind,
    /// Several pieces.
    pub pack: bool,
    pub crosses: bool,
    pub source: BufferId,
    pub destination: BufferId,
}

/// What of an operation is known when it happens. What it becomes (several pieces, crossing to
/// another process) makes one of four symbols of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub site: SiteId,
    pub kind: Kind,
    pub source: BufferId,
    pub destination: BufferId,
}

/// What is derived of a [`Shape`] once.
#[derive(Clone, Copy)]
struct ShapeIds {
    context: ContextId,
    /// By whether it crosses (1) and is in pieces (2); none until asked for.
    symbols: [SymbolId; 4],
}

/// Shapes that are found without hashing all of them.
const REMEMBERED_SHAPES: usize = 128;

/// The same by name: what references keep.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpName {
    /// Where in code.
    pub site: SiteName,
    /// How.
    pub kind: Kind,
    /// Whether in several pieces.
    pub pack: bool,
    /// Whether the data goes from one process to another.
    pub crosses: bool,
    /// From.
    pub source: BufferName,
    /// To.
    pub destination: BufferName,
}

/// Who a file is.
struct FileName {
    path: String,
    build_id: Option<String>,
    from_plan: bool,
}

/// Number of [`BufferName::HeapBeforeAttach`].
pub(crate) const HEAP_BEFORE_ATTACH: BufferId = BufferId(1);
/// Number of [`BufferName::Stack`].
pub(crate) const STACK: BufferId = BufferId(2);
/// Number of [`BufferName::NotWatched`].
pub(crate) const NOT_WATCHED: BufferId = BufferId(3);

/// All that is interned.
pub(crate) struct Names {
    files: FxHashMap<FileId, FileName>,
    sites: Interner<SiteName>,
    by_offset: FxHashMap<(FileId, u64), SiteId>,
    /// In this run's files; a site of a reference may not be here.
    site_files: FxHashMap<SiteId, (FileId, u64)>,
    buffers: Interner<BufferName>,
    heap: FxHashMap<SiteId, BufferId>,
    symbols: Interner<Symbol>,
    contexts: Interner<(SiteId, Kind, BufferId)>,
    shapes: Interner<Shape>,
    shape_ids: Vec<ShapeIds>,
    /// Asked for lately, by a few bits of it.
    recent_shapes: Box<[(Shape, ShapeId); REMEMBERED_SHAPES]>,
}

impl Names {
    pub fn new() -> Self {
        let nothing = Symbol {
            site: SiteId(0),
            kind: Kind::Copy,
            pack: false,
            crosses: false,
            source: BufferId(0),
            destination: BufferId(0),
        };
        let unknown =
            Shape { site: SiteId(0), kind: Kind::Copy, source: BufferId(0), destination: BufferId(0) };
        let mut buffers = Interner::new(BufferName::Unknown);
        for name in [BufferName::HeapBeforeAttach, BufferName::Stack, BufferName::NotWatched] {
            buffers.intern(&name);
        }
        Self {
            files: FxHashMap::default(),
            sites: Interner::new(SiteName::Unknown),
            by_offset: FxHashMap::default(),
            site_files: FxHashMap::default(),
            buffers,
            heap: FxHashMap::default(),
            symbols: Interner::new(nothing),
            contexts: Interner::new((SiteId(0), Kind::Copy, BufferId(0))),
            shapes: Interner::new(unknown),
            shape_ids: vec![ShapeIds { context: ContextId(0), symbols: [SymbolId::NONE; 4] }],
            recent_shapes: Box::new([(unknown, ShapeId(0)); REMEMBERED_SHAPES]),
        }
    }

    /// Learns a file's name. What the plan says counts more than what `/proc` says.
    pub fn file(&mut self, id: FileId, path: &str, build_id: Option<&str>, from_plan: bool) {
        let known = self.files.get(&id).is_some_and(|f| f.from_plan || !from_plan);
        if known || self.files.len() >= MAX_NAMES {
            return;
        }
        let name = FileName { path: path.to_owned(), build_id: build_id.map(str::to_owned), from_plan };
        self.files.insert(id, name);
    }

    /// Path of a file.
    pub fn path(&self, id: FileId) -> String {
        self.files.get(&id).map_or_else(|| format!("file {}:{}", id.dev, id.inode), |f| f.path.clone())
    }

    pub fn site(&mut self, file: FileId, offset_bytes: u64) -> SiteId {
        if let Some(&site) = self.by_offset.get(&(file, offset_bytes)) {
            return site;
        }
        let build_id = self.files.get(&file).and_then(|f| f.build_id.clone());
        let name = SiteName::File { module: self.path(file), build_id, offset_bytes };
        let site = self.named_site(&name);
        if self.by_offset.len() < MAX_NAMES {
            self.by_offset.insert((file, offset_bytes), site);
            self.site_files.entry(site).or_insert((file, offset_bytes));
        }
        site
    }

    pub fn named_site(&mut self, name: &SiteName) -> SiteId {
        SiteId(self.sites.intern(name))
    }

    pub fn find_site(&self, name: &SiteName) -> Option<SiteId> {
        self.sites.find(name).map(SiteId)
    }

    pub fn site_name(&self, id: SiteId) -> &SiteName {
        self.sites.get(id.0)
    }

    /// Where a site's symbol can be looked up.
    pub fn site_file(&self, id: SiteId) -> Option<(FileId, u64)> {
        self.site_files.get(&id).copied()
    }

    pub fn buffer(&mut self, name: &BufferName) -> BufferId {
        BufferId(self.buffers.intern(name))
    }

    pub fn heap_buffer(&mut self, site: SiteId) -> BufferId {
        if let Some(&id) = self.heap.get(&site) {
            return id;
        }
        let id = self.buffer(&BufferName::Heap { site: self.site_name(site).clone() });
        self.heap.insert(site, id);
        id
    }

    pub fn buffer_name(&self, id: BufferId) -> &BufferName {
        self.buffers.get(id.0)
    }

    pub fn symbol(&mut self, symbol: &Symbol) -> SymbolId {
        SymbolId(self.symbols.intern(symbol))
    }

    pub fn symbol_parts(&self, id: SymbolId) -> &Symbol {
        self.symbols.get(id.0)
    }

    #[inline(always)]
    pub fn shape(&mut self, shape: &Shape) -> ShapeId {
        let mixed = shape.site.0 ^ shape.source.0.rotate_left(3) ^ shape.destination.0.rotate_left(5);
        let slot = mixed as usize % REMEMBERED_SHAPES;
        let (known, id) = self.recent_shapes[slot];
        if known == *shape {
            return id;
        }
        let id = self.new_shape(shape);
        self.recent_shapes[slot] = (*shape, id);
        id
    }

    fn new_shape(&mut self, shape: &Shape) -> ShapeId {
        let id = ShapeId(self.shapes.intern(shape));
        if id.index() == self.shape_ids.len() {
            let context = self.context(shape.site, shape.kind, shape.source);
            self.shape_ids.push(ShapeIds { context, symbols: [SymbolId::NONE; 4] });
        }
        id
    }

    pub fn shape_parts(&self, id: ShapeId) -> &Shape {
        self.shapes.get(id.0)
    }

    /// What of a shape counts in a context.
    #[inline]
    pub fn shape_context(&self, id: ShapeId) -> ContextId {
        self.shape_ids[id.index()].context
    }

    /// What an operation of a shape has become.
    #[inline]
    pub fn shape_symbol(&mut self, id: ShapeId, pack: bool, crosses: bool) -> SymbolId {
        let way = usize::from(pack) * 2 + usize::from(crosses);
        let known = self.shape_ids[id.index()].symbols[way];
        if known.is_some() {
            return known;
        }
        let Shape { site, kind, source, destination } = *self.shape_parts(id);
        let symbol = self.symbol(&Symbol { site, kind, pack, crosses, source, destination });
        self.shape_ids[id.index()].symbols[way] = symbol;
        symbol
    }

    pub fn context(&mut self, site: SiteId, kind: Kind, source: BufferId) -> ContextId {
        ContextId(self.contexts.intern(&(site, kind, source)))
    }

    /// Where operations of a context are.
    pub fn context_site(&self, id: ContextId) -> SiteId {
        self.contexts.get(id.0).0
    }

    /// What of a symbol counts in a context.
    pub fn context_of(&mut self, id: SymbolId) -> ContextId {
        let s = *self.symbol_parts(id);
        self.context(s.site, s.kind, s.source)
    }

    /// A symbol by name.
    pub fn op_name(&self, id: SymbolId) -> OpName {
        let s = self.symbol_parts(id);
        OpName {
            site: self.site_name(s.site).clone(),
            kind: s.kind,
            pack: s.pack,
            crosses: s.crosses,
            source: self.buffer_name(s.source).clone(),
            destination: self.buffer_name(s.destination).clone(),
        }
    }

    /// The symbol that has a name.
    pub fn symbol_named(&mut self, name: &OpName) -> SymbolId {
        let symbol = Symbol {
            site: self.named_site(&name.site),
            kind: name.kind,
            pack: name.pack,
            crosses: name.crosses,
            source: self.buffer(&name.source),
            destination: self.buffer(&name.destination),
        };
        self.symbol(&symbol)
    }
}

/// A segment's name with what differs between ranks and runs replaced by `*`.
///
/// Runs of digits go, and so do runs of at least four hexadecimal digits with a decimal one in them.
pub(crate) fn segment_pattern(name: &str) -> String {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let run = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        if run == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (hex, tail) = rest.split_at(run);
        let has_digit = hex.bytes().any(|b| b.is_ascii_digit());
        if has_digit && run >= 4 {
            push_star(&mut out);
        } else {
            for c in hex.chars() {
                if c.is_ascii_digit() { push_star(&mut out) } else { out.push(c) }
            }
        }
        rest = tail;
    }
    out
}

fn push_star(out: &mut String) {
    if !out.ends_with('*') {
        out.push('*');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_all_ranks_have_one_name() {
        let name = |s: &str| segment_pattern(s);
        assert_eq!(name("/dev/shm/vader_segment.node1.0.2f010001.3"), "/dev/shm/vader_segment.node*.*.*.*");
        assert_eq!(
            name("/dev/shm/vader_segment.node1.0.9a010001.12"),
            name("/dev/shm/vader_segment.node2.0.2f010001.3")
        );
        assert_eq!(name("/SYSV0000abcd (deleted)"), "/SYSV*");
        assert_eq!(name("/dev/shm/ucx_shm_posix_5a3f"), "/dev/shm/ucx_shm_posix_*");
        assert_eq!(name("façade"), "façade");
    }

    #[test]
    fn the_plan_names_a_file_better_than_proc() {
        let mut names = Names::new();
        let id = FileId { dev: 1, inode: 2 };
        names.file(id, "/lib/a", None, false);
        names.file(id, "/lib/b", Some("12"), true);
        names.file(id, "/lib/c", None, false);
        let site = names.site(id, 16);
        let want = SiteName::File { module: "/lib/b".into(), build_id: Some("12".into()), offset_bytes: 16 };
        assert_eq!(names.site_name(site), &want);
    }

    #[test]
    fn a_symbol_is_found_again_by_its_name() {
        let mut names = Names::new();
        let id = FileId { dev: 1, inode: 2 };
        let site = names.site(id, 16);
        let source = names.heap_buffer(site);
        let symbol =
            Symbol { site, kind: Kind::Copy, pack: true, crosses: false, source, destination: BufferId(0) };
        let symbol = names.symbol(&symbol);
        let name = names.op_name(symbol);
        assert_eq!(names.symbol_named(&name), symbol);
    }
}

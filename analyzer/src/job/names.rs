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
/// Most names of one sort: what hostile input can make us keep.
const MAX_NAMES: usize = 1 << 20;
/// Bytes of text that names of one sort may have: paths are in the names of all their places.
const MAX_NAME_BYTES: usize = 48 << 20;
/// No path and no function is longer; the rest is cut off.
const MAX_TEXT_BYTES: usize = 4096;

/// Gives equal things equal numbers, in the order in which they come.
/// Text of a name.
pub(crate) trait NameText {
    /// Its length.
    fn text_bytes(&self) -> usize {
        0
    }
}

impl NameText for SiteName {
    fn text_bytes(&self) -> usize {
        match self {
            Self::File { module, build_id, .. } => module.len() + build_id.as_ref().map_or(0, String::len),
            Self::Kernel { call } => call.len(),
            Self::Unknown => 0,
        }
    }
}

impl NameText for BufferName {
    fn text_bytes(&self) -> usize {
        match self {
            Self::Heap { site } => site.text_bytes(),
            Self::Shared { name } => name.len(),
            Self::Static { module } => module.len(),
            Self::HeapBeforeAttach
            | Self::Stack
            | Self::Anonymous
            | Self::NotWatched
            | Self::TcpStream
            | Self::QueuePair
            | Self::Unknown => 0,
        }
    }
}

/// Text that a job or a tape chose, of a length that a path may have.
pub(crate) fn bounded_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

pub(crate) struct Interner<T> {
    ids: FxHashMap<T, u32>,
    items: Vec<T>,
    text_bytes: usize,
}

impl<T: Clone + Eq + Hash + NameText> Interner<T> {
    /// `overflow` is number 0, and what everything is when there are too many.
    pub fn new(overflow: T) -> Self {
        let mut new = Self { ids: FxHashMap::default(), items: Vec::new(), text_bytes: 0 };
        new.intern(&overflow);
        new
    }

    pub fn intern(&mut self, item: &T) -> u32 {
        if let Some(&id) = self.ids.get(item) {
            return id;
        }
        let text_bytes = self.text_bytes + item.text_bytes();
        if self.items.len() >= MAX_NAMES || text_bytes > MAX_NAME_BYTES {
            return 0;
        }
        self.text_bytes = text_bytes;
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
    /// On its way through a TCP connection.
    TcpStream,
    /// On its way between two queue pairs of RDMA.
    QueuePair,
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
    /// From memory into a TCP stream.
    StreamWrite,
    /// Out of a TCP stream into memory.
    StreamRead,
    /// From memory into a queue pair of RDMA.
    RdmaSend,
    /// Out of a queue pair of RDMA into memory.
    RdmaReceive,
    /// RDMA write: into the memory of another process.
    RdmaWrite,
    /// RDMA read or atomic operation: from the memory of another process.
    RdmaRead,
}

impl Kind {
    /// All of them, by their numbers.
    pub(crate) const ALL: [Self; 12] = [
        Self::Copy,
        Self::Pack,
        Self::Unpack,
        Self::CrossRead,
        Self::CrossWrite,
        Self::Message,
        Self::StreamWrite,
        Self::StreamRead,
        Self::RdmaSend,
        Self::RdmaReceive,
        Self::RdmaWrite,
        Self::RdmaRead,
    ];
}

/// What an operation of a chain is, by name: what references keep.
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
/// Number of [`BufferName::TcpStream`].
pub(crate) const TCP_STREAM: BufferId = BufferId(4);
/// Number of [`BufferName::QueuePair`].
pub(crate) const QUEUE_PAIR: BufferId = BufferId(5);

/// All that is interned.
pub(crate) struct Names {
    files: FxHashMap<FileId, FileName>,
    /// Of their text, of all that there ever were.
    file_bytes: usize,
    sites: Interner<SiteName>,
    by_offset: FxHashMap<(FileId, u64), SiteId>,
    /// In this run's files; a site of a reference may not be here.
    site_files: FxHashMap<SiteId, (FileId, u64)>,
    buffers: Interner<BufferName>,
    heap: FxHashMap<SiteId, BufferId>,
}

impl Names {
    pub fn new() -> Self {
        let mut buffers = Interner::new(BufferName::Unknown);
        let numbered = [BufferName::HeapBeforeAttach, BufferName::Stack, BufferName::NotWatched];
        for name in numbered.into_iter().chain([BufferName::TcpStream, BufferName::QueuePair]) {
            buffers.intern(&name);
        }
        Self {
            files: FxHashMap::default(),
            file_bytes: 0,
            sites: Interner::new(SiteName::Unknown),
            by_offset: FxHashMap::default(),
            site_files: FxHashMap::default(),
            buffers,
            heap: FxHashMap::default(),
        }
    }

    /// Learns a file's name. What the plan says counts more than what `/proc` says.
    pub fn file(&mut self, id: FileId, path: &str, build_id: Option<&str>, from_plan: bool) {
        let known = self.files.get(&id).is_some_and(|f| f.from_plan || !from_plan);
        let (path, build_id) = (bounded_text(path), build_id.map(bounded_text));
        let text_bytes = self.file_bytes + path.len() + build_id.map_or(0, str::len);
        if known || self.files.len() >= MAX_NAMES || text_bytes > MAX_NAME_BYTES {
            return;
        }
        self.file_bytes = text_bytes;
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

    /// The same, of a site whose file is known where it was seen.
    pub fn site_in(&mut self, name: &SiteName, file: Option<FileId>) -> SiteId {
        let site = self.named_site(name);
        if let (Some(file), SiteName::File { offset_bytes, .. }) = (file, name)
            && self.site_files.len() < MAX_NAMES
        {
            self.site_files.entry(site).or_insert((file, *offset_bytes));
        }
        site
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
}

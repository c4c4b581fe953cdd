//! Which functions of an RDMA provider do the work: found in the memory of processes that have opened a device.
//!
//! Programs call `ibv_post_send` and its like through the table of an opened device (`struct ibv_context`). A provider is
//! stripped and exports nothing, so that its functions are known from there alone. A job's memory may say anything: a table
//! counts only if it leads to the provider's own code, and the plan takes only what is the beginning of a function there.

use analyzer::input::Mapping;
use analyzer::wire::FileId;

use super::memory_child::read_memory;
use super::processes::start_ticks;
use crate::plan::VerbsTable;

/// Of `struct ibv_context`, in bytes.
const POLL_CQ_AT: usize = 96;
const POST_SRQ_RECV_AT: usize = 168;
const POST_SEND_AT: usize = 208;
const POST_RECV_AT: usize = 216;
/// Behind the last of them.
const TABLE_BYTES: usize = POST_RECV_AT + 8;

/// Of one process so much is looked through.
const MOST_BYTES: u64 = 256 << 20;
const CHUNK_BYTES: u64 = 1 << 20;

/// Whether a path is that of a provider library: `libmlx5-rdmav34.so`.
pub(super) fn is_provider(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split_once("-rdmav")
        .is_some_and(|(_, version)| version.trim_start_matches(|c: char| c.is_ascii_digit()) == ".so")
}

/// What a process's memory says of a provider that it maps; `None`: it has opened no device of it.
pub(super) fn find_table(pid: u32, mappings: &[Mapping], provider: FileId) -> Option<VerbsTable> {
    let started = start_ticks(pid).ok()?;
    let code: Vec<&Mapping> = mappings.iter().filter(|m| m.exec && m.file == provider).collect();
    let mut left_bytes = MOST_BYTES;
    for heap in mappings.iter().filter(|m| may_have_tables(m)) {
        let mut start = heap.start;
        while start < heap.end && left_bytes > 0 {
            // Tables that begin at the end of a chunk are found in the next one.
            let end = heap.end.min(start.saturating_add(CHUNK_BYTES + TABLE_BYTES as u64));
            let bytes = read_memory(pid, started, start, end);
            if let Some(table) = bytes.and_then(|bytes| table_in(&bytes, provider, &code)) {
                return Some(table);
            }
            start = start.saturating_add(CHUNK_BYTES);
            left_bytes = left_bytes.saturating_sub(CHUNK_BYTES);
        }
    }
    None
}

/// Heap blocks are there, of the first thread and of others.
fn may_have_tables(mapping: &Mapping) -> bool {
    !mapping.exec
        && !mapping.shared
        && mapping.file.inode == 0
        && matches!(mapping.name.as_str(), "" | "[heap]")
}

/// The first table in a piece of memory.
fn table_in(bytes: &[u8], provider: FileId, code: &[&Mapping]) -> Option<VerbsTable> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let offset = |address: u64| {
        let mapping = code.iter().find(|m| (m.start..m.end).contains(&address))?;
        Some(address - mapping.start + mapping.offset_bytes)
    };
    (0..(bytes.len() + 8).saturating_sub(TABLE_BYTES)).step_by(8).find_map(|at| {
        Some(VerbsTable {
            file: provider,
            post_send: offset(word(at + POST_SEND_AT)?)?,
            post_recv: offset(word(at + POST_RECV_AT)?)?,
            poll_cq: offset(word(at + POLL_CQ_AT)?)?,
            // Not all devices have shared receive queues.
            post_srq_recv: offset(word(at + POST_SRQ_RECV_AT)?),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: FileId = FileId { dev: 1, inode: 7 };

    fn code() -> Mapping {
        Mapping {
            start: 0x7000_0000,
            end: 0x7000_4000,
            offset_bytes: 0x2000,
            file: PROVIDER,
            shared: false,
            exec: true,
            name: "/lib/libx-rdmav34.so".into(),
        }
    }

    fn memory(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        for (at, word) in words {
            bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_table_is_found_by_where_its_words_lead() {
        let words = [(104, 0x7000_0010), (176, 0x7000_0020), (216, 0x7000_0030), (224, 0x7000_0040)];
        let expected = VerbsTable {
            file: PROVIDER,
            post_send: 0x2030,
            post_recv: 0x2040,
            poll_cq: 0x2010,
            post_srq_recv: Some(0x2020),
        };
        assert_eq!(table_in(&memory(&words), PROVIDER, &[&code()]), Some(expected));
        assert_eq!(table_in(&memory(&words)[..224], PROVIDER, &[&code()]), None, "it is cut off");
        let mut elsewhere = words;
        elsewhere[0].1 = 0x6000_0000;
        assert_eq!(table_in(&memory(&elsewhere), PROVIDER, &[&code()]), None);
        let mut without = words;
        without[1].1 = 0;
        let found = table_in(&memory(&without), PROVIDER, &[&code()]).expect("the rest is there");
        assert_eq!(found.post_srq_recv, None);
    }

    #[test]
    fn providers_are_told_by_the_version_in_their_names() {
        for name in ["/usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so", "librxe-rdmav59.so"] {
            assert!(is_provider(name), "{name}");
        }
        for name in
            ["/lib/libibverbs.so.1", "/lib/libmlx5.so.1", "/a-rdmav34.so/libc.so.6", "x-rdmav34.so.txt"]
        {
            assert!(!is_provider(name), "{name}");
        }
    }
}

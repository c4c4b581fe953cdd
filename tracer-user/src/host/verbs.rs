//! Which functions of an RDMA provider do the work: found in the memory of processes that have opened a device.
//!
//! Programs call `ibv_post_send` and its like through the table of an opened device (`struct ibv_context`). A provider is
//! stripped and exports nothing, so that its functions are known from there alone. A job's memory may say anything: a table
//! counts only if it leads to the provider's own code, and the plan takes only what is the beginning of a function there.

use std::collections::BTreeSet;

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
/// What tells it from other tables of a provider: `abi_compat`, which is `__VERBS_ABI_IS_EXTENDED` in all that libibverbs makes.
const ABI_AT: usize = 320;
const EXTENDED_ABI: u64 = u64::MAX;
pub(super) const TABLE_BYTES: usize = ABI_AT + 8;

/// Of one process so much is looked through.
const MOST_BYTES: u64 = 256 << 20;
const CHUNK_BYTES: u64 = 1 << 20;

/// Providers that programs may link themselves: what is called `libmlx5-rdmav34.so` is a link to `libmlx5.so.1`.
const LINKED_PROVIDERS: [&str; 5] = ["libefa.so", "libhns.so", "libmana.so", "libmlx4.so", "libmlx5.so"];
/// Devices of this machine.
const DEVICES: &str = "/sys/class/infiniband_verbs";
/// What a process has open that uses one.
pub(super) const DEVICE_FILES: &str = "/dev/infiniband/uverbs";

/// How a library may be a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProviderName {
    /// It is nothing else: `librxe-rdmav34.so`.
    Plugin,
    /// It may be there for other reasons as well.
    Linked,
}

fn provider_name(path: &str) -> Option<ProviderName> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_plugin = name
        .split_once("-rdmav")
        .is_some_and(|(_, version)| version.strip_suffix(".so").is_some_and(is_version));
    let is_linked = LINKED_PROVIDERS.iter().any(|known| name.strip_prefix(known).is_some_and(is_version));
    is_plugin.then_some(ProviderName::Plugin).or(is_linked.then_some(ProviderName::Linked))
}

/// Whether a library is a provider, on this machine.
pub(super) fn is_provider(path: &str) -> bool {
    provider_name(path).is_some_and(|name| name == ProviderName::Plugin || has_devices())
}

/// Whether it has any; a provider that stands in for one needs none.
pub(super) fn has_devices() -> bool {
    let entries = std::fs::read_dir(DEVICES).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"uverbs"))
}

/// Whether a process may have opened a device. To look through its memory takes long.
fn may_have_opened(pid: u32) -> bool {
    if !has_devices() {
        return true;
    }
    std::fs::read_dir(format!("/proc/{pid}/fd")).is_err() || device_files(pid).next().is_some()
}

/// Files of devices that a process has open.
pub(super) fn device_files(pid: u32) -> impl Iterator<Item = std::path::PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.as_os_str().as_encoded_bytes().starts_with(DEVICE_FILES.as_bytes()))
}

/// What a process's memory says of the providers that it maps; nothing of those of which it has opened no device.
pub(super) fn find_tables(pid: u32, mappings: &[Mapping], providers: &BTreeSet<FileId>) -> Vec<VerbsTable> {
    let mut found: Vec<VerbsTable> = Vec::new();
    let Ok(started) = start_ticks(pid) else { return found };
    if !may_have_opened(pid) {
        return found;
    }
    let code: Vec<&Mapping> = mappings.iter().filter(|m| m.exec && providers.contains(&m.file)).collect();
    let mut left_bytes = MOST_BYTES;
    for heap in mappings.iter().filter(|m| may_have_tables(m)) {
        let mut start = heap.start;
        while start < heap.end && left_bytes > 0 && found.len() < providers.len() {
            // Tables that begin at the end of a chunk are found in the next one.
            let end = heap.end.min(start.saturating_add(CHUNK_BYTES + TABLE_BYTES as u64));
            for table in tables_in(&read_memory(pid, started, start, end).unwrap_or_default(), &code) {
                if !found.iter().any(|known| known.file == table.file) {
                    found.push(table);
                }
            }
            start = start.saturating_add(CHUNK_BYTES);
            left_bytes = left_bytes.saturating_sub(CHUNK_BYTES);
        }
    }
    found
}

/// Heap blocks are there, of the first thread and of others.
fn may_have_tables(mapping: &Mapping) -> bool {
    !mapping.exec
        && !mapping.shared
        && mapping.file.inode == 0
        && matches!(mapping.name.as_str(), "" | "[heap]")
}

/// The tables in a piece of memory: all functions of one are of the same provider.
pub(super) fn tables_in(bytes: &[u8], code: &[&Mapping]) -> impl Iterator<Item = VerbsTable> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let mapping = move |address: u64| code.iter().find(|m| (m.start..m.end).contains(&address));
    let first = code.iter().map(|m| m.start).min().unwrap_or(u64::MAX);
    let last = code.iter().map(|m| m.end).max().unwrap_or(0);
    (0..(bytes.len() + 8).saturating_sub(TABLE_BYTES)).step_by(8).filter_map(move |at| {
        let post_send = word(at + POST_SEND_AT).filter(|address| (first..last).contains(address))?;
        let file = mapping(post_send).filter(|_| word(at + ABI_AT) == Some(EXTENDED_ABI))?.file;
        let offset = |address: u64| {
            let mapping = mapping(address).filter(|m| m.file == file)?;
            Some(address - mapping.start + mapping.offset_bytes)
        };
        Some(VerbsTable {
            file,
            post_send: offset(post_send)?,
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

    fn first_table(bytes: &[u8]) -> Option<VerbsTable> {
        let other =
            Mapping { start: 0x5000_0000, end: 0x5000_1000, file: FileId { inode: 8, ..PROVIDER }, ..code() };
        tables_in(bytes, &[&other, &code()]).next()
    }

    #[test]
    fn a_table_is_found_by_where_its_words_lead() {
        let words =
            [(104, 0x7000_0010), (176, 0x7000_0020), (216, 0x7000_0030), (224, 0x7000_0040), (328, u64::MAX)];
        let expected = VerbsTable {
            file: PROVIDER,
            post_send: 0x2030,
            post_recv: 0x2040,
            poll_cq: 0x2010,
            post_srq_recv: Some(0x2020),
        };
        assert_eq!(first_table(&memory(&words)), Some(expected));
        assert_eq!(first_table(&memory(&words)[..328]), None, "it is cut off");
        assert_eq!(first_table(&memory(&words[..4])), None, "it is another table of the provider");
        for elsewhere in [0x6000_0000, 0x5000_0010] {
            let mut elsewhere_too = words;
            elsewhere_too[0].1 = elsewhere;
            assert_eq!(first_table(&memory(&elsewhere_too)), None, "not all are of one provider");
        }
        let mut without = words;
        without[1].1 = 0;
        let found = first_table(&memory(&without)).expect("the rest is there");
        assert_eq!(found.post_srq_recv, None);
    }

    #[test]
    fn providers_are_told_by_their_names_whether_or_not_they_are_links() {
        for name in ["/usr/lib/x86_64-linux-gnu/libibverbs/libbnxt_re-rdmav34.so", "librxe-rdmav59.so"] {
            assert_eq!(provider_name(name), Some(ProviderName::Plugin), "{name}");
        }
        for name in ["/usr/lib/x86_64-linux-gnu/libmlx5.so.1.24.44.0", "/lib64/libefa.so.1"] {
            assert_eq!(provider_name(name), Some(ProviderName::Linked), "{name}");
        }
        for name in
            ["/lib/libibverbs.so.1", "/lib/libmlx5.so.old", "/a-rdmav34.so/libc.so.6", "x-rdmav34.so.txt"]
        {
            assert_eq!(provider_name(name), None, "{name}");
        }
    }
}

//! Which functions of an RDMA provider do the work: found in the memory of processes that have opened a device.
//!
//! Programs call `ibv_post_send` and its like through the table of an opened device (`struct ibv_context`). A provider is
//! stripped and exports nothing, so that its functions are known from there alone. A job's memory may say anything: a table
//! counts only if it leads to the provider's own code, and the plan takes only what is the beginning of a function there.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::input::Mapping;
use analyzer::wire::FileId;

use super::memory_child::read_memory;
use super::processes::start_ticks;
use crate::plan::{VerbsFunction, VerbsTable};

use VerbsFunction as F;

/// Functions that something in memory leads to, and where, in bytes.
type FunctionPlaces = &'static [(usize, VerbsFunction)];

/// `struct ibv_context`: those that are always there, and others.
const OF_DEVICE: FunctionPlaces = &[(96, F::PollList), (208, F::PostSend), (216, F::PostReceive)];
const MORE_OF_DEVICE: FunctionPlaces = &[(168, F::PostSharedReceive)];
/// `struct ibv_qp_ex`
const OF_QUEUE_PAIR: FunctionPlaces = &[(320, F::BuildStart), (328, F::BuildComplete), (336, F::BuildAbort)];
/// By `enum ibv_wr_opcode`. A queue pair has those that it was made for.
const MORE_OF_QUEUE_PAIR: FunctionPlaces = &[
    (184, F::BuildRequest(5)),
    (192, F::BuildRequest(6)),
    (200, F::BuildRequest(8)),
    (208, F::BuildRequest(7)),
    (216, F::BuildRequest(4)),
    (224, F::BuildRequest(0)),
    (232, F::BuildRequest(1)),
    (240, F::BuildRequest(2)),
    (248, F::BuildRequest(3)),
    (256, F::BuildRequest(9)),
    (264, F::BuildRequest(10)),
    (288, F::BuildInline),
    (296, F::BuildInlineList),
    (304, F::BuildSegment),
    (312, F::BuildSegments),
    (344, F::BuildRequest(15)),
];
/// `struct ibv_cq_ex`
const OF_COMPLETION_QUEUE: FunctionPlaces = &[(144, F::PollStart), (152, F::PollNext), (160, F::PollEnd)];
const MORE_OF_COMPLETION_QUEUE: FunctionPlaces =
    &[(168, F::ReadOperation), (184, F::ReadBytes), (200, F::ReadQueue)];

/// What tells a device from other tables of a provider: `abi_compat`, which is `__VERBS_ABI_IS_EXTENDED` in all that libibverbs
/// makes.
const ABI_AT: usize = 320;
const EXTENDED_ABI: u64 = u64::MAX;
/// As long as the longest of the three.
pub(super) const TABLE_BYTES: usize = 344 + 8;
/// Queue pairs and completion queues that are looked at.
const MOST_OBJECTS: usize = 1 << 12;

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
    let code: Vec<&Mapping> = mappings.iter().filter(|m| m.exec && providers.contains(&m.file)).collect();
    let mut search = TableSearch::new(&code);
    let Ok(started) = start_ticks(pid) else { return Vec::new() };
    if !may_have_opened(pid) {
        return Vec::new();
    }
    let mut left_bytes = MOST_BYTES;
    for heap in mappings.iter().filter(|m| may_have_tables(m)) {
        let mut start = heap.start;
        while start < heap.end && left_bytes > 0 {
            // Tables that begin at the end of a chunk are found in the next one.
            let end = heap.end.min(start.saturating_add(CHUNK_BYTES + TABLE_BYTES as u64));
            search.look_at(start, &read_memory(pid, started, start, end).unwrap_or_default());
            start = start.saturating_add(CHUNK_BYTES);
            left_bytes = left_bytes.saturating_sub(CHUNK_BYTES);
        }
    }
    search.found()
}

/// Heap blocks are there, of the first thread and of others.
fn may_have_tables(mapping: &Mapping) -> bool {
    !mapping.exec
        && !mapping.shared
        && mapping.file.inode == 0
        && matches!(mapping.name.as_str(), "" | "[heap]")
}

/// What pieces of memory say of providers. Devices lead to their functions. Queue pairs and completion queues that are extended
/// have more of them, and begin with the address of their device. Pure.
pub(super) struct TableSearch<'m> {
    code: &'m [&'m Mapping],
    /// By their addresses.
    devices: BTreeMap<u64, VerbsTable>,
    /// With the addresses of their devices.
    objects: Vec<(u64, VerbsTable)>,
}

impl<'m> TableSearch<'m> {
    /// `code`: of providers.
    pub(super) fn new(code: &'m [&'m Mapping]) -> Self {
        Self { code, devices: BTreeMap::new(), objects: Vec::new() }
    }

    /// Looks at the memory that begins at an address.
    pub(super) fn look_at(&mut self, start: u64, bytes: &[u8]) {
        let first = self.code.iter().map(|m| m.start).min().unwrap_or(u64::MAX);
        let last = self.code.iter().map(|m| m.end).max().unwrap_or(0);
        for at in (0..bytes.len()).step_by(8) {
            let piece = &bytes[at..];
            let leads = |place: usize| word(piece, place).is_some_and(|to| (first..last).contains(&to));
            if leads(OF_DEVICE[0].0) && word(piece, ABI_AT) == Some(EXTENDED_ABI) {
                let device = self.table(piece, OF_DEVICE, MORE_OF_DEVICE);
                self.devices.extend(device.map(|device| (start + at as u64, device)));
            }
            for (places, more) in
                [(OF_QUEUE_PAIR, MORE_OF_QUEUE_PAIR), (OF_COMPLETION_QUEUE, MORE_OF_COMPLETION_QUEUE)]
            {
                if leads(places[0].0) && self.objects.len() < MOST_OBJECTS {
                    let object = self.table(piece, places, more);
                    self.objects.extend(word(piece, 0).zip(object));
                }
            }
        }
    }

    /// Where all of some places lead, and those of more that lead anywhere: all functions are of one provider.
    fn table(&self, bytes: &[u8], places: FunctionPlaces, more: FunctionPlaces) -> Option<VerbsTable> {
        let mapping = |address: u64| self.code.iter().find(|m| (m.start..m.end).contains(&address));
        let file = mapping(word(bytes, places[0].0)?)?.file;
        let function = |(place, function): &(usize, VerbsFunction)| {
            let address = word(bytes, *place)?;
            let mapping = mapping(address).filter(|m| m.file == file)?;
            Some((*function, address - mapping.start + mapping.offset_bytes))
        };
        let mut functions: BTreeSet<_> = places.iter().map(function).collect::<Option<_>>()?;
        functions.extend(more.iter().filter_map(function));
        Some(VerbsTable { file, functions })
    }

    /// One for each provider that has a device.
    pub(super) fn found(self) -> Vec<VerbsTable> {
        let Self { devices, objects, .. } = self;
        let is_of_device = |(device, object): &(u64, VerbsTable)| {
            devices.get(device).is_some_and(|device| device.file == object.file)
        };
        let objects: Vec<VerbsTable> =
            objects.into_iter().filter(is_of_device).map(|(_, object)| object).collect();
        let mut found: BTreeMap<FileId, VerbsTable> = BTreeMap::new();
        for device in devices.into_values() {
            // Other devices of the same provider have the same functions.
            found.entry(device.file).or_insert(device);
        }
        for object in objects {
            found.entry(object.file).and_modify(|table| table.functions.extend(object.functions));
        }
        found.into_values().collect()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
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

    const START: u64 = 0x9000_0000;

    fn memory(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        for (at, word) in words {
            bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn found(bytes: &[u8]) -> Vec<VerbsTable> {
        let other =
            Mapping { start: 0x5000_0000, end: 0x5000_1000, file: FileId { inode: 8, ..PROVIDER }, ..code() };
        let code = [&other, &code()];
        let mut search = TableSearch::new(&code);
        search.look_at(START, bytes);
        search.found()
    }

    /// At 8.
    const DEVICE: [(usize, u64); 5] =
        [(104, 0x7000_0010), (176, 0x7000_0020), (216, 0x7000_0030), (224, 0x7000_0040), (328, u64::MAX)];

    fn of_device() -> Vec<(VerbsFunction, u64)> {
        vec![
            (F::PostSend, 0x2030),
            (F::PostReceive, 0x2040),
            (F::PostSharedReceive, 0x2020),
            (F::PollList, 0x2010),
        ]
    }

    fn table(functions: &[(VerbsFunction, u64)]) -> Vec<VerbsTable> {
        vec![VerbsTable { file: PROVIDER, functions: functions.iter().copied().collect() }]
    }

    #[test]
    fn a_device_is_found_by_where_its_words_lead() {
        assert_eq!(found(&memory(&DEVICE)), table(&of_device()));
        assert_eq!(found(&memory(&DEVICE)[..328]), [], "it is cut off");
        assert_eq!(found(&memory(&DEVICE[..4])), [], "it is another table of the provider");
        for elsewhere in [0x6000_0000, 0x5000_0010] {
            let mut elsewhere_too = DEVICE;
            elsewhere_too[0].1 = elsewhere;
            assert_eq!(found(&memory(&elsewhere_too)), [], "not all are of one provider");
        }
        let mut without = DEVICE;
        without[1].1 = 0;
        let mut expected = of_device();
        expected.remove(2);
        assert_eq!(found(&memory(&without)), table(&expected), "it has no shared receive queues");
    }

    #[test]
    fn queue_pairs_and_completion_queues_of_a_device_have_more_functions() {
        let mut words = DEVICE.to_vec();
        // A queue pair at 512 that sends, and a completion queue at 1024.
        words.extend([(512, START + 8), (832, 0x7000_0100), (840, 0x7000_0110), (848, 0x7000_0120)]);
        words.extend([(512 + 240, 0x7000_0130), (512 + 304, 0x7000_0140), (512 + 232, 0x5000_0010)]);
        words.extend([(1024, START + 8), (1168, 0x7000_0200), (1176, 0x7000_0210), (1184, 0x7000_0220)]);
        words.push((1024 + 184, 0x7000_0230));
        let mut expected = of_device();
        expected.extend([(F::BuildStart, 0x2100), (F::BuildComplete, 0x2110), (F::BuildAbort, 0x2120)]);
        expected.extend([(F::BuildRequest(2), 0x2130), (F::BuildSegment, 0x2140)]);
        expected.extend([(F::PollStart, 0x2200), (F::PollNext, 0x2210), (F::PollEnd, 0x2220)]);
        expected.push((F::ReadBytes, 0x2230));
        assert_eq!(found(&memory(&words)), table(&expected));
        for (at, word) in [(512, START), (1024, 0), (840, 0x6000_0000), (1184, 0x5000_0010)] {
            let mut others = words.clone();
            others.push((at, word));
            assert!(found(&memory(&others))[0].functions.len() < expected.len(), "{at}: it is none");
        }
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

//! The probes of all plans so far, and what is counted by MPI function.

use super::ids::CallSiteId;
use super::names::{Interner, NameText, Names, SiteId, SiteName, bounded_text};
use crate::mpi::calls::{self, CallRow, Lifecycle};
use crate::tape::plan::{Probe, ProbeClass};
use crate::tape::wire::FileId;

/// Highest probe id that is known by number.
const MAX_PROBE_ID: u32 = 1 << 20;

/// What is kept of a probe.
#[derive(Clone, Debug)]
pub(crate) struct ProbeInfo {
    pub id: u32,
    pub class: ProbeClass,
    pub function: String,
    /// Of an MPI call, in the call table.
    pub row: Option<&'static CallRow>,
    /// What the call is for the life of its process.
    pub part: Lifecycle,
    pub file: FileId,
    pub site_offset_bytes: u64,
    pub site: SiteId,
    /// See [`Probe::is_free_of_c_library`].
    pub is_free_of_c_library: bool,
}

/// The function of an MPI call, by how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallFunction {
    /// By the probe that saw it.
    Probe(u32),
    /// By a number of its name.
    Name(u32),
}

// It is made of numbers.
impl NameText for (CallFunction, SiteId) {}

impl NameText for String {
    fn text_bytes(&self) -> usize {
        self.len()
    }
}

/// Counts of an MPI function; slot 0: outside MPI or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounts {
    pub calls: u64,
    pub movements: u64,
    pub bytes: u64,
}

impl CallCounts {
    /// Adds what is more in `now` than in `before`.
    pub fn add_difference(&mut self, now: &Self, before: &Self) {
        let add = |to: &mut u64, now: u64, before: u64| *to = to.wrapping_add(now.wrapping_sub(before));
        add(&mut self.calls, now.calls, before.calls);
        add(&mut self.movements, now.movements, before.movements);
        add(&mut self.bytes, now.bytes, before.bytes);
    }

    /// So many bytes were moved in a call.
    #[inline(always)]
    pub fn count_movement(&mut self, bytes: u64) {
        self.movements += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Whether a record of the probe says that a call begins.
fn is_entry(class: ProbeClass) -> bool {
    matches!(class, ProbeClass::Call | ProbeClass::CallResults)
}

/// All probes, by slot; slot 0 is the unknown one.
pub(crate) struct Probes {
    slots: Vec<u32>,
    infos: Vec<Option<ProbeInfo>>,
    calls: Interner<(CallFunction, SiteId)>,
    /// Functions of calls that were seen elsewhere.
    functions: Interner<String>,
    call_counts: Vec<CallCounts>,
    has_calls: bool,
    has_copies: bool,
    pub readv: SiteId,
    pub writev: SiteId,
    pub tcp_sendmsg: SiteId,
    pub tcp_recvmsg: SiteId,
}

impl Probes {
    pub fn new(names: &mut Names) -> Self {
        let mut kernel = |call: &str| names.named_site(&SiteName::Kernel { call: call.to_owned() });
        Self {
            slots: Vec::new(),
            infos: vec![None],
            calls: Interner::new((CallFunction::Probe(0), SiteId(0))),
            functions: Interner::new(String::new()),
            call_counts: vec![CallCounts::default()],
            has_calls: false,
            has_copies: false,
            readv: kernel("process_vm_readv"),
            writev: kernel("process_vm_writev"),
            tcp_sendmsg: kernel("tcp_sendmsg"),
            tcp_recvmsg: kernel("tcp_recvmsg"),
        }
    }

    /// A probe of a plan. One that is planned again keeps its slot.
    pub fn add(&mut self, probe: &Probe, names: &mut Names) {
        if probe.id == 0 || probe.id > MAX_PROBE_ID {
            return;
        }
        self.has_calls |= is_entry(probe.class);
        self.has_copies |= matches!(probe.class, ProbeClass::Copy | ProbeClass::Pack | ProbeClass::Unpack);
        let id = probe.id as usize;
        if id >= self.slots.len() {
            self.slots.resize(id + 1, 0);
        }
        let info = ProbeInfo {
            is_free_of_c_library: probe.is_free_of_c_library(),
            id: probe.id,
            class: probe.class,
            function: bounded_text(&probe.function).to_owned(),
            row: calls::row(&probe.function),
            part: if is_entry(probe.class) { calls::lifecycle(&probe.function) } else { Lifecycle::None },
            file: probe.file,
            site_offset_bytes: probe.site_offset_bytes,
            site: names.site(probe.file, probe.site_offset_bytes),
        };
        if self.slots[id] == 0 {
            self.slots[id] = self.infos.len() as u32;
            self.infos.push(None);
            self.call_counts.push(CallCounts::default());
        }
        let slot = self.slots[id] as usize;
        self.infos[slot] = Some(info);
    }

    /// Whether MPI calls are watched, and no copies of memory.
    pub fn are_of_calls_only(&self) -> bool {
        self.has_calls && !self.has_copies
    }

    /// Slot of a probe id; 0: it is in no plan.
    pub fn slot(&self, id: u32) -> usize {
        self.slots.get(id as usize).copied().unwrap_or(0) as usize
    }

    pub fn get(&self, slot: usize) -> Option<&ProbeInfo> {
        self.infos.get(slot)?.as_ref()
    }

    /// Probes with their slots, in order of id.
    pub fn all(&self) -> impl Iterator<Item = (usize, &ProbeInfo)> {
        self.slots.iter().filter(|s| **s != 0).filter_map(|&s| Some((s as usize, self.get(s as usize)?)))
    }

    /// An MPI call at a place of the program.
    pub fn call(&mut self, probe: u32, site: SiteId) -> CallSiteId {
        CallSiteId(self.calls.intern(&(CallFunction::Probe(probe), site)))
    }

    /// The same, of a call that was seen elsewhere, where probes have other numbers.
    pub fn named_call(&mut self, function: &str, site: SiteId) -> CallSiteId {
        let function = CallFunction::Name(self.functions.intern(&bounded_text(function).to_owned()));
        CallSiteId(self.calls.intern(&(function, site)))
    }

    /// Function and call site.
    pub fn call_parts(&self, call: CallSiteId) -> (String, SiteId) {
        if !call.is_some() {
            return (String::new(), SiteId(0));
        }
        let (function, site) = *self.calls.get(call.0);
        let function = match function {
            CallFunction::Probe(probe) => self.get(self.slot(probe)).map(|probe| &probe.function),
            CallFunction::Name(name) => Some(self.functions.get(name)),
        };
        (function.cloned().unwrap_or_default(), site)
    }

    pub fn call_counts(&mut self, slot: usize) -> &mut CallCounts {
        &mut self.call_counts[slot]
    }

    pub fn all_call_counts(&self) -> &[CallCounts] {
        &self.call_counts
    }
}

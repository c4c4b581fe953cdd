//! Rings and counters: what the kernel part writes and the collector reads.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use tracer_ebpf::DmscopeSkel;
use tracer_ebpf::types;

use super::load::KernelError;
use super::types::MAX_SLOTS;

/// One ring, not yet read by anyone.
pub struct KernelRing {
    /// Where records of the slot's processes go.
    pub slot: u32,
    /// The kernel's ring.
    pub map: MapHandle,
}

/// A ring that nothing is written to yet: see [`publish`].
pub(super) fn create(slot: u32, ring_bytes: u32) -> Result<KernelRing, KernelError> {
    // SAFETY: an all-zero bpf_map_create_opts with its size set is libbpf's documented default.
    let mut options: libbpf_rs::libbpf_sys::bpf_map_create_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as _;
    let map = MapHandle::create(MapType::RingBuf, Some("dms_ring"), 0, 0, ring_bytes, &options);
    let refused = |source| KernelError::Refused { what: format!("a ring of {ring_bytes} bytes"), source };
    Ok(KernelRing { slot, map: map.map_err(refused)? })
}

/// Has the programs write to rings. All in one call: after each the kernel waits until all processors
/// have come by, which is a hundredth of a second and more on a busy machine.
pub(super) fn publish(skel: &DmscopeSkel<'_>, rings: &[KernelRing]) -> Result<(), KernelError> {
    if rings.is_empty() {
        return Ok(());
    }
    let slots: Vec<u8> = rings.iter().flat_map(|ring| ring.slot.to_ne_bytes()).collect();
    let maps: Vec<u8> = rings.iter().flat_map(|ring| ring.map.as_fd().as_raw_fd().to_ne_bytes()).collect();
    skel.maps
        .rings
        .update_batch(&slots, &maps, rings.len() as u32, MapFlags::ANY, MapFlags::ANY)
        .map_err(|source| KernelError::Refused { what: format!("{} rings", rings.len()), source })
}

/// What a slot counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounters {
    /// Records of movements that found no room.
    pub lost_movements: u64,
    /// Records of MPI calls and of process life that found no room.
    pub lost_calls: u64,
    /// Records of heap blocks, mappings and process life that found no room.
    pub lost_state: u64,
    /// Hits of allocation probes that were not worth a record.
    pub declined: u64,
    /// Polling calls that were followed to their return, and said no.
    pub refused: u64,
}

impl SlotCounters {
    /// All records that found no room; those of process life twice.
    pub fn lost(&self) -> u64 {
        self.lost_movements + self.lost_calls + self.lost_state
    }
}

/// The counters of all slots, shared with the kernel.
pub struct Counters {
    first: *const types::slot_counters,
}

// SAFETY: the memory is mapped for the life of the process (the object is never closed, see
// `load`), and it is only read, with volatile loads of aligned words that the kernel adds to.
unsafe impl Send for Counters {}
// SAFETY: as above.
unsafe impl Sync for Counters {}

impl Counters {
    /// The counters of one slot; zero for slots that do not exist.
    pub fn read(&self, slot: u32) -> SlotCounters {
        if slot >= MAX_SLOTS {
            return SlotCounters::default();
        }
        // SAFETY: `first` points to MAX_SLOTS entries; see the note on Send.
        unsafe {
            let entry = self.first.add(slot as usize);
            SlotCounters {
                lost_movements: (&raw const (*entry).lost_movements).read_volatile(),
                lost_calls: (&raw const (*entry).lost_calls).read_volatile(),
                lost_state: (&raw const (*entry).lost_state).read_volatile(),
                declined: (&raw const (*entry).declined).read_volatile(),
                refused: (&raw const (*entry).refused).read_volatile(),
            }
        }
    }
}

pub(super) fn counters(skel: &DmscopeSkel<'_>) -> Arc<Counters> {
    let bss = skel.maps.bss_data.as_ref().expect("the object has counters");
    assert_eq!(bss.counters.len(), MAX_SLOTS as usize, "as many counters as slots");
    Arc::new(Counters { first: bss.counters.as_ptr() })
}

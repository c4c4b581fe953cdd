//! The loaded programs, and all that is done with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use analyzer::plan::{Plan, Probe};
use analyzer::wire::FileId;
use libbpf_rs::{Link, MapCore, MapFlags};
use tracer_ebpf::DmscopeSkel;
use tracer_ebpf::types;

use super::links::{self, AttachedLink, OpenTarget};
use super::load::{self, Features, KernelError, LoadSettings};
use super::rings::{self, Counters, KernelRing};
use super::shapes::Shapes;
use super::types::{Attached, MAX_OWN_RANGES, Target};

const OWNS_ALL: u32 = u32::MAX;

/// The loaded programs and what they are attached to. Dropping it detaches everything.
pub struct Tracer {
    /// Never closed: counters and rings of the collector point into it. It ends with the process.
    pub(super) skel: ManuallyDrop<DmscopeSkel<'static>>,
    features: Features,
    pub(super) settings: LoadSettings,
    kernel_events: Vec<Link>,
    pub(super) targets: BTreeMap<FileId, OpenTarget>,
    pub(super) probes: BTreeMap<u32, Probe>,
    shapes: Shapes,
    links: Vec<AttachedLink>,
    closing: Vec<JoinHandle<()>>,
}

impl Tracer {
    /// Loads the programs in the best form that this kernel takes.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn load(settings: LoadSettings) -> Result<Self, KernelError> {
        let (skel, features) = load::load(&settings)?;
        Ok(Self {
            skel: ManuallyDrop::new(skel),
            features,
            settings,
            kernel_events: Vec::new(),
            targets: BTreeMap::new(),
            probes: BTreeMap::new(),
            shapes: Shapes::default(),
            links: Vec::new(),
            closing: Vec::new(),
        })
    }

    /// What this kernel offered.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Starts to see the system calls and process events of watched processes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach_kernel_events(&mut self) -> Result<(), KernelError> {
        self.kernel_events.extend(links::kernel_events(&self.skel)?);
        Ok(())
    }

    /// Attaches the probes of a plan. `targets`: the files that they are in; a probe whose file is not among them, or
    /// cannot be opened, is not attached. `apart`: probes that get a link of their own, so that each can be detached
    /// without others.
    pub fn attach(
        &mut self,
        plan: &Plan,
        targets: &BTreeMap<FileId, Target>,
        apart: &BTreeSet<u32>,
    ) -> Attached {
        for file in plan.probes.iter().map(|p| p.file).collect::<BTreeSet<_>>() {
            if let Some(target) = targets.get(&file)
                && let Ok(open) = File::open(&target.path)
            {
                self.targets.insert(file, OpenTarget { file: open, scopes: target.scopes.clone() });
            }
        }
        let table = self.skel.maps.data_shapes_data.as_deref_mut().expect("the object has shapes");
        for results in plan.probes.iter().filter_map(|probe| probe.results.as_ref()) {
            self.shapes.add(results, &mut table.shapes);
        }
        let probes: Vec<&Probe> = plan.probes.iter().collect();
        let (links, attached) =
            links::attach(&self.skel, self.features, &probes, &self.targets, apart, &self.shapes);
        self.links.extend(links);
        self.probes.extend(plan.probes.iter().map(|p| (p.id, p.clone())));
        attached
    }

    /// While it is paused, movements between processes by system calls leave no records.
    pub fn pause(&mut self, is_paused: bool) {
        let data = self.skel.maps.data_watch_data.as_deref_mut().expect("the object has a pause");
        data.is_paused = u32::from(is_paused);
    }

    /// Detaches probes, and those that share a link with them; gives back which. Returns at once; the
    /// breakpoints are gone a little later.
    pub fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let (detached, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.links).into_iter().partition(|link| !link.probes.is_disjoint(probes));
        self.links = stay;
        let ids = detached.iter().flat_map(|link| link.probes.iter().copied()).collect();
        for link in detached {
            // The kernel waits for running handlers at each link: side by side. A thread that cannot be had
            // only makes it slower.
            let closed = std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop(link));
            self.closing.extend(closed.ok());
        }
        ids
    }

    /// Attaches probes again that were detached; with as few links as can be.
    pub fn reattach(&mut self, probes: &BTreeSet<u32>) -> Attached {
        for closed in self.closing.drain(..) {
            // A link that is still being closed would see the same hits.
            let _ = closed.join();
        }
        let probes: Vec<&Probe> = probes.iter().filter_map(|id| self.probes.get(id)).collect();
        let together = BTreeSet::new();
        let (links, attached) =
            links::attach(&self.skel, self.features, &probes, &self.targets, &together, &self.shapes);
        self.links.extend(links);
        attached
    }

    /// Makes the ring of a slot.
    ///
    /// # Errors
    /// No memory, or more slots than there are.
    pub fn make_ring(&mut self, slot: u32) -> Result<KernelRing, KernelError> {
        let ring = rings::create(slot, self.settings.ring_bytes)?;
        rings::publish(&self.skel, std::slice::from_ref(&ring))?;
        Ok(ring)
    }

    /// Makes the rings of slots, from the first on as many as there is memory for.
    ///
    /// # Errors
    /// No memory for any, or more slots than there are.
    pub fn make_rings(&mut self, slots: Range<u32>) -> Result<Vec<KernelRing>, KernelError> {
        let mut rings = Vec::new();
        for slot in slots {
            match rings::create(slot, self.settings.ring_bytes) {
                Ok(ring) => rings.push(ring),
                Err(error) if rings.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        if !rings.is_empty() {
            rings::publish(&self.skel, &rings)?;
        }
        Ok(rings)
    }

    pub(super) fn drop_ring(&self, slot: u32) {
        // Else it stays to the end of the session, which costs its memory only.
        let _ = self.skel.maps.rings.delete(&slot.to_ne_bytes());
    }

    /// The counters of all slots, readable from any thread.
    pub fn counters(&self) -> Arc<Counters> {
        rings::counters(&self.skel)
    }

    /// Watches a process from now on: its records go to the ring of `slot`. `own_code` is where the
    /// code lies whose small heap blocks are recorded; `None`: not known yet, all are.
    ///
    /// # Errors
    /// The kernel's refusal (too many watched processes).
    pub fn watch(&mut self, pid: u32, slot: u32, own_code: Option<&[(u64, u64)]>) -> Result<(), KernelError> {
        let mut own = [types::code_range::default(); MAX_OWN_RANGES];
        let owns = own_code.map_or(OWNS_ALL, |ranges| ranges.len().min(MAX_OWN_RANGES) as u32);
        for (range, &(start, end)) in own.iter_mut().zip(own_code.unwrap_or_default()) {
            *range = types::code_range { start, end };
        }
        let target = types::target { slot, owns, own, ..types::target::default() };
        let result = self
            .skel
            .maps
            .targets
            .update(&pid.to_ne_bytes(), &target_bytes(&target), MapFlags::ANY)
            .map_err(|e| KernelError::Refused { what: format!("watching process {pid}"), source: e });
        self.forget_what_threads_keep();
        result
    }

    /// No longer watches a process.
    pub fn unwatch(&mut self, pid: u32) {
        // It may have ended, which takes it off the list as well.
        let _ = self.skel.maps.targets.delete(&pid.to_ne_bytes());
        self.forget_what_threads_keep();
    }

    /// Threads keep what the list of watched processes said of them: see `watch_epoch` in `common.h`.
    fn forget_what_threads_keep(&mut self) {
        let data = self.skel.maps.data_watch_data.as_deref_mut().expect("the object has an epoch");
        // Never 0, which is what a thread starts with.
        data.watch_epoch = data.watch_epoch.wrapping_add(1).max(1);
    }

    /// Detaches all probes and kernel events. The kernel waits for running ones at each link, so links are
    /// closed side by side.
    pub fn detach_all(&mut self) {
        let all = self.probes.keys().copied().collect();
        self.detach(&all);
        self.kernel_events.clear();
        for closed in self.closing.drain(..) {
            let _ = closed.join();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.detach_all();
    }
}

fn target_bytes(target: &types::target) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of::<types::target>());
    bytes.extend(target.slot.to_ne_bytes());
    bytes.extend(target.owns.to_ne_bytes());
    for range in &target.own {
        bytes.extend(range.start.to_ne_bytes());
        bytes.extend(range.end.to_ne_bytes());
    }
    bytes.extend(target.fault_at.to_ne_bytes());
    bytes.extend(target.fault_signal.to_ne_bytes());
    bytes.extend(target.unused.to_ne_bytes());
    bytes
}

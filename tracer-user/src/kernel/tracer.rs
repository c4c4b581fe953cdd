//! The loaded programs, and all that is done with them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use analyzer::plan::{Plan, Probe};
use analyzer::wire::FileId;
use libbpf_rs::{Link, MapCore, MapFlags};
use tracer_ebpf::DmscopeSkel;
use tracer_ebpf::types;

use super::holder::{HolderGone, LinkHolder};
use super::links::{self, AttachedLink, LinkMaker, Reach};
use super::load::{self, Features, KernelError, LoadSettings};
use super::rings::{self, Counters, KernelRing};
use super::shapes::Shapes;
use super::strangers::{StrangerHits, stranger_hits};
use super::types::{Attached, MAX_OWN_RANGES, ProcessKey, Scope, Target};
use crate::budget::{Bundle, bundles};

const OWNS_ALL: u32 = u32::MAX;

/// The loaded programs and what they are attached to. Dropping it detaches everything.
pub struct Tracer {
    /// Never closed: counters and rings of the collector point into it. It ends with the process.
    pub(super) skel: ManuallyDrop<DmscopeSkel<'static>>,
    /// Loaded once they are needed. Never closed either.
    verbs: VerbsPrograms,
    features: Features,
    pub(super) settings: LoadSettings,
    kernel_events: Vec<Link>,
    pub(super) targets: BTreeMap<FileId, Target>,
    pub(super) probes: BTreeMap<u32, Probe>,
    shapes: Shapes,
    /// What is attached, whether or not anybody is reached by it.
    pub(super) attached: BTreeMap<Bundle, BTreeSet<u32>>,
    /// Processes that have links of their own where a file's scope wants that.
    reached: BTreeSet<u32>,
    pub(super) links: Vec<AttachedLink>,
    /// Probes that were attached a second time, without those beside them that went: see [`super::moving`].
    pub(super) second: BTreeSet<u32>,
    pub(super) holder: LinkHolder,
}

/// The programs for RDMA verbs, or why they are not there.
type VerbsPrograms = Option<Result<ManuallyDrop<DmscopeSkel<'static>>, String>>;

/// For those who make links.
fn loaded(verbs: &VerbsPrograms) -> Result<&DmscopeSkel<'static>, &str> {
    match verbs {
        Some(Ok(skel)) => Ok(skel),
        Some(Err(why)) => Err(why),
        None => Err("the programs for RDMA verbs are not loaded"),
    }
}

impl Tracer {
    /// Loads the programs in the best form that this kernel takes.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn load(settings: LoadSettings) -> Result<Self, KernelError> {
        let holder = LinkHolder::start(settings.holder).map_err(KernelError::NoHolder)?;
        let (skel, features) = load::load(&settings)?;
        let kernel_events = links::switches(&skel)?.into_iter().collect();
        Ok(Self {
            skel: ManuallyDrop::new(skel),
            verbs: None,
            features,
            settings,
            kernel_events,
            targets: BTreeMap::new(),
            probes: BTreeMap::new(),
            shapes: Shapes::default(),
            attached: BTreeMap::new(),
            reached: BTreeSet::new(),
            links: Vec::new(),
            second: BTreeSet::new(),
            holder,
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
    /// was changed since the plan was made, is not attached.
    pub fn attach(&mut self, plan: &Plan, targets: &BTreeMap<FileId, Target>) -> Attached {
        for file in plan.probes.iter().map(|p| p.file).collect::<BTreeSet<_>>() {
            if let Some(target) = targets.get(&file) {
                self.targets.insert(file, target.clone());
            }
        }
        let table = self.skel.maps.data_shapes_data.as_deref_mut().expect("the object has shapes");
        for results in plan.probes.iter().filter_map(|probe| probe.results.as_ref()) {
            self.shapes.add(results, &mut table.shapes);
        }
        self.probes.extend(plan.probes.iter().map(|p| (p.id, p.clone())));
        self.attach_known(&plan.probes.iter().map(|p| p.id).collect(), &BTreeSet::new())
    }

    fn attach_known(&mut self, ids: &BTreeSet<u32>, hot: &BTreeSet<u32>) -> Attached {
        let probes = ids.iter().filter_map(|id| self.probes.get(id));
        let bundles = bundles(probes, hot);
        if self.verbs.is_none() && bundles.keys().any(|bundle| bundle.class().is_of_verbs()) {
            let loaded = load::load_verbs(&self.skel, self.features);
            let why = |error| format!("the kernel did not take the programs for RDMA verbs: {error}");
            self.verbs = Some(loaded.map(ManuallyDrop::new).map_err(why));
        }
        let ids = |probes: Vec<&Probe>| probes.iter().map(|probe| probe.id).collect();
        let bundles = bundles.into_iter().map(|(bundle, probes)| (bundle, ids(probes))).collect();
        let (links, attached) = self.make_links(&bundles, None);
        for (bundle, ids) in bundles {
            let has_failed = |id: &u32| attached.failed.iter().any(|(probe, _)| probe.id == *id);
            self.attached.entry(bundle).or_default().extend(ids.into_iter().filter(|id| !has_failed(id)));
        }
        self.links.extend(links);
        attached
    }

    /// Makes the links of known probes, in their bundles; `one_more`: for this process alone, of files that others have their
    /// own links for.
    pub(super) fn make_links(
        &mut self,
        bundles: &BTreeMap<Bundle, BTreeSet<u32>>,
        one_more: Option<u32>,
    ) -> (Vec<AttachedLink>, Attached) {
        let Self { skel, verbs, features, targets, shapes, second, probes, reached, holder, .. } = self;
        let verbs = loaded(verbs);
        let maker = LinkMaker { skel, verbs, features: *features, targets, shapes, second };
        let of_bundle = |ids: &BTreeSet<u32>| ids.iter().filter_map(|id| probes.get(id)).collect();
        // Of some bundles nothing may be left.
        let bundles = bundles.iter().filter(|(_, ids)| !ids.is_empty());
        let bundles = bundles.map(|(bundle, ids)| (*bundle, of_bundle(ids))).collect();
        maker.attach(&bundles, one_more.map_or(Reach::All(reached), Reach::OneMore), holder)
    }

    /// Whether the probes are still there: they go with their holder.
    ///
    /// # Errors
    /// It has ended.
    pub fn check_holder(&self) -> Result<(), HolderGone> {
        self.holder.check()
    }

    /// Has probes of files whose scope is [`Scope::EachReached`](super::types::Scope) seen in one more process, also
    /// those that are attached later.
    pub fn reach(&mut self, pid: u32) -> Attached {
        if !self.reached.insert(pid) {
            return Attached::default();
        }
        let is_filtered = |bundle: &Bundle| {
            self.targets.get(&bundle.file()).is_some_and(|target| target.scope == Scope::EachReached)
        };
        let bundles = self.attached.iter().filter(|(bundle, _)| is_filtered(bundle));
        let bundles = bundles.map(|(bundle, ids)| (*bundle, ids.clone())).collect();
        let (links, attached) = self.make_links(&bundles, Some(pid));
        self.links.extend(links);
        attached
    }

    /// Closes the links that a process has for itself. Returns at once.
    pub fn leave(&mut self, pid: u32) {
        if self.reached.remove(&pid) {
            self.close(|link| link.process == Some(pid));
        }
    }

    fn close(&mut self, is_wanted: impl Fn(&AttachedLink) -> bool) {
        let closed = self.links.extract_if(.., |link| is_wanted(link));
        self.holder.close(closed.map(|link| link.id).collect());
    }

    /// Hits of processes that are not watched, since the programs were loaded.
    pub fn stranger_hits(&self) -> StrangerHits {
        stranger_hits(&self.skel)
    }

    /// While it is paused, movements between processes by system calls leave no records.
    pub fn pause(&mut self, is_paused: bool) {
        let data = self.skel.maps.data_watch_data.as_deref_mut().expect("the object has a pause");
        data.is_paused = u32::from(is_paused);
    }

    /// Detaches probes, and those that are in a bundle with them; gives back which. Returns at once; the
    /// breakpoints are gone a little later.
    pub fn detach(&mut self, probes: &BTreeSet<u32>) -> BTreeSet<u32> {
        let detached: BTreeMap<Bundle, BTreeSet<u32>> =
            self.attached.extract_if(.., |_, ids| !ids.is_disjoint(probes)).collect();
        self.close(|link| detached.contains_key(&link.bundle));
        detached.into_values().flatten().collect()
    }

    /// Attaches probes again that were detached; those that were too expensive before, `hot`, apart from the rest.
    pub fn reattach(&mut self, probes: &BTreeSet<u32>, hot: &BTreeSet<u32>) -> Attached {
        // A link that is still being closed would see the same hits.
        self.holder.wait_for_closed();
        self.attach_known(probes, hot)
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

    /// Makes the rings of slots, from the first on as many as can be had; and says why there are no more.
    pub fn make_rings(&mut self, slots: Range<u32>) -> (Vec<KernelRing>, Option<KernelError>) {
        let (mut rings, mut refused) = (Vec::new(), None);
        for slot in slots {
            match rings::create(slot, self.settings.ring_bytes) {
                Ok(ring) => rings.push(ring),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        match rings::publish(&self.skel, &rings) {
            Ok(()) => (rings, refused),
            Err(error) => (Vec::new(), Some(error)),
        }
    }

    pub(super) fn drop_ring(&self, slot: u32) {
        // Else it stays to the end of the session, which costs its memory only.
        let _ = self.skel.maps.rings.delete(&slot.to_ne_bytes());
    }

    /// The counters of all slots, readable from any thread.
    pub fn counters(&self) -> Arc<Counters> {
        rings::counters(&self.skel)
    }

    /// Watches a process from now on: its records go to the ring of `slot`. All its code counts as its own until
    /// it is told otherwise.
    ///
    /// # Errors
    /// The kernel's refusal (too many watched processes).
    pub fn watch(&mut self, process: ProcessKey, slot: u32) -> Result<(), KernelError> {
        let target = types::target {
            start_ticks: process.start_ticks,
            slot,
            owns: OWNS_ALL,
            ..types::target::default()
        };
        self.put_target(process.pid, &target, MapFlags::ANY)
    }

    /// Says where the code of a watched process lies whose small heap blocks are recorded. One that is not watched
    /// (any more) stays so.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn tell_own_code(&mut self, pid: u32, own_code: &[(u64, u64)]) -> Result<(), KernelError> {
        self.change_target(pid, |target| {
            target.owns = own_code.len().min(MAX_OWN_RANGES) as u32;
            for (range, &(start, end)) in target.own.iter_mut().zip(own_code) {
                *range = types::code_range { start, end };
            }
        })
    }

    /// Says where the threads of a watched process note their MPI calls, in its own space. One that is not watched (any more)
    /// stays so.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn tell_notes(&mut self, pid: u32, notes_at: u64) -> Result<(), KernelError> {
        self.change_target(pid, |target| target.notes_at = notes_at)
    }

    pub(super) fn change_target(
        &mut self,
        pid: u32,
        change: impl FnOnce(&mut types::target),
    ) -> Result<(), KernelError> {
        let Some(mut target) = self.target(pid) else { return Ok(()) };
        change(&mut target);
        match self.put_target(pid, &target, MapFlags::EXIST) {
            // It has ended in between.
            Err(KernelError::Refused { source, .. }) if source.kind() == libbpf_rs::ErrorKind::NotFound => {
                Ok(())
            }
            result => result,
        }
    }

    fn target(&self, pid: u32) -> Option<types::target> {
        let known = self.skel.maps.targets.lookup(&pid.to_ne_bytes(), MapFlags::ANY);
        known.ok().flatten().and_then(|bytes| target_from(&bytes))
    }

    fn put_target(&mut self, pid: u32, target: &types::target, flags: MapFlags) -> Result<(), KernelError> {
        let result = self
            .skel
            .maps
            .targets
            .update(&pid.to_ne_bytes(), &target_bytes(target), flags)
            .map_err(|e| KernelError::Refused { what: format!("watching process {pid}"), source: e });
        self.forget_what_threads_keep();
        result
    }

    /// No longer watches the process that started then; `None`: whichever has this PID.
    pub fn unwatch(&mut self, pid: u32, started: Option<u64>) {
        if let Some(started) = started
            && self.target(pid).is_none_or(|target| target.start_ticks != started)
        {
            return;
        }
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

    /// Detaches all probes and kernel events, and waits until they are out.
    pub fn detach_all(&mut self) {
        let all = self.probes.keys().copied().collect();
        self.detach(&all);
        self.kernel_events.clear();
        self.holder.wait_for_closed();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.detach_all();
    }
}

fn target_bytes(target: &types::target) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of::<types::target>());
    bytes.extend(target.start_ticks.to_ne_bytes());
    bytes.extend(target.slot.to_ne_bytes());
    bytes.extend(target.owns.to_ne_bytes());
    for range in &target.own {
        bytes.extend(range.start.to_ne_bytes());
        bytes.extend(range.end.to_ne_bytes());
    }
    bytes.extend(target.fault_at.to_ne_bytes());
    bytes.extend(target.fault_signal.to_ne_bytes());
    bytes.extend(target.is_moved.to_ne_bytes());
    bytes.extend(target.notes_at.to_ne_bytes());
    bytes
}

/// The same, backwards.
fn target_from(bytes: &[u8]) -> Option<types::target> {
    if bytes.len() < size_of::<types::target>() {
        return None;
    }
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
    let mut target =
        types::target { start_ticks: word(0), slot: half(8), owns: half(12), ..types::target::default() };
    for (range, at) in target.own.iter_mut().zip((16..).step_by(16)) {
        *range = types::code_range { start: word(at), end: word(at + 8) };
    }
    let behind = 16 + 16 * MAX_OWN_RANGES;
    target.fault_at = word(behind);
    target.fault_signal = half(behind + 8);
    target.is_moved = half(behind + 12);
    target.notes_at = word(behind + 16);
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_back_as_it_was_written() {
        let mut target = types::target { start_ticks: 1, slot: 2, owns: 3, ..types::target::default() };
        target.own[7] = types::code_range { start: 4, end: 5 };
        (target.fault_at, target.fault_signal, target.is_moved, target.notes_at) = (6, 7, 1, 8);
        let bytes = target_bytes(&target);
        assert_eq!(bytes.len(), size_of::<types::target>());
        let again = target_from(&bytes).expect("as long as it must be");
        assert_eq!(target_bytes(&again), bytes);
        assert_eq!((again.start_ticks, again.own[7].end, again.fault_signal), (1, 5, 7));
        assert_eq!((again.is_moved, again.notes_at), (1, 8));
        assert!(target_from(&bytes[1..]).is_none());
    }
}

//! Probes that processes begin to record by themselves while they are watched: no hit is lost, and none recorded twice.
//!
//! A link cannot give up some of its probes. So those that are to stay get a second link before the first is closed; which of
//! both records is one number in the kernel part, which changes in between. What moves is left out by the kernel part, process
//! by process: each from when its own code records it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::holder::LinkId;
use super::links::AttachedLink;
use super::load::KernelError;
use super::tracer::Tracer;
use crate::budget::Bundle;

/// As in `common.h`.
const MOST_FATES: u32 = 65_536;
const FATE_MOVED: u8 = 1;
const FATE_LINKED_TWICE: u8 = 2;

/// Longer than a program of the kernel part waits for its processor, as a rule.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// A move that has begun.
pub struct ProbeMove {
    moved: BTreeSet<u32>,
    /// Links that hold what moves, and what stays beside it.
    first: Vec<LinkId>,
    /// What stays, of each bundle, and its second links.
    rest: BTreeMap<Bundle, BTreeSet<u32>>,
    second: Vec<AttachedLink>,
}

impl Tracer {
    /// These probes are about to be recorded by the processes themselves: by each from [`Tracer::tell_moved`] on.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn begin_move(&mut self, moved: &BTreeSet<u32>) -> Result<ProbeMove, String> {
        if moved.last().is_some_and(|most| *most >= MOST_FATES) {
            return Err("the job has too many probes".to_owned());
        }
        let concerned = self.attached.iter().filter(|(_, ids)| !ids.is_disjoint(moved));
        let rest: BTreeMap<Bundle, BTreeSet<u32>> =
            concerned.map(|(bundle, ids)| (*bundle, ids.difference(moved).copied().collect())).collect();
        let is_first = |link: &&AttachedLink| rest.contains_key(&link.bundle);
        let first = self.links.iter().filter(is_first).map(|link| link.id).collect();
        self.second.extend(rest.values().flatten());
        self.set_fates(moved, FATE_MOVED);
        self.set_fates(rest.values().flatten(), FATE_LINKED_TWICE);
        let (second, attached) = self.make_links(&rest, None);
        let begun = ProbeMove { moved: moved.clone(), first, rest, second };
        match attached.failed.into_iter().next() {
            None => Ok(begun),
            Some((_, why)) => {
                self.undo_move(begun, &[]);
                Err(why)
            }
        }
    }

    /// A process records by itself from now on what moves; `notes_at`: where its threads note their MPI calls, in its own
    /// space. It stands still meanwhile.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn tell_moved(&mut self, pid: u32, notes_at: u64) -> Result<(), KernelError> {
        self.change_target(pid, |target| (target.is_moved, target.notes_at) = (1, notes_at))
    }

    /// It does not, after all.
    pub fn tell_not_moved(&mut self, pid: u32) {
        // One that cannot be told has ended.
        let _ = self.change_target(pid, |target| (target.is_moved, target.notes_at) = (0, 0));
    }

    /// All processes record by themselves: takes out what is needed no more.
    pub fn finish_move(&mut self, begun: ProbeMove) {
        let ProbeMove { first, rest, second, .. } = begun;
        self.use_second_links(true);
        // A hit that found it otherwise is on its way to the first link's program, if it was preempted in between.
        std::thread::sleep(ON_THE_WAY);
        self.links.retain(|link| !first.contains(&link.id));
        self.links.extend(second);
        self.holder.close(first);
        for (bundle, ids) in rest {
            match ids.is_empty() {
                true => self.attached.remove(&bundle),
                false => self.attached.insert(bundle, ids),
            };
        }
    }

    /// Nothing moves; `pids`: processes of which it was said.
    pub fn undo_move(&mut self, begun: ProbeMove, pids: &[u32]) {
        let ProbeMove { moved, rest, second, .. } = begun;
        pids.iter().for_each(|pid| self.tell_not_moved(*pid));
        self.holder.close(second.into_iter().map(|link| link.id).collect());
        self.holder.wait_for_closed();
        let beside: BTreeSet<u32> = rest.into_values().flatten().collect();
        self.second.retain(|id| !beside.contains(id));
        self.set_fates(moved.iter().chain(&beside), 0);
    }

    fn use_second_links(&mut self, are_used: bool) {
        let data = self.skel.maps.data_watch_data.as_deref_mut().expect("the object says which links count");
        data.second_links = u32::from(are_used);
    }

    fn set_fates<'i>(&mut self, ids: impl IntoIterator<Item = &'i u32>, fate: u8) {
        let data = self.skel.maps.data_fates_data.as_deref_mut().expect("the object has fates");
        for id in ids {
            if let Some(place) = data.fates.get_mut(*id as usize) {
                *place = fate;
            }
        }
    }
}

//! Which probes are detached and attached together.
//!
//! A link for each probe would let each be detached by itself, but there would be hundreds, and the kernel waits at each
//! when it is closed. One for all would have what is cheap pause with what is expensive. So probes of a file and class
//! begin in one bundle; once some have turned out to be expensive, these are in one and the rest is in another.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use analyzer::wire::FileId;

use super::can_pause;

/// What all probes of a bundle have in common. In the order in which bundles are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bundle {
    /// They have been too expensive before. They come last: hits are paid for from the first link on, and others are still to
    /// be made then.
    hot: bool,
    file: FileId,
    /// Says which program runs, whether it may pause at all, and what a hit costs.
    class: ProbeClass,
}

impl Bundle {
    /// The file that its probes are in.
    pub fn file(self) -> FileId {
        self.file
    }

    /// The class of its probes.
    pub fn class(self) -> ProbeClass {
        self.class
    }
}

/// Puts probes into bundles. `hot`: those that were too expensive before.
pub fn bundles<'p>(
    probes: impl IntoIterator<Item = &'p Probe>,
    hot: &BTreeSet<u32>,
) -> BTreeMap<Bundle, Vec<&'p Probe>> {
    let mut bundles: BTreeMap<Bundle, Vec<&Probe>> = BTreeMap::new();
    for probe in probes {
        let bundle = Bundle { hot: hot.contains(&probe.id), file: probe.file, class: probe.class };
        bundles.entry(bundle).or_default().push(probe);
    }
    bundles
}

/// How many bundles the probes of each file are in at most: those that may pause in two, once some are too expensive.
pub fn links_by_file(plan: &Plan) -> BTreeMap<FileId, usize> {
    let mut links = BTreeMap::new();
    // Those that are code in the job take none.
    let of_kernel = plan.probes.iter().filter(|probe| probe.place != ProbePlace::Slot);
    for bundle in bundles(of_kernel, &BTreeSet::new()).into_keys() {
        *links.entry(bundle.file).or_default() += if can_pause(bundle.class) { 2 } else { 1 };
    }
    links
}

#[cfg(test)]
mod tests {

    use super::*;

    fn probe(id: u32, inode: u64, class: ProbeClass) -> Probe {
        Probe::at(id, FileId { dev: 1, inode }, 0, class, "")
    }

    fn ids(probes: &[Probe], hot: &[u32]) -> Vec<Vec<u32>> {
        let hot = hot.iter().copied().collect();
        bundles(probes, &hot).values().map(|bundle| bundle.iter().map(|probe| probe.id).collect()).collect()
    }

    #[test]
    fn probes_of_a_file_and_class_are_together_until_some_are_too_expensive() {
        let probes: Vec<Probe> = (1..=4).map(|id| probe(id, 7, ProbeClass::Copy)).collect();
        assert_eq!(ids(&probes, &[]), [[1, 2, 3, 4]]);
        assert_eq!(ids(&probes, &[2, 3]), [[1, 4], [2, 3]]);
    }

    #[test]
    fn other_files_and_what_must_never_pause_are_apart() {
        let probes = [
            probe(1, 7, ProbeClass::Copy),
            probe(2, 8, ProbeClass::Copy),
            probe(3, 7, ProbeClass::Error),
            probe(4, 7, ProbeClass::Alloc),
        ];
        assert_eq!(ids(&probes, &[]).len(), 4);
    }

    #[test]
    fn a_file_has_a_link_for_each_bundle_and_for_what_may_pause_two() {
        let probes = vec![
            probe(1, 7, ProbeClass::Copy),
            probe(2, 7, ProbeClass::Copy),
            probe(3, 7, ProbeClass::Error),
            probe(4, 8, ProbeClass::Alloc),
            probe(5, 8, ProbeClass::Free),
        ];
        let links = links_by_file(&Plan { probes, ..Plan::default() });
        assert_eq!(links.into_values().collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn there_are_as_few_bundles_as_files_and_classes_however_many_probes_there_are() {
        let probes: Vec<Probe> =
            (0..1000).map(|id| probe(id, 7, [ProbeClass::Copy, ProbeClass::Call][id as usize % 2])).collect();
        assert_eq!(ids(&probes, &[1, 2, 3]).len(), 4);
    }
}

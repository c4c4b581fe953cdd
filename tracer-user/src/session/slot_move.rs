//! When the processes of a job that was started here begin to record by themselves: not before each of them communicates and has
//! loaded what it loads. Until then, kernel probes see all from the first instruction on.

use std::collections::{BTreeMap, BTreeSet};

use analyzer::calls::{Lifecycle, lifecycle};
use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use analyzer::wire::{FileId, RawRecord, kind};

use super::planner::Planned;
use crate::kernel::SlotsInUse;
use crate::plan::FileSlots;
use crate::plan::engines::mark_slots;

/// Nothing has been loaded for so long.
const QUIET_NS: u64 = 1_000_000_000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct SlotMove {
    is_awaited: bool,
    files: Vec<FileSlots>,
    /// Those that may move.
    probes: BTreeMap<u32, Probe>,
    /// Processes that have made another MPI call than the first one.
    communicating: BTreeSet<u32>,
    changed_ns: u64,
}

impl SlotMove {
    /// It is to happen once.
    pub fn awaited(now_ns: u64) -> Self {
        Self { is_awaited: true, changed_ns: now_ns, ..Self::default() }
    }

    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// What was planned, and may move.
    pub fn know(&mut self, planned: &mut Planned) {
        self.forget_files(&planned.dropped);
        self.files.append(&mut planned.slots);
        let may_move = |probe: &&Probe| {
            matches!(probe.class, ProbeClass::Call | ProbeClass::CallResults | ProbeClass::Copy)
        };
        self.probes
            .extend(planned.plan.probes.iter().filter(may_move).map(|probe| (probe.id, probe.clone())));
        // What only slots can have begins when it moves.
        let of_slots = planned.plan.probes.extract_if(.., |probe| probe.place == ProbePlace::Slot);
        self.probes.extend(of_slots.map(|probe| (probe.id, probe)));
    }

    fn forget_files(&mut self, dropped: &BTreeSet<FileId>) {
        self.files.retain(|file| !dropped.contains(&file.file));
        self.probes.retain(|_, probe| !dropped.contains(&probe.file));
    }

    /// Ranks have loaded something.
    pub fn loaded(&mut self, now_ns: u64) {
        self.changed_ns = now_ns;
    }

    /// Looks for MPI calls that show that their process is beyond its beginning.
    pub fn see(&mut self, records: &[RawRecord]) {
        for record in records.iter().filter(|record| record.kind() == kind::CALL) {
            let Some(probe) = self.probes.get(&record.probe()) else { continue };
            if !matches!(lifecycle(&probe.function), Lifecycle::None | Lifecycle::Init) {
                self.communicating.insert(record.pid());
            }
        }
    }

    /// The processes that are to move now: all ranks.
    pub fn due(&self, ranks: impl Iterator<Item = u32>, now_ns: u64) -> Option<Vec<u32>> {
        if !self.is_awaited || now_ns.saturating_sub(self.changed_ns) < QUIET_NS {
            return None;
        }
        let ranks: Vec<u32> = ranks.collect();
        let is_ready = !ranks.is_empty() && ranks.iter().all(|pid| self.communicating.contains(pid));
        is_ready.then_some(ranks)
    }

    /// It happens now: what may move.
    pub fn begin(&mut self) -> Vec<FileSlots> {
        self.is_awaited = false;
        std::mem::take(&mut self.files)
    }

    /// What the probes are from now on.
    pub fn finish(&mut self, used: &SlotsInUse) -> Plan {
        let mut probes = std::mem::take(&mut self.probes);
        probes.retain(|id, _| used.probes.contains(id) || used.kernel.contains_key(id));
        let mut plan = Plan { probes: probes.into_values().collect(), ..Plan::default() };
        mark_slots(&mut plan, &used.probes, &used.kernel);
        *self = Self::default();
        plan
    }
}

#[cfg(test)]
mod tests {
    use analyzer::wire::{Body, Header, Record};

    use analyzer::input::Input;
    use analyzer::options::Options;
    use analyzer::pipeline::Pipeline;

    use super::super::fake::{BEGIN_NS, MS, PROGRAM, S, copy, probe, record};
    use super::super::scene::{RANKS, Scene};
    use super::*;
    use crate::budget::Budget;

    fn call(pid: u32, probe: u32) -> RawRecord {
        let header = Header { pid, tid: pid, time_ns: 1, probe };
        Record { header, body: Body::Call { return_address: 1, args: [0; 6], nested: false } }.encode()
    }

    /// Probe 1 is of MPI_Init, 2 of MPI_Send, 3 of a copy.
    fn awaited() -> SlotMove {
        let call = |id, function: &str| Probe { function: function.into(), ..probe(id, ProbeClass::Call) };
        let probes = vec![call(1, "MPI_Init"), call(2, "MPI_Send"), probe(3, ProbeClass::Copy)];
        let slots = vec![FileSlots { file: PROGRAM, ..FileSlots::default() }];
        let mut planned = Planned { plan: Plan { probes, ..Plan::default() }, slots, ..Planned::default() };
        let mut slot_move = SlotMove::awaited(S);
        slot_move.know(&mut planned);
        assert!(planned.slots.is_empty());
        slot_move
    }

    #[test]
    fn ranks_move_when_each_has_communicated_and_none_has_loaded_anything_for_a_second() {
        let mut slot_move = awaited();
        let due = |slot_move: &SlotMove, now_ns| slot_move.due([7, 8].into_iter(), now_ns);
        assert_eq!(slot_move.due([].into_iter(), 9 * S), None, "there is no rank yet");
        slot_move.see(&[call(7, 1), call(8, 1)]);
        assert_eq!(due(&slot_move, 9 * S), None, "they have only begun");
        slot_move.see(&[call(7, 2)]);
        assert_eq!(due(&slot_move, 9 * S), None, "one of them is not there yet");
        slot_move.see(&[call(8, 2)]);
        slot_move.loaded(9 * S);
        assert_eq!(due(&slot_move, 9 * S + S / 2), None);
        assert_eq!(due(&slot_move, 10 * S), Some(vec![7, 8]));
        assert_eq!(slot_move.begin().len(), 1);
        assert_eq!(due(&slot_move, 20 * S), None, "once");
    }

    #[test]
    fn what_was_written_anew_does_not_move_and_what_has_moved_is_marked() {
        let mut slot_move = awaited();
        slot_move.know(&mut Planned { dropped: BTreeSet::from([PROGRAM]), ..Planned::default() });
        assert!(slot_move.begin().is_empty());
        let mut slot_move = awaited();
        let used = SlotsInUse {
            probes: BTreeSet::from([2]),
            kernel: BTreeMap::from([(3, "nobody knows")]),
            ..SlotsInUse::default()
        };
        let plan = slot_move.finish(&used);
        let places: Vec<(u32, bool)> =
            plan.probes.iter().map(|probe| (probe.id, probe.place == ProbePlace::Slot)).collect();
        assert_eq!(places, [(2, true), (3, false)]);
    }

    #[test]
    fn a_session_that_attaches_never_moves() {
        let mut slot_move = SlotMove::default();
        slot_move.see(&[call(7, 2)]);
        assert!(!slot_move.is_awaited() && slot_move.due([7].into_iter(), 9 * S).is_none());
    }

    fn barrier(time_ns: u64, pid: u32) -> RawRecord {
        record(time_ns, pid, 2, Body::Call { return_address: 1, args: [0; 6], nested: false })
    }

    fn copies_and_calls() -> Vec<Probe> {
        vec![probe(1, ProbeClass::Copy), probe(2, ProbeClass::Call)]
    }

    #[test]
    fn ranks_of_a_job_that_was_started_record_by_themselves_from_when_all_of_them_communicate() {
        let over = Scene::new(copies_and_calls())
            .records(2 * S, [barrier(BEGIN_NS + S, RANKS[0])])
            .change(|world| assert!(world.moved.is_empty(), "one of them has not begun"))
            .records(10 * MS, [barrier(BEGIN_NS + 2 * S, RANKS[1])])
            .until(|world| !world.moved.is_empty())
            .records(10 * MS, [copy(BEGIN_NS + 3 * S, RANKS[0], 1)])
            .run_started();
        let world = over.world.lock();
        assert_eq!((world.moved.clone(), over.notices_with("1 of 2 probes are fast")), (RANKS.to_vec(), 1));
        drop(world);
        let of_plan = |input: &Input| match input {
            Input::Plan(plan) => {
                Some(plan.probes.iter().map(|p| (p.id, p.place == ProbePlace::Slot)).collect())
            }
            _ => None,
        };
        let plans: Vec<Vec<(u32, bool)>> = over.inputs.iter().filter_map(of_plan).collect();
        assert_eq!(plans, [vec![(1, false), (2, false)], vec![(1, true)]], "the tape says so too");
        let mut pipeline = Pipeline::new(Options::default());
        over.inputs.iter().for_each(|input| pipeline.push(input));
        assert_eq!(&pipeline.report(), over.report());
    }

    #[test]
    fn ranks_do_not_begin_to_record_by_themselves_in_a_pause() {
        let storm = |first_ns: u64| (0..4000).map(move |n| copy(BEGIN_NS + first_ns + n, RANKS[0], 1));
        let mut scene = Scene::new(copies_and_calls());
        scene.budget = Some(Budget { share: 0.01 });
        // What it may spend in the first second is spent.
        let mut scene = scene.records(10 * MS, RANKS.map(|pid| barrier(BEGIN_NS + MS, pid)));
        for n in 0..40 {
            scene = scene.records(MS, storm(10 * MS + n * MS));
        }
        let over = scene
            .until(|world| world.paused)
            .records(S, [])
            .change(|world| assert!(world.paused && world.moved.is_empty()))
            .until(|world| !world.moved.is_empty())
            .change(|world| assert!(!world.paused))
            .run_started();
        assert!(over.coverage().len() >= 2, "{:?}", over.coverage());
    }
}

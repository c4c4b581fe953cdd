//! What a session attaches to: the ranks that are there, those that come, and what they load.

use std::collections::BTreeSet;
use std::time::Duration;

use analyzer::input::{Input, Loss};
use analyzer::plan::Plan;

use super::{Launcher, Session};
use crate::host::NodeJob;
use crate::kernel::{ProcessKey, SlotsInUse};
use crate::plan::attach::JobSize;
use crate::plan::engines::mark_slots;
use crate::plan::slots::NO_SLOTS;
use crate::session::controller::BudgetController;
use crate::session::planner::{Planned, PlannerThread};
use crate::session::slot_move::SlotMove;

impl Session<'_> {
    /// Has the job's processes record by themselves what goes through slots, if that was planned.
    pub(in crate::session) fn use_slots(&mut self, planned: &mut Planned, pids: &[u32]) {
        if planned.slots.is_empty() {
            return;
        }
        let used = self.kernel.use_slots(std::mem::take(&mut planned.slots), pids);
        used.notes.iter().for_each(|note| self.sink.notice(note));
        mark_slots(&mut planned.plan, &used.probes, &used.kernel);
    }

    /// The same for what was planned later.
    pub(in crate::session) fn add_slots(&mut self, planned: &mut Planned) {
        match self.slot_move.is_awaited() {
            true => self.slot_move.know(planned),
            false => self.late_slots.add_files(planned, self.kernel.as_mut()),
        }
    }

    /// Attaches what was planned for a job that does not run yet. `is_fast`: its processes are to record by themselves as soon
    /// as they can; the kernel watches until then.
    pub(in crate::session) fn begin_with(&mut self, mut planned: Planned, is_fast: bool) {
        if is_fast {
            self.slot_move = SlotMove::awaited(self.host.now_ns());
            self.slot_move.know(&mut planned);
        }
        self.apply(planned);
    }

    /// Has ranks record by themselves from now on, if that was awaited and is possible by now.
    pub(super) fn move_to_slots(&mut self) {
        let ranks = self.watched.rank_slots().map(|(pid, _)| pid);
        let Some(ranks) = self.slot_move.due(ranks, self.host.now_ns()) else { return };
        if self.budget.as_ref().is_some_and(BudgetController::is_paused) {
            return;
        }
        let begin_ns = self.host.now_ns();
        let used = match self.slot_move.begin() {
            files if files.is_empty() => SlotsInUse::refused(NO_SLOTS),
            files => self.without_yielding(|session| session.kernel.move_to_slots(files, &ranks)),
        };
        used.notes.iter().for_each(|note| self.sink.notice(note));
        self.unplanned(&used.unsure);
        self.late_slots.look_at(&ranks);
        let plan = self.slot_move.finish(&used);
        if !used.probes.is_empty() {
            self.moved(&used.probes, plan, begin_ns);
        }
    }

    /// These probes are fast probes since some moment after `begin_ns`.
    fn moved(&mut self, probes: &BTreeSet<u32>, plan: Plan, begin_ns: u64) {
        if let Some(budget) = &mut self.budget {
            budget.know(&plan);
            if let Some(coverage) = budget.moved(probes, self.host.now_ns()) {
                self.order.fact(coverage.time_ns, Input::Coverage(Box::new(coverage)));
            }
        }
        self.order.fact(begin_ns, Input::Plan(Box::new(plan)));
        let all = self.probes.count();
        self.sink.notice(&format!("{} of {all} probes are fast probes from now on", probes.len()));
    }

    /// Does something for which ranks stand still: it must not wait for them.
    fn without_yielding<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        if !self.gives_way {
            return work(self);
        }
        self.host.catch_up();
        let result = work(self);
        self.host.yield_to_the_job();
        result
    }

    pub(super) fn use_slots_late(&mut self) {
        let Self { late_slots, kernel, watched, host, sink, .. } = self;
        let is_there = |pid| watched.is_still_there(pid, host.as_ref());
        let missed = late_slots.use_them(kernel.as_mut(), &is_there, *sink);
        self.unplanned(&missed);
    }

    /// Attaches what was planned, and says what could not be.
    pub(in crate::session) fn apply(&mut self, planned: Planned) {
        planned.warnings.iter().for_each(|warning| self.sink.notice(warning));
        if let Some(budget) = &mut self.budget {
            budget.know(&planned.plan);
        }
        self.strangers.know(&planned);
        let has_verbs = planned.plan.probes.iter().any(|probe| probe.class.is_of_verbs());
        let reached = &mut self.watched.reached;
        self.probes.apply(planned, reached, self.kernel.as_mut(), &mut self.recorder);
        if has_verbs {
            self.order.begin_queue_pairs(self.host.now_ns(), self.host.rdma_addresses());
        }
    }

    /// Says that the probes are attached; `begin_ns`: when it was asked for.
    pub(in crate::session) fn attached(&mut self, begin_ns: u64) {
        // Before, the job itself was not watched.
        self.strangers.begin(self.kernel.as_ref(), self.host.as_ref());
        let took = Duration::from_nanos(self.host.now_ns().saturating_sub(begin_ns));
        self.sink.attached(&self.probes.summary(took));
    }

    /// So many ranks are here or about to come.
    pub(in crate::session) fn expect(&mut self, job: JobSize) {
        self.watched.reached.expect(job);
    }

    /// These are of the job: where probes are kept out of other processes, they are in these. One for which there are too
    /// many already is a gap.
    pub(in crate::session) fn reach(&mut self, pids: &[u32]) {
        let mut is_reached =
            |pid: u32| self.watched.reached.add(pid, self.kernel.as_mut(), self.host.as_ref());
        let unreached: Vec<u32> = pids.iter().copied().filter(|pid| !is_reached(*pid)).collect();
        if unreached.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.told_unreached, true) {
            self.sink.notice(
                "the job has more processes now than may have probes of their own, and some of it is not watched in \
                 the others; --only-job never watches all of them, and lets processes outside the job run into probes",
            );
        }
        self.unplanned(&unreached);
    }

    /// Watches ranks: all at once, when all probes are attached. Else a copy would be seen whose reader's probe
    /// is not there yet, and look like data that nobody reads.
    pub(in crate::session) fn open_ranks(&mut self, ranks: &[ProcessKey]) {
        let pids: Vec<u32> = ranks.iter().map(|rank| rank.pid).collect();
        self.reach(&pids);
        self.watched.give_slots(&pids, self.kernel.as_mut(), self.sink);
        self.late_slots.look_at(&pids);
        for rank in ranks {
            let started = Some(rank.start_ticks);
            self.watched.open(rank.pid, started, self.kernel.as_mut(), self.host.as_ref(), self.sink);
        }
        // Facts last: a mapping made while they are read is seen as a record.
        for pid in pids {
            if let Some(facts) = self.facts_of(pid, true) {
                self.watched.tell_own_code(pid, &facts.mappings, self.kernel.as_mut(), &self.probes);
                self.order.fact(facts.time_ns, Input::Process(Box::new(facts)));
            }
            // Like any that is attached to: nothing is known of what it did before.
            self.watched.reached.missed_beginning(pid);
            self.keep_budget_meanwhile();
        }
    }

    /// A job may still be starting: its launcher and that one's helpers are watched, for the ranks that
    /// they will start, and those that came since the job was looked at are opened.
    pub(in crate::session) fn open_starters(&mut self, job: &NodeJob) {
        for pid in self.host.starters(job) {
            self.watch_follower(pid);
            self.learn(pid, false);
            if self.watched.may_become_rank(pid) {
                self.reach(&[pid]);
                self.watched.reached.missed_beginning(pid);
            }
            self.keep_budget_meanwhile();
        }
        let mut late = self.host.late_ranks(job);
        late.retain(|rank| !self.watched.is_rank(rank.pid));
        self.open_ranks(&late);
    }

    /// Does beforehand what takes long when daemons are there.
    pub(in crate::session) fn get_ready_for_daemon(&mut self) {
        self.watched.reserve_slot(self.kernel.as_mut());
    }

    /// Daemons that are about to start ranks; those that run MPI already began unseen.
    pub(in crate::session) fn follow_daemons(&mut self, daemons: &[u32]) -> Launcher {
        // All of them before anything is read of any: ranks begin meanwhile.
        daemons.iter().for_each(|pid| self.watch_follower(*pid));
        let started = self.host.descendants(daemons);
        for &pid in &started {
            self.watched.share_slot(daemons, pid);
            self.watched.open(pid, None, self.kernel.as_mut(), self.host.as_ref(), self.sink);
        }
        for pid in started {
            self.learn(pid, false);
            if self.watched.may_become_rank(pid) && self.host.runs_mpi(pid) {
                self.promote(pid);
                self.unplanned(&[pid]);
            }
        }
        daemons.iter().for_each(|pid| self.learn(*pid, false));
        Launcher::Daemons(daemons.iter().map(|pid| (*pid, self.host.start_ticks(*pid).ok())).collect())
    }

    /// The launcher: its children are what is of interest.
    pub(in crate::session) fn watch_follower(&mut self, pid: u32) {
        self.watched.give_slots(&[pid], self.kernel.as_mut(), self.sink);
        self.watched.open(pid, None, self.kernel.as_mut(), self.host.as_ref(), self.sink);
    }

    pub(super) fn attach_more(&mut self, planner: &mut PlannerThread) {
        let ready = planner.ready();
        for trouble in ready.troubles {
            self.sink.notice(&trouble);
        }
        for mut planned in ready.planned {
            self.add_slots(&mut planned);
            let blind: Vec<u32> = planned.blind.iter().copied().collect();
            self.apply(planned);
            self.unplanned(&blind);
            self.renew_own_code();
        }
    }

    /// Some of what these processes have loaded gets no probes, or got them late: what it moves is missing.
    pub(in crate::session) fn unplanned(&mut self, pids: &[u32]) {
        let now_ns = self.host.now_ns();
        for &pid in pids {
            let loss = Loss { pid, from_ns: now_ns, to_ns: now_ns, movements: 1, calls: 1, state: 0 };
            self.order.fact(now_ns, Input::Loss(loss));
        }
    }
}

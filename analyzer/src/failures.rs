//! What the pipeline does with calls that fail, and with ranks that end: the way from records to
//! [`hang`](crate::hang).

use crate::errors::deaths::Death;
use crate::errors::reported::{Errors, Reported, Said};
use crate::job::last_calls::Begun;
use crate::job::lifecycle::Part;
use crate::job::process::Who;
use crate::mpi::handles::{Builtin, Libraries};
use crate::pipeline::Pipeline;
use crate::tape::input::{CallInProgress, CodePlace};
use crate::tape::plan::{Plan, ProbeClass};
use crate::tape::wire::Header;

/// What is kept of failed calls.
#[derive(Default)]
pub(crate) struct Failures {
    libraries: Libraries,
    pub errors: Errors,
}

impl Failures {
    pub fn learn(&mut self, plan: &Plan) {
        self.libraries.learn(plan);
    }
}

impl Pipeline {
    /// A call begins that is not part of another one.
    #[inline]
    pub(crate) fn follow_life(&mut self, process: usize, h: &Header, begun: &Begun) {
        let part = self.probes.get(begun.probe).map_or(Part::None, |probe| probe.part);
        self.state.processes.get_mut(process).life.call(part, h.time_ns, begun);
        if part == Part::Lock
            && let Some(probe) = self.probes.get(begun.probe)
        {
            self.locks.call(h.pid, &probe.function, &begun.arguments);
        }
        if part == Part::Abort {
            self.abort(process, h, begun);
        } else if self.failures.errors.go_on(h.pid, h.tid) {
            self.stirred = true;
        }
    }

    /// The program gives up: because of an error that is under way, or for a reason of its own. The launcher may end other
    /// ranks first.
    fn abort(&mut self, process: usize, h: &Header, begun: &Begun) {
        let call = self.call_of(process, begun, self.builtin(process).as_ref());
        let who = self.state.processes.who(self.state.processes.get(process).who);
        self.failures.errors.begin(h.pid, h.tid, who, Reported::abort(h.time_ns, call));
    }

    /// A call has returned.
    pub(crate) fn follow_return(&mut self, process: usize, slot: usize) {
        if self.probes.get(slot).is_some_and(|probe| probe.part == Part::Finalize) {
            self.state.processes.get_mut(process).life.finalized();
        }
    }

    /// The library was told of an error. `return_address`: of the thread's last call, if it is still in that.
    pub(crate) fn report_error(
        &mut self,
        process: usize,
        h: &Header,
        slot: usize,
        return_address: u64,
        args: &[u64; 6],
    ) {
        let Some(probe) = self.probes.get(slot).filter(|probe| probe.class == ProbeClass::Error) else {
            return;
        };
        let Some(said) = Said::read(&probe.function, args) else { return };
        let last = self.calls_seen.last(h.pid, h.tid).copied();
        let begun = last.filter(|last| last.return_address == return_address && return_address != 0);
        let builtin = self.builtin(process);
        let call = begun.map(|begun| self.call_of(process, &begun, builtin.as_ref()));
        let reported = Reported::new(h.time_ns, &said, call, builtin.as_ref());
        let who = self.state.processes.who(self.state.processes.get(process).who);
        self.failures.errors.begin(h.pid, h.tid, who, reported);
    }

    /// The program goes on after an error.
    pub(crate) fn survive_error(&mut self, h: &Header, slot: usize) {
        let is_error = self.probes.get(slot).is_some_and(|probe| probe.class == ProbeClass::Error);
        if is_error && self.failures.errors.go_on(h.pid, h.tid) {
            self.stirred = true;
        }
    }

    pub(crate) fn end_process(&mut self, process: usize, time_ns: u64, status: u32, at: u64) {
        let ended = self.state.processes.get(process);
        let place = ended.memory.code_at(at).map(|(file, offset_bytes)| CodePlace { file, offset_bytes });
        let (pid, who) = (ended.pid, ended.who);
        let life = ended.life;
        let mut reported = self.failures.errors.end(pid);
        if let Some(reported) = &mut reported {
            reported.learn(&life);
        } else if let Some((time_ns, begun)) = life.forbidden_call(status) {
            let call = self.call_of(process, &begun, self.builtin(process).as_ref());
            reported = Some(Reported::after_finalize(time_ns, call));
        }
        if let Who::Rank(rank) = self.state.processes.who(who) {
            let unfinished = life.is_unfinished(status) && self.sees_ends() && self.has_seen_all();
            let at_its_end = self.calls_seen.of(pid).any(|(_, begun)| self.is_finalize(begun));
            self.deaths.note(Death { rank, pid, time_ns, status, place, at_its_end, reported, unfinished });
        }
        self.state.exit(process, Some(status));
        self.standstill.forget(pid);
        self.forget_calls(pid);
        self.stirred = true;
    }

    fn is_finalize(&self, begun: &Begun) -> bool {
        self.probes.get(begun.probe).is_some_and(|probe| probe.part == Part::Finalize)
    }

    /// MPI_Finalize has a probe.
    fn sees_ends(&self) -> bool {
        self.probes.all().any(|(_, probe)| probe.part == Part::Finalize)
    }

    /// Nothing was lost, and nothing left out to keep a budget.
    fn has_seen_all(&self) -> bool {
        self.totals.lost_movements == 0 && self.totals.lost_state == 0 && !self.coverage.sampled
    }

    fn builtin(&self, process: usize) -> Option<Builtin> {
        let memory = &self.state.processes.get(process).memory;
        self.failures.libraries.builtin(|file| memory.code_start(file))
    }

    fn call_of(&self, process: usize, begun: &Begun, builtin: Option<&Builtin>) -> CallInProgress {
        let memory = &self.state.processes.get(process).memory;
        let site = memory.code_at(begun.return_address);
        CallInProgress {
            function: self.probes.get(begun.probe).map_or_else(String::new, |probe| probe.function.clone()),
            mpi: builtin.map(Builtin::facts),
            site: site.map(|(file, offset_bytes)| CodePlace { file, offset_bytes }),
            arguments: begun.arguments.iter().copied().map(Some).collect(),
            ..CallInProgress::default()
        }
    }

    /// Who died first is left open for a moment.
    pub(crate) fn is_origin_open(&self) -> bool {
        let now_ns = self.state.groups.timeline.now_ns();
        self.ended.is_none() && self.deaths.is_open(self.failures.errors.under_way_since(), now_ns)
    }
}

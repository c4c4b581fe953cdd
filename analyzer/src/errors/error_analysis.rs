//! What the job reports itself, and how its ranks end: failed calls, the first death, what is left open at the end.

use super::deaths::{Death, Deaths};
use super::reported::{Errors, Reported, Said};
use crate::job::Job;
use crate::job::event::{CallBegan, ErrorReport, Event, Gap, ProcessEnded};
use crate::job::messages::Unfinished;
use crate::job::process::Who;
use crate::mpi::calls::Lifecycle;
use crate::tape::plan::ProbeClass;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct ErrorAnalysis {
    pub errors: Errors,
    pub deaths: Deaths,
    /// What piles up; at the end of the session, all that is left open.
    pub leaks: Vec<Unfinished>,
    /// Something has changed since [`ErrorAnalysis::take_changed`].
    changed: bool,
}

impl ErrorAnalysis {
    /// What happened to the job.
    pub fn on(&mut self, job: &Job, event: &Event) {
        match event {
            Event::ErrorReported(report) => self.report(job, report),
            Event::ErrorHandled { pid, tid } => self.changed |= self.errors.go_on(*pid, *tid),
            Event::ProcessReplaced { pid, .. } => self.errors.forget(*pid),
            Event::ProcessEnded(ended) => self.end_process(ended),
            Event::Gap(gap) => self.miss(gap),
            Event::Tick if job.follows_messages => self.pile_up(job),
            Event::Ended if job.follows_messages => {
                self.pile_up(job);
                self.leaks.extend(job.messages.leaks());
            }
            _ => {}
        }
    }

    /// Told anew when another call has made many, not with each that it makes.
    fn pile_up(&mut self, job: &Job) {
        let calls = |open: &[Unfinished]| {
            open.iter().map(|open| (open.rank, open.function, open.site)).collect::<Vec<_>>()
        };
        let now = job.messages.pile_ups();
        self.changed |= calls(&now) != calls(&self.leaks);
        self.leaks = now;
    }

    fn miss(&mut self, gap: &Gap) {
        match gap {
            Gap::Lost { loss, .. } if !loss.hides_calls() => {}
            Gap::Lost { is_rank: true, loss, .. } => self.errors.forget(loss.pid),
            Gap::Lost { is_rank: false, .. } => self.errors.clear(),
            // Whether a program goes on after an error is seen in a pause too, and late records are not missing.
            Gap::Late { .. }
            | Gap::Paused
            | Gap::Resumed { .. }
            | Gap::CallsPaused { .. }
            | Gap::CallsResumed { .. } => {}
        }
    }

    /// A call began: the program gives up, or goes on after an error, if there was one.
    #[inline(always)]
    pub fn begin_call(&mut self, job: &Job, began: &CallBegan) {
        if began.part == Lifecycle::Abort {
            self.abort(job, began);
        } else {
            self.changed |= self.errors.go_on(began.pid, began.tid);
        }
    }

    /// The program gives up: because of an error that is under way, or for a reason of its own. The launcher may end other
    /// ranks first.
    fn abort(&mut self, job: &Job, began: &CallBegan) {
        let call = job.call_in_progress(began.process, &began.begun);
        let who = job.processes.who(job.processes.get(began.process).who);
        self.errors.begin(began.pid, began.tid, who, Reported::abort(began.time_ns, call));
    }

    fn report(&mut self, job: &Job, report: &ErrorReport) {
        let probe = job.probes.get(report.slot).filter(|probe| probe.class == ProbeClass::Error);
        let Some(said) = probe.and_then(|probe| Said::read(&probe.function, &report.arguments)) else {
            return;
        };
        let last = job.last_call(report.pid, report.tid);
        let begun =
            last.filter(|last| last.return_address == report.return_address && report.return_address != 0);
        let builtin = job.builtin(report.process);
        let call = begun.map(|begun| job.call_in_progress(report.process, begun));
        let reported = Reported::new(report.time_ns, &said, call, builtin.as_ref());
        let who = job.processes.who(job.processes.get(report.process).who);
        self.errors.begin(report.pid, report.tid, who, reported);
    }

    fn end_process(&mut self, ended: &ProcessEnded) {
        let mut reported = self.errors.end(ended.pid);
        if let Some(reported) = &mut reported {
            reported.learn(&ended.life);
        } else if let Some((time_ns, call)) = &ended.forbidden {
            reported = Some(Reported::after_finalize(*time_ns, call.clone()));
        }
        if let Who::Rank(rank) = ended.who {
            self.deaths.note(Death {
                rank,
                pid: ended.pid,
                time_ns: ended.time_ns,
                status: ended.status,
                place: ended.place,
                at_its_end: ended.in_finalize,
                reported,
                unfinished: ended.unfinished,
            });
        }
        self.changed = true;
    }

    /// Who died first is left open for a moment.
    pub fn is_origin_open(&self, job: &Job) -> bool {
        job.ended.is_none() && self.deaths.is_open(self.errors.under_way_since(), job.now_ns())
    }

    /// Whether something has changed that findings may depend on. What is open now is not for long.
    pub fn take_changed(&mut self, job: &Job) -> bool {
        let is_open = self.is_origin_open(job);
        std::mem::replace(&mut self.changed, is_open)
    }
}

//! Findings about calls that wait for each other unless messages are buffered.

use super::views::{Views, finding};
use crate::findings::finding::{
    BufferedCall, BufferedWait, Evidence, Finding, Place, PotentialDeadlock, Severity, StuckCall, Verdict,
};
use crate::findings::ids;
use crate::job::messages::{AwaitedSide, UnbufferedCall, UnbufferedCycle};
use crate::job::process::Who;
use crate::tape::input::CodePlace;

impl Views<'_> {
    /// One for each set of calls of the program. The job did go on: a notice.
    pub(super) fn potential_deadlocks(&self) -> Vec<Finding> {
        self.p.job.messages.unbuffered_cycles().map(|found| self.potential_deadlock(found)).collect()
    }

    fn potential_deadlock(&self, found: &UnbufferedCycle) -> Finding {
        let ranks: Vec<Who> = found.ranks.iter().copied().map(Who::Rank).collect();
        let calls = found.calls.iter().map(|call| self.buffered_call(call)).collect();
        let first = found.first.iter().copied().map(Who::Rank).collect();
        let evidence = PotentialDeadlock { calls, ranks: ranks.clone(), first };
        let id = ids::potential_deadlock(&evidence);
        let evidence = Evidence::PotentialDeadlock(Box::new(evidence));
        finding(id, Verdict::Violated, Severity::Notice, ranks, evidence)
    }

    fn buffered_call(&self, call: &UnbufferedCall) -> BufferedCall {
        let arguments = call.arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let stuck = |function: &str, place: Option<CodePlace>, arguments| StuckCall {
            function: function.to_owned(),
            arguments,
            place: place.map_or_else(Place::default, |place| self.code_place(place, 1)),
        };
        BufferedCall {
            call: stuck(call.function, call.place, arguments.collect()),
            begun_by: call.begun.map(|(function, place)| stuck(function, place, Vec::new())),
            ranks: call.ranks.iter().copied().map(Who::Rank).collect(),
            waits_for: match call.wanted {
                AwaitedSide::Message { sends: true, .. } => BufferedWait::Receive,
                AwaitedSide::Message { sends: false, .. } => BufferedWait::Send,
                AwaitedSide::Collective { .. } => BufferedWait::Members,
            },
            most_bytes: call.most_bytes,
        }
    }
}

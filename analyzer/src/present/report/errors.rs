//! Deaths and returned errors as findings.

use std::collections::BTreeSet;

use super::views::{Views, finding, owned};
use crate::errors::deaths::Death;
use crate::errors::reported::Survived;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::job::process::Who;
use crate::tape::input::CallInProgress;

impl Views<'_> {
    /// A rank that ended by a signal, or in a call that failed, is broken; one that says itself that something went wrong,
    /// or ends early, may have its reasons.
    pub(super) fn death(&self, origin: &[&Death], rest: &[&Death]) -> Finding {
        let first = origin[0];
        let fault = first.reported.as_ref().map_or(Fault::Crash, |reported| reported.fault);
        let is_broken =
            first.reported.as_ref().map_or(first.signal().is_some(), |reported| !reported.is_intended());
        let severity = if is_broken { Severity::Warning } else { Severity::Notice };
        let senders: BTreeSet<u32> =
            origin.iter().filter_map(|death| death.reported.as_ref()?.sender).collect();
        let died: Vec<Who> = origin.iter().map(|death| Who::Rank(death.rank)).collect();
        let who = died.iter().copied().chain(senders.iter().map(|&rank| Who::Rank(rank))).collect();
        let at_fault = origin.iter().map(|death| self.dead(death, true));
        let (of_senders, rest): (Vec<&Death>, Vec<&Death>) =
            rest.iter().partition(|death| senders.contains(&death.rank));
        let of_senders = of_senders.into_iter().map(|death| self.dead(death, true));
        let after = rest.into_iter().map(|death| self.dead(death, false));
        let ranks = at_fault.chain(of_senders).chain(after).collect();
        let evidence = Hang {
            fault,
            since_ns: first.time_ns,
            ranks,
            groups: Vec::new(),
            unknown: Vec::new(),
            collectives: Vec::new(),
        };
        let id = ids::death(fault, first.rank);
        finding(id, Verdict::Violated, severity, who, Evidence::Hang(Box::new(evidence)))
    }

    pub(super) fn dead(&self, death: &Death, at_fault: bool) -> StuckRank {
        let reported = death.reported.as_ref();
        StuckRank {
            who: Who::Rank(death.rank),
            pid: death.pid,
            at_fault,
            state: StuckState::Died,
            status: Some(death.status),
            call: reported.map(|reported| self.called(&reported.call)),
            error: reported.map(|reported| reported.error.clone()),
            sender: reported.and_then(|reported| reported.sender).map(Who::Rank),
            waits_for: Vec::new(),
            stack: death.place.iter().map(|&place| self.code_place(place, 0)).collect(),
        }
    }

    /// What programs are told and go on after may be what they wanted to know.
    pub(super) fn error_returned(&self, survived: &Survived) -> Finding {
        let call = self.called(&survived.first.call);
        let id = ids::error(&call.function, &call.place, &survived.first.error);
        let evidence = ErrorReturned {
            call,
            error: survived.first.error.clone(),
            count: survived.count,
            first_ns: survived.first.time_ns,
        };
        let who = survived.who.iter().copied().collect();
        finding(id, Verdict::Violated, Severity::Notice, who, Evidence::ErrorReturned(Box::new(evidence)))
    }

    /// What a call returns to lies behind it.
    pub(super) fn called(&self, call: &CallInProgress) -> StuckCall {
        StuckCall {
            function: call.function.clone(),
            arguments: owned(&crate::hang::view::shown(call)),
            place: call.site.map_or_else(Place::default, |site| self.code_place(site, 1)),
        }
    }
}

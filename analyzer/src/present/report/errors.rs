//! Deaths and returned errors as findings.

use std::collections::BTreeSet;

use super::views::{Views, finding, owned};
use crate::errors::deaths::{Death, DeathOrigin};
use crate::errors::reported::Survived;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::job::mismatch::Mismatch;
use crate::job::process::Who;
use crate::tape::input::CallInProgress;

/// Whether the first ranks that died did so in calls that are known not to match: the library reported an error there.
pub(super) fn is_death_of(origin: &[&Death], mismatch: &Mismatch) -> bool {
    let is_in = |death: &&Death| {
        let reported = death.reported.as_ref().map(|reported| &reported.call);
        let known = mismatch.call_of(death.rank);
        reported.zip(known).is_some_and(|(call, known)| {
            let is_known = call.site.is_some() && call.site == known.place;
            is_known && call.function == known.signature.row.name
        })
    };
    origin.iter().any(is_in)
}

impl Views<'_> {
    /// A rank that ended by a signal, or in a call that failed, is broken; one that says itself that something went wrong,
    /// or ends early, may have its reasons.
    pub(super) fn death(&self, (origin, rest): &DeathOrigin<'_>) -> Finding {
        let first = origin[0];
        let evidence = self.death_evidence(origin, rest);
        let is_broken =
            first.reported.as_ref().map_or(first.signal().is_some(), |reported| !reported.is_intended());
        let severity = if is_broken { Severity::Warning } else { Severity::Notice };
        let died = origin.iter().map(|death| Who::Rank(death.rank));
        let who = died.chain(senders(origin).into_iter().map(Who::Rank)).collect();
        let id = ids::death(evidence.fault, first.rank);
        finding(id, Verdict::Violated, severity, who, Evidence::Hang(Box::new(evidence)))
    }

    /// Those that died first, and all that ended after them.
    pub(super) fn death_evidence(&self, origin: &[&Death], rest: &[&Death]) -> Hang {
        let first = origin[0];
        let fault = first.reported.as_ref().map_or(Fault::Crash, |reported| reported.fault);
        let senders = senders(origin);
        let at_fault = origin.iter().map(|death| self.dead(death, true));
        let (of_senders, rest): (Vec<&Death>, Vec<&Death>) =
            rest.iter().partition(|death| senders.contains(&death.rank));
        let of_senders = of_senders.into_iter().map(|death| self.dead(death, true));
        let after = rest.into_iter().map(|death| self.dead(death, false));
        let ranks = at_fault.chain(of_senders).chain(after).collect();
        Hang {
            fault,
            since_ns: first.time_ns,
            ranks,
            groups: Vec::new(),
            unknown: Vec::new(),
            complete: Vec::new(),
            results: false,
            collectives: Vec::new(),
        }
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
            waits_for_left_out: 0,
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
            arguments: owned(&crate::hang::call_text::shown(call)),
            place: call.site.map_or_else(Place::default, |site| self.code_place(site, 1)),
        }
    }
}

/// Ranks whose messages or data were too long.
fn senders(origin: &[&Death]) -> BTreeSet<u32> {
    origin.iter().filter_map(|death| death.reported.as_ref()?.sender).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::reported::{Reported, Said};
    use crate::job::mismatch::DifferingCall;
    use crate::job::signature::Signature;
    use crate::mpi::calls::row;
    use crate::tape::input::CodePlace;
    use crate::tape::plan::MpiKind;
    use crate::tape::wire::FileId;

    fn place(offset_bytes: u64) -> CodePlace {
        CodePlace { file: FileId::default(), offset_bytes }
    }

    fn death(rank: u32, function: &str, site: Option<CodePlace>) -> Death {
        let said = Said { kind: MpiKind::Mpich, code: 14, call: function.to_owned() };
        let call = CallInProgress { function: function.to_owned(), site, ..CallInProgress::default() };
        let reported = Some(Reported::new(7, &said, Some(call), None));
        let (pid, time_ns, status, place) = (100 + rank, 8, 9, None);
        Death { rank, pid, time_ns, status, place, at_its_end: false, reported, unfinished: false }
    }

    fn mismatch() -> Mismatch {
        let call = |rank: u32, group| DifferingCall {
            rank,
            group,
            signature: Signature::of(row("MPI_Bcast").expect("it is in the table")),
            return_address: 0,
            place: Some(place(rank.into())),
        };
        Mismatch::new(0, "MPI_COMM_WORLD".to_owned(), 1, vec![call(0, 0), call(1, 1)], 2, 5)
    }

    #[test]
    fn an_error_that_ended_a_rank_in_a_call_that_does_not_match_is_one_with_the_mismatch() {
        let is_one = |death: &Death| is_death_of(&[death], &mismatch());
        assert!(is_one(&death(1, "MPI_Bcast", Some(place(1)))));
        assert!(is_one(&death(0, "MPI_Bcast", Some(place(0)))));
        // In another call of this rank, in one of a rank that is not among them, and in one that is not known.
        assert!(!is_one(&death(1, "MPI_Bcast", Some(place(7)))));
        assert!(!is_one(&death(1, "MPI_Recv", Some(place(1)))));
        assert!(!is_one(&death(2, "MPI_Bcast", Some(place(1)))));
        assert!(!is_one(&death(1, "MPI_Bcast", None)));
        assert!(!is_one(&Death { reported: None, ..death(1, "MPI_Bcast", Some(place(1))) }));
    }
}

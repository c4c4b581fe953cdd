//! Hangs and collective mismatches as findings.

use std::collections::{BTreeMap, BTreeSet};

use super::views::{Sources, Views, finding, owned};
use crate::errors::deaths::DeathOrigin;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::hang::found::{CommCallCounts, FoundHang, HangingRank, MemberProgress};
use crate::hang::groups::{BlockedGroup, MOST_ALONE};
use crate::hang::step_budget::StepBudget;
use crate::hang::view::{Doing, JobView};
use crate::job::mismatch::{DifferingCall, Mismatch};
use crate::job::process::Who;
use crate::tape::input::CodePlace;

/// Why ranks do not go on.
pub(super) fn hangs(p: &Sources<'_>) -> Vec<FoundHang> {
    let ranks = p.hang.rank_states(p.job, |pid| p.errors.deaths.is_among(pid));
    crate::hang::find::hangs(&JobView { ranks, job: p.job, work: StepBudget::default() })
}

/// Who is in the minority may still change.
pub(super) fn is_open(p: &Sources<'_>, mismatch: &Mismatch) -> bool {
    p.job.ended.is_none() && mismatch.is_open(p.job.now_ns())
}

/// Whether ranks hang in calls that are known not to match.
pub(super) fn is_hang_of(hang: &FoundHang, mismatch: &Mismatch) -> bool {
    if !matches!(hang.fault, Fault::MismatchedCollective | Fault::UnknownHang) {
        return false;
    }
    let is_in = |rank: u32, function: &str, site: Option<CodePlace>| {
        let known = mismatch.call_of(rank);
        known.is_some_and(|known| function == known.signature.row.name && site == known.place)
    };
    let alone = hang.ranks.iter().any(|rank| {
        let call = rank.thread.as_ref().and_then(|thread| thread.call.as_ref());
        call.is_some_and(|call| is_in(rank.rank, &call.function, call.site))
    });
    let together = |group: &BlockedGroup| {
        let function = group.function.as_deref();
        function.is_some_and(|function| group.ranks.iter().any(|rank| is_in(*rank, function, group.site)))
    };
    alone || hang.groups.iter().any(together)
}

impl Views<'_> {
    /// Calls that do not match; `hang`: if ranks hang in them; `death`: if one died in them.
    pub(super) fn mismatch(
        &self,
        found: &Mismatch,
        hang: Option<&FoundHang>,
        death: Option<&DeathOrigin<'_>>,
    ) -> Finding {
        let (most, is_tie) = found.majority();
        let call_at = |call: &DifferingCall| StuckCall {
            function: call.signature.row.name.clone(),
            arguments: call.signature.shown(),
            place: call.place.map_or_else(Place::default, |place| self.code_place(place, 1)),
        };
        let is_many = found.calls.len() > MOST_ALONE;
        let mut groups: BTreeMap<(bool, usize, Option<CodePlace>), MismatchedGroup> = BTreeMap::new();
        for call in found.calls.iter().filter(|_| is_many) {
            let (who, at_fault, group) = (Who::Rank(call.rank), call.group != most, call.group as u64);
            let key = (!at_fault, call.group, call.place);
            let new = || MismatchedGroup { ranks: Vec::new(), at_fault, group, call: call_at(call) };
            groups.entry(key).or_insert_with(new).ranks.push(who);
        }
        // Those at fault first, of many.
        let at_fault = found.calls.iter().filter(|call| call.group != most);
        let others = || found.calls.iter().filter(|call| call.group == most);
        let told: Vec<&DifferingCall> = match is_many {
            true => at_fault.chain(others()).take(MOST_ALONE).collect(),
            false => found.calls.iter().collect(),
        };
        let ranks = told.into_iter().map(|call| MismatchedRank {
            who: Who::Rank(call.rank),
            at_fault: call.group != most,
            group: call.group as u64,
            call: call_at(call),
        });
        let ranks: Vec<MismatchedRank> = ranks.collect();
        let wrong = found.calls.iter().filter(|call| call.group != most);
        let wrong: BTreeSet<Who> = wrong.map(|call| Who::Rank(call.rank)).collect();
        let hang = hang.map(|hang| {
            let mut hang = self.hang_evidence(hang);
            hang.fault = Fault::MismatchedCollective;
            hang.set_at_fault(&wrong);
            hang
        });
        let who = match is_tie {
            true => found.calls.iter().map(|call| Who::Rank(call.rank)).collect(),
            false => wrong.into_iter().collect(),
        };
        let id = ids::collective_mismatch(&found.comm.to_string(), found.number);
        let (comm, position, first_ns) = (found.name.clone(), found.number, found.first_ns);
        let death = death.map(|(origin, rest)| {
            let mut death = self.death_evidence(origin, rest);
            // Who sent too much is told by the calls that do not match.
            death.ranks.iter_mut().for_each(|rank| rank.at_fault = rank.error.is_some());
            death
        });
        let groups = groups.into_values().collect();
        let evidence = CollectiveMismatch { comm, position, is_tie, first_ns, ranks, groups, hang, death };
        finding(
            id,
            Verdict::Violated,
            Severity::Warning,
            who,
            Evidence::CollectiveMismatch(Box::new(evidence)),
        )
    }

    pub(super) fn hang_evidence(&self, s: &FoundHang) -> Hang {
        Hang {
            fault: s.fault,
            since_ns: s.since_ns,
            ranks: s.ranks.iter().map(|rank| self.stuck_rank(rank)).collect(),
            groups: s.groups.iter().map(|group| self.hang_group(group)).collect(),
            unknown: s.unknown.clone(),
            complete: s.complete.iter().copied().map(Who::Rank).collect(),
            results: s.results,
            collectives: s.collectives.iter().map(counts).collect(),
        }
    }

    fn hang_group(&self, group: &BlockedGroup) -> HangGroup {
        let is_in_call = group.doing == Doing::InCall;
        // What a call returns to lies behind it.
        let at = |behind| group.site.map(|site| self.code_place(site, behind));
        HangGroup {
            ranks: group.ranks.iter().copied().map(Who::Rank).collect(),
            at_fault: group.at_fault,
            state: state(group.doing),
            call: is_in_call.then(|| StuckCall {
                function: group.function.clone().unwrap_or_default(),
                arguments: owned(&group.arguments),
                place: at(1).unwrap_or_default(),
            }),
            place: at(0).filter(|_| !is_in_call),
            pending: group.pending.clone(),
            waits_for: some(&group.waits_for, MOST_COUNTED),
            waits_for_left_out: group.waits_for.len().saturating_sub(MOST_COUNTED) as u64,
        }
    }

    pub(super) fn hang(&self, s: &FoundHang) -> Finding {
        let evidence = self.hang_evidence(s);
        if s.fault.has_no_cause() {
            let who = s.all().map(Who::Rank).collect();
            let evidence = Evidence::Hang(Box::new(evidence));
            return finding(
                ids::hang(s.fault, std::iter::empty()),
                Verdict::Inconclusive,
                Severity::Notice,
                who,
                evidence,
            );
        }
        let at_fault = || s.at_fault.iter().copied();
        let alone = evidence.ranks.iter().filter_map(|rank| rank.call.as_ref());
        let mut calls = alone.chain(evidence.groups.iter().filter_map(|group| group.call.as_ref()));
        let severity = match s.fault {
            Fault::Outside | Fault::Stopped => Severity::Notice,
            // Who asks again and again may stop asking.
            _ if calls.any(crate::present::hang::polls) => Severity::Notice,
            _ => Severity::Warning,
        };
        let id = ids::hang(s.fault, at_fault());
        let who = at_fault().map(Who::Rank).collect();
        finding(id, Verdict::Violated, severity, who, Evidence::Hang(Box::new(evidence)))
    }

    fn stuck_rank(&self, rank: &HangingRank) -> StuckRank {
        let thread = rank.thread.as_ref();
        let call = thread.and_then(|thread| thread.call.as_ref());
        // What a call returns to lies behind it.
        let called = |place: CodePlace| self.code_place(place, 1);
        StuckRank {
            who: Who::Rank(rank.rank),
            pid: rank.pid,
            at_fault: rank.at_fault,
            state: state(rank.doing),
            status: None,
            call: call.map(|call| StuckCall {
                function: call.function.clone(),
                arguments: owned(&rank.arguments),
                place: call.site.map_or_else(Place::default, called),
            }),
            error: None,
            sender: None,
            waits_for: some(&rank.waits_for, MOST_WAITED_FOR),
            waits_for_left_out: rank.waits_for.len().saturating_sub(MOST_WAITED_FOR) as u64,
            stack: thread.map_or_else(Vec::new, |thread| {
                let behind = |at: usize| u64::from(at > 0);
                thread
                    .frames
                    .iter()
                    .enumerate()
                    .map(|(at, &place)| self.code_place(place, behind(at)))
                    .collect()
            }),
        }
    }
}

fn some(ranks: &BTreeSet<u32>, most: usize) -> Vec<Who> {
    ranks.iter().take(most).copied().map(Who::Rank).collect()
}

fn state(doing: Doing) -> StuckState {
    match doing {
        Doing::InCall => StuckState::InCall,
        Doing::Outside => StuckState::Outside,
        Doing::Stopped => StuckState::Stopped,
        Doing::Ended => StuckState::Ended,
        Doing::Died => StuckState::Died,
    }
}

/// How many collective calls ranks have made on a communicator.
fn counts(found: &CommCallCounts) -> CollectiveCounts {
    let of = |count: fn(&MemberProgress) -> u64| {
        found.members.iter().map(move |member| WhoCount { who: Who::Rank(member.rank), count: count(member) })
    };
    CollectiveCounts {
        comm: found.comm.clone(),
        entered: of(|member| member.entered).collect(),
        completed: of(|member| member.completed).collect(),
        unknown: of(|member| member.unknown).filter(|unknown| unknown.count > 0).collect(),
        differ_at: found.differ_at,
    }
}

//! Hangs and collective mismatches as findings.

use std::collections::BTreeSet;

use super::views::{Sources, Views, finding, owned};
use crate::errors::deaths::DeathOrigin;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::hang::found::{CommCallCounts, MemberProgress};
use crate::hang::step_budget::StepBudget;
use crate::hang::view::JobView;
use crate::job::mismatch::Mismatch;
use crate::job::process::Who;
use crate::tape::input::CodePlace;

/// Of a hang that more ranks are in, so many are told with their stacks; of all others the call that they are in.
const MOST_STACKS: usize = 1 << 10;

/// Why ranks do not go on.
pub(super) fn hangs(p: &Sources<'_>) -> Vec<crate::hang::found::FoundHang> {
    let ranks = p.hang.rank_states(p.job, |pid| p.errors.deaths.is_among(pid));
    crate::hang::find::hangs(&JobView { ranks, job: p.job, work: StepBudget::default() })
}

/// Who is in the minority may still change.
pub(super) fn is_open(p: &Sources<'_>, mismatch: &Mismatch) -> bool {
    p.job.ended.is_none() && mismatch.is_open(p.job.now_ns())
}

/// Whether ranks hang in calls that are known not to match.
pub(super) fn is_hang_of(hang: &crate::hang::found::FoundHang, mismatch: &Mismatch) -> bool {
    let is_in = |rank: &crate::hang::found::HangingRank| {
        let call = rank.thread.as_ref().and_then(|thread| thread.call.as_ref());
        let known = mismatch.calls.iter().find(|call| call.rank == rank.rank);
        call.zip(known).is_some_and(|(call, known)| {
            call.function == known.signature.row.name && call.site == known.place
        })
    };
    matches!(hang.fault, Fault::MismatchedCollective | Fault::UnknownHang) && hang.ranks.iter().any(is_in)
}

impl Views<'_> {
    /// Calls that do not match; `hang`: if ranks hang in them; `death`: if one died in them.
    pub(super) fn mismatch(
        &self,
        found: &Mismatch,
        hang: Option<&crate::hang::found::FoundHang>,
        death: Option<&DeathOrigin<'_>>,
    ) -> Finding {
        let (most, is_tie) = found.majority();
        let ranks = found.calls.iter().map(|call| MismatchedRank {
            who: Who::Rank(call.rank),
            at_fault: call.group != most,
            group: call.group as u64,
            call: StuckCall {
                function: call.signature.row.name.clone(),
                arguments: call.signature.shown(),
                place: call.place.map_or_else(Place::default, |place| self.code_place(place, 1)),
            },
        });
        let ranks: Vec<MismatchedRank> = ranks.collect();
        let wrong: BTreeSet<Who> = ranks.iter().filter(|rank| rank.at_fault).map(|rank| rank.who).collect();
        let hang = hang.map(|hang| {
            let mut hang = self.hang_evidence(hang);
            hang.fault = Fault::MismatchedCollective;
            hang.ranks.iter_mut().for_each(|rank| rank.at_fault = wrong.contains(&rank.who));
            hang.ranks.sort_by_key(|rank| (!rank.at_fault, rank.who));
            hang
        });
        let who =
            if is_tie { ranks.iter().map(|rank| rank.who).collect() } else { wrong.into_iter().collect() };
        let id = ids::collective_mismatch(&found.comm.to_string(), found.number);
        let (comm, position, first_ns) = (found.name.clone(), found.number, found.first_ns);
        let death = death.map(|(origin, rest)| {
            let mut death = self.death_evidence(origin, rest);
            // Who sent too much is told by the calls that do not match.
            death.ranks.iter_mut().for_each(|rank| rank.at_fault = rank.error.is_some());
            death
        });
        let evidence = CollectiveMismatch { comm, position, is_tie, first_ns, ranks, hang, death };
        finding(
            id,
            Verdict::Violated,
            Severity::Warning,
            who,
            Evidence::CollectiveMismatch(Box::new(evidence)),
        )
    }

    pub(super) fn hang_evidence(&self, s: &crate::hang::found::FoundHang) -> Hang {
        let who = |ranks: &[u32]| ranks.iter().map(|rank| Who::Rank(*rank)).collect();
        let groups = s.groups.iter().map(|group| HangGroup {
            ranks: who(&group.ranks),
            call: StuckCall {
                function: group.function.clone(),
                arguments: owned(&group.arguments),
                place: group.site.map_or_else(Place::default, |site| self.code_place(site, 1)),
            },
            pending: group.pending.clone(),
        });
        let collectives = s.collectives.iter().map(counts);
        Hang {
            fault: s.fault,
            since_ns: s.since_ns,
            ranks: self.stuck_ranks(&s.ranks),
            groups: groups.collect(),
            unknown: s.unknown.clone(),
            collectives: collectives.collect(),
        }
    }

    /// Those at fault come first. Stacks of all ranks of a large job would be most of what is told, and nobody reads them.
    fn stuck_ranks(&self, ranks: &[crate::hang::found::HangingRank]) -> Vec<StuckRank> {
        let (with_stack, without) = ranks.split_at(ranks.len().min(MOST_STACKS));
        let whole = with_stack.iter().map(|rank| self.stuck_rank(rank, true));
        whole.chain(without.iter().map(|rank| self.stuck_rank(rank, false))).collect()
    }

    pub(super) fn hang(&self, s: &crate::hang::found::FoundHang) -> Finding {
        let evidence = self.hang_evidence(s);
        if s.fault.has_no_cause() {
            let who = evidence.ranks.iter().map(|rank| rank.who).collect();
            let evidence = Evidence::Hang(Box::new(evidence));
            return finding(
                ids::hang(s.fault, std::iter::empty()),
                Verdict::Inconclusive,
                Severity::Notice,
                who,
                evidence,
            );
        }
        let at_fault = || s.ranks.iter().filter(|rank| rank.at_fault).map(|rank| rank.rank);
        let severity = match s.fault {
            Fault::Outside | Fault::Stopped => Severity::Notice,
            // Who asks again and again may stop asking.
            _ if evidence
                .ranks
                .iter()
                .filter_map(|rank| rank.call.as_ref())
                .any(crate::present::hang::polls) =>
            {
                Severity::Notice
            }
            _ => Severity::Warning,
        };
        let id = ids::hang(s.fault, at_fault());
        let who = at_fault().map(Who::Rank).collect();
        finding(id, Verdict::Violated, severity, who, Evidence::Hang(Box::new(evidence)))
    }

    fn stuck_rank(&self, rank: &crate::hang::found::HangingRank, has_stack: bool) -> StuckRank {
        let thread = rank.thread.as_ref();
        let call = thread.and_then(|thread| thread.call.as_ref());
        let state = match (rank.ended, rank.stopped, call) {
            (Some(true), ..) => StuckState::Ended,
            (Some(false), ..) => StuckState::Died,
            (None, true, _) => StuckState::Stopped,
            (None, false, Some(_)) => StuckState::InCall,
            (None, false, None) => StuckState::Outside,
        };
        // What a call returns to lies behind it.
        let called = |place: CodePlace| self.code_place(place, 1);
        StuckRank {
            who: Who::Rank(rank.rank),
            pid: rank.pid,
            at_fault: rank.at_fault,
            state,
            status: None,
            call: call.map(|call| StuckCall {
                function: call.function.clone(),
                arguments: owned(&rank.arguments),
                place: call.site.map_or_else(Place::default, called),
            }),
            error: None,
            sender: None,
            waits_for: rank.waits_for.iter().map(|&rank| Who::Rank(rank)).collect(),
            stack: thread.filter(|_| has_stack).map_or_else(Vec::new, |thread| {
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

//! From counted groups to findings and reports.

use std::collections::{BTreeMap, BTreeSet};

use super::text;
use crate::chains::groups::{Example, GroupId, OpInstance};
use crate::chains::op_names::ContextId;
use crate::errors::deaths::Death;
use crate::errors::error_analysis::ErrorAnalysis;
use crate::errors::left_over;
use crate::errors::reported::Survived;
use crate::findings::finding::*;
use crate::findings::ids;
use crate::findings::report::{REPORT_SCHEMA, Report, Thresholds};
use crate::findings::statistics::*;
use crate::hang::hang_analysis::HangAnalysis;
use crate::hang::view::JobView;
use crate::invariants::chain_analysis::ChainAnalysis;
use crate::invariants::frequent_chains::{Evaluation, Violation};
use crate::invariants::rank_mix::{Comparison, Outlier};
use crate::invariants::scores::rounded;
use crate::job::Job;
use crate::job::collectives::Mismatch;
use crate::job::ids::WhoId;
use crate::job::names::{BufferId, BufferName, OpName, SiteId, SiteName};
use crate::job::process::{KINDS, Process, Who};
use crate::tape::input::{CallInProgress, CodePlace};

/// Groups listed in the statistics.
const TOP_GROUPS: usize = 20;
/// Other frequent chains listed with a finding.
const MAX_OTHERS: usize = 5;

/// Names of `enum dms_kind`, by number.
const KIND_NAMES: [&str; KINDS] = [
    "other", "copy", "pack", "cross", "call", "done", "alloc", "free", "map", "unmap", "fork", "exec",
    "exit", "values", "return", "made",
];

/// What findings are made from.
pub(crate) struct Sources<'a> {
    pub job: &'a Job,
    pub chains: &'a ChainAnalysis,
    pub errors: &'a ErrorAnalysis,
    pub hang: &'a HangAnalysis,
    pub evaluation: &'a Evaluation,
    pub comparison: &'a Comparison,
}

/// All that is to be said.
pub(crate) fn report(p: &Sources<'_>) -> Report {
    Report {
        schema: REPORT_SCHEMA,
        session: p.job.start.clone(),
        ended: p.job.ended.clone(),
        thresholds: thresholds(p),
        findings: findings(p),
        statistics: statistics(p),
    }
}

/// The findings, the most important first.
pub(crate) fn findings(p: &Sources<'_>) -> Vec<Finding> {
    let views = Views { p };
    let chains = p.evaluation.violations.iter().map(|v| views.odd_chain(v));
    let ranks = p.comparison.outliers.iter().map(|o| views.odd_rank(o));
    let origin = p.errors.deaths.origin().filter(|_| !p.errors.is_origin_open(p.job));
    let died = origin.map(|(first, rest)| views.death(&first, &rest));
    let hangs = hangs(p);
    // A death is told once, whether or not anybody waits for the dead.
    let is_told = |s: &&crate::hang::found::FoundHang| {
        (died.is_some() || p.errors.is_origin_open(p.job))
            && matches!(s.fault, Fault::Crash | Fault::UnknownHang)
    };
    let mismatches: Vec<&Mismatch> =
        p.job.messages.collectives().mismatches().iter().filter(|m| !is_open(p, m)).collect();
    let of_mismatch = |s: &crate::hang::found::FoundHang| mismatches.iter().position(|m| is_hang_of(s, m));
    let mismatched = mismatches.iter().enumerate().map(|(at, mismatch)| {
        views.mismatch(mismatch, hangs.iter().find(|hang| of_mismatch(hang) == Some(at)))
    });
    let stuck = hangs.iter().filter(|s| !is_told(s) && of_mismatch(s).is_none()).map(|s| views.hang(s));
    let left = left_over::findings(&p.errors.left_over, |place| views.code_place(place, 1));
    let left = left.into_iter().map(|left| {
        finding(
            left.id,
            Verdict::Violated,
            left.severity,
            left.who,
            Evidence::LeftOver(Box::new(left.evidence)),
        )
    });
    let returned = p.errors.errors.survived().map(|error| views.error_returned(error));
    let mut findings: Vec<Finding> = died
        .iter()
        .cloned()
        .chain(mismatched)
        .chain(stuck)
        .chain(returned)
        .chain(left)
        .chain(chains)
        .chain(ranks)
        .collect();
    // Stable: within a severity and verdict the order of the checks stays.
    findings.sort_by_key(|f| std::cmp::Reverse((f.severity, f.verdict)));
    findings
}

/// Why ranks do not go on.
fn hangs(p: &Sources<'_>) -> Vec<crate::hang::found::FoundHang> {
    let ranks = p.hang.rank_states(p.job, |pid| p.errors.deaths.is_among(pid));
    crate::hang::find::hangs(&JobView { ranks, messages: &p.job.messages, now_ns: p.job.now_ns() })
}

/// Who is in the minority may still change.
fn is_open(p: &Sources<'_>, mismatch: &Mismatch) -> bool {
    p.job.ended.is_none() && mismatch.is_open(p.job.now_ns())
}

/// Whether ranks hang in calls that are known not to match.
fn is_hang_of(hang: &crate::hang::found::FoundHang, mismatch: &Mismatch) -> bool {
    let is_in = |rank: &crate::hang::found::HangingRank| {
        let call = rank.thread.as_ref().and_then(|thread| thread.call.as_ref());
        let known = mismatch.calls.iter().find(|call| call.rank == rank.rank);
        call.zip(known).is_some_and(|(call, known)| {
            call.function == known.signature.row.name && call.site == known.place
        })
    };
    matches!(hang.fault, Fault::MismatchedCollective | Fault::UnknownHang) && hang.ranks.iter().any(is_in)
}

fn thresholds(p: &Sources<'_>) -> Thresholds {
    Thresholds {
        uniqueness: p.evaluation.threshold.uniqueness,
        chains: p.evaluation.threshold.chains,
        warm: p.evaluation.warm,
        frequent_groups: p.evaluation.frequent.len() as u64,
        abnormality: p.chains.options.abnormality,
        uncounted: p.chains.uncounted(p.job),
        sampled: p.job.coverage.sampled,
        referenced: p.chains.options.reference.is_some(),
        compared_ranks: whos(p, p.comparison.compared.iter().copied()),
        average_distance: rounded(p.comparison.average),
    }
}

fn whos(p: &Sources<'_>, ids: impl Iterator<Item = WhoId>) -> Vec<Who> {
    let mut whos: Vec<Who> = ids.map(|id| p.job.processes.who(id)).collect();
    whos.sort_unstable();
    whos.dedup();
    whos
}

/// Makes views of what is interned.
struct Views<'a> {
    p: &'a Sources<'a>,
}

impl Views<'_> {
    fn odd_chain(&self, v: &Violation) -> Finding {
        let odd = self.group(v.odd);
        let frequent = self.group(v.frequent);
        let group = self.p.chains.groups.get(v.odd);
        let mut examples: Vec<ExampleView> = group.examples.iter().map(|e| self.example(e, v)).collect();
        examples.sort_by_key(|e| !e.context_match);
        let evidence = OddChain {
            abnormality: rounded(v.abnormality),
            similarity: rounded(v.similarity),
            rareness: rounded(v.rareness),
            common: CommonView {
                odd_from: v.common.odd_from,
                frequent_from: v.common.frequent_from,
                ops: v.common.len,
                uniqueness: v.common.uniqueness,
            },
            context: self.context(v, &frequent),
            others: v.others.iter().take(MAX_OTHERS).map(|o| self.other(o)).collect(),
            examples,
            odd,
            frequent,
        };
        let who = evidence.odd.ops.iter().flat_map(|op| op.who.iter().copied());
        let id = ids::odd_chain(&evidence.odd.id, &evidence.frequent.id);
        finding(id, v.verdict, v.severity, who.collect(), Evidence::OddChain(Box::new(evidence)))
    }

    fn odd_rank(&self, o: &Outlier) -> Finding {
        let who = self.p.job.processes.who(o.who);
        let evidence = OddRank {
            who,
            distance: rounded(o.distance),
            nearest: o.nearest as u64,
            average: rounded(o.average),
            part: o.part as u64,
            from_ns: o.from_ns,
            to_ns: o.to_ns,
            chains: o.chains,
            compared_by: o.compared_by,
            group: self.group(o.group),
            share: rounded(o.share),
            peers_share: rounded(o.peers_share),
            peers_running: o.peers_running as u64,
            peers: whos(self.p, o.peers.iter().copied()),
        };
        let id = ids::odd_rank(who, &evidence.group.id);
        finding(id, o.verdict, o.severity, vec![who], Evidence::OddRank(Box::new(evidence)))
    }

    /// Calls that do not match; `hang`: if ranks hang in them.
    fn mismatch(&self, found: &Mismatch, hang: Option<&crate::hang::found::FoundHang>) -> Finding {
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
        let evidence = CollectiveMismatch { comm, position, is_tie, first_ns, ranks, hang };
        finding(
            id,
            Verdict::Violated,
            Severity::Warning,
            who,
            Evidence::CollectiveMismatch(Box::new(evidence)),
        )
    }

    fn hang_evidence(&self, s: &crate::hang::found::FoundHang) -> Hang {
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
        let collectives = s.collectives.iter().map(|counts| CollectiveCounts {
            comm: counts.comm.clone(),
            entered: counts
                .entered
                .iter()
                .map(|entered| WhoCount { who: Who::Rank(entered.rank), count: entered.count })
                .collect(),
            differ_at: counts.differ_at,
        });
        Hang {
            fault: s.fault,
            since_ns: s.since_ns,
            ranks: s.ranks.iter().map(|rank| self.stuck_rank(rank)).collect(),
            groups: groups.collect(),
            unknown: s.unknown.clone(),
            collectives: collectives.collect(),
        }
    }

    fn hang(&self, s: &crate::hang::found::FoundHang) -> Finding {
        let evidence = self.hang_evidence(s);
        if s.fault == Fault::UnknownHang {
            let who = evidence.ranks.iter().map(|rank| rank.who).collect();
            let evidence = Evidence::Hang(Box::new(evidence));
            return finding(
                ids::hang(Fault::UnknownHang, std::iter::empty()),
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

    /// A rank that ended by a signal, or in a call that failed, is broken; one that says itself that something went wrong,
    /// or ends early, may have its reasons.
    fn death(&self, origin: &[&Death], rest: &[&Death]) -> Finding {
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

    fn dead(&self, death: &Death, at_fault: bool) -> StuckRank {
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
    fn error_returned(&self, survived: &Survived) -> Finding {
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
    fn called(&self, call: &CallInProgress) -> StuckCall {
        StuckCall {
            function: call.function.clone(),
            arguments: owned(&crate::hang::view::shown(call)),
            place: call.site.map_or_else(Place::default, |site| self.code_place(site, 1)),
        }
    }

    fn stuck_rank(&self, rank: &crate::hang::found::HangingRank) -> StuckRank {
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

    fn code_place(&self, place: CodePlace, behind: u64) -> Place {
        Place {
            module: self.p.job.names.path(place.file),
            file: Some(place.file),
            offset_bytes: place.offset_bytes.saturating_sub(behind),
            frames: Vec::new(),
        }
    }

    fn context(&self, v: &Violation, frequent: &GroupView) -> ContextView {
        let from = usize::from(v.common.frequent_from);
        let to = from + usize::from(v.common.len);
        let missing = |there: Option<ContextId>, at: Option<usize>| {
            there.and(at).and_then(|i| frequent.ops.get(i)).cloned()
        };
        ContextView {
            matched: v.context.matched,
            matched_before: v.context.matched_before,
            matched_after: v.context.matched_after,
            known: v.context.known,
            missing_before: missing(v.context.before, from.checked_sub(1)),
            missing_after: missing(v.context.after, Some(to)),
        }
    }

    fn other(&self, &(id, abnormality): &(GroupId, f64)) -> OtherView {
        let view = self.group(id);
        let chains =
            if self.p.chains.options.reference.is_some() { view.reference_chains } else { view.chains };
        OtherView { ops: view.ops, chains, abnormality: rounded(abnormality) }
    }

    fn example(&self, example: &Example, v: &Violation) -> ExampleView {
        ExampleView {
            context_match: example.context.is_some_and(|set| v.context.matches(&set)),
            ops: example.ops.iter().map(|op| self.example_op(op)).collect(),
            before: example.before.iter().map(|op| self.example_op(op)).collect(),
        }
    }

    fn example_op(&self, op: &OpInstance) -> ExampleOp {
        ExampleOp {
            place: self.place(self.p.chains.ops.context_site(op.context)),
            time_ns: op.time_ns,
            who: self.p.job.processes.who(op.who),
            pid: op.pid,
            tid: op.tid,
            source: op.source,
            destination: op.destination,
            destination_buffer: self.buffer(op.destination_buffer),
            len_bytes: op.len_bytes,
        }
    }

    fn group(&self, id: GroupId) -> GroupView {
        let group = self.p.chains.groups.get(id);
        let weights = self.p.chains.frequent.ops(id);
        let ops = (0..group.symbols.len()).map(|i| self.op(id, i, weights.get(i).map_or(0, |w| w.1)));
        let mut by_who: Vec<WhoCount> = Vec::new();
        for &who in &group.ops[0].who().collect::<Vec<_>>() {
            let count = self.p.chains.groups.by_group.total(id, who);
            by_who.push(WhoCount { who: self.p.job.processes.who(who), count });
        }
        by_who.sort_by_key(|c| c.who);
        GroupView {
            id: self.group_hash(id),
            chains: group.count,
            reference_chains: group.reference,
            uniqueness: self.p.chains.frequent.uniqueness(id),
            ops: ops.collect(),
            by_who,
        }
    }

    /// Depends on names only, so that it is the same in every run of the same binaries.
    fn group_hash(&self, id: GroupId) -> String {
        let symbols = self.p.chains.groups.get(id).symbols.iter();
        let names: Vec<OpName> =
            symbols.map(|&symbol| self.p.chains.ops.op_name(symbol, &self.p.job.names)).collect();
        ids::group(names.iter())
    }

    fn op(&self, id: GroupId, at: usize, uniqueness: u32) -> OpView {
        let group = self.p.chains.groups.get(id);
        let (symbol, counts) = (self.p.chains.ops.symbol_parts(group.symbols[at]), &group.ops[at]);
        let mut calls: Vec<CallView> =
            counts.calls.iter().map(|&(call, count)| self.call(call, count)).collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.count));
        OpView {
            kind: symbol.kind,
            place: self.place(symbol.site),
            source: self.buffer(symbol.source),
            destination: self.buffer(symbol.destination),
            crosses: symbol.crosses,
            segments: counts.segments,
            uniqueness,
            who: whos(self.p, counts.who()),
            calls,
        }
    }

    fn call(&self, call: crate::job::ids::CallSiteId, count: u64) -> CallView {
        let (function, site) = self.p.job.probes.call_parts(call);
        CallView { function, place: self.place(site), count }
    }

    fn place(&self, id: SiteId) -> Place {
        let names = &self.p.job.names;
        let mut place = text::place(names.site_name(id));
        place.file = names.site_file(id).map(|(file, _)| file);
        place
    }

    fn buffer(&self, id: BufferId) -> BufferView {
        let view = |what| BufferView { what, name: String::new(), allocated: None };
        match self.p.job.names.buffer_name(id) {
            BufferName::Heap { site } => {
                BufferView { allocated: Some(self.named_place(site)), ..view(BufferKind::Heap) }
            }
            BufferName::Shared { name } => BufferView { name: name.clone(), ..view(BufferKind::Shared) },
            BufferName::Static { module } => BufferView { name: module.clone(), ..view(BufferKind::Static) },
            BufferName::HeapBeforeAttach => view(BufferKind::HeapBeforeAttach),
            BufferName::Stack => view(BufferKind::Stack),
            BufferName::Anonymous => view(BufferKind::Anonymous),
            BufferName::NotWatched => view(BufferKind::NotWatched),
            BufferName::Unknown => view(BufferKind::Unknown),
        }
    }

    fn named_place(&self, site: &SiteName) -> Place {
        let id = self.p.job.names.find_site(site);
        id.map_or_else(|| text::place(site), |id| self.place(id))
    }
}

fn owned(arguments: &[(&str, String)]) -> Vec<(String, String)> {
    arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn finding(id: String, verdict: Verdict, severity: Severity, who: Vec<Who>, evidence: Evidence) -> Finding {
    let mut who = who;
    who.sort_unstable();
    who.dedup();
    let mut finding =
        Finding { id, verdict, severity, summary: String::new(), who, evidence, next_steps: Vec::new() };
    crate::present::say::say(&mut finding);
    finding
}

fn statistics(p: &Sources<'_>) -> Statistics {
    let (t, all) = (&p.job.totals, p.job.processes.all());
    let sum = |f: fn(&Process) -> u64| all.iter().map(f).fold(0u64, u64::saturating_add);
    let now_ns = p.job.now_ns();
    let duration_ns = now_ns - p.job.begin_ns().unwrap_or(now_ns).min(now_ns);
    Statistics {
        duration_ns,
        watched_ns: duration_ns.saturating_sub(p.job.coverage.paused_ns(now_ns)),
        pauses: p.job.coverage.pauses,
        probes_off: p.job.coverage.off.clone(),
        records: t.records,
        bad_records: t.bad_records,
        unplanned_records: t.unplanned_records,
        unseen_messages: t.unseen_messages,
        late_records: t.late_records,
        lost_movements: t.lost_movements,
        lost_state: t.lost_state,
        movements: sum(|p| p.movements),
        empty_movements: sum(|p| p.counts.empty_movements),
        bytes: sum(|p| p.bytes),
        operations: p.chains.chains.ops(),
        chains: p.chains.groups.chains,
        inconclusive_chains: p.chains.chains.counts.inconclusive,
        chains_not_kept: p.chains.groups.not_kept,
        groups: p.chains.groups.all().iter().filter(|g| g.count > 0).count() as u64,
        pending_operations: p.chains.chains.counts.pending_nodes,
        memory_not_kept: sum(|p| p.memory.refused),
        processes: processes(p),
        probes: probes(p),
        calls: calls(p),
        top_groups: top_groups(p),
    }
}

fn processes(p: &Sources<'_>) -> Vec<ProcessStatistics> {
    let kinds = |index: usize| {
        let counts = p.job.processes.records_by_kind(index).into_iter().zip(KIND_NAMES);
        let counts = counts.filter(|(count, _)| *count > 0);
        counts.map(|(count, kind)| KindCount { kind: kind.to_owned(), count }).collect()
    };
    let view = |(index, process): (usize, &Process)| ProcessStatistics {
        rank: process.rank,
        pid: process.pid,
        exe: process.exe.clone(),
        alive: process.alive,
        records: kinds(index),
        movements: process.movements,
        bytes: process.bytes,
        mpi_calls: process.counts.calls,
        lost_movements: process.counts.lost_movements,
        lost_state: process.counts.lost_state,
        late_records: process.counts.late,
        live_buffers: p.chains.chains.live_ranges(process.memory.private()) as u64,
    };
    let mut processes: Vec<_> = p.job.processes.all().iter().enumerate().map(view).collect();
    processes.sort_by_key(|s| (s.rank.is_none(), s.rank, s.pid));
    processes
}

fn probes(p: &Sources<'_>) -> Vec<ProbeStatistics> {
    let views = Views { p };
    let view = |(slot, info): (usize, &crate::job::probes::ProbeInfo)| {
        let mut by_who: BTreeMap<Who, u64> = BTreeMap::new();
        for (index, process) in p.job.processes.all().iter().enumerate() {
            let hits = p.job.processes.hits(index, slot);
            if hits > 0 {
                *by_who.entry(p.job.processes.who(process.who)).or_default() += hits;
            }
        }
        let place =
            Place { file: Some(info.file), offset_bytes: info.site_offset_bytes, ..views.place(info.site) };
        ProbeStatistics {
            probe: info.id,
            class: info.class,
            function: info.function.clone(),
            place,
            hits: by_who.values().sum(),
            by_who: by_who.into_iter().map(|(who, count)| WhoCount { who, count }).collect(),
        }
    };
    p.job.probes.all().map(view).filter(|s| s.hits > 0).collect()
}

fn calls(p: &Sources<'_>) -> Vec<CallStatistics> {
    let mut by_function: BTreeMap<String, CallStatistics> = BTreeMap::new();
    for (slot, counts) in p.job.probes.all_call_counts().iter().enumerate() {
        if counts.calls == 0 && counts.movements == 0 {
            continue;
        }
        let function = p.job.probes.get(slot).map_or_else(String::new, |info| info.function.clone());
        let all = by_function.entry(function.clone()).or_insert(CallStatistics {
            function,
            calls: 0,
            movements: 0,
            bytes: 0,
        });
        all.calls += counts.calls;
        all.movements += counts.movements;
        all.bytes = all.bytes.saturating_add(counts.bytes);
    }
    by_function.into_values().collect()
}

fn top_groups(p: &Sources<'_>) -> Vec<GroupView> {
    let groups = p.chains.groups.all();
    let mut ids: Vec<GroupId> = (0..groups.len() as u32).map(GroupId).collect();
    ids.retain(|id| groups[id.index()].count > 0);
    ids.sort_by_key(|id| (std::cmp::Reverse(groups[id.index()].count), *id));
    let views = Views { p };
    ids.into_iter().take(TOP_GROUPS).map(|id| views.group(id)).collect()
}

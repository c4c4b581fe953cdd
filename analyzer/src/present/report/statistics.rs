//! Counts of a session.

use std::collections::BTreeMap;

use super::nodes::{node_name, own_pid};
use super::views::{Sources, Views};
use crate::chains::groups::GroupId;
use crate::chains::name_order::NameOrder;
use crate::findings::finding::*;
use crate::findings::statistics::*;
use crate::job::process::{Process, Who};
use crate::job::process_totals::{KINDS, ProcessTotals};
use crate::job::sums::SummedTotals;

/// Groups listed in the statistics.
const TOP_GROUPS: usize = 20;

/// Names of `enum dms_kind`, by number.
const KIND_NAMES: [&str; KINDS] = [
    "other",
    "copy",
    "pack",
    "cross",
    "call",
    "done",
    "alloc",
    "free",
    "map",
    "unmap",
    "fork",
    "exec",
    "exit",
    "values",
    "return",
    "made",
    "stream",
    "work",
    "completion",
    "queue",
    "remote",
    "endpoint",
];

pub(super) fn statistics(p: &Sources<'_>) -> Statistics {
    let (t, totals) = (counted(p), totals(p));
    let sum = |f: fn(&ProcessTotals) -> u64| totals.iter().map(f).fold(0u64, u64::saturating_add);
    let now_ns = p.job.now_ns();
    let duration_ns = now_ns - p.job.begin_ns().unwrap_or(now_ns).min(now_ns);
    Statistics {
        duration_ns,
        watched_ns: duration_ns.saturating_sub(p.job.coverage.paused_ns(now_ns)),
        calls_watched_ns: duration_ns.saturating_sub(p.job.coverage.calls_paused_ns(now_ns)),
        pauses: p.job.coverage.pauses(),
        probes_off: p.job.coverage.off.clone(),
        records: t.records,
        bad_records: t.bad_records,
        unplanned_records: t.unplanned_records,
        unseen_messages: t.unseen_messages,
        tcp: tcp(&t),
        rdma: (t.verbs != VerbsCounts::default()).then_some(t.verbs),
        late_records: p.job.totals.late_records,
        lost_movements: p.job.totals.lost_movements,
        lost_calls: p.job.totals.lost_calls,
        lost_state: p.job.totals.lost_state,
        movements: sum(|p| p.movements),
        empty_movements: sum(|p| p.empty_movements),
        bytes: sum(|p| p.bytes),
        operations: p.chains.chains.ops().saturating_add(p.chains.chains.counts.ops_elsewhere),
        chains: p.chains.groups.chains,
        inconclusive_chains: p.chains.chains.counts.inconclusive,
        chains_not_kept: p.chains.groups.not_kept,
        groups: p.chains.groups.all().iter().filter(|g| g.count > 0).count() as u64,
        pending_operations: p.chains.chains.counts.pending_nodes,
        memory_not_kept: t.memory_not_kept,
        strangers: p.job.strangers.clone(),
        processes: processes(p, &totals),
        processes_left_out: totals.len().saturating_sub(MOST_COUNTED) as u64,
        probes: probes(p),
        calls: calls(p),
        top_groups: top_groups(p),
    }
}

/// What was counted of all nodes: here, or by their agents.
fn counted(p: &Sources<'_>) -> SummedTotals {
    let t = &p.job.totals;
    if p.job.start.sums {
        let totals = p.job.sums.totals;
        // Digests that cannot be read are counted here.
        return SummedTotals { bad_records: totals.bad_records.saturating_add(t.bad_records), ..totals };
    }
    let refused = p.job.processes.all().iter().map(|process| process.memory.refused);
    let (streams, streams_of_one_end) = p.job.streams.counts();
    SummedTotals {
        records: t.records,
        bad_records: t.bad_records,
        unplanned_records: t.unplanned_records,
        unseen_messages: t.unseen_messages,
        memory_not_kept: refused.fold(0, u64::saturating_add),
        streams,
        streams_of_one_end,
        verbs: t.verbs,
    }
}

/// The same of each process, by index.
fn totals(p: &Sources<'_>) -> Vec<ProcessTotals> {
    let processes = &p.job.processes;
    let totals = |(index, process): (usize, &Process)| match p.job.start.sums {
        true => processes.elsewhere(index),
        false => {
            let live_buffers = p.chains.chains.live_ranges(process.memory.private()) as u64;
            processes.totals(index, live_buffers)
        }
    };
    processes.all().iter().enumerate().map(totals).collect()
}

fn tcp(t: &SummedTotals) -> Option<TcpStatistics> {
    let (both, one) = (t.streams, t.streams_of_one_end);
    let tcp = TcpStatistics {
        sent_bytes: both.written_bytes,
        received_bytes: both.read_bytes,
        unseen_bytes: both.unseen_bytes,
        missed_bytes: both.missed_bytes,
        unread_bytes: both.unread_bytes,
        with_others_bytes: one.written_bytes.saturating_add(one.read_bytes),
    };
    (tcp != TcpStatistics::default()).then_some(tcp)
}

fn processes(p: &Sources<'_>, totals: &[ProcessTotals]) -> Vec<ProcessStatistics> {
    let kinds = |index: usize| {
        let counts = totals[index].records.into_iter().zip(KIND_NAMES);
        let counts = counts.filter(|(count, _)| *count > 0);
        counts.map(|(count, kind)| KindCount { kind: kind.to_owned(), count }).collect()
    };
    let view = |(index, process): (usize, &Process)| ProcessStatistics {
        rank: process.rank,
        pid: own_pid(p, process.pid),
        node: node_name(p, process.pid),
        exe: process.exe.to_string(),
        alive: process.alive,
        records: kinds(index),
        movements: totals[index].movements,
        bytes: totals[index].bytes,
        mpi_calls: totals[index].calls,
        lost_movements: process.counts.lost_movements,
        lost_calls: process.counts.lost_calls,
        lost_state: process.counts.lost_state,
        late_records: process.counts.late,
        live_buffers: totals[index].live_buffers,
    };
    let lost = |process: &Process| process.counts.lost() > 0;
    let mut listed: Vec<(usize, &Process)> = p.job.processes.all().iter().enumerate().collect();
    if listed.len() > MOST_COUNTED {
        listed.sort_by_key(|(_, process)| {
            (!lost(process), process.alive, process.rank.is_none(), process.rank)
        });
        listed.truncate(MOST_COUNTED);
    }
    let mut processes: Vec<_> = listed.into_iter().map(view).collect();
    processes.sort_by_key(|s| (s.rank.is_none(), s.rank, s.pid));
    processes
}

fn probes(p: &Sources<'_>) -> Vec<ProbeStatistics> {
    let views = Views { p };
    let view = |(slot, info): (usize, &crate::job::probes::ProbeInfo)| {
        let mut by_who: BTreeMap<Who, u64> = BTreeMap::new();
        for (index, process) in p.job.processes.all().iter().enumerate() {
            let hits = match p.job.start.sums {
                true => p.job.processes.hits_elsewhere(index, slot),
                false => p.job.processes.hits(index, slot),
            };
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
            by_who_left_out: by_who.len().saturating_sub(MOST_COUNTED) as u64,
            by_who: by_who
                .into_iter()
                .take(MOST_COUNTED)
                .map(|(who, count)| WhoCount { who, count })
                .collect(),
        }
    };
    p.job.probes.all().map(view).filter(|s| s.hits > 0).collect()
}

fn calls(p: &Sources<'_>) -> Vec<CallStatistics> {
    let mut by_function: BTreeMap<String, CallStatistics> = BTreeMap::new();
    let all = if p.job.start.sums { p.job.sums.calls() } else { p.job.probes.all_call_counts() };
    for (slot, counts) in all.iter().enumerate() {
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
    let order = NameOrder { job: p.job, groups: &p.chains.groups, ops: &p.chains.ops };
    ids.sort_by_cached_key(|id| (std::cmp::Reverse(groups[id.index()].count), order.of_group(*id)));
    let views = Views { p };
    ids.into_iter().take(TOP_GROUPS).map(|id| views.group(id)).collect()
}

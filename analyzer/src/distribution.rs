//! CD-invariants: ranks that do the same work have the same mix of chains.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::finding::{Severity, Verdict};
use crate::groups::{Group, GroupId, Groups};
use crate::neighbours::{self, Average, Far, Mix, Rule};
use crate::options::Options;
use crate::process::{CallId, Processes, Who, WhoId};
use crate::state::State;

/// Parts of the run that are looked at in turn, until one shows something: all, the last half, …
const PARTS: [usize; 5] = [1, 2, 4, 8, 16];

/// A rank that is not like the others.
#[derive(Clone, Debug)]
pub(crate) struct Outlier {
    pub who: WhoId,
    pub distance: f64,
    pub average: f64,
    pub nearest: usize,
    /// The last 1/part of the run.
    pub part: usize,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Chains of the rank there.
    pub chains: u64,
    /// What it differs by most.
    pub group: GroupId,
    pub share: f64,
    pub peers_share: f64,
    pub peers: Vec<WhoId>,
    /// Peers that run that group at all, at any time.
    pub peers_running: usize,
    pub verdict: Verdict,
    pub severity: Severity,
}

/// What was compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// Ranks compared over the whole run.
    pub compared: Vec<WhoId>,
    /// Their average distance to the k-th nearest neighbour.
    pub average: f64,
    pub outliers: Vec<Outlier>,
}

/// Chains of one rank in a part of the run.
struct Table {
    groups: Vec<GroupId>,
    members: Vec<WhoId>,
    /// Of each member; columns are places of groups in `groups`.
    mixes: Vec<Mix>,
}

/// Compares the ranks over the whole run, then over its last parts until something shows.
/// `average_wanted`: even if nothing does.
pub(crate) fn compare(state: &State, options: &Options, average_wanted: bool) -> Comparison {
    let (groups, processes) = (&state.groups, &state.processes);
    let used = groups.timeline.used();
    let mut comparison = Comparison::default();
    for part in PARTS {
        let buckets = used / part;
        if buckets == 0 {
            break;
        }
        let table = table(groups, processes, options, used - buckets);
        let rule = rule(&table, options);
        let (far, average) = neighbours::far_members(&table.mixes, &rule, average_wanted && part == 1);
        if part == 1 {
            comparison.compared.clone_from(&table.members);
            comparison.average = average.value();
        }
        comparison.outliers = outliers(state, &table, (&far, average), rule.k, (part, used - buckets));
        if !comparison.outliers.is_empty() {
            break;
        }
    }
    comparison
}

/// Ranks if any are known, else processes; in order.
fn candidates(groups: &Groups, processes: &Processes, options: &Options) -> Vec<WhoId> {
    let mut whos: Vec<WhoId> = groups.distributions().iter().map(|d| d.who).collect();
    whos.sort_unstable();
    whos.dedup();
    let is_rank = |id: &WhoId| matches!(processes.who(*id), Who::Rank(_));
    if whos.iter().any(is_rank) {
        whos.retain(is_rank);
    }
    if let Some(wanted) = &options.ranks {
        whos.retain(|id| matches!(processes.who(*id), Who::Rank(r) if wanted.contains(&r)));
    }
    whos.sort_by_key(|id| processes.who(*id));
    whos
}

fn table(groups: &Groups, processes: &Processes, options: &Options, from: usize) -> Table {
    let whos = candidates(groups, processes, options);
    let row: FxHashMap<WhoId, usize> = whos.iter().enumerate().map(|(i, &w)| (w, i)).collect();
    let mut totals = vec![0u64; whos.len()];
    let mut cells: Vec<(GroupId, usize, u64)> = Vec::new();
    for d in groups.distributions() {
        let Some(&row) = row.get(&d.who) else { continue };
        let count = d.buckets.since(from);
        if count > 0 {
            totals[row] += count;
            cells.push((d.group, row, count));
        }
    }
    cells.retain(|c| totals[c.1] >= options.min_chains_per_rank);
    cells.sort_unstable();
    let mut columns: Vec<GroupId> = cells.iter().map(|c| c.0).collect();
    columns.dedup();
    let column: FxHashMap<GroupId, u32> = (0..).zip(&columns).map(|(i, &g)| (g, i)).collect();
    let mut mixes: Vec<Mix> = totals.iter().map(|&total| Mix { counts: Vec::new(), total }).collect();
    for (group, row, count) in cells {
        mixes[row].counts.push((column[&group], count));
    }
    let enough = |total: u64| total >= options.min_chains_per_rank.max(1);
    let (members, mixes) = whos.into_iter().zip(mixes).filter(|(_, mix)| enough(mix.total)).unzip();
    Table { groups: columns, members, mixes }
}

fn rule(table: &Table, options: &Options) -> Rule {
    Rule {
        k: (table.members.len() / options.neighbour_divisor.max(1)).max(1),
        floor: options.outlier_floor,
        factor: options.outlier_factor,
        max_compared: neighbours::MAX_COMPARED,
    }
}

fn outliers(
    state: &State,
    table: &Table,
    (far, average): (&[Far], Average),
    k: usize,
    (part, from): (usize, usize),
) -> Vec<Outlier> {
    let groups = &state.groups;
    let mut found: Vec<Outlier> = far
        .iter()
        .map(|far| {
            let top = top_column(&table.mixes[far.member], &table.mixes[far.neighbour]);
            let mut outlier = describe(state, table, far.member, top);
            outlier.distance = far.distance;
            outlier.average = average.value();
            outlier.nearest = k;
            outlier.part = part;
            outlier.from_ns = groups.timeline.bucket_begin_ns(from);
            outlier.to_ns = groups.timeline.now_ns();
            if groups.timeline.is_touched_from(from) {
                outlier.verdict = Verdict::Inconclusive;
            }
            outlier
        })
        .collect();
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.distance.total_cmp(&a.distance)));
    found
}

/// The group that the first of two ranks runs most in excess of the second. Not the one that it runs less: shares add
/// up to one, so a rank that does work of its own runs everything else less, and nothing is wrong with that.
fn top_column(own: &Mix, other: &Mix) -> u32 {
    let weight = |column: u32| (own.share(column) - other.share(column), own.share(column));
    let heavier = |&a: &u32, &b: &u32| {
        let (wa, wb) = (weight(a), weight(b));
        wa.0.total_cmp(&wb.0).then(wa.1.total_cmp(&wb.1)).then(b.cmp(&a))
    };
    own.counts.iter().chain(&other.counts).map(|c| c.0).max_by(heavier).unwrap_or(0)
}

/// Whether two groups begin with the same work: at the same place, for the same call of the
/// program. What becomes of the data later may differ (a repeated message is dropped, say). Where
/// the call is not known, only a place in the program or its messaging library tells work apart.
fn same_work(state: &State, a: GroupId, b: GroupId) -> bool {
    let (a, b) = (state.groups.get(a), state.groups.get(b));
    let site = |group: &Group| state.names.symbol_parts(group.symbols[0]).site;
    let own = state.names.site_file(site(a)).is_some_and(|(file, _)| state.own_files.contains(&file));
    let tells = |call| call != CallId::NONE || own;
    let calls = |group: &Group, call| group.ops[0].calls.iter().any(|c| c.0 == call);
    site(a) == site(b) && a.ops[0].calls.iter().any(|c| tells(c.0) && calls(b, c.0))
}

fn describe(state: &State, table: &Table, row: usize, column: u32) -> Outlier {
    let groups = &state.groups;
    let member = table.members[row];
    let group = table.groups[column as usize];
    let is_peer = |m: &(&WhoId, &Mix)| *m.0 != member;
    let peers = || table.members.iter().zip(&table.mixes).filter(is_peer);
    let peers_count = table.members.len() - 1;
    let peers_share = peers().map(|(_, mix)| mix.share(column)).sum::<f64>() / peers_count as f64;
    let doing: FxHashSet<WhoId> = groups
        .distributions()
        .iter()
        .filter(|d| d.group == group || same_work(state, d.group, group))
        .map(|d| d.who)
        .collect();
    let runs = |who: WhoId| doing.contains(&who);
    let peers_running = peers().filter(|(who, _)| runs(**who)).count();
    let share = table.mixes[row].share(column);
    // Work that the peers do too, in another measure, is suspect; work of its own is a role.
    let shared_work = share > 0.0 && peers_running * 2 > peers_count;
    Outlier {
        who: member,
        distance: 0.0,
        average: 0.0,
        nearest: 0,
        part: 1,
        from_ns: 0,
        to_ns: 0,
        chains: table.mixes[row].total,
        group,
        share,
        peers_share,
        peers: peers().map(|(who, _)| *who).collect(),
        peers_running,
        verdict: Verdict::Violated,
        severity: if shared_work { Severity::Warning } else { Severity::Notice },
    }
}

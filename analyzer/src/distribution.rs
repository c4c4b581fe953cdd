//! CD-invariants: ranks that do the same work have the same mix of chains.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::finding::{Severity, Verdict};
use crate::groups::{Group, GroupId, Groups};
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
struct Member {
    who: WhoId,
    total: u64,
    /// Share of each group, by the place of the group in the table.
    shares: Vec<f64>,
}

struct Table {
    groups: Vec<GroupId>,
    members: Vec<Member>,
}

/// Compares the ranks over the whole run, then over its last parts until something shows.
pub(crate) fn compare(state: &State, options: &Options) -> Comparison {
    let (groups, processes) = (&state.groups, &state.processes);
    let used = groups.timeline.used();
    let mut comparison = Comparison::default();
    for part in PARTS {
        let buckets = used / part;
        if buckets == 0 {
            break;
        }
        let table = table(groups, processes, options, used - buckets);
        let distances = Distances::new(&table, options);
        if part == 1 {
            comparison.compared = table.members.iter().map(|m| m.who).collect();
            comparison.average = distances.average;
        }
        comparison.outliers = outliers(state, &table, &distances, options, (part, used - buckets));
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
    let column: FxHashMap<GroupId, usize> = columns.iter().enumerate().map(|(i, &g)| (g, i)).collect();
    let mut shares = vec![vec![0.0; columns.len()]; whos.len()];
    for (group, row, count) in cells {
        shares[row][column[&group]] = count as f64 / totals[row] as f64;
    }
    let members = whos.into_iter().zip(totals).zip(shares);
    let members = members.map(|((who, total), shares)| Member { who, total, shares });
    Table {
        groups: columns,
        members: members.filter(|m| m.total >= options.min_chains_per_rank.max(1)).collect(),
    }
}

/// Distance of each member to its k-th nearest neighbour, and who that is.
struct Distances {
    k: usize,
    nearest: Vec<(f64, usize)>,
    average: f64,
}

impl Distances {
    fn new(table: &Table, options: &Options) -> Self {
        let n = table.members.len();
        let k = (n / options.neighbour_divisor.max(1)).max(1);
        if n < 2 {
            return Self { k, nearest: Vec::new(), average: 0.0 };
        }
        let distance = |(i, j): (usize, usize)| manhattan(&table.members[i].shares, &table.members[j].shares);
        let rows = (0..n).map(|i| (0..n).map(|j| distance((i.max(j), i.min(j)))).collect::<Vec<f64>>());
        let all: Vec<Vec<f64>> = rows.collect();
        let nearest = |(i, row): (usize, &Vec<f64>)| {
            let mut others: Vec<(f64, usize)> = (0..n).filter(|&j| j != i).map(|j| (row[j], j)).collect();
            others.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            others[k.min(others.len()) - 1]
        };
        let nearest: Vec<(f64, usize)> = all.iter().enumerate().map(nearest).collect();
        let average = nearest.iter().map(|d| d.0).sum::<f64>() / n as f64;
        Self { k, nearest, average }
    }
}

fn manhattan(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
}

fn outliers(
    state: &State,
    table: &Table,
    distances: &Distances,
    options: &Options,
    (part, from): (usize, usize),
) -> Vec<Outlier> {
    let groups = &state.groups;
    let far = |d: f64| d > options.outlier_factor * distances.average && d >= options.outlier_floor;
    let found = distances.nearest.iter().enumerate().filter(|(_, d)| far(d.0));
    let mut found: Vec<Outlier> = found
        .map(|(i, &(distance, neighbour))| {
            let top = top_column(&table.members[i].shares, &table.members[neighbour].shares);
            let mut outlier = describe(state, table, i, top);
            outlier.distance = distance;
            outlier.average = distances.average;
            outlier.nearest = distances.k;
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

/// The group that two ranks differ by most; among equals one that the first runs more.
fn top_column(own: &[f64], other: &[f64]) -> usize {
    let weight = |i: usize| ((own[i] - other[i]).abs(), own[i]);
    let heavier = |&a: &usize, &b: &usize| {
        let (wa, wb) = (weight(a), weight(b));
        wa.0.total_cmp(&wb.0).then(wa.1.total_cmp(&wb.1)).then(b.cmp(&a))
    };
    (0..own.len()).max_by(heavier).unwrap_or(0)
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

fn describe(state: &State, table: &Table, row: usize, column: usize) -> Outlier {
    let groups = &state.groups;
    let member = &table.members[row];
    let group = table.groups[column];
    let peers: Vec<&Member> = table.members.iter().filter(|m| m.who != member.who).collect();
    let peers_share = peers.iter().map(|m| m.shares[column]).sum::<f64>() / peers.len() as f64;
    let doing: FxHashSet<WhoId> = groups
        .distributions()
        .iter()
        .filter(|d| d.group == group || same_work(state, d.group, group))
        .map(|d| d.who)
        .collect();
    let runs = |who: WhoId| doing.contains(&who);
    let peers_running = peers.iter().filter(|m| runs(m.who)).count();
    let share = member.shares[column];
    // Work that the peers do too, in another measure, is suspect; work of its own is a role.
    let shared_work = share > 0.0 && peers_running * 2 > peers.len();
    Outlier {
        who: member.who,
        distance: 0.0,
        average: 0.0,
        nearest: 0,
        part: 1,
        from_ns: 0,
        to_ns: 0,
        chains: member.total,
        group,
        share,
        peers_share,
        peers: peers.iter().map(|m| m.who).collect(),
        peers_running,
        verdict: Verdict::Violated,
        severity: if shared_work { Severity::Warning } else { Severity::Notice },
    }
}

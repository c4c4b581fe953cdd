//! CD-invariants: ranks that do the same work have the same mix of chains.
//!
//! Ranks are compared twice. First by what their chains begin with ([`Work`]): that is what the
//! program has them do. Only then by whole chains, which is the published definition: what becomes
//! of data later depends on chance too (whether a message was expected, what space there was), so
//! ranks that differ in nothing else are worth a notice, no warning.

use rustc_hash::{FxHashMap, FxHashSet};

use super::knn_outliers::{self, Average, Far, Mix, Rule};
use crate::chains::group::Work;
use crate::chains::groups::{ChainGroups, GroupId};
use crate::chains::name_order::NameOrder;
use crate::chains::op_names::OpNames;
use crate::chains::rank_counts::{RankCount, RankCounts};
use crate::findings::finding::{ComparedBy, Severity, Verdict};
use crate::job::Job;
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::process::{Processes, Who};
use crate::mpi::calls::has_no_data;
use crate::options::Options;

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
    pub compared_by: ComparedBy,
    /// What it differs by most; of chains that begin alike the most frequent one.
    pub group: GroupId,
    /// Of chains like that, or that begin like that.
    pub share: f64,
    pub peers_share: f64,
    pub peers: Vec<WhoId>,
    /// Peers with chains of that kind, at any time.
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

/// Chains of ranks in a part of the run.
struct Table<K> {
    columns: Vec<K>,
    members: Vec<WhoId>,
    /// Of each member; columns are places in `columns`.
    mixes: Vec<Mix>,
    /// See [`PARTS`].
    part: usize,
    /// First bucket of the part.
    from: usize,
}

/// Chains of a run, with the job that they are of.
#[derive(Clone, Copy)]
pub(crate) struct RunView<'a> {
    pub job: &'a Job,
    pub groups: &'a ChainGroups,
    pub ops: &'a OpNames,
}

/// Compares the ranks over the whole run, then over its last parts until something shows.
/// `average_wanted`: even if nothing does.
pub(crate) fn compare(run: RunView<'_>, options: &Options, average_wanted: bool) -> Comparison {
    let by_work = Comparer { run, options, average_wanted, counts: &run.groups.by_work };
    let comparison = by_work.compare();
    if !comparison.outliers.is_empty() {
        return comparison;
    }
    Comparer { run, options, average_wanted, counts: &run.groups.by_group }.compare()
}

impl<'a> RunView<'a> {
    fn order(&self) -> NameOrder<'a> {
        NameOrder { job: self.job, groups: self.groups, ops: self.ops }
    }
}

/// What chains are told apart by.
trait MixColumn: Copy + Ord + std::hash::Hash {
    /// Its place among others by name.
    fn order(self, run: RunView<'_>) -> u64;

    /// Says of an outlier what it has in excess. `None`: no group of it is kept.
    fn describe(self, run: RunView<'_>, outlier: Outlier, from: usize) -> Option<Outlier>;
}

impl MixColumn for Work {
    fn order(self, run: RunView<'_>) -> u64 {
        run.order().of_work(self)
    }

    fn describe(self, run: RunView<'_>, outlier: Outlier, from: usize) -> Option<Outlier> {
        let group = most_frequent(run, self, outlier.who, from)?;
        // Work that the peers do too, in another measure, is suspect; work of its own is a role.
        let is_shared = outlier.share > 0.0 && outlier.peers_running * 2 > outlier.peers.len();
        let severity = if is_shared && self.tells_work(run) { Severity::Warning } else { Severity::Notice };
        Some(Outlier { compared_by: ComparedBy::Beginnings, group, severity, ..outlier })
    }
}

impl MixColumn for GroupId {
    fn order(self, run: RunView<'_>) -> u64 {
        run.order().of_group(self)
    }

    fn describe(self, _: RunView<'_>, outlier: Outlier, _: usize) -> Option<Outlier> {
        Some(Outlier { group: self, ..outlier })
    }
}

impl Work {
    /// Where the call is not known, or carries nothing of the program's memory, only a place in the program or its messaging library tells
    /// work apart.
    fn tells_work(self, run: RunView<'_>) -> bool {
        let carries_data = || !has_no_data(&run.job.probes.call_parts(self.call).0);
        self.call != CallSiteId::NONE && carries_data() || run.job.is_own_site(self.site)
    }

    /// Whether chains of a group begin with it. Where too many calls run one operation, not all are known.
    fn begins(self, run: RunView<'_>, group: GroupId) -> bool {
        let group = run.groups.get(group);
        let first = &group.ops[0];
        let calls = || first.calls.iter().any(|call| call.0 == self.call) || first.calls_not_kept > 0;
        run.ops.symbol_parts(group.symbols[0]).site == self.site && calls()
    }
}

/// Of a rank's groups that begin with some work the most frequent one.
fn most_frequent(run: RunView<'_>, work: Work, who: WhoId, from: usize) -> Option<GroupId> {
    let own = run.groups.by_group.all().iter().filter(|count| count.who == who);
    let beginning = own.filter(|count| work.begins(run, count.key));
    let since = |count: &RankCount<GroupId>| count.buckets.since(from);
    let name = |count: &RankCount<GroupId>| run.order().of_group(count.key);
    let heavier = |a: &&RankCount<GroupId>, b: &&RankCount<GroupId>| {
        since(a).cmp(&since(b)).then_with(|| name(b).cmp(&name(a)))
    };
    beginning.max_by(heavier).map(|count| count.key)
}

/// Compares the ranks by one kind of column.
struct Comparer<'a, K> {
    run: RunView<'a>,
    options: &'a Options,
    average_wanted: bool,
    counts: &'a RankCounts<K>,
}

impl<K: MixColumn> Comparer<'_, K> {
    fn compare(&self) -> Comparison {
        let used = self.run.groups.axis.used();
        let whos = candidates(self.run.groups, &self.run.job.processes, self.options);
        let rows: FxHashMap<WhoId, usize> = whos.iter().enumerate().map(|(i, &w)| (w, i)).collect();
        let mut comparison = Comparison::default();
        for part in PARTS {
            let buckets = used / part;
            if buckets == 0 {
                break;
            }
            let table = self.table(&whos, &rows, part, used - buckets);
            let rule = self.rule(table.members.len());
            let average_wanted = self.average_wanted && part == 1;
            let (far, average) = knn_outliers::far_members(&table.mixes, &rule, average_wanted);
            if part == 1 {
                comparison.compared.clone_from(&table.members);
                comparison.average = average.value();
            }
            comparison.outliers = self.outliers(&table, &far, average, rule.k);
            if !comparison.outliers.is_empty() {
                break;
            }
        }
        comparison
    }

    fn table(&self, whos: &[WhoId], rows: &FxHashMap<WhoId, usize>, part: usize, from: usize) -> Table<K> {
        let mut totals = vec![0u64; whos.len()];
        let mut cells: Vec<(K, usize, u64)> = Vec::new();
        for kept in self.counts.all() {
            let count = kept.buckets.since(from);
            if count > 0
                && let Some(&row) = rows.get(&kept.who)
            {
                totals[row] = totals[row].saturating_add(count);
                cells.push((kept.key, row, count));
            }
        }
        cells.retain(|c| totals[c.1] >= self.options.min_chains_per_rank);
        let mut columns: Vec<K> = cells.iter().map(|c| c.0).collect();
        columns.sort_unstable();
        columns.dedup();
        columns.sort_by_cached_key(|column| column.order(self.run));
        let column: FxHashMap<K, u32> = (0..).zip(&columns).map(|(i, &key)| (key, i)).collect();
        let mut cells: Vec<(u32, usize, u64)> =
            cells.into_iter().map(|(key, row, count)| (column[&key], row, count)).collect();
        cells.sort_unstable();
        let mut mixes: Vec<Mix> = totals.iter().map(|&total| Mix { counts: Vec::new(), total }).collect();
        for (column, row, count) in cells {
            mixes[row].counts.push((column, count));
        }
        let enough = |total: u64| total >= self.options.min_chains_per_rank.max(1);
        let (members, mixes) = whos.iter().copied().zip(mixes).filter(|(_, mix)| enough(mix.total)).unzip();
        Table { columns, members, mixes, part, from }
    }

    fn rule(&self, members: usize) -> Rule {
        Rule {
            k: (members / self.options.neighbour_divisor.max(1)).max(1),
            floor: self.options.outlier_floor,
            factor: self.options.outlier_factor,
            max_compared: knn_outliers::MAX_COMPARED,
        }
    }

    fn outliers(&self, table: &Table<K>, far: &[Far], average: Average, k: usize) -> Vec<Outlier> {
        let mut found: Vec<Outlier> =
            far.iter().filter_map(|far| self.outlier(table, *far, average, k)).collect();
        found.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.distance.total_cmp(&a.distance)));
        found
    }

    fn outlier(&self, table: &Table<K>, far: Far, average: Average, k: usize) -> Option<Outlier> {
        let axis = &self.run.groups.axis;
        let (who, mix) = (table.members[far.member], &table.mixes[far.member]);
        let column = top_column(mix, &table.mixes[far.neighbour]);
        let key = table.columns[column as usize];
        let doing: FxHashSet<WhoId> =
            self.counts.all().iter().filter(|kept| kept.key == key).map(|kept| kept.who).collect();
        let peers = || table.members.iter().zip(&table.mixes).filter(|peer| *peer.0 != who);
        let peers_count = table.members.len() - 1;
        let outlier = Outlier {
            who,
            distance: far.distance,
            average: average.value(),
            nearest: k,
            part: table.part,
            from_ns: axis.bucket_begin_ns(table.from),
            to_ns: axis.now_ns(),
            chains: mix.total,
            compared_by: ComparedBy::WholeChains,
            group: GroupId::NONE,
            share: mix.share(column),
            peers_share: peers().map(|(_, mix)| mix.share(column)).sum::<f64>() / peers_count as f64,
            peers: peers().map(|peer| *peer.0).collect(),
            peers_running: peers().filter(|peer| doing.contains(peer.0)).count(),
            verdict: if axis.is_touched_from(table.from) { Verdict::Inconclusive } else { Verdict::Violated },
            severity: Severity::Notice,
        };
        key.describe(self.run, outlier, table.from)
    }
}

/// Ranks if any are known, else processes; in order.
fn candidates(groups: &ChainGroups, processes: &Processes, options: &Options) -> Vec<WhoId> {
    let mut whos: Vec<WhoId> = groups.by_work.all().iter().map(|count| count.who).collect();
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

/// The column that the first of two ranks has most in excess of the second. Not the one that it has less of: shares add
/// up to one, so a rank that does work of its own does everything else less, and nothing is wrong with that.
fn top_column(own: &Mix, other: &Mix) -> u32 {
    let weight = |column: u32| (own.share(column) - other.share(column), own.share(column));
    let heavier = |&a: &u32, &b: &u32| {
        let (wa, wb) = (weight(a), weight(b));
        wa.0.total_cmp(&wb.0).then(wa.1.total_cmp(&wb.1)).then(b.cmp(&a))
    };
    own.counts.iter().chain(&other.counts).map(|c| c.0).max_by(heavier).unwrap_or(0)
}

//! FC-invariants: the frequent chains, and the groups that are almost one.

use rustc_hash::FxHashMap;

use super::scores::{self, Common, Weighted};
use crate::chains::context_set::ContextSet;
use crate::chains::group::{ChainGroup, Example, OpCounts, OpInstance};
use crate::chains::groups::{ChainGroups, GroupId};
use crate::chains::name_order::NameOrder;
use crate::chains::op_names::{ContextId, OpNames, OpSymbol, SymbolId};
use crate::findings::finding::{Severity, Verdict};
use crate::job::Job;
use crate::job::ids::CallSiteId;
use crate::job::names::{Kind, STACK};
use crate::mpi::calls::{has_no_data, reads_window};
use crate::options::Options;

/// The uniqueness that frequent chains must reach, and the chains of groups that reach it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Threshold {
    pub uniqueness: u32,
    pub chains: u64,
    /// It would be the same whatever the uncounted chains were.
    certain: bool,
    /// `chains` if every group that could reach the threshold did, and all uncounted ones too.
    chains_at_most: u64,
}

/// A group that is almost a frequent one.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub odd: GroupId,
    pub frequent: GroupId,
    pub common: Common,
    pub similarity: f64,
    pub rareness: f64,
    pub abnormality: f64,
    pub context: ContextMatch,
    pub verdict: Verdict,
    pub severity: Severity,
    /// Further frequent groups that it violates, and by how much.
    pub others: Vec<(GroupId, f64)>,
}

/// How often the part of the frequent chain that an odd one lacks was found beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextMatch {
    /// The operation of the frequent chain that would come first, and how often it was there.
    pub before: Option<ContextId>,
    pub matched_before: u64,
    /// The one that would come next, and how often it was there.
    pub after: Option<ContextId>,
    pub matched_after: u64,
    /// Instances where either was there.
    pub matched: u64,
    /// Instances whose surroundings are known.
    pub known: u64,
}

impl ContextMatch {
    /// Whether an instance's surroundings have the missing part.
    pub fn matches(&self, set: &ContextSet) -> bool {
        self.before.is_some_and(|op| set.has_before(op)) || self.after.is_some_and(|op| set.has_after(op))
    }
}

/// What holds now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evaluation {
    pub threshold: Threshold,
    pub warm: bool,
    pub frequent: Vec<GroupId>,
    /// The most important first.
    pub violations: Vec<Violation>,
}

/// What of the groups does not change when only counts do.
#[derive(Default)]
pub(crate) struct FrequentChains {
    shape_version: u64,
    ops: Vec<Vec<Weighted>>,
    uniqueness: Vec<u32>,
    open: Vec<bool>,
    /// By frequent group: the common part with each group.
    common: FxHashMap<GroupId, Vec<Common>>,
}

impl FrequentChains {
    /// Finds the frequent chains and their violations. `uncounted`: chains that a loss may have changed or hidden.
    pub fn evaluate(
        &mut self,
        job: &Job,
        groups: &ChainGroups,
        names: &mut OpNames,
        uncounted: u64,
        options: &Options,
    ) -> Evaluation {
        self.refresh(groups, names, options);
        let against = Against { referenced: options.reference.is_some(), uncounted, options };
        let threshold = self.threshold(groups, &against);
        let warm = threshold.chains >= options.warm_up_chains;
        let frequent = if warm { self.frequent(groups, threshold, &against) } else { Vec::new() };
        self.common.retain(|id, _| frequent.contains(id));
        let mut by_odd: Vec<Violation> = Vec::new();
        for &p in &frequent {
            self.fill_common(p);
            for odd in 0..groups.all().len() {
                let odd = GroupId(odd as u32);
                if let Some(mut v) = self.violation(groups, names, odd, p, threshold, &against) {
                    let pair = (groups.get(odd), groups.get(p));
                    let is_explained = |v: &Violation| {
                        is_without_messages(job, names, pair)
                            || is_of_library(job, pair.0, &v.context)
                            || is_of_computation_on_stack(names, pair, v.common, &v.context)
                            || is_of_other_message(pair, v.common, &v.context)
                    };
                    if v.severity == Severity::Warning && is_explained(&v) {
                        v.severity = Severity::Notice;
                    }
                    by_odd.push(v);
                }
            }
        }
        let order = NameOrder { job, groups, ops: names };
        Evaluation { threshold, warm, frequent, violations: one_per_group(by_odd, order) }
    }

    /// Uniqueness of a group.
    pub fn uniqueness(&self, id: GroupId) -> u32 {
        self.uniqueness.get(id.index()).copied().unwrap_or(0)
    }

    /// Uniqueness of each operation of a group.
    pub fn ops(&self, id: GroupId) -> &[Weighted] {
        self.ops.get(id.index()).map_or(&[], Vec::as_slice)
    }

    fn refresh(&mut self, groups: &ChainGroups, names: &OpNames, options: &Options) {
        if self.shape_version != groups.shape_version {
            *self = Self { shape_version: groups.shape_version, ..Self::default() };
        }
        for group in &groups.all()[self.ops.len()..] {
            let weigh =
                |(&symbol, n): (_, u32)| (symbol, scores::uniqueness(names.symbol_parts(symbol), n, options));
            let segments = || group.ops.iter().map(|o| o.segments);
            let ops: Vec<Weighted> = group.symbols.iter().zip(segments()).map(weigh).collect();
            let open = |(&s, n): (_, u32)| scores::is_open_pack(names.symbol_parts(s), n, options);
            self.uniqueness.push(ops.iter().map(|o| o.1).sum());
            self.open.push(group.symbols.iter().zip(segments()).any(open));
            self.ops.push(ops);
        }
    }

    fn threshold(&self, groups: &ChainGroups, against: &Against<'_>) -> Threshold {
        let o = against.options;
        let uncounted = against.uncounted_frequent();
        let count = |least: u32, could: bool| -> u64 {
            let reaches = |i: usize| self.uniqueness[i] >= least || (could && self.open[i]);
            let reaching = groups.all().iter().enumerate().filter(|(i, _)| reaches(*i));
            reaching.map(|(_, g)| against.count(g)).fold(0, u64::saturating_add)
        };
        let (uniqueness, certain) = match o.uniqueness_threshold {
            Some(fixed) => (fixed, true),
            None => {
                let usual = count(o.uniqueness_usual, false) as f64;
                let usual_at_most = count(o.uniqueness_usual, uncounted > 0).saturating_add(uncounted) as f64;
                let all = count(0, false) as f64;
                let all_at_most = all + uncounted as f64;
                let enough = usual >= o.uniqueness_usual_share * all;
                let certain = if enough {
                    usual >= o.uniqueness_usual_share * all_at_most
                } else {
                    usual_at_most < o.uniqueness_usual_share * all
                };
                (if enough { o.uniqueness_usual } else { o.uniqueness_short }, certain || uncounted == 0)
            }
        };
        let least = if certain { uniqueness } else { uniqueness.min(o.uniqueness_short) };
        let chains_at_most = count(least, uncounted > 0).saturating_add(uncounted);
        Threshold { uniqueness, chains: count(uniqueness, false), certain, chains_at_most }
    }

    fn frequent(&self, groups: &ChainGroups, threshold: Threshold, against: &Against<'_>) -> Vec<GroupId> {
        let o = against.options;
        let least = o.frequent_share * threshold.chains as f64;
        let frequent = |(i, g): &(usize, &ChainGroup)| {
            let count = against.count(g);
            self.uniqueness[*i] >= threshold.uniqueness && count >= o.min_frequent && count as f64 > least
        };
        groups.all().iter().enumerate().filter(frequent).map(|(i, _)| GroupId(i as u32)).collect()
    }

    fn fill_common(&mut self, p: GroupId) {
        let column = self.common.entry(p).or_default();
        for odd in &self.ops[column.len()..] {
            column.push(scores::common(odd, &self.ops[p.index()]));
        }
    }

    fn violation(
        &self,
        groups: &ChainGroups,
        names: &mut OpNames,
        odd: GroupId,
        p: GroupId,
        threshold: Threshold,
        against: &Against<'_>,
    ) -> Option<Violation> {
        let common = self.common[&p][odd.index()];
        let (c, f) = (groups.get(odd), groups.get(p));
        if common.len == 0 || odd == p || !against.enough(c.count - cut_by_edges(c, f, common)) {
            return None;
        }
        let similarity = scores::similarity(common.uniqueness, self.uniqueness(odd), self.uniqueness(p));
        let rareness = scores::rareness(against.count(c), against.count(f));
        let abnormality = scores::abnormality(similarity, rareness);
        if abnormality <= against.options.abnormality {
            return None;
        }
        let context = context_match(c, f, common, names);
        let share = against.options.context_share * context.known as f64;
        let broken = context.matched > 0 && context.matched as f64 >= share;
        let sure = self.is_sure(groups, (odd, p), similarity, threshold, against);
        Some(Violation {
            odd,
            frequent: p,
            common,
            similarity,
            rareness,
            abnormality,
            context,
            verdict: if sure { Verdict::Violated } else { Verdict::Inconclusive },
            severity: if broken { Severity::Warning } else { Severity::Notice },
            others: Vec::new(),
        })
    }

    /// Whether it is a violation whatever the uncounted chains were.
    fn is_sure(
        &self,
        groups: &ChainGroups,
        (odd, p): (GroupId, GroupId),
        similarity: f64,
        threshold: Threshold,
        against: &Against<'_>,
    ) -> bool {
        let o = against.options;
        if against.uncounted == 0 {
            return true;
        }
        if self.open[odd.index()] || self.open[p.index()] {
            return false;
        }
        let uncounted = against.uncounted_frequent();
        let (c, f) = (against.count(groups.get(odd)), against.count(groups.get(p)));
        let reaches = threshold.certain || self.uniqueness(p) >= o.uniqueness_usual;
        let frequent = f as f64 > o.frequent_share * threshold.chains_at_most as f64;
        let rareness = scores::rareness(c.saturating_add(uncounted), f);
        reaches && frequent && scores::abnormality(similarity, rareness) > o.abnormality
    }
}

/// What counts are held against.
struct Against<'a> {
    referenced: bool,
    uncounted: u64,
    options: &'a Options,
}

impl Against<'_> {
    /// How frequent a group is.
    fn count(&self, group: &ChainGroup) -> u64 {
        if self.referenced { group.reference } else { group.count }
    }

    /// Whether so many instances are worth a word.
    fn enough(&self, instances: u64) -> bool {
        instances >= if self.referenced { self.options.min_reference_instances } else { 1 }
    }

    /// Chains by which frequencies may be wrong: those of a reference are not.
    fn uncounted_frequent(&self) -> u64 {
        if self.referenced { 0 } else { self.uncounted }
    }
}

/// Instances of a part of the frequent chain that are no more than the frequent chain seen in
/// part: under way when watching began or ended, or given up by age.
fn cut_by_edges(odd: &ChainGroup, frequent: &ChainGroup, common: Common) -> u64 {
    if usize::from(common.len) != odd.symbols.len() {
        return 0;
    }
    let lacks_begin = common.frequent_from > 0;
    let lacks_end = usize::from(common.frequent_from + common.len) < frequent.symbols.len();
    let e = odd.edges;
    match (lacks_begin, lacks_end) {
        (true, true) => e.begin_only + e.end_only + e.both,
        (true, false) => e.begin_only + e.both,
        (false, true) => e.end_only + e.both,
        (false, false) => 0,
    }
}

/// Looks for the operation of the frequent chain that would come just before (after) the common part,
/// where the odd chain begins (ends) with it.
///
/// Where that operation wrote does not count: a chain breaks because data goes to the wrong place,
/// and a wrong place often belongs to another buffer. Code site and source say that it is the same
/// work, and that nobody read what it wrote (or that it read what nobody wrote) says that the chain
/// was cut here and not elsewhere. Mistakes are on the careful side: an operation that is often left
/// unread anyway matches by chance only where the odd chain also begins with the rest of the frequent one.
fn context_match(
    odd: &ChainGroup,
    frequent: &ChainGroup,
    common: Common,
    names: &mut OpNames,
) -> ContextMatch {
    let (odd_from, from) = (usize::from(common.odd_from), usize::from(common.frequent_from));
    let len = usize::from(common.len);
    let parts = |at: usize| frequent.symbols.get(at).map(|symbol| names.symbol_parts(*symbol));
    // An operation of the frequent chain and the next one.
    let pair = |at: usize| parts(at).zip(parts(at + 1));
    let before = (odd_from == 0).then(|| from.checked_sub(1)).flatten();
    let before = before.filter(|at| {
        pair(*at).is_some_and(|(first, then)| {
            run_in_one_process(first, then) || is_read_after_staging(first, then)
        })
    });
    let after = Some(from + len).filter(|_| odd_from + len == odd.symbols.len());
    // The common part has an operation at least.
    let after = after.filter(|at| pair(at - 1).is_some_and(|(first, then)| run_in_one_process(first, then)));
    let mut op = |at: Option<usize>| at.and_then(|i| frequent.symbols.get(i)).map(|&s| names.context_of(s));
    let mut found = ContextMatch { before: op(before), after: op(after), ..ContextMatch::default() };
    for (set, count) in &odd.contexts {
        found.known += count;
        if found.before.is_some_and(|op| set.has_before(op)) {
            found.matched_before += count;
        }
        if found.after.is_some_and(|op| set.has_after(op)) {
            found.matched_after += count;
        }
        if found.matches(set) {
            found.matched += count;
        }
    }
    found
}

/// Whether one process does both, where the second reads what the first has written. Else what is found around one of them in its thread
/// says nothing of the other.
fn run_in_one_process(first: &OpSymbol, then: &OpSymbol) -> bool {
    let pushes = |op: &OpSymbol| matches!(op.kind, Kind::CrossWrite | Kind::RdmaWrite);
    let pulls = |op: &OpSymbol| op.crosses && !pushes(op);
    !pushes(first) && !pulls(then)
}

/// Whether another process reads what one has copied within its own memory, to be read. What is around such a reader is what the other process did
/// last. (What a process has received, it may use without a copy.)
fn is_read_after_staging(first: &OpSymbol, then: &OpSymbol) -> bool {
    let stages = matches!(first.kind, Kind::Copy | Kind::Pack) && !first.crosses;
    stages && then.kind == Kind::CrossRead && then.crosses
}

/// Whether both chains are copies outside of MPI calls that stay in one process: what a program moves for itself, as when it sorts, goes the way
/// that its data has it go. Of the odd one, some may be in calls that carry no data: memory that the library gave back is then the program's, which
/// stores there what it goes on with.
fn is_without_messages(job: &Job, names: &OpNames, (odd, frequent): (&ChainGroup, &ChainGroup)) -> bool {
    let are_own = |group: &ChainGroup, is_outside: &dyn Fn(CallSiteId) -> bool| {
        group.symbols.iter().zip(&group.ops).all(|(symbol, op)| {
            let parts = names.symbol_parts(*symbol);
            let is_in_call = op.calls_not_kept > 0 || op.calls.iter().any(|(call, _)| !is_outside(*call));
            parts.kind == Kind::Copy && !parts.crosses && !is_in_call
        })
    };
    let is_without_data = |call: CallSiteId| has_no_data(&job.probes.call_parts(call).0);
    are_own(frequent, &|call| call == CallSiteId::NONE)
        && are_own(odd, &|call| call == CallSiteId::NONE || is_without_data(call))
}

/// Whether the chain broke in calls that carry nothing of the program's memory, like those that make communicators: the library computes there
/// with what it receives, so that its chains end and begin in memory that no copy wrote. Or it begins with what is read from a window, which
/// the program may have stored there itself.
fn is_of_library(job: &Job, odd: &ChainGroup, context: &ContextMatch) -> bool {
    let all_calls = |op: Option<&OpCounts>, are: fn(&str) -> bool| {
        op.is_some_and(|op| {
            let is = |(call, _): &(CallSiteId, u64)| are(&job.probes.call_parts(*call).0);
            op.calls_not_kept == 0 && !op.calls.is_empty() && op.calls.iter().all(is)
        })
    };
    let begins = |function: &str| has_no_data(function) || reads_window(function);
    (context.matched_before == 0 || all_calls(odd.ops.first(), begins))
        && (context.matched_after == 0 || all_calls(odd.ops.last(), has_no_data))
}

/// Whether the chain began with a number on a stack, by all examples, or ended on a stack: programs work out there what they send, and go on with
/// what they receive, without copying it. Longer data that is sent mostly came there by copies; what is received is used, however long it is.
/// Where the usual chain sends what a call has received on a stack, another variable may lie in the same place later.
fn is_of_computation_on_stack(
    names: &OpNames,
    (odd, frequent): (&ChainGroup, &ChainGroup),
    common: Common,
    context: &ContextMatch,
) -> bool {
    /// Of `MPI_C_DOUBLE_COMPLEX`.
    const LONGEST_BYTES: u64 = 16;
    let symbol = |at: Option<&SymbolId>| at.map(|symbol| names.symbol_parts(*symbol));
    let is_short = |op: Option<&OpInstance>| op.is_some_and(|op| op.len_bytes <= LONGEST_BYTES);
    let before = usize::from(common.frequent_from).checked_sub(1);
    let is_received =
        |op: &OpCounts| op.calls_not_kept == 0 && op.calls.iter().all(|(call, _)| *call != CallSiteId::NONE);
    let passes_on_received = || {
        symbol(before.and_then(|at| frequent.symbols.get(at))).is_some_and(|op| op.destination == STACK)
            && before.and_then(|at| frequent.ops.get(at)).is_some_and(is_received)
    };
    let begins = || {
        symbol(odd.symbols.first()).is_some_and(|op| op.source == STACK)
            && (odd.examples.iter().all(|example| is_short(example.ops.first())) || passes_on_received())
    };
    let ends = || symbol(odd.symbols.last()).is_some_and(|op| op.destination == STACK);
    !odd.examples.is_empty()
        && (context.matched_before == 0 || begins())
        && (context.matched_after == 0 || ends())
}

/// Whether what was left unread before the odd chain was another message, by all examples: it is not as long as what the chain passes on, and lies
/// in another buffer than where the frequent chain has it, which passes on what it gets as it is. A wrong address mostly leads near the
/// right one, and with a header before it a message is longer than what was put behind.
fn is_of_other_message(
    (odd, frequent): (&ChainGroup, &ChainGroup),
    common: Common,
    context: &ContextMatch,
) -> bool {
    let Some(before) = context.before.filter(|_| context.matched_before > 0 && context.matched_after == 0)
    else {
        return false;
    };
    let at = usize::from(common.frequent_from);
    // What the frequent chain gets, and what it makes of that.
    let usual: Option<Vec<(&OpInstance, &OpInstance)>> = frequent
        .examples
        .iter()
        .map(|example| at.checked_sub(1).and_then(|from| example.ops.get(from)).zip(example.ops.get(at)))
        .collect();
    let usual = usual.unwrap_or_default();
    let passes_on_all = usual.iter().all(|(got, passed_on)| got.len_bytes == passed_on.len_bytes);
    // All of a thread's stack has one name.
    let is_usual_place = |op: &OpInstance| {
        op.destination_buffer != STACK
            && usual.iter().any(|(got, _)| got.destination_buffer == op.destination_buffer)
    };
    let is_other = |example: &Example| {
        let mut unread = example.before.iter().filter(|op| op.context == before);
        let passed_on_bytes = example.ops.first().map(|first| first.len_bytes);
        unread.all(|op| Some(op.len_bytes) != passed_on_bytes && !is_usual_place(op))
    };
    let is_beside = |example: &&Example| example.before.iter().any(|op| op.context == before);
    let mut beside = odd.examples.iter().filter(is_beside).peekable();
    !usual.is_empty() && passes_on_all && beside.peek().is_some() && beside.all(is_other)
}

/// Context match first, then abnormality.
fn weight(v: &Violation) -> (Severity, f64) {
    (v.severity, v.abnormality)
}

fn heavier_first(a: &Violation, b: &Violation) -> std::cmp::Ordering {
    let ((sa, aa), (sb, ab)) = (weight(a), weight(b));
    sb.cmp(&sa).then(ab.total_cmp(&aa))
}

/// Keeps the heaviest violation of each odd group, and orders them.
fn one_per_group(mut all: Vec<Violation>, order: NameOrder<'_>) -> Vec<Violation> {
    let count = |id: GroupId| order.groups.get(id).count;
    let name = |id: GroupId| order.of_group(id);
    all.sort_by(|a, b| {
        heavier_first(a, b)
            .then(count(b.odd).cmp(&count(a.odd)))
            .then(count(b.frequent).cmp(&count(a.frequent)))
            .then_with(|| name(a.odd).cmp(&name(b.odd)))
            .then_with(|| name(a.frequent).cmp(&name(b.frequent)))
    });
    let mut kept: Vec<Violation> = Vec::new();
    let mut places: FxHashMap<GroupId, usize> = FxHashMap::default();
    for v in all {
        match places.get(&v.odd) {
            Some(&at) => kept[at].others.push((v.frequent, v.abnormality)),
            None => {
                places.insert(v.odd, kept.len());
                kept.push(v);
            }
        }
    }
    kept
}

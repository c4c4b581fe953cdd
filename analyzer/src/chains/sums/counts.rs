//! Counts of chain groups, and of the ranks that chains begin in.

use rustc_hash::FxHashMap;

use super::lists::ReadLists;
use super::names_reader::NamesReader;
use super::names_writer::{NameTables, NamesWriter};
use crate::chains::context_set::ContextSet;
use crate::chains::group::{Edges, Example, GroupCounts, OpInstance, OpNews, Work};
use crate::chains::groups::{ChainGroups, GroupId, RankedBy};
use crate::chains::time_buckets::TimeAxis;
use crate::chains::who_set::WhoSet;
use crate::job::ids::{CallSiteId, WhoId};
use crate::tape::BadBytes;
use crate::tape::bytes::{ByteReader, ByteWriter};

/// What of groups was told already, which counts do not show.
#[derive(Debug, Default)]
pub(crate) struct ToldOfGroups {
    by_group: FxHashMap<GroupId, ToldOfGroup>,
}

#[derive(Debug, Default)]
struct ToldOfGroup {
    /// Ranks of each operation.
    who: Vec<WhoSet>,
    examples: usize,
}

impl ToldOfGroups {
    /// Ranks must be told again; examples are not.
    pub(crate) fn forget_ranks(&mut self) {
        self.by_group.values_mut().for_each(|told| told.who.clear());
    }
}

/// What was counted of a group since this was asked for last.
pub(crate) fn put_group(
    w: &mut ByteWriter,
    id: GroupId,
    groups: &mut ChainGroups,
    told: &mut ToldOfGroups,
    (names, from): (&mut NamesWriter, NameTables<'_>),
    now_ns: u64,
) {
    let counts = groups.take_counts(id);
    w.number(names.group(id, groups, from));
    let group = groups.get(id);
    let Edges { begin_only, end_only, both } = counts.edges;
    [counts.count, begin_only, end_only, both, counts.contexts_not_kept]
        .into_iter()
        .for_each(|number| w.number(number));
    w.list(counts.contexts.iter(), |w, (set, count)| {
        put_context(w, set, names, from);
        w.number(*count);
    });
    let told = told.by_group.entry(id).or_default();
    told.who.resize_with(counts.ops.len(), WhoSet::default);
    w.count(counts.ops.len());
    for ((op, all), told) in counts.ops.iter().zip(&group.ops).zip(&mut told.who) {
        w.number(op.segments.into());
        let new: Vec<u64> = all.who.without(told).map(|who| names.who(who, from)).collect();
        told.clone_from(&all.who);
        w.list(new.into_iter(), ByteWriter::number);
        w.list(op.calls.iter(), |w, (call, count)| {
            w.number(names.call(*call, from));
            w.number(*count);
        });
        w.number(op.calls_not_kept);
    }
    let examples = group.examples.get(told.examples..).unwrap_or_default();
    told.examples = group.examples.len();
    w.list(examples.iter(), |w, example| put_example(w, example, names, from, now_ns));
}

fn put_context(w: &mut ByteWriter, set: &ContextSet, names: &mut NamesWriter, from: NameTables<'_>) {
    w.list(set.before(), |w, op| w.number(names.context(op, from)));
    w.list(set.after(), |w, op| w.number(names.context(op, from)));
}

fn put_example(
    w: &mut ByteWriter,
    example: &Example,
    names: &mut NamesWriter,
    from: NameTables<'_>,
    now_ns: u64,
) {
    w.list(example.ops.iter(), |w, op| put_instance(w, op, names, from, now_ns));
    w.list(example.before.iter(), |w, op| put_instance(w, op, names, from, now_ns));
    w.optional(example.context.as_ref(), |w, set| put_context(w, set, names, from));
}

/// One operation, all of it. Times are told as differences: clocks of nodes differ.
pub(crate) fn put_instance(
    w: &mut ByteWriter,
    op: &OpInstance,
    names: &mut NamesWriter,
    from: NameTables<'_>,
    now_ns: u64,
) {
    w.number(names.context(op.context, from));
    w.number(names.who(op.who, from));
    w.number(names.lists.pids.place(op.pid));
    w.number(names.lists.pids.place(op.tid));
    w.signed(now_ns.wrapping_sub(op.time_ns).cast_signed());
    w.number(op.source);
    w.number(op.destination);
    w.number(names.buffer(op.destination_buffer, from));
    w.number(op.len_bytes);
}

/// What was counted of a group elsewhere.
#[derive(Debug)]
pub(crate) struct CountedGroup {
    /// None: it has no name here.
    pub group: Option<GroupId>,
    pub counts: GroupCounts,
    pub examples: Vec<Example>,
}

/// How what is read is understood.
#[derive(Clone, Copy)]
pub(crate) struct ReadFrom<'a> {
    pub names: &'a NamesReader,
    pub lists: ReadLists<'a>,
    /// What differences of times are to.
    pub now_ns: u64,
}

/// Reads what [`put_group`] wrote. What has no name is left out: of contexts and calls it is known how many those are.
pub(crate) fn take_group(r: &mut ByteReader<'_>, from: ReadFrom<'_>) -> Result<CountedGroup, BadBytes> {
    let group = from.names.groups.read(r)?;
    let mut counts = GroupCounts { count: r.number()?, ..GroupCounts::default() };
    counts.edges = Edges { begin_only: r.number()?, end_only: r.number()?, both: r.number()? };
    counts.contexts_not_kept = r.number()?;
    for (set, count) in r.list(|r| Ok((take_context(r, from)?, r.number()?)))? {
        match set {
            Some(set) => counts.contexts.push((set, count)),
            None => counts.contexts_not_kept = counts.contexts_not_kept.saturating_add(count),
        }
    }
    counts.ops = r.list(|r| take_op(r, from))?;
    let examples = r.list(|r| take_example(r, from))?.into_iter().flatten().collect();
    Ok(CountedGroup { group, counts, examples })
}

fn take_op(r: &mut ByteReader<'_>, from: ReadFrom<'_>) -> Result<OpNews, BadBytes> {
    let segments = r.small()?;
    let who = r.list(|r| from.names.whos.read(r))?.into_iter().flatten().collect();
    let mut op = OpNews { segments, who, calls: Vec::new(), calls_not_kept: 0 };
    let mut not_named: u64 = 0;
    for (call, count) in r.list(|r| Ok((from.names.call(r)?, r.number()?)))? {
        match call {
            Some(call) => op.calls.push((call, count)),
            None => not_named = not_named.saturating_add(count),
        }
    }
    op.calls_not_kept = r.number()?.saturating_add(not_named);
    Ok(op)
}

fn take_context(r: &mut ByteReader<'_>, from: ReadFrom<'_>) -> Result<Option<ContextSet>, BadBytes> {
    let (before, after) =
        (r.list(|r| from.names.contexts.read(r))?, r.list(|r| from.names.contexts.read(r))?);
    let mut set = ContextSet::EMPTY;
    let is_known = before.iter().chain(&after).all(Option::is_some);
    before.into_iter().flatten().for_each(|op| set.add_before(op));
    after.into_iter().flatten().for_each(|op| set.add_after(op));
    Ok(is_known.then_some(set))
}

fn take_example(r: &mut ByteReader<'_>, from: ReadFrom<'_>) -> Result<Option<Example>, BadBytes> {
    let ops: Option<Vec<OpInstance>> = r.list(|r| take_instance(r, from))?.into_iter().collect();
    let before: Option<Vec<OpInstance>> = r.list(|r| take_instance(r, from))?.into_iter().collect();
    let context = r.optional(|r| take_context(r, from))?.flatten();
    Ok(ops.zip(before).map(|(ops, before)| Example { ops, before, context }))
}

/// Reads what [`put_instance`] wrote; none if something of it has no name.
pub(crate) fn take_instance(
    r: &mut ByteReader<'_>,
    from: ReadFrom<'_>,
) -> Result<Option<OpInstance>, BadBytes> {
    let (context, who) = (from.names.contexts.read(r)?, from.names.whos.read(r)?);
    let (pid, tid) = (from.lists.pid(r)?, from.lists.pid(r)?);
    let time_ns = from.now_ns.wrapping_sub(r.signed()?.cast_unsigned());
    let (source, destination) = (r.number()?, r.number()?);
    let (destination_buffer, len_bytes) = (from.names.buffers.read(r)?, r.number()?);
    let (Some(context), Some(who), Some(destination_buffer)) = (context, who, destination_buffer) else {
        return Ok(None);
    };
    Ok(Some(OpInstance {
        context,
        who,
        pid,
        tid,
        time_ns,
        source,
        destination,
        destination_buffer,
        len_bytes,
    }))
}

/// Counts of ranks since this was asked for last: by group, and by work.
pub(crate) fn put_ranks(
    w: &mut ByteWriter,
    groups: &mut ChainGroups,
    (names, from): (&mut NamesWriter, NameTables<'_>),
    now_ns: u64,
) {
    let (mut by_group, mut by_work) = (Vec::new(), Vec::new());
    groups.by_group.take(|group, who, buckets| by_group.push((group, who, buckets)));
    groups.by_work.take(|work, who, buckets| by_work.push((work, who, buckets)));
    let axis = groups.axis.clone();
    w.number(axis.width_bits().into());
    w.list(by_group.into_iter(), |w, (group, who, buckets)| {
        w.number(names.group(group, groups, from));
        put_rank(w, who, &buckets, &axis, (names, from), now_ns);
    });
    w.list(by_work.into_iter(), |w, (work, who, buckets)| {
        w.number(names.site(work.site, from));
        w.number(names.call(work.call, from));
        put_rank(w, who, &buckets, &axis, (names, from), now_ns);
    });
}

fn put_rank(
    w: &mut ByteWriter,
    who: WhoId,
    buckets: &[(usize, u64)],
    axis: &TimeAxis,
    (names, from): (&mut NamesWriter, NameTables<'_>),
    now_ns: u64,
) {
    w.number(names.who(who, from));
    let now = axis.bucket_of(now_ns, axis.width_bits());
    w.list(buckets.iter(), |w, (bucket, count)| {
        w.signed(now.wrapping_sub(axis.number_of(*bucket)).cast_signed());
        w.number(*count);
    });
}

/// Chains of a rank, counted elsewhere.
#[derive(Debug)]
pub(crate) struct CountedRank {
    pub what: RankedBy,
    pub who: WhoId,
    /// Buckets as all nodes number them, and how many chains began in each.
    pub buckets: Vec<(u64, u64)>,
}

/// Reads what [`put_ranks`] wrote but for the width of buckets: the counts that have names. `now`: the bucket of the present.
pub(crate) fn take_ranks(
    r: &mut ByteReader<'_>,
    now: u64,
    from: ReadFrom<'_>,
) -> Result<Vec<CountedRank>, BadBytes> {
    let mut ranks = Vec::new();
    let mut keep = |what: Option<RankedBy>, (who, buckets): (Option<WhoId>, Vec<(u64, u64)>)| {
        ranks.extend(what.zip(who).map(|(what, who)| CountedRank { what, who, buckets }));
    };
    for (group, rank) in r.list(|r| Ok((from.names.groups.read(r)?, take_rank(r, now, from)?)))? {
        keep(group.map(RankedBy::Group), rank);
    }
    for (work, rank) in r.list(|r| Ok((take_work(r, from)?, take_rank(r, now, from)?)))? {
        keep(work.map(RankedBy::Work), rank);
    }
    Ok(ranks)
}

fn take_work(r: &mut ByteReader<'_>, from: ReadFrom<'_>) -> Result<Option<Work>, BadBytes> {
    let (site, call): (_, Option<CallSiteId>) = (from.names.sites.read(r)?, from.names.call(r)?);
    Ok(site.zip(call).map(|(site, call)| Work { site, call }))
}

type BucketsOfRank = (Option<WhoId>, Vec<(u64, u64)>);

fn take_rank(r: &mut ByteReader<'_>, now: u64, from: ReadFrom<'_>) -> Result<BucketsOfRank, BadBytes> {
    let who = from.names.whos.read(r)?;
    let bucket = |ago: i64| now.wrapping_sub(ago.cast_unsigned());
    Ok((who, r.list(|r| Ok((bucket(r.signed()?), r.number()?)))?))
}

//! Makes digests of what has been counted.

use std::collections::VecDeque;

use super::counts::{ToldOfGroups, put_group, put_ranks};
use super::names_writer::{NameTables, NamesWriter};
use super::totals::{NodeTotals, ToldStatistics, put_statistics};
use crate::chains::Chains;
use crate::chains::groups::{ChainGroups, GroupId};
use crate::chains::op_names::OpNames;
use crate::job::Job;
use crate::tape::Digest;
use crate::tape::bytes::ByteWriter;

/// So many digests later all names are told again: who has missed one knows them then.
const NAMES_ANEW_EVERY: u64 = 64;
/// Statistics are told with each of so many digests.
const STATISTICS_EVERY: u64 = 16;
/// A digest is no longer than this and its last group: what is left waits for the next one.
const MOST_BYTES: usize = 4 << 20;

/// What is counted, to be told.
pub(crate) struct DigestSource<'a> {
    pub job: &'a Job,
    pub chains: &'a Chains,
    pub groups: &'a mut ChainGroups,
    pub ops: &'a OpNames,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct DigestWriter {
    session: u64,
    number: u64,
    /// Number of the digest in which names began anew.
    epoch: u64,
    names: NamesWriter,
    told: ToldOfGroups,
    statistics: ToldStatistics,
    /// Groups with counts that were not told.
    waiting: VecDeque<GroupId>,
    /// Chains in all digests so far.
    chains: u64,
    totals: NodeTotals,
    /// Buckets whose counts are not complete, as they were told last.
    touched: (Vec<u64>, Option<u64>),
    /// When each process was last seen to do anything, as it was told.
    moved_ns: Vec<u64>,
}

impl DigestWriter {
    /// Of a session that has this number.
    pub(crate) fn new(session: u64) -> Self {
        Self { session, ..Self::default() }
    }

    /// Tells all names again with the next digest.
    pub(crate) fn tell_names_anew(&mut self) {
        self.epoch = self.number;
        self.names.forget();
        self.told.forget_ranks();
    }

    /// What was counted since the last digest; none if nothing was. `is_last`: the session is over.
    pub(crate) fn digest(&mut self, from: DigestSource<'_>, is_last: bool) -> Option<Digest> {
        let DigestSource { job, chains, groups, ops } = from;
        self.waiting.extend(groups.take_counted());
        let totals = NodeTotals::of(job, chains, groups);
        let has_moved = self.has_moved(job);
        if self.waiting.is_empty() && totals == self.totals && !has_moved && !is_last {
            return None;
        }
        if self.number.is_multiple_of(NAMES_ANEW_EVERY) {
            self.tell_names_anew();
        }
        self.totals = totals;
        let now_ns = job.now_ns();
        let mut body = ByteWriter::default();
        let mut first = ByteWriter::default();
        first.number(self.epoch);
        let names_from = NameTables { job, ops };
        body.number(self.chains);
        totals.put(&mut body);
        self.put_touched(&mut body, groups, now_ns);
        self.put_moved(&mut body, names_from, now_ns);
        self.put_groups(&mut body, groups, names_from, now_ns);
        put_ranks(&mut body, groups, (&mut self.names, names_from), now_ns);
        let has_statistics = is_last || self.number.is_multiple_of(STATISTICS_EVERY);
        body.flag(has_statistics);
        if has_statistics {
            put_statistics(&mut body, &mut self.statistics, chains, (&mut self.names, names_from));
        }
        let lists = self.names.put(&mut first);
        first.append(body);
        self.number += 1;
        Some(Digest {
            node: 0,
            session: self.session,
            number: self.number - 1,
            time_ns: now_ns,
            pids: lists.pids.into_items(),
            files: lists.files.into_items(),
            probes: lists.probes.into_items(),
            content: first.into_bytes(),
        })
    }

    /// Whether there was more to tell than fits into one.
    pub(crate) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn has_moved(&self, job: &Job) -> bool {
        let all = job.processes.all().iter().enumerate();
        all.into_iter().any(|(index, process)| process.moved_ns > self.moved_of(index))
    }

    fn moved_of(&self, index: usize) -> u64 {
        self.moved_ns.get(index).copied().unwrap_or(0)
    }

    /// Which processes were seen to do something, and when last.
    fn put_moved(&mut self, w: &mut ByteWriter, from: NameTables<'_>, now_ns: u64) {
        let all = from.job.processes.all();
        let moved: Vec<usize> =
            (0..all.len()).filter(|index| all[*index].moved_ns > self.moved_of(*index)).collect();
        self.moved_ns.resize(all.len(), 0);
        w.list(moved.into_iter(), |w, index| {
            self.moved_ns[index] = all[index].moved_ns;
            w.number(self.names.process(index, from));
            w.signed(now_ns.wrapping_sub(all[index].moved_ns).cast_signed());
        });
    }

    /// Buckets of time whose counts are not complete, if that is not what was told last.
    fn put_touched(&mut self, w: &mut ByteWriter, groups: &ChainGroups, now_ns: u64) {
        let axis = &groups.axis;
        let now = axis.bucket_of(now_ns, axis.width_bits());
        let (buckets, from_ns) = axis.touched();
        let buckets: Vec<u64> = buckets.map(|bucket| axis.number_of(bucket)).collect();
        let touched = (buckets, from_ns);
        let is_news = touched != self.touched;
        let told = if is_news { touched.0.as_slice() } else { &[] };
        w.number(axis.width_bits().into());
        w.list(told.iter(), |w, number| w.signed(now.wrapping_sub(*number).cast_signed()));
        w.optional(from_ns, |w, from_ns| w.signed(now_ns.wrapping_sub(from_ns).cast_signed()));
        self.touched = touched;
    }

    /// As many groups as there is room for.
    fn put_groups(
        &mut self,
        w: &mut ByteWriter,
        groups: &mut ChainGroups,
        from: NameTables<'_>,
        now_ns: u64,
    ) {
        let Self { names, told, waiting, chains, .. } = self;
        let (mut count, mut all) = (0, ByteWriter::default());
        while all.len() + names.len() < MOST_BYTES
            && let Some(id) = waiting.pop_front()
        {
            *chains += groups.get(id).count;
            put_group(&mut all, id, groups, told, (names, from), now_ns);
            count += 1;
        }
        w.count(count);
        w.append(all);
    }
}

//! Takes in digests of all nodes.

use rustc_hash::FxHashMap;

use super::counts::{CountedGroup, CountedRank, ReadFrom, take_group, take_ranks};
use super::lists::ReadLists;
use super::names_reader::{NameSink, NamesReader};
use super::totals::{HeardStatistics, NodeTotals, ReadStatistics, take_statistics};
use crate::chains::Chains;
use crate::chains::groups::ChainGroups;
use crate::chains::op_names::OpNames;
use crate::job::Job;
use crate::tape::bytes::ByteReader;
use crate::tape::{BadBytes, Digest, MAX_NODES};

/// What all counts are added to.
pub(crate) struct DigestSink<'a> {
    pub job: &'a mut Job,
    pub chains: &'a mut Chains,
    pub groups: &'a mut ChainGroups,
    pub ops: &'a mut OpNames,
}

/// What was heard of one session of a node's agent.
#[derive(Default)]
struct HeardSession {
    session: u64,
    /// Number of the next digest.
    next: u64,
    /// When the last one was made.
    time_ns: u64,
    epoch: u64,
    names: NamesReader,
    /// Chains that were told, and those that are known to be missing.
    chains: u64,
    totals: NodeTotals,
    statistics: HeardStatistics,
}

/// What a digest says, understood.
struct ReadDigest {
    chains_before: u64,
    totals: NodeTotals,
    touched_width: u32,
    touched: Vec<u64>,
    touched_from_ns: Option<u64>,
    /// Processes, and when each was last seen to do anything.
    moved: Vec<(usize, u64)>,
    groups: Vec<CountedGroup>,
    ranks_width: u32,
    ranks: Vec<CountedRank>,
    statistics: Option<ReadStatistics>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct DigestReader {
    nodes: FxHashMap<u32, HeardSession>,
}

impl DigestReader {
    /// Takes the next digest of a node. What cannot be read is counted, and what is missing is known to be.
    pub(crate) fn take(&mut self, digest: &Digest, to: &mut DigestSink<'_>) {
        if digest.node as usize >= MAX_NODES {
            to.job.totals.bad_records += 1;
            return;
        }
        let heard = self.nodes.entry(digest.node).or_default();
        if heard.session != digest.session {
            heard.end(to);
            *heard =
                HeardSession { session: digest.session, time_ns: digest.time_ns, ..HeardSession::default() };
        }
        // One that was taken already.
        if digest.number < heard.next {
            return;
        }
        let mut is_complete = digest.number == heard.next;
        heard.next = digest.number.saturating_add(1);
        let before_ns = std::mem::replace(&mut heard.time_ns, digest.time_ns);
        match heard.read(digest, to) {
            Ok(read) => is_complete &= heard.add(read, to),
            Err(BadBytes) => {
                to.job.totals.bad_records += 1;
                is_complete = false;
            }
        }
        if !is_complete {
            to.groups.touch(before_ns.min(digest.time_ns), digest.time_ns);
        }
    }
}

impl HeardSession {
    fn read(&mut self, digest: &Digest, to: &mut DigestSink<'_>) -> Result<ReadDigest, BadBytes> {
        let mut r = ByteReader::new(&digest.content);
        let epoch = r.number()?;
        if epoch != self.epoch || epoch == digest.number {
            (self.epoch, self.names) = (epoch, NamesReader::default());
        }
        let lists = ReadLists { pids: &digest.pids, files: &digest.files, probes: &digest.probes };
        let sink = &mut NameSink { job: &mut *to.job, ops: &mut *to.ops, groups: &mut *to.groups };
        self.names.take(&mut r, lists, sink)?;
        let now_ns = digest.time_ns;
        let from = ReadFrom { names: &self.names, lists, now_ns };
        let axis = &to.groups.axis;
        let chains_before = r.number()?;
        let totals = NodeTotals::take(&mut r)?;
        let touched_width = width(&mut r)?;
        let now = axis.bucket_of(now_ns, touched_width);
        let touched = r.list(|r| Ok(now.wrapping_sub(r.signed()?.cast_unsigned())))?;
        let time_of = |ago: i64| now_ns.wrapping_sub(ago.cast_unsigned());
        let touched_from_ns = r.optional(ByteReader::signed)?.map(time_of);
        let moved = r.list(|r| Ok((self.names.processes.read(r)?, time_of(r.signed()?))))?;
        let moved = moved.into_iter().filter_map(|(process, time_ns)| Some((process?, time_ns))).collect();
        let groups = r.list(|r| take_group(r, from))?;
        let ranks_width = width(&mut r)?;
        let ranks = take_ranks(&mut r, axis.bucket_of(now_ns, ranks_width), from)?;
        let statistics =
            if r.flag()? { Some(take_statistics(&mut r, &self.names, lists, to.job)?) } else { None };
        r.finish()?;
        Ok(ReadDigest {
            chains_before,
            totals,
            touched_width,
            touched,
            touched_from_ns,
            moved,
            groups,
            ranks_width,
            ranks,
            statistics,
        })
    }

    /// Adds what was read to the counts of all. Whether nothing is missing.
    fn add(&mut self, read: ReadDigest, to: &mut DigestSink<'_>) -> bool {
        let mut missing = read.chains_before.saturating_sub(self.chains);
        self.chains = read.chains_before;
        read.totals.add(&self.totals, to.job, to.chains, to.groups);
        self.totals = read.totals;
        for number in read.touched {
            to.groups.axis.touch_around(number, read.touched_width);
        }
        if let Some(from_ns) = read.touched_from_ns {
            to.groups.axis.touch_from(from_ns);
        }
        for (process, time_ns) in read.moved {
            let process = to.job.processes.get_mut(process);
            process.moved_ns = process.moved_ns.max(time_ns);
        }
        for CountedGroup { group, counts, examples } in read.groups {
            self.chains = self.chains.saturating_add(counts.count);
            match group {
                Some(group) => to.groups.absorb(group, &counts, examples),
                None => missing = missing.saturating_add(counts.count),
            }
        }
        for CountedRank { what, who, buckets } in read.ranks {
            for (number, count) in buckets {
                let bucket = to.groups.axis.bucket_around(number, read.ranks_width);
                to.groups.absorb_ranks(what, who, bucket, count);
            }
        }
        if let Some(statistics) = read.statistics {
            statistics.add(&mut self.statistics, to.job);
        }
        let counts = &mut to.chains.counts;
        counts.inconclusive = counts.inconclusive.saturating_add(missing);
        counts.tainted_ops = counts.tainted_ops.saturating_add(missing);
        missing == 0
    }

    /// Nothing more comes of this session: what there was of it then is no more.
    fn end(&self, to: &mut DigestSink<'_>) {
        self.totals.without_what_is_live().add(&self.totals, to.job, to.chains, to.groups);
    }
}

/// How wide buckets are: so many bits of the number of nanoseconds.
fn width(r: &mut ByteReader<'_>) -> Result<u32, BadBytes> {
    r.small::<u32>().and_then(|bits| if bits < u64::BITS { Ok(bits) } else { Err(BadBytes) })
}

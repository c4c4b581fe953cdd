//! Counts of a whole node, and of its processes and probes: told as they stand, taken in as differences.

use rustc_hash::FxHashMap;

use super::lists::ReadLists;
use super::names_reader::NamesReader;
use super::names_writer::{NameTables, NamesWriter};
use crate::chains::Chains;
use crate::chains::groups::ChainGroups;
use crate::job::Job;
use crate::job::probes::CallCounts;
use crate::job::process_totals::ProcessTotals;
use crate::job::streams::StreamCounts;
use crate::job::sums::SummedTotals;
use crate::job::verbs::COUNTS as VERBS_COUNTS;
use crate::tape::BadBytes;
use crate::tape::bytes::{ByteReader, ByteWriter};

/// What there is to count of chains besides groups.
const CHAIN_TOTALS: usize = 7;
/// The same of records, memory and streams.
const JOB_TOTALS: usize = 15 + VERBS_COUNTS;

/// Places of what there is only as long as somebody sees it.
const PENDING_NODES: usize = 4;
const UNREAD_BYTES: [usize; 2] = [9, 14];

/// Counts of a node as they stand, in an order of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeTotals {
    chains: [u64; CHAIN_TOTALS],
    job: [u64; JOB_TOTALS],
}

impl Default for NodeTotals {
    fn default() -> Self {
        Self { chains: [0; CHAIN_TOTALS], job: [0; JOB_TOTALS] }
    }
}

impl NodeTotals {
    /// Those of this node.
    pub(crate) fn of(job: &Job, chains: &Chains, groups: &ChainGroups) -> Self {
        let counts = &chains.counts;
        let (both, one) = job.streams.counts();
        let stream =
            |s: StreamCounts| [s.written_bytes, s.read_bytes, s.unseen_bytes, s.missed_bytes, s.unread_bytes];
        let t = &job.totals;
        let refused = job.processes.all().iter().map(|process| process.memory.refused);
        let refused = refused.fold(0, u64::saturating_add);
        let records = [t.records, t.bad_records, t.unplanned_records, t.unseen_messages, refused];
        let numbers = records.into_iter().chain(stream(both)).chain(stream(one)).chain(t.verbs.numbers());
        let mut totals = [0; JOB_TOTALS];
        totals.iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
        Self {
            chains: [
                groups.chains,
                groups.not_kept,
                counts.inconclusive,
                counts.tainted_ops,
                counts.pending_nodes,
                counts.merged_copies,
                chains.ops(),
            ],
            job: totals,
        }
    }

    pub(crate) fn put(&self, w: &mut ByteWriter) {
        self.chains.iter().chain(&self.job).for_each(|number| w.number(*number));
    }

    pub(crate) fn take(r: &mut ByteReader<'_>) -> Result<Self, BadBytes> {
        let mut totals = Self::default();
        for number in totals.chains.iter_mut().chain(&mut totals.job) {
            *number = r.number()?;
        }
        Ok(totals)
    }

    /// The same, but for what there is only as long as somebody sees it.
    pub(crate) fn without_what_is_live(mut self) -> Self {
        self.chains[PENDING_NODES] = 0;
        UNREAD_BYTES.into_iter().for_each(|at| self.job[at] = 0);
        self
    }

    /// What must be added to others to have these.
    fn since(&self, before: &Self) -> Self {
        Self {
            chains: std::array::from_fn(|at| self.chains[at].wrapping_sub(before.chains[at])),
            job: std::array::from_fn(|at| self.job[at].wrapping_sub(before.job[at])),
        }
    }

    /// Adds what has come since `before` to the counts of all.
    pub(crate) fn add(&self, before: &Self, job: &mut Job, chains: &mut Chains, groups: &mut ChainGroups) {
        let Self { chains: c, job: j } = self.since(before);
        let add = |to: &mut u64, number: u64| *to = to.wrapping_add(number);
        // The first one is told with the groups.
        add(&mut groups.not_kept, c[1]);
        let counts = &mut chains.counts;
        let to = [
            &mut counts.inconclusive,
            &mut counts.tainted_ops,
            &mut counts.pending_nodes,
            &mut counts.merged_copies,
            &mut counts.ops_elsewhere,
        ];
        to.into_iter().zip(&c[2..]).for_each(|(to, number)| add(to, *number));
        let SummedTotals {
            records,
            bad_records,
            unplanned_records,
            unseen_messages,
            memory_not_kept,
            streams,
            streams_of_one_end,
            verbs,
        } = &mut job.sums.totals;
        let counts = [records, bad_records, unplanned_records, unseen_messages, memory_not_kept];
        let streams = [streams, streams_of_one_end].into_iter().flat_map(|s| {
            [
                &mut s.written_bytes,
                &mut s.read_bytes,
                &mut s.unseen_bytes,
                &mut s.missed_bytes,
                &mut s.unread_bytes,
            ]
        });
        counts
            .into_iter()
            .chain(streams)
            .chain(verbs.numbers_mut())
            .zip(&j)
            .for_each(|(to, number)| add(to, *number));
    }
}

/// Statistics of processes and probes as they were told last.
#[derive(Debug, Default)]
pub(crate) struct ToldStatistics {
    processes: FxHashMap<usize, ProcessTotals>,
    hits: FxHashMap<(usize, usize), u64>,
    calls: FxHashMap<usize, CallCounts>,
}

/// Writes what has changed of statistics.
pub(crate) fn put_statistics(
    w: &mut ByteWriter,
    told: &mut ToldStatistics,
    chains: &Chains,
    (names, from): (&mut NamesWriter, NameTables<'_>),
) {
    let processes = &from.job.processes;
    let mut changed = Vec::new();
    for (index, process) in processes.all().iter().enumerate() {
        let live_buffers = chains.live_ranges(process.memory.private()) as u64;
        let totals = processes.totals(index, live_buffers);
        if told.processes.insert(index, totals) != Some(totals) {
            changed.push((index, totals));
        }
    }
    w.list(changed.into_iter(), |w, (index, totals)| {
        w.number(names.process(index, from));
        totals.numbers().iter().for_each(|number| w.number(*number));
        w.list(totals.records.iter(), |w, count| w.number(*count));
    });
    put_hits(w, told, (names, from));
    let mut changed = Vec::new();
    for (slot, counts) in from.job.probes.all_call_counts().iter().enumerate() {
        if told.calls.insert(slot, *counts).unwrap_or_default() != *counts {
            changed.push((slot, *counts));
        }
    }
    w.list(changed.into_iter(), |w, (slot, counts)| {
        put_probe(w, slot, (names, from));
        [counts.calls, counts.movements, counts.bytes].into_iter().for_each(|number| w.number(number));
    });
}

fn put_hits(
    w: &mut ByteWriter,
    told: &mut ToldStatistics,
    (names, from): (&mut NamesWriter, NameTables<'_>),
) {
    let processes = &from.job.processes;
    let mut changed = Vec::new();
    for (slot, _) in from.job.probes.all() {
        for index in 0..processes.all().len() {
            let hits = processes.hits(index, slot);
            if hits > 0 && told.hits.insert((slot, index), hits) != Some(hits) {
                changed.push((slot, index, hits));
            }
        }
    }
    w.list(changed.into_iter(), |w, (slot, index, hits)| {
        put_probe(w, slot, (names, from));
        w.number(names.process(index, from));
        w.number(hits);
    });
}

/// None: the one that stands for none.
fn put_probe(w: &mut ByteWriter, slot: usize, (names, from): (&mut NamesWriter, NameTables<'_>)) {
    let id = from.job.probes.get(slot).map(|probe| probe.id);
    w.optional(id, |w, id| w.number(names.lists.probes.place(id)));
}

/// Statistics as they were heard of last from a session.
#[derive(Debug, Default)]
pub(crate) struct HeardStatistics {
    processes: FxHashMap<usize, ProcessTotals>,
    hits: FxHashMap<(usize, usize), u64>,
    calls: FxHashMap<usize, CallCounts>,
}

/// Statistics that are to be taken in.
#[derive(Debug, Default)]
pub(crate) struct ReadStatistics {
    processes: Vec<(usize, ProcessTotals)>,
    /// By slot and process.
    hits: Vec<(usize, usize, u64)>,
    calls: Vec<(usize, CallCounts)>,
}

/// Reads what [`put_statistics`] wrote.
pub(crate) fn take_statistics(
    r: &mut ByteReader<'_>,
    names: &NamesReader,
    lists: ReadLists<'_>,
    job: &Job,
) -> Result<ReadStatistics, BadBytes> {
    let processes = r.list(|r| {
        let process = names.processes.read(r)?;
        let mut totals = ProcessTotals::default();
        for number in totals.numbers_mut() {
            *number = r.number()?;
        }
        let records = r.list(ByteReader::number)?;
        totals.records.iter_mut().zip(records).for_each(|(to, count)| *to = count);
        Ok(process.map(|process| (process, totals)))
    })?;
    let hits = r.list(|r| {
        let slot = take_probe(r, lists, job)?;
        let process = names.processes.read(r)?;
        let hits = r.number()?;
        Ok(slot.zip(process).map(|(slot, process)| (slot, process, hits)))
    })?;
    let calls = r.list(|r| {
        let slot = take_probe(r, lists, job)?;
        let counts = CallCounts { calls: r.number()?, movements: r.number()?, bytes: r.number()? };
        Ok(slot.map(|slot| (slot, counts)))
    })?;
    let (processes, hits) = (processes.into_iter().flatten(), hits.into_iter().flatten());
    Ok(ReadStatistics {
        processes: processes.collect(),
        hits: hits.collect(),
        calls: calls.into_iter().flatten().collect(),
    })
}

/// The slot of a probe; none if its plan is not known.
fn take_probe(r: &mut ByteReader<'_>, lists: ReadLists<'_>, job: &Job) -> Result<Option<usize>, BadBytes> {
    let id = r.optional(|r| lists.probe(r))?;
    let slot = id.map_or(0, |id| job.probes.slot(id));
    Ok(Some(slot).filter(|slot| id.is_none() || *slot > 0))
}

impl ReadStatistics {
    /// Adds what is new since they were heard of last.
    pub(crate) fn add(self, heard: &mut HeardStatistics, job: &mut Job) {
        for (process, totals) in self.processes {
            let before = heard.processes.insert(process, totals).unwrap_or_default();
            job.processes.elsewhere_mut(process).add_difference(&totals, &before);
        }
        for (slot, process, hits) in self.hits {
            let before = heard.hits.insert((slot, process), hits).unwrap_or_default();
            job.processes.add_hits_elsewhere(process, slot, hits.wrapping_sub(before));
        }
        for (slot, counts) in self.calls {
            let before = heard.calls.insert(slot, counts).unwrap_or_default();
            job.sums.calls_mut(slot).add_difference(&counts, &before);
        }
    }
}

//! Chains of a job, their groups, and what of them is not like the rest.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::frequent_chains::{Evaluation, FrequentChains};
use super::rank_mix::{self, Comparison, RunView};
use super::reference;
use crate::chains::Chains;
use crate::chains::groups::ChainGroups;
use crate::chains::op_names::OpNames;
use crate::chains::stream_ends::Written;
use crate::chains::sums::{DigestReader, DigestSink};
use crate::findings::finding::Verdict;
use crate::job::event::{Event, Gap, Gone};
use crate::job::ids::{SpaceId, ThreadId};
use crate::job::movement::Movement;
use crate::job::names::SiteId;
use crate::job::{ContentEvent, Job};
use crate::options::Options;
use crate::options::reference::Reference;
use crate::tape::Digest;

/// What the last evaluation saw.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Evaluated {
    chains: u64,
    uncounted: u64,
}

/// What the last comparison saw.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Compared {
    evaluated: Evaluated,
    used: usize,
}

/// See the [module](self).
pub(crate) struct ChainAnalysis {
    pub options: Options,
    pub chains: Chains,
    pub groups: ChainGroups,
    pub ops: OpNames,
    digests: DigestReader,
    pub frequent: FrequentChains,
    /// As of the last evaluation.
    pub evaluation: Evaluation,
    /// As of the last comparison.
    pub comparison: Comparison,
    evaluated: Option<Evaluated>,
    compared: Option<Compared>,
    /// When that was.
    compared_ns: u64,
}

impl ChainAnalysis {
    /// Knows the reference's chains, if there is one.
    pub fn new(options: &Options, job: &mut Job) -> Self {
        let (mut groups, mut ops) = (ChainGroups::new(options), OpNames::new());
        if let Some(known) = &options.reference {
            reference::add(known, &mut groups, &mut ops, &mut job.names);
        }
        Self {
            options: options.clone(),
            chains: Chains::new(options),
            groups,
            ops,
            digests: DigestReader::default(),
            frequent: FrequentChains::default(),
            evaluation: Evaluation::default(),
            comparison: Comparison::default(),
            evaluated: None,
            compared: None,
            compared_ns: 0,
        }
    }

    /// Data moved.
    #[inline(always)]
    pub fn movement(&mut self, job: &Job, m: &Movement) {
        if !job.coverage.is_paused() {
            self.chains.make_room(job.space_counts());
            self.chains.movement(m, &mut self.ops, &mut self.groups);
        }
    }

    /// Data moved into a stream or out of it; `stream`: its space, none if it is not followed. The operation, if it is one.
    pub fn stream_movement(&mut self, job: &Job, m: &Movement, stream: SpaceId) -> Option<Written> {
        if job.coverage.is_paused() {
            return None;
        }
        self.chains.make_room(job.space_counts());
        Some(self.chains.stream_movement(m, stream, &mut self.ops, &mut self.groups))
    }

    /// Chains were counted on a node.
    pub fn take_digest(&mut self, job: &mut Job, digest: &Digest) {
        let Self { chains, groups, ops, digests, .. } = self;
        digests.take(digest, &mut DigestSink { job, chains, groups, ops });
    }

    /// The clock goes on.
    #[inline(always)]
    pub fn clock(&mut self, time_ns: u64) {
        self.groups.advance(time_ns);
    }

    /// A thread did something else: whatever it does ends a run of copies.
    #[inline(always)]
    pub fn other_record(&mut self, job: &Job, thread: ThreadId) {
        self.chains.make_room(job.space_counts());
        self.chains.end_run(thread);
    }

    /// Memory changed.
    pub fn memory_changed(&mut self, job: &Job, changes: &[Gone]) {
        self.chains.make_room(job.space_counts());
        for change in changes {
            match *change {
                Gone::Range { space, start, end } => {
                    self.chains.remove_range(space, start, end, &mut self.ops, &mut self.groups);
                }
                Gone::Unseen { space, start, end } => {
                    self.chains.lose_sight_of(space, start, end, &mut self.ops, &mut self.groups);
                }
                Gone::Space(space) => {
                    self.chains.remove_space(space, &mut self.ops, &mut self.groups);
                }
                Gone::Thread(thread) => self.chains.end_thread(thread),
            }
        }
    }

    /// What happened to the job.
    pub fn on(&mut self, job: &Job, event: &Event) {
        match event {
            Event::Started => {
                let wall_ns = job.start.wall_clock_ns().saturating_sub(job.start.time_ns);
                self.groups.axis.set_wall_clock(wall_ns);
                if job.start.launched {
                    self.chains.watched_from_birth();
                }
            }
            Event::Gap(gap) => self.miss(gap),
            Event::Ended => self.chains.finish(&mut self.ops, &mut self.groups),
            _ => {}
        }
    }

    fn miss(&mut self, gap: &Gap) {
        match *gap {
            Gap::Lost { loss, .. } => self.taint(loss.from_ns, loss.to_ns, loss.state > 0),
            Gap::Late { time_ns } => self.taint(time_ns, time_ns, false),
            // What is under way at a pause ends there, as at the end of a session; after it, watching begins anew.
            Gap::Paused => self.chains.pause(&mut self.ops, &mut self.groups),
            Gap::Resumed { .. } | Gap::CallsPaused { .. } | Gap::CallsResumed { .. } => {}
        }
    }

    /// What is under way may not be what it seems. `forever`: nor what memory looks like.
    fn taint(&mut self, from_ns: u64, to_ns: u64, forever: bool) {
        self.chains.lose(forever);
        self.groups.touch(from_ns, to_ns);
        if forever {
            self.groups.axis.touch_from(from_ns);
        }
    }

    /// The content of a message. If it is a movement of its own: which.
    pub fn content(&mut self, job: &mut Job, content: &ContentEvent, time_ns: u64) -> Option<Movement> {
        self.chains.make_room(job.space_counts());
        match content {
            ContentEvent::Sent { number, process, source } => {
                self.chains.hold(*number, *process, *source, &mut self.ops, &mut self.groups);
                None
            }
            ContentEvent::FromAnybody { asked, process, destination } => {
                let sender = self.chains.came_from(destination, asked.content.since_ns, *process);
                job.answer(asked, sender);
                None
            }
            ContentEvent::Arrived(arrived) => {
                let sent = self.chains.take_sent(arrived.number)?;
                let mut destination = arrived.destination;
                let sent_bytes = sent.source.end - sent.source.start;
                destination.end = destination.end.min(destination.start.saturating_add(sent_bytes));
                let is_unseen = destination.start < destination.end
                    && !self.chains.is_written_since(&destination, arrived.since_ns);
                if !is_unseen || job.coverage.is_paused() {
                    self.chains.drop_sent(sent, &mut self.ops, &mut self.groups);
                    return None;
                }
                let m = job.message_movement(arrived, (sent.process, sent.source), destination, time_ns);
                self.chains.make_room(job.space_counts());
                self.chains.arrive(&m, sent, &mut self.ops, &mut self.groups);
                Some(m)
            }
        }
    }

    /// Operations and records that a loss may have changed or hidden.
    pub fn uncounted(&self, job: &Job) -> u64 {
        let t = &job.totals;
        let lost = t.lost_movements.saturating_add(t.lost_state).saturating_add(t.late_records);
        self.chains.counts.tainted_ops.saturating_add(lost)
    }

    /// Evaluates what has changed since the last time. Ranks are compared when it is worth it, or at the end. Whether
    /// anything may be another than before.
    pub fn evaluate(&mut self, job: &Job, at_end: bool) -> bool {
        let now = Evaluated { chains: self.groups.chains, uncounted: self.uncounted(job) };
        let compare = Compared { evaluated: now, used: self.groups.axis.used() };
        let chains_due = self.evaluated != Some(now);
        let ranks_due = self.compared != Some(compare)
            && (at_end || self.is_comparison_due(compare) && self.is_comparison_timely(job));
        if chains_due {
            self.evaluation = self.evaluated_now(job);
            self.evaluated = Some(now);
        }
        if ranks_due {
            self.comparison = self.compared_now(job, false);
            self.compared = Some(compare);
            self.compared_ns = job.now_ns();
        }
        chains_due || ranks_due
    }

    /// Whether chains are compared: not where copies of memory are not watched, which says nothing of data.
    pub fn compares_chains(&self, job: &Job) -> bool {
        self.options.compares_chains && !job.probes.are_of_calls_only()
    }

    /// Frequent chains and violations, as of now.
    pub fn evaluated_now(&mut self, job: &Job) -> Evaluation {
        if !self.compares_chains(job) {
            return Evaluation::default();
        }
        let (uncounted, limit) = (self.uncounted(job), surest_verdict(job));
        let mut evaluation =
            self.frequent.evaluate(job, &self.groups, &mut self.ops, uncounted, &self.options);
        for violation in &mut evaluation.violations {
            violation.verdict = violation.verdict.min(limit);
        }
        evaluation
    }

    /// Ranks that are not like the others, as of now. `average_wanted`: even if there are none.
    pub fn compared_now(&self, job: &Job, average_wanted: bool) -> Comparison {
        if !self.compares_chains(job) {
            return Comparison::default();
        }
        let limit = surest_verdict(job);
        let run = RunView { job, groups: &self.groups, ops: &self.ops };
        let mut comparison = rank_mix::compare(run, &self.options, average_wanted);
        for outlier in &mut comparison.outliers {
            outlier.verdict = outlier.verdict.min(limit);
        }
        comparison
    }

    /// The smallest part of a run that is compared is a sixteenth: a quarter of that is fine enough.
    fn is_comparison_due(&self, now: Compared) -> bool {
        const GROWTH: u64 = 64;
        self.compared.is_none_or(|last| {
            let (old, new) = (last.evaluated.chains, now.evaluated.chains);
            now.used != last.used || new - old > (old / GROWTH).max(GROWTH)
        })
    }

    /// With many ranks a comparison takes its time.
    fn is_comparison_timely(&self, job: &Job) -> bool {
        /// So much further apart for each process …
        const OF_A_PROCESS_NS: u64 = 100_000;
        /// … up to this.
        const MOST_NS: u64 = 10_000_000_000;
        let period_ns = job.processes.all().len() as u64 * OF_A_PROCESS_NS;
        self.compared.is_none() || job.now_ns().saturating_sub(self.compared_ns) >= period_ns.min(MOST_NS)
    }

    /// Probes (by id) whose movements were part of a chain of two operations or more.
    pub fn joining_probes(&self, job: &Job) -> BTreeSet<u32> {
        let chains = self.groups.all().iter().filter(|group| group.was_counted && group.symbols.len() > 1);
        let site = |&symbol| self.ops.symbol_parts(symbol).site;
        let joined = self.chains.far.joined.iter().copied();
        let sites: FxHashSet<SiteId> =
            chains.flat_map(|group| group.symbols.iter().map(site)).chain(joined).collect();
        let joining = job.probes.all().filter(|(_, probe)| sites.contains(&probe.site));
        joining.map(|(_, probe)| probe.id).collect()
    }

    /// The chains of this run, as what other runs are to be held against.
    pub fn reference(&self, job: &Job) -> Reference {
        reference::from_groups(&self.groups, &self.ops, &job.names)
    }
}

/// What was not watched could change every count.
fn surest_verdict(job: &Job) -> Verdict {
    if job.coverage.sampled { Verdict::Sampled } else { Verdict::Violated }
}

//! What of a node's inputs goes to where all nodes are: all that the model of the job and its analyses need there, but for
//! what is counted on the node itself.
//!
//! Left out are movements, changes of memory that hold no code, and calls between two ranks. What of those may matter
//! later is told when it does: before a sample, an error, or the end of a process the last call of each of its threads, and
//! before MPI_Finalize when it last completed requests.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Job;
use super::last_calls::CallEntry;
use super::lifecycle::MpiLife;
use super::probes::ProbeInfo;
use crate::mpi::calls::{CallRow, Lifecycle, row};
use crate::tape::input::{Input, ProcessFacts, Start, Threads};
use crate::tape::plan::{Plan, ProbeClass};
use crate::tape::wire::{Body, Header, RawRecord, Record, kind};

/// Threads whose last call is known to have been told.
const MOST_THREADS: usize = 1 << 16;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Thinner {
    /// The last call of each thread that was told.
    told: FxHashMap<(u32, u32), CallEntry>,
    /// Threads that have reported an error, or given up, and not gone on.
    erring: FxHashSet<(u32, u32)>,
}

impl Thinner {
    /// What goes on of an input that is no record in its order.
    pub fn input(&mut self, job: &Job, input: &Input, out: &mut impl FnMut(Input)) {
        match input {
            Input::Start(start) => out(Input::Start(Box::new(Start { sums: true, ..(**start).clone() }))),
            Input::Process(facts) => out(Input::Process(Box::new(code_alone(facts)))),
            Input::Plan(plan) => out(Input::Plan(Box::new(without_reasons(plan)))),
            Input::Record(raw) => self.record(job, raw, out),
            Input::Threads(threads) => {
                let mut last = None;
                for pid in threads.threads.iter().map(|thread| thread.pid) {
                    if last.replace(pid) != Some(pid) {
                        self.tell_last_calls(job, pid, threads.time_ns, out);
                    }
                }
                out(Input::Threads(Box::new(with_origins(job, threads))));
            }
            Input::Loss(loss) => {
                self.lose(job, loss.pid);
                out(input.clone());
            }
            Input::Coverage(coverage) => {
                if coverage.paused && !job.coverage.is_paused() {
                    self.told.clear();
                }
                out(input.clone());
            }
            Input::Clock(_) => out(input.clone()),
            // How far ranks have come is told at the end as well.
            Input::End(end) => {
                let alive = job.processes.all().iter().filter(|process| process.alive);
                alive.for_each(|process| self.tell_last_calls(job, process.pid, end.time_ns, out));
                out(input.clone());
            }
            // Those who look at sums replay nothing.
            Input::ReplayableRank(_) | Input::Answers(_) | Input::Messages(_) | Input::Contents(_) => {}
            Input::ProbeCosts(_) | Input::Unrecorded(_) => {}
            Input::LateRecord(_) | Input::Tick { .. } | Input::Digest(_) | Input::Symbols(_) => {
                out(input.clone())
            }
        }
    }

    /// What goes on of a record, which the job has not been told yet.
    #[inline]
    pub fn record(&mut self, job: &Job, raw: &RawRecord, out: &mut impl FnMut(Input)) {
        // Mostly it is one of these.
        let stays = [kind::COPY, kind::ALLOC, kind::FREE, kind::PACK, kind::CROSS, kind::STREAM];
        if !stays.contains(&raw.kind())
            && let Ok(record) = Record::decode(raw)
        {
            self.other_record(job, raw, &record, out);
        }
    }

    #[inline(never)]
    fn other_record(&mut self, job: &Job, raw: &RawRecord, record: &Record, out: &mut impl FnMut(Input)) {
        let h = &record.header;
        match record.body {
            Body::Copy { .. }
            | Body::Pack { .. }
            | Body::Cross { .. }
            | Body::Stream { .. }
            | Body::Work(_)
            | Body::Completion { .. }
            | Body::Queue(_)
            | Body::Remote { .. }
            | Body::Endpoint { .. }
            | Body::HeldUp { .. }
            | Body::Alloc { .. }
            | Body::Free { .. } => return,
            Body::Call { nested: false, return_address, args } => {
                let begun = CallEntry { probe: job.probes.slot(h.probe), return_address, arguments: args };
                if !self.is_told(job, h, &begun) {
                    return;
                }
                if probe(job, h).is_some_and(|probe| probe.part == Lifecycle::Finalize) {
                    tell_completion(job, h, out);
                }
                self.note(job, h, begun);
            }
            Body::Call { nested: true, .. } => match probe(job, h) {
                Some(probe) if probe.class == ProbeClass::Error => {
                    self.tell_last_calls(job, h.pid, h.time_ns, out);
                    self.erring.insert((h.pid, h.tid));
                }
                probe => {
                    if !probe.and_then(|probe| probe.row).is_some_and(CallRow::is_collective) {
                        return;
                    }
                }
            },
            Body::Done => {
                let is_error = probe(job, h).is_some_and(|probe| probe.class == ProbeClass::Error);
                if is_error {
                    self.erring.remove(&(h.pid, h.tid));
                } else if !matters_to_life(job, h, Lifecycle::None) {
                    return;
                }
            }
            Body::Values { .. } | Body::Return { .. } | Body::Made { .. } => {
                let is_wanted = |probe: &ProbeInfo| {
                    probe.part == Lifecycle::Init || probe.row.is_some_and(is_of_communicators)
                };
                if !job.messages.is_followed_whole() && !probe(job, h).is_some_and(is_wanted) {
                    return;
                }
            }
            Body::Map { addr, len_bytes, exec, has_file, .. } => {
                let is_code = (exec && has_file) || holds_code(job, h.pid, addr, len_bytes);
                if !is_code {
                    return;
                }
            }
            Body::Unmap { addr, len_bytes } => {
                if !holds_code(job, h.pid, addr, len_bytes) {
                    return;
                }
            }
            Body::Fork { .. } => {}
            // Of use to replays alone.
            Body::Thread { .. } => return,
            Body::Exec => self.told.retain(|key, _| key.0 != h.pid),
            Body::Exit { .. } => self.end(job, h, out),
        }
        out(Input::Record(*raw));
    }

    /// Whether a call that begins is told at once.
    fn is_told(&mut self, job: &Job, h: &Header, begun: &CallEntry) -> bool {
        let probe = job.probes.get(begun.probe);
        if probe.is_some_and(|probe| probe.part == Lifecycle::Abort) {
            self.erring.insert((h.pid, h.tid));
            return true;
        }
        // The next one after an error shows that the program went on.
        let goes_on = !self.erring.is_empty() && self.erring.remove(&(h.pid, h.tid));
        goes_on
            || job.messages.is_followed_whole()
            || probe.is_some_and(|probe| is_always_told(probe) || matters_to_life(job, h, probe.part))
    }

    fn note(&mut self, job: &Job, h: &Header, begun: CallEntry) {
        // Where all calls are told nothing needs to be known of it.
        if job.messages.is_followed_whole() {
            return;
        }
        if self.told.len() >= MOST_THREADS && !self.told.contains_key(&(h.pid, h.tid)) {
            self.told.clear();
        }
        self.told.insert((h.pid, h.tid), begun);
    }

    /// The last call of each thread of a process, if it was not told. None is told twice that counts.
    fn tell_last_calls(&mut self, job: &Job, pid: u32, time_ns: u64, out: &mut impl FnMut(Input)) {
        if job.messages.is_followed_whole() {
            return;
        }
        let mut last: Vec<(u32, CallEntry)> = job.last_entries(pid).collect();
        last.sort_unstable_by_key(|(tid, _)| *tid);
        for (tid, begun) in last {
            // After an error it would look as if the program had gone on; the call was told before that.
            if self.told.get(&(pid, tid)) == Some(&begun) || self.erring.contains(&(pid, tid)) {
                continue;
            }
            let Some(probe) = job.probes.get(begun.probe).filter(|probe| !is_always_told(probe)) else {
                continue;
            };
            // Nothing was completed later than when it was.
            let completed_ns = completed_ns(job, pid).filter(|_| probe.part == Lifecycle::Completion);
            let header = Header { time_ns: completed_ns.unwrap_or(time_ns), pid, tid, probe: probe.id };
            self.note(job, &header, begun);
            let CallEntry { return_address, arguments: args, .. } = begun;
            let body = Body::Call { return_address, args, nested: false };
            out(Input::Record(Record { header, body }.encode()));
        }
    }

    /// A process ends: what its end means depends on what it did last.
    fn end(&mut self, job: &Job, h: &Header, out: &mut impl FnMut(Input)) {
        self.tell_last_calls(job, h.pid, h.time_ns, out);
        self.told.retain(|key, _| key.0 != h.pid);
        self.erring.retain(|key| key.0 != h.pid);
    }

    /// Calls of a process may have begun unseen: what was told of them is not known there any more either.
    fn lose(&mut self, job: &Job, pid: u32) {
        let process = job.processes.find(pid);
        if process.is_some_and(|process| job.processes.get(process).rank.is_some()) {
            self.told.retain(|key, _| key.0 != pid);
        } else {
            self.told.clear();
        }
    }
}

/// When a process last completed requests, if it ever did.
fn tell_completion(job: &Job, h: &Header, out: &mut impl FnMut(Input)) {
    if let Some(time_ns) = completed_ns(job, h.pid) {
        let header = Header { time_ns, pid: h.pid, tid: h.tid, probe: 0 };
        out(Input::Record(Record { header, body: Body::Done }.encode()));
    }
}

fn completed_ns(job: &Job, pid: u32) -> Option<u64> {
    job.processes.get(job.processes.find(pid)?).life.completed_ns()
}

/// Whether calls of a probe are told at once, each of them: rare ones, and those that are counted or that others must make
/// as well.
fn is_always_told(probe: &ProbeInfo) -> bool {
    let is_rare = match probe.part {
        Lifecycle::Init | Lifecycle::Finalize | Lifecycle::Abort | Lifecycle::Session | Lifecycle::Lock => {
            true
        }
        Lifecycle::None | Lifecycle::Use | Lifecycle::Completion => false,
    };
    is_rare || probe.row.is_some_and(is_of_communicators)
}

/// The first call that uses MPI, and those since MPI_Finalize.
fn matters_to_life(job: &Job, h: &Header, part: Lifecycle) -> bool {
    let life = job.processes.find(h.pid).map(|process| &job.processes.get(process).life);
    let is_first = part != Lifecycle::None && life.is_none_or(|life| !life.is_used());
    is_first || life.is_some_and(MpiLife::finalizes)
}

fn probe<'a>(job: &'a Job, h: &Header) -> Option<&'a ProbeInfo> {
    job.probes.get(job.probes.slot(h.probe))
}

/// Whether a call says who is in a communicator, or must be made by all of them.
fn is_of_communicators(row: &CallRow) -> bool {
    row.always_returns() || row.is_collective()
}

fn holds_code(job: &Job, pid: u32, addr: u64, len_bytes: u64) -> bool {
    let process = job.processes.find(pid);
    process.is_some_and(|process| job.processes.get(process).memory.holds_code(addr, len_bytes))
}

/// Places in code are all that is looked up in memory there.
fn code_alone(facts: &ProcessFacts) -> ProcessFacts {
    let code = facts.mappings.iter().filter(|mapping| mapping.exec && mapping.file.inode != 0);
    let mappings = code.cloned().collect();
    ProcessFacts { mappings, exe: facts.exe.clone(), ..*facts }
}

/// What is for people who look at a plan is not told.
fn without_reasons(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.left_out.retain(|left_out| row(&left_out.what).is_some());
    plan.left_out.iter_mut().for_each(|left_out| left_out.reason.clear());
    plan.probes.iter_mut().for_each(|probe| probe.reason.clear());
    plan.files.iter_mut().for_each(|file| file.role.clear());
    plan
}

/// What requests stand for is known here alone.
fn with_origins(job: &Job, threads: &Threads) -> Threads {
    let mut threads = threads.clone();
    job.complete_requests(&mut threads);
    threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::input::ThreadFacts;
    use crate::tape::plan::Probe;
    use crate::tape::wire::FileId;

    const PID: u32 = 5;

    /// A job whose thread has called this last.
    fn job_in(function: &str) -> Job {
        let mut job = Job::new();
        job.may_follow_collectives_alone = false;
        let probe = Probe::at(1, FileId::default(), 16, ProbeClass::Call, function);
        job.apply(&Input::Plan(Box::new(Plan { probes: vec![probe], ..Plan::default() })));
        let process = job.process(PID);
        let thread = job.thread(process, PID);
        let begun = CallEntry { probe: job.probes.slot(1), return_address: 7, arguments: [3; 6] };
        job.begin_call(process, thread, &Header { time_ns: 10, pid: PID, tid: PID, probe: 1 }, begun);
        job
    }

    /// Records that are told when the thread is sampled.
    fn told_at_a_sample(thinner: &mut Thinner, job: &Job) -> Vec<Record> {
        let thread = ThreadFacts { pid: PID, tid: PID, ..ThreadFacts::default() };
        let threads = Threads { time_ns: 20, threads: vec![thread] };
        let mut told = Vec::new();
        thinner.input(job, &Input::Threads(Box::new(threads)), &mut |input| {
            if let Input::Record(raw) = input {
                told.push(Record::decode(&raw).expect("a record"));
            }
        });
        told
    }

    #[test]
    fn the_last_call_between_two_ranks_is_told_once_when_it_matters() {
        let (mut thinner, job) = (Thinner::default(), job_in("MPI_Send"));
        let told = told_at_a_sample(&mut thinner, &job);
        let body = Body::Call { return_address: 7, args: [3; 6], nested: false };
        assert_eq!(told, [Record { header: Header { time_ns: 20, pid: PID, tid: PID, probe: 1 }, body }]);
        assert_eq!(told_at_a_sample(&mut thinner, &job), []);
    }

    #[test]
    fn what_completes_is_told_to_have_completed_when_it_did() {
        let told = told_at_a_sample(&mut Thinner::default(), &job_in("MPI_Wait"));
        assert_eq!(told.iter().map(|record| record.header.time_ns).collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn calls_that_are_counted_are_never_told_late() {
        for function in ["MPI_Barrier", "MPI_Comm_dup", "MPI_Win_lock", "MPI_Finalize", "MPI_Abort"] {
            let told = told_at_a_sample(&mut Thinner::default(), &job_in(function));
            assert_eq!(told, [], "{function}");
        }
    }

    #[test]
    fn the_call_of_a_thread_in_an_error_is_not_told_behind_the_error() {
        let (mut thinner, job) = (Thinner::default(), job_in("MPI_Send"));
        thinner.erring.insert((PID, PID));
        assert_eq!(told_at_a_sample(&mut thinner, &job), []);
    }
}

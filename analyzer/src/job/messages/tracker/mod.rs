//! From inputs to what is known of messages.

mod queries;

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::active_buffers::MemoryUse;
use super::assemble::Assembler;
use super::data::{Asked, CallBuffer, Data};
use super::follow::{Begun, Follower, wanted_arguments};
use super::message_event::MessageEvent;
use crate::job::process::Processes;
use crate::mpi::calls::{self, Arg, CallRow, Does, Lifecycle};
use crate::tape::input::{Coverage, Input, ProcessFacts};
use crate::tape::plan::{Plan, ProbeClass};
use crate::tape::wire::{Body, Header, RawRecord, Record};

/// Inputs that wait for a process to be known.
const MOST_HELD: usize = 1 << 18;
/// Probes of a session at most.
const MOST_PROBES: u32 = 1 << 20;

/// What a probe of an MPI call watches.
#[derive(Clone, Copy, Debug, Default)]
enum ProbeTarget {
    /// Nothing that is followed.
    #[default]
    Nothing,
    /// A process begins with MPI.
    Beginning,
    /// A call that has no part in communication.
    Other,
    /// One that has.
    Call(&'static CallRow),
}

/// Follows calls and messages of a job. Feed it all inputs, in order.
#[derive(Default)]
pub struct Messages {
    /// By number of the probe.
    probes: Vec<ProbeTarget>,
    /// Calls are watched without their returns: what they complete is not known.
    sees_no_returns: bool,
    /// Some calls that complete requests are not watched.
    hides_completions: bool,
    assembler: Assembler<Begun>,
    follower: Follower,
    /// Processes that call, and nobody has said yet who they are.
    awaited: FxHashSet<u32>,
    /// All calls are followed.
    is_whole: bool,
    /// What came meanwhile.
    held: VecDeque<Input>,
    /// Nobody ever said who they are.
    strangers: FxHashSet<u32>,
}

impl Messages {
    /// Notes events from here on, for [`Messages::next_event`].
    pub(crate) fn tell_events(&mut self) {
        self.follower.is_heard = true;
    }

    /// Nobody asks what was wrong.
    pub(crate) fn find_no_faults(&mut self) {
        self.follower.unbuffered.stop();
    }

    /// Whether results of calls are followed, not only communicators and collective calls.
    pub(crate) fn is_followed_whole(&self) -> bool {
        self.is_whole
    }

    /// Follows only communicators and collective calls.
    pub(crate) fn follow_partly(&mut self, is_partial: bool) {
        self.follower.is_partial = is_partial;
        self.is_whole = !is_partial;
    }

    /// Notes what messages do with memory, for [`Messages::next_data`]; whoever asks for it answers what it asks.
    pub(crate) fn follow_data(&mut self) {
        self.follower.follows_data = true;
    }

    /// Whether only movements can tell whose messages were received from anybody, of some of them.
    pub(crate) fn asks_for_senders(&self) -> bool {
        self.follower.asks_for_senders
    }

    /// What messages have done with memory by the last input, the oldest first. Of inputs that had to wait nothing is
    /// told: memory is not what it was.
    pub(crate) fn next_data(&mut self) -> Option<Data> {
        self.follower.data.pop_front()
    }

    /// Memory that a call was given by the last input; as for [`Messages::next_data`].
    pub(crate) fn next_use(&mut self) -> Option<CallBuffer> {
        self.follower.used.pop_front()
    }

    /// Whether any request is active whose buffer is known.
    #[inline(always)]
    pub(crate) fn has_active_buffers(&self) -> bool {
        !self.follower.buffers.are_none()
    }

    /// Memory of a process is used by what is no MPI call.
    pub(crate) fn use_memory(&mut self, pid: u32, used: &MemoryUse) {
        self.follower.buffers.look(pid, used, |_| true);
    }

    /// Who sent what was received from anybody, if it is known: a rank of MPI_COMM_WORLD, and when it moved the data.
    pub(crate) fn answer(&mut self, asked: &Asked, sender: Option<(u32, u64)>) {
        self.follower.answer(asked, sender);
        self.lose_found();
    }

    /// Takes the next input.
    pub(crate) fn push(&mut self, input: &Input, job: &Processes) {
        match input {
            Input::Process(facts) => {
                self.learn(facts, job);
                if self.awaited.remove(&facts.pid) {
                    self.go_on(job);
                }
            }
            Input::Plan(plan) => self.plan(plan),
            Input::Start(start) => self.follower.has_several_clocks = start.nodes.len() > 1,
            Input::End(_) => self.give_up_waiting(job),
            Input::LateRecord(_) | Input::Loss(_) | Input::Coverage(_) if self.awaited.is_empty() => {
                self.take(input, job);
            }
            Input::LateRecord(_) | Input::Loss(_) | Input::Coverage(_) => self.hold(input.clone(), job),
            _ => {}
        }
    }

    /// Takes a record; `record`: what it says.
    #[inline]
    pub(crate) fn record(&mut self, raw: &RawRecord, record: &Record, job: &Processes) {
        if !is_of_interest(record) || self.follower.is_partial && !self.is_of_collectives(record) {
        } else if self.awaited.is_empty() {
            self.take_record(raw, record, job);
        } else {
            self.hold(Input::Record(*raw), job);
        }
    }

    /// Whether a record says anything of communicators and collective calls.
    fn is_of_collectives(&self, record: &Record) -> bool {
        match record.body {
            Body::Call { .. } | Body::Values { .. } | Body::Return { .. } | Body::Made { .. } => {
                match self.watched(record.header.probe) {
                    ProbeTarget::Beginning => true,
                    ProbeTarget::Call(row) => row.always_returns() || row.is_collective(),
                    ProbeTarget::Nothing | ProbeTarget::Other => false,
                }
            }
            _ => true,
        }
    }

    /// Until it is known who somebody is who calls, nothing goes on: what others do may be for that rank.
    fn hold(&mut self, input: Input, job: &Processes) {
        self.held.push_back(input);
        if self.held.len() > MOST_HELD {
            self.give_up_waiting(job);
        }
    }

    fn give_up_waiting(&mut self, job: &Processes) {
        while !self.held.is_empty() {
            self.strangers.extend(std::mem::take(&mut self.awaited));
            self.go_on(job);
        }
    }

    fn go_on(&mut self, job: &Processes) {
        while self.awaited.is_empty()
            && let Some(input) = self.held.pop_front()
        {
            self.take(&input, job);
            self.forget_data();
        }
    }

    fn forget_data(&mut self) {
        self.follower.used.clear();
        while let Some(data) = self.next_data() {
            if let Data::FromAnybody(asked) = data {
                self.answer(&asked, None);
            }
        }
    }

    fn take(&mut self, input: &Input, job: &Processes) {
        match input {
            Input::Record(raw) => {
                if let Ok(record) = Record::decode(raw) {
                    self.take_record(raw, &record, job);
                }
            }
            Input::LateRecord(raw) if !may_tell_of_calls(raw) => {}
            Input::LateRecord(raw) => self.lose(raw.pid()),
            Input::Loss(loss) if !loss.hides_calls() => {}
            Input::Loss(loss) => self.lose(loss.pid),
            Input::Coverage(coverage) if self.hides_calls(coverage) => self.lose_all(),
            _ => {}
        }
    }

    fn hides_calls(&self, coverage: &Coverage) -> bool {
        coverage.hides_calls(|id| !matches!(self.watched(id), ProbeTarget::Nothing))
    }

    /// Whether anything was learnt that nobody has asked for yet.
    #[inline(always)]
    pub(crate) fn has_events(&self) -> bool {
        !self.follower.events.is_empty()
    }

    /// Whether there is anything that messages have done with memory, and nobody has asked for it yet.
    #[inline(always)]
    pub(crate) fn has_data(&self) -> bool {
        !self.follower.data.is_empty() || !self.follower.used.is_empty()
    }

    /// What was learnt by the last input, the oldest first.
    pub(crate) fn next_event(&mut self) -> Option<MessageEvent> {
        self.follower.events.pop_front()
    }

    fn learn(&mut self, facts: &ProcessFacts, job: &Processes) {
        if let Some(size) = facts.size {
            self.follower.communicators.world_has(size);
        }
        let number = self.follower.processes.number(facts.pid);
        self.follower.processes.get_mut(number).learn(facts);
        self.look_up_library(facts.pid, job);
    }

    /// Looks for the library of a process.
    fn look_up_library(&mut self, pid: u32, job: &Processes) {
        let Some(memory) = job.find(pid).map(|index| &job.get(index).memory) else { return };
        if let Some(process) = self.follower.processes.find_mut(pid) {
            process.look_up(&self.follower.libraries, |file| memory.code_start(file));
        }
    }

    fn plan(&mut self, plan: &Plan) {
        self.follower.libraries.learn(plan);
        for probe in plan.probes.iter().filter(|probe| probe.id < MOST_PROBES) {
            let is_call = matches!(probe.class, ProbeClass::Call | ProbeClass::CallResults);
            let at = probe.id as usize;
            if at >= self.probes.len() {
                self.probes.resize(at + 1, ProbeTarget::Nothing);
            }
            self.probes[at] = match (calls::lifecycle(&probe.function), calls::row(&probe.function)) {
                _ if !is_call => ProbeTarget::Nothing,
                (Lifecycle::Init, _) => ProbeTarget::Beginning,
                (_, Some(row)) => ProbeTarget::Call(row),
                (_, None) => ProbeTarget::Other,
            };
            if let ProbeTarget::Call(row) = self.probes[at] {
                self.sees_no_returns |= probe.class == ProbeClass::Call && needs_return(row);
            }
        }
        let left_out = || plan.left_out.iter().filter_map(|left_out| calls::row(&left_out.what));
        self.hides_completions |= left_out().any(|row| matches!(row.does, Does::Complete { .. }));
        self.sees_no_returns |= left_out().any(needs_return);
    }

    fn watched(&self, probe: u32) -> ProbeTarget {
        self.probes.get(probe as usize).copied().unwrap_or_default()
    }

    fn take_record(&mut self, raw: &RawRecord, Record { header, body }: &Record, job: &Processes) {
        match *body {
            Body::Call { .. } | Body::Values { .. } | Body::Return { .. } => {
                self.call_record(raw, header, body, job);
            }
            Body::Made { handle } => self.made(header, handle),
            Body::Exec if !self.is_known_at(header) => {
                self.end(header.pid);
                self.follower.processes.number(header.pid);
            }
            Body::Exit { .. } => self.end(header.pid),
            _ => {}
        }
    }

    fn end(&mut self, pid: u32) {
        self.assembler.end(pid);
        self.follower.end_process(pid);
    }

    /// What was found out about a process later holds already.
    fn is_known_at(&self, header: &Header) -> bool {
        self.follower.processes.find(header.pid).is_some_and(|process| header.time_ns < process.facts_time_ns)
    }

    /// A thread's last call has stored a handle.
    fn made(&mut self, header: &Header, handle: u64) {
        let ProbeTarget::Call(row) = self.watched(header.probe) else { return };
        let Self { assembler, follower, .. } = self;
        let last = assembler.last(header.pid, header.tid);
        if let Some((call, begun)) = last.filter(|(call, _)| std::ptr::eq(call.row, row)) {
            follower.made_collective(call, begun, handle);
        }
    }

    /// A library above MPI calls, or MPI itself does: a word left over on the stack may make one look like the other.
    fn nested(
        &mut self,
        header: &Header,
        row: &CallRow,
        return_address: u64,
        args: &[u64; 6],
        job: &Processes,
    ) {
        let Some(process) = self.follower.processes.find(header.pid) else { return };
        let Some(rank) = process.rank else { return };
        let caller = job.find(header.pid).and_then(|at| job.get(at).memory.return_place(return_address));
        let is_of_library = caller.is_some_and(|at| self.follower.libraries.is_library(at.file));
        let comm = row.position(Arg::Comm).and_then(|at| args.get(at).copied());
        let is_unknown = comm.is_some_and(|comm| self.follower.find_place(header.pid, comm).is_none());
        if !is_of_library && !is_unknown {
            self.follower.collectives.lose(rank);
        }
    }

    fn call_record(&mut self, raw: &RawRecord, header: &Header, body: &Body, job: &Processes) {
        let row = match self.watched(header.probe) {
            ProbeTarget::Nothing => return,
            ProbeTarget::Beginning | ProbeTarget::Other => None,
            ProbeTarget::Call(row) => Some(row),
        };
        if let (Body::Call { nested: true, return_address, args }, Some(row)) = (body, row)
            && row.is_collective()
        {
            return self.nested(header, row, *return_address, args, job);
        }
        if self.assemble(header, body, row) {
            self.look_up_code(job);
            return self.lose_found();
        }
        if !self.is_known(header.pid) {
            self.awaited.insert(header.pid);
            // It is the next one, even if it had been held before.
            return self.held.push_front(Input::Record(*raw));
        }
        if !matches!(body, Body::Call { nested: false, .. }) {
            return;
        }
        if matches!(self.watched(header.probe), ProbeTarget::Beginning) {
            self.follower.begin_process(header.pid);
            self.begin_thread(header, body, job);
        } else if let Some(row) = row {
            let process = self.number_with_library(header.pid, job);
            if self.assembler.admit(header.pid, header.tid, row, process) {
                self.assemble(header, body, Some(row));
                self.look_up_code(job);
            } else {
                self.lose(header.pid);
            }
        }
        self.lose_found();
    }

    /// The number of a process, whose library is looked up if it is not known yet.
    fn number_with_library(&mut self, pid: u32, job: &Processes) -> usize {
        let process = self.follower.processes.number(pid);
        if self.follower.processes.get(process).builtin.is_none() {
            self.look_up_library(pid, job);
        }
        process
    }

    /// A thread begins with MPI: all of its calls are counted.
    fn begin_thread(&mut self, header: &Header, body: &Body, job: &Processes) {
        let process = self.number_with_library(header.pid, job);
        let knows_library = self.follower.processes.get(process).builtin.is_some();
        // It is in no call that is followed: any row will do.
        if let Some(row) = calls::row("MPI_Finalize").filter(|_| knows_library)
            && self.assembler.admit(header.pid, header.tid, row, process)
        {
            self.assembler.counts_all(header.pid, header.tid);
            self.assemble(header, body, None);
        }
    }

    /// Where the code of ranks is that have just ended with MPI, or made collective calls that differ: later it may not be
    /// known.
    #[inline(always)]
    fn look_up_code(&mut self, job: &Processes) {
        let Follower {
            collectives,
            types,
            buffers,
            overlapping,
            accesses,
            unbuffered,
            made,
            ending,
            communicators,
            ..
        } = &self.follower;
        let wants_places = collectives.wants_places()
            || types.wants_places()
            || buffers.wants_places()
            || overlapping.wants_places()
            || accesses.wants_places()
            || unbuffered.wants_places()
            || communicators.open.wants_places()
            || made.by_call.wants_places();
        if wants_places || !ending.is_empty() {
            self.look_up_wanted_code(job);
        }
    }

    #[inline(never)]
    fn look_up_wanted_code(&mut self, job: &Processes) {
        let Follower {
            collectives,
            types,
            buffers,
            overlapping,
            accesses,
            unbuffered,
            made,
            begun_by,
            communicators,
            ..
        } = &mut self.follower;
        let process = |rank: u32| Some(job.get(job.find(*begun_by.get(&rank)?)?));
        let place = |rank, at| process(rank)?.memory.return_place(at);
        if collectives.wants_places() {
            collectives.find_places(place);
        }
        if types.wants_places() {
            types.find_places(place);
        }
        if buffers.wants_places() {
            buffers.find_places(place);
        }
        if overlapping.wants_places() {
            overlapping.find_places(place);
        }
        if accesses.wants_places() {
            accesses.find_places(place);
        }
        if unbuffered.wants_places() {
            unbuffered.find_places(place, |wanted| wanted_arguments(communicators, wanted));
        }
        if communicators.open.wants_places() {
            communicators.open.find_places(place);
        }
        if made.by_call.wants_places() {
            made.by_call.find_places(place);
        }
        while let Some((rank, pid)) = self.follower.ending.pop() {
            if let Some(index) = job.find(pid) {
                self.follower.ended.insert(rank, job.get(index).memory.code());
            }
        }
    }

    /// Says whether the thread is followed.
    fn assemble(&mut self, header: &Header, body: &Body, row: Option<&'static CallRow>) -> bool {
        let follower = &mut self.follower;
        let done = self.assembler.record(header, body, row, |call, begun, step| {
            follower.step(call, begun, step, header.time_ns);
        });
        done.is_ok()
    }

    /// Whether it is known who a process is, or never will be.
    fn is_known(&self, pid: u32) -> bool {
        self.follower.processes.find(pid).is_some_and(|process| process.rank.is_some())
            || self.strangers.contains(&pid)
    }

    #[inline]
    fn lose_found(&mut self) {
        while let Some(pid) = self.follower.to_lose.pop() {
            self.lose(pid);
        }
    }

    /// Something of a process was not seen. One that is not known may stand for any: those that start share a ring.
    fn lose(&mut self, pid: u32) {
        if self.follower.processes.find(pid).is_some_and(|process| process.rank.is_some()) {
            self.lose_one(pid);
        } else {
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        let all: Vec<u32> = self.follower.processes.pids().collect();
        all.into_iter().for_each(|pid| self.lose_one(pid));
    }

    fn lose_one(&mut self, pid: u32) {
        self.assembler.forget(pid);
        self.follower.lose(pid);
    }
}

/// Whether a record is of calls, or cannot be read.
fn may_tell_of_calls(raw: &RawRecord) -> bool {
    Record::decode(raw).map_or(true, |record| is_of_interest(&record))
}

/// Most records are of copies and heap blocks, which say nothing of calls.
fn is_of_interest(record: &Record) -> bool {
    matches!(
        record.body,
        Body::Call { .. }
            | Body::Values { .. }
            | Body::Return { .. }
            | Body::Made { .. }
            | Body::Exec
            | Body::Exit { .. }
    )
}

/// Whether what a call does to requests and messages is known only when it returns.
fn needs_return(row: &CallRow) -> bool {
    !matches!(row.does, Does::Collective | Does::Window(_) | Does::Finalize)
}

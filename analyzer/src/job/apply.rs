//! Every input is applied here, once.

use super::Job;
use super::address_spaces::MapRecord;
use super::coverage::Change;
use super::event::{CallBegan, ErrorReport, Event, Gap, Gone, ProcessEnded};
use super::ids::{CallSiteId, ThreadId};
use super::last_calls::CallEntry;
use super::messages::{MemoryAccess, MemoryUse, MemoryUser};
use super::movement::{Movement, Side};
use super::names::{Kind, SiteId};
use super::resolve;
use super::streams::{StreamBytes, StreamPiece};
use super::verbs::RemoteBytes;
use crate::mpi::calls::{self, CallRow, Lifecycle};
use crate::tape::input::{ClockReading, CodePlace, Coverage, Input, Loss, Start, Threads};
use crate::tape::plan::{Plan, Probe, ProbeClass};
use crate::tape::wire::{Body, CallContext, Header, RawRecord, Record, kind};

/// Whether results of calls are recorded. Those of MPI_Finalize, and of calls that make communicators, always are.
fn records_results(probe: &Probe) -> bool {
    let always = calls::row(&probe.function).is_some_and(CallRow::always_returns);
    probe.class == ProbeClass::CallResults && !always
}

fn watches_collectives(probe: &Probe) -> bool {
    let is_call = matches!(probe.class, ProbeClass::Call | ProbeClass::CallResults);
    is_call && calls::row(&probe.function).is_some_and(CallRow::is_collective)
}

impl Job {
    /// Takes an input that is no record in its order: those go through [`Job::count`], [`Job::movement`] and
    /// [`Job::apply_record`].
    pub fn apply(&mut self, input: &Input) {
        match input {
            Input::Start(start) => self.begin(start),
            Input::Process(facts) => {
                self.learn_process(facts);
                let process = self.process(facts.pid);
                self.events.push(Event::ProcessKnown { process });
            }
            Input::Plan(plan) => self.plan(plan),
            Input::Record(_) => {}
            Input::LateRecord(raw) => self.late(raw),
            Input::Loss(loss) => self.lose(loss),
            Input::Coverage(coverage) => self.cover(coverage),
            Input::Threads(threads) => self.sample(threads),
            Input::Tick { time_ns } => {
                self.clock(*time_ns);
                self.events.push(Event::Tick);
            }
            Input::Clock(reading) => self.read_clocks(reading),
            Input::Digest(digest) => self.clock(digest.time_ns),
            // They are for replays: no analysis needs them.
            Input::ReplayableRank(_) | Input::Answers(_) | Input::Messages(_) | Input::Contents(_) => {}
            // What times would be without them is told by nobody who decides anything.
            Input::ProbeCosts(_) | Input::Unrecorded(_) => {}
            Input::Symbols(symbols) => {
                self.symbols.extend(symbols);
            }
            Input::End(end) => {
                self.clock(end.time_ns);
                self.ended = Some(end.reason.clone());
                self.strangers = end.strangers.clone();
                self.events.push(Event::Ended);
            }
        }
        self.apply_to_messages(input);
    }

    /// What is known of processes and plans is needed when calls come; all else only while messages are followed.
    fn apply_to_messages(&mut self, input: &Input) {
        let is_wanted = match input {
            Input::Plan(_) | Input::Process(_) => true,
            Input::LateRecord(_) | Input::Loss(_) | Input::Coverage(_) | Input::End(_) => {
                self.follows_messages
            }
            _ => false,
        };
        if is_wanted {
            self.messages.push(input, &self.processes);
            self.tell_learnt();
        }
    }

    #[inline]
    pub(super) fn tell_learnt(&mut self) {
        while self.messages.has_events()
            && let Some(event) = self.messages.next_event()
        {
            self.events.push(Event::Message(event));
        }
    }

    fn begin(&mut self, start: &Start) {
        self.start = start.clone();
        self.clock(start.time_ns);
        self.events.push(Event::Started);
    }

    /// How far times of a node may be off is for people: nothing is decided by it.
    fn read_clocks(&mut self, reading: &ClockReading) {
        let Start { wall_clock_error_ns, node_clock_errors_ns, nodes, .. } = &mut self.start;
        match node_clock_errors_ns.get_mut(reading.node as usize) {
            Some(error_ns) => *error_ns = reading.error_ns,
            None if nodes.is_empty() => *wall_clock_error_ns = reading.error_ns,
            None => {}
        }
    }

    fn plan(&mut self, plan: &Plan) {
        self.libraries.learn(plan);
        for file in &plan.files {
            self.names.file(file.id, &file.path, file.build_id.as_deref(), true);
            if file.own {
                self.own_files.insert(file.id);
            }
        }
        for probe in &plan.probes {
            self.probes.add(probe, &mut self.names);
        }
        let records_results = plan.probes.iter().any(records_results);
        self.records_results |= records_results;
        if !self.may_follow_messages {
        } else if records_results {
            self.follows_messages = true;
            self.messages.follow_partly(false);
            self.follow_data();
        } else if !self.follows_messages
            && self.may_follow_collectives_alone
            && plan.probes.iter().any(watches_collectives)
        {
            self.follows_messages = true;
            self.messages.follow_partly(true);
        }
    }

    /// The clock goes on.
    #[inline(always)]
    pub fn clock(&mut self, time_ns: u64) {
        if time_ns > self.now_ns {
            self.now_ns = time_ns;
            self.begin_ns.get_or_insert(time_ns);
        }
    }

    /// The record itself is applied after this, like any other.
    fn late(&mut self, raw: &RawRecord) {
        self.totals.late_records += 1;
        let process = self.process(raw.pid());
        self.processes.get_mut(process).counts.late += 1;
        self.heap_errors.lose(Some(process));
        self.events.push(Event::Gap(Gap::Late { time_ns: raw.time_ns() }));
    }

    fn lose(&mut self, loss: &Loss) {
        if loss.records() == 0 {
            return;
        }
        let process = self.process(loss.pid);
        // Processes that start share a ring: whose records were lost is known of ranks only.
        let is_rank = self.processes.get(process).rank.is_some();
        match (loss.hides_calls(), is_rank) {
            (false, _) => {}
            (true, true) => self.forget_calls(process, loss.pid),
            (true, false) => self.forget_all_calls(),
        }
        if loss.state > 0 {
            self.heap_errors.lose(is_rank.then_some(process));
        }
        let counts = &mut self.processes.get_mut(process).counts;
        counts.lost_movements = counts.lost_movements.saturating_add(loss.movements);
        counts.lost_calls = counts.lost_calls.saturating_add(loss.calls);
        counts.lost_state = counts.lost_state.saturating_add(loss.state);
        let t = &mut self.totals;
        t.lost_movements = t.lost_movements.saturating_add(loss.movements);
        t.lost_calls = t.lost_calls.saturating_add(loss.calls);
        t.lost_state = t.lost_state.saturating_add(loss.state);
        self.events.push(Event::Gap(Gap::Lost { process, is_rank, loss: *loss }));
    }

    fn cover(&mut self, now: &Coverage) {
        self.clock(now.time_ns);
        let was_off = std::mem::take(&mut self.coverage.off);
        let of_heap =
            |off: &[u32]| -> Vec<u32> { off.iter().copied().filter(|id| self.is_heap_probe(*id)).collect() };
        let (was_out, is_out) = (of_heap(&was_off), of_heap(&now.off));
        self.heap_errors.hide(!is_out.is_empty());
        // What is seen from here on, or was seen until now, is a part only.
        if was_out != is_out {
            self.forget_heap();
        }
        let (hides_calls, time_ns) = (now.hides_calls(|id| self.is_call_probe(id)), now.time_ns);
        match self.coverage.update_calls(hides_calls, time_ns) {
            Change::Pause => {
                self.forget_all_calls();
                self.events.push(Event::Gap(Gap::CallsPaused { time_ns }));
            }
            Change::Resume => self.events.push(Event::Gap(Gap::CallsResumed { time_ns })),
            Change::None => {}
        }
        match self.coverage.update(now) {
            Change::Pause => self.events.push(Event::Gap(Gap::Paused)),
            Change::Resume => self.events.push(Event::Gap(Gap::Resumed { time_ns })),
            Change::None => {}
        }
    }

    fn is_call_probe(&self, id: u32) -> bool {
        let class = self.probes.get(self.probes.slot(id)).map(|probe| probe.class);
        class.is_some_and(ProbeClass::watches_calls)
    }

    fn is_heap_probe(&self, id: u32) -> bool {
        let class = self.probes.get(self.probes.slot(id)).map(|probe| probe.class);
        matches!(class, Some(ProbeClass::Alloc | ProbeClass::Free))
    }

    /// Where threads are that had been quiet.
    fn sample(&mut self, threads: &Threads) {
        self.clock(threads.time_ns);
        let mut threads = threads.clone();
        self.complete_requests(&mut threads);
        self.events.push(Event::Sampled(Box::new(threads)));
    }

    /// Says which calls started the requests that sampled threads wait for, where those were seen.
    pub fn complete_requests(&self, threads: &mut Threads) {
        for thread in &mut threads.threads {
            let function = |slot| Some(self.probes.get(slot)?.function.clone());
            if let Some(call) = &mut thread.call {
                self.request_origins.complete(thread.pid, call, function);
            }
        }
    }

    /// Calls of a process may have begun unseen, or it is gone.
    fn forget_calls(&mut self, process: usize, pid: u32) {
        for thread in self.processes.get(process).threads.values() {
            self.calls_seen.forget(*thread);
        }
        self.request_origins.forget(pid);
    }

    fn forget_all_calls(&mut self) {
        self.calls_seen.clear();
        self.request_origins.clear();
    }

    /// Counts a record; gives back the index of its process and the slot of its probe.
    #[inline(always)]
    pub fn count(&mut self, record: &Record) -> (usize, usize) {
        let h = &record.header;
        self.clock(h.time_ns);
        let process = self.process(h.pid);
        let slot = self.probes.slot(h.probe);
        let kind = record.body.kind();
        // Who is killed has not moved.
        if kind != kind::EXIT {
            let moved = self.processes.get_mut(process);
            moved.moved_ns = moved.moved_ns.max(h.time_ns);
        }
        self.processes.count(process, kind);
        if h.probe != 0 && kind::is_hit(kind) {
            self.processes.count_hit(process, slot);
        }
        if h.probe != 0 && slot == 0 {
            self.totals.unplanned_records += 1;
        }
        (process, slot)
    }

    /// The movement that a record tells of, resolved and counted; `None` if it moves nothing. Allocates nothing once names
    /// and threads are known.
    #[inline(always)]
    pub fn movement(
        &mut self,
        process: usize,
        record: &Record,
        slot: usize,
        context: CallContext,
    ) -> Option<Movement> {
        let call_slot = self.probes.slot(context.probe);
        let call = self.call(process, context);
        let Some(m) = resolve::movement(self, process, record, slot, call) else {
            self.processes.get_mut(process).counts.empty_movements += 1;
            return None;
        };
        self.probes.call_counts(call_slot).count_movement(m.len_bytes);
        if self.messages.has_active_buffers() {
            self.use_buffers(&m);
        }
        Some(m)
    }

    /// The program copies memory, which may be a buffer of a request that is not complete. Within a call it is the library that does.
    #[inline(never)]
    fn use_buffers(&mut self, m: &Movement) {
        if m.kind != Kind::Copy || m.call.is_some() || !self.is_own_site(m.site) {
            return;
        }
        for (side, access) in [(&m.source, MemoryAccess::Reads), (&m.destination, MemoryAccess::Writes)] {
            if let Some(end) = side.addr.checked_add(m.len_bytes) {
                let user = MemoryUser::Copy(m.site);
                let used = MemoryUse { range: side.addr..end, access, user, time_ns: m.time_ns };
                self.messages.use_memory(m.pid, &used);
            }
        }
    }

    /// The program gives back a heap block, which buffers of requests may be in that are not complete.
    fn free_buffers(&mut self, process: usize, h: &Header, addr: u64, caller: u64) {
        if !self.messages.has_active_buffers() {
            return;
        }
        let block = self.processes.get(process).memory.block_around(addr);
        if let Some((start, end, _)) = block.filter(|(start, ..)| *start == addr) {
            let user = MemoryUser::Free(self.site_of(process, caller));
            let access = MemoryAccess::Frees;
            let used = MemoryUse { range: start..end, access, user, time_ns: h.time_ns };
            self.messages.use_memory(h.pid, &used);
        }
    }

    /// Takes what a process moved into a stream or out of it; what that was, piece by piece, is in `streams.change`. What
    /// launchers do among themselves and with ranks is not followed: they call no MPI.
    pub fn take_stream_bytes(&mut self, process: usize, moved: StreamBytes, is_of_verbs: bool) {
        if self.processes.get(process).counts.calls == 0 && !is_of_verbs {
            return self.streams.ignore();
        }
        self.streams.take(moved, || self.spaces.new_space());
        if is_of_verbs {
            self.streams.note_verbs(moved.stream);
            self.count_verbs(moved);
        }
        let missed = self.streams.change.missed.iter();
        let unseen = missed.map(|r| Gone::Unseen { space: r.space, start: r.start, end: r.end });
        self.memory_changes.extend(unseen);
    }

    /// Of what is received it is known who sent it, or not; and what is in no stream is received by nobody.
    fn count_verbs(&mut self, moved: StreamBytes) {
        for piece in &self.streams.change.pieces {
            let bytes = piece.end - piece.start;
            match piece.space.is_some() {
                true if moved.receive => self.totals.verbs.count_linked(bytes),
                false => self.totals.verbs.count_unlinked(bytes),
                true => {}
            }
        }
    }

    /// The place of the probe that told of a movement, if that was one of RDMA verbs.
    pub(super) fn verbs_site(&self, h: &Header) -> Option<SiteId> {
        if h.probe == 0 {
            return None;
        }
        Some(self.probes.get(self.probes.slot(h.probe)).map_or(SiteId(0), |probe| probe.site))
    }

    /// Takes what another node says that was written into a stream; what is known of its bytes is in `streams.change`.
    pub fn take_from_elsewhere(&mut self, written: StreamBytes, is_known: bool) {
        self.streams.take_from_elsewhere(written, is_known, || self.spaces.new_space());
        let missed = self.streams.change.missed.iter();
        let unseen = missed.map(|r| Gone::Unseen { space: r.space, start: r.start, end: r.end });
        self.memory_changes.extend(unseen);
    }

    /// The movement of one piece of it; `end`: the buffer, and whether it was read from the stream.
    pub fn stream_movement(
        &mut self,
        process: usize,
        h: &Header,
        end: (u64, bool),
        piece: &StreamPiece,
        context: CallContext,
    ) -> Movement {
        let call_slot = self.probes.slot(context.probe);
        let call = self.call(process, context);
        self.probes.call_counts(call_slot).count_movement(piece.end - piece.start);
        resolve::stream_movement(self, process, h, end, piece, call)
    }

    /// The movement of an RDMA operation that names memory of another process; `None`: that is not known here.
    pub fn remote_movement(
        &mut self,
        process: usize,
        h: &Header,
        moved: &RemoteBytes,
        context: CallContext,
    ) -> Option<Movement> {
        let there = self.endpoints.process(moved.peer).and_then(|pid| self.processes.find(pid));
        let counts = &mut self.totals.verbs;
        let Some(there) = there else {
            counts.count_unlinked(moved.len_bytes.into());
            return None;
        };
        counts.count_linked(moved.len_bytes.into());
        let call_slot = self.probes.slot(context.probe);
        let call = self.call(process, context);
        self.probes.call_counts(call_slot).count_movement(moved.len_bytes.into());
        let m = resolve::remote_movement(self, process, h, moved, there, call);
        if moved.atomic {
            // What is there now was computed.
            let Side { space, start, end, .. } = m.source;
            self.memory_changes.push(Gone::Range { space, start, end });
        }
        Some(m)
    }

    /// The movement of an RDMA operation that names memory of another node, of which `part` stands for what it moves.
    pub fn movement_elsewhere(
        &mut self,
        process: usize,
        h: &Header,
        moved: &RemoteBytes,
        part: Side,
        context: CallContext,
    ) -> Movement {
        let call_slot = self.probes.slot(context.probe);
        let call = self.call(process, context);
        self.probes.call_counts(call_slot).count_movement(moved.len_bytes.into());
        resolve::movement_elsewhere(self, process, h, moved, part, call)
    }

    /// What was read before it is not asked for any more.
    pub fn forget_read_bytes(&mut self) {
        let done = self.streams.change.done.iter();
        self.memory_changes.extend(done.map(|r| Gone::Range { space: r.space, start: r.start, end: r.end }));
    }

    #[inline(always)]
    fn call(&mut self, process: usize, context: CallContext) -> CallSiteId {
        let CallContext { return_address, probe, .. } = context;
        let recent = self.processes.get(process).recent_call(return_address, probe);
        if recent.is_some() { recent } else { self.other_call(process, context) }
    }

    fn other_call(&mut self, process: usize, context: CallContext) -> CallSiteId {
        if context == CallContext::default() {
            return CallSiteId::NONE;
        }
        let (return_address, probe) = (context.return_address, context.probe);
        let site = self.site_of(process, return_address);
        let call = self.probes.call(probe, site);
        // Nowhere is no call, unless it has a number.
        if (return_address, probe) != (0, 0) {
            self.processes.get_mut(process).remember_call(return_address, probe, call);
        }
        call
    }

    /// Messages take a record, before anything else does.
    #[inline]
    pub fn apply_to_calls(&mut self, raw: &RawRecord, record: &Record) {
        self.messages.record(raw, record, &self.processes);
        self.tell_learnt();
    }

    /// Takes a record that moves no data; the beginning of a call has [`Job::begin_call`].
    pub fn apply_record(&mut self, process: usize, h: &Header, body: &Body, slot: usize) {
        match *body {
            Body::Call { return_address, args: arguments, .. } => {
                let (pid, tid, time_ns) = (h.pid, h.tid, h.time_ns);
                let report = ErrorReport { process, pid, tid, time_ns, slot, return_address, arguments };
                self.events.push(Event::ErrorReported(report));
            }
            Body::Done => self.done(process, h, slot),
            Body::Made { handle } => self.made(process, h, slot, handle),
            Body::Return { argument, word, .. } => self.end_call(process, h, slot, argument, word),
            Body::Alloc { addr, size_bytes, old, caller }
                if size_bytes >= self.start.alloc_min_bytes || self.is_own(process, caller) =>
            {
                if old != 0 && old != addr {
                    self.free_buffers(process, h, old, caller);
                }
                self.allocate(process, addr, size_bytes, old, caller);
            }
            // How long what it was has become, or where it is now, is not kept.
            Body::Alloc { old, .. } if old != 0 => self.remove_block(process, old),
            Body::Free { addr, caller } => {
                self.free_buffers(process, h, addr, caller);
                // Other allocators have functions of their own for C++, which are not watched.
                let is_kept = self.probes.get(slot).is_some_and(|probe| probe.is_free_of_c_library);
                self.free(process, addr, is_kept.then_some((caller, h.time_ns)));
            }
            Body::Work(_) | Body::Completion { .. } => self.totals.verbs.take(body),
            Body::Endpoint { name, .. } => self.endpoints.add(name, h.pid),
            Body::Map { addr, len_bytes, offset_bytes, file, shared, exec, has_file } => {
                let file = has_file.then_some(file);
                let map = MapRecord { addr, len_bytes, offset_bytes, file, shared, exec };
                self.map(process, h.time_ns, &map);
            }
            Body::Unmap { addr, len_bytes } => self.unmap(process, h.time_ns, addr, len_bytes),
            Body::Fork { child } => self.fork(process, child),
            Body::Exec => {
                self.exec(process);
                self.endpoints.forget(h.pid);
                self.forget_calls(process, h.pid);
                self.events.push(Event::ProcessReplaced { process, pid: h.pid });
            }
            Body::Exit { status, at } => self.end_process(process, h.time_ns, status, at),
            _ => {}
        }
    }

    /// A call began that is not part of another one. There are so many that what it means is given back at once.
    #[inline(always)]
    pub fn begin_call(
        &mut self,
        process: usize,
        thread: ThreadId,
        h: &Header,
        begun: CallEntry,
    ) -> CallBegan {
        self.calls_seen.note(thread, h.tid, begun);
        let part = self.probes.get(begun.probe).map_or(Lifecycle::None, |probe| probe.part);
        let p = self.processes.get_mut(process);
        p.life.call(part, h.time_ns, &begun);
        p.counts.calls += 1;
        self.probes.call_counts(begun.probe).calls += 1;
        CallBegan { process, pid: h.pid, tid: h.tid, time_ns: h.time_ns, part, begun }
    }

    /// A polling call answered yes, or a thread came back from where errors are reported.
    fn done(&mut self, process: usize, h: &Header, slot: usize) {
        let is_error = self.probes.get(slot).is_some_and(|probe| probe.class == ProbeClass::Error);
        self.events.push(match is_error {
            true => Event::ErrorHandled { pid: h.pid, tid: h.tid },
            false => {
                self.processes.get_mut(process).life.completes(h.time_ns);
                Event::PollAnswered { process, tid: h.tid, time_ns: h.time_ns, slot }
            }
        });
    }

    /// A call has returned; what `argument` points to may be a handle that it made.
    fn end_call(&mut self, process: usize, h: &Header, slot: usize, argument: u32, word: u64) {
        let Some(probe) = self.probes.get(slot) else { return };
        let (row, part) = (probe.row, probe.part);
        if row.and_then(CallRow::made) == Some(argument as usize) {
            self.made(process, h, slot, word);
        }
        if part == Lifecycle::Finalize {
            self.processes.get_mut(process).life.finalized();
        }
    }

    /// A thread's last call has stored a handle.
    fn made(&mut self, process: usize, h: &Header, slot: usize, handle: u64) {
        let thread = self.thread(process, h.tid);
        if let Some(begun) = self.calls_seen.last(thread, h.tid).filter(|begun| begun.probe == slot) {
            self.request_origins.note(h.pid, handle, *begun);
        }
    }

    fn end_process(&mut self, process: usize, time_ns: u64, status: u32, at: u64) {
        let ended = self.processes.get(process);
        let place = ended.memory.code_at(at).map(|(file, offset_bytes)| CodePlace { file, offset_bytes });
        let (pid, life) = (ended.pid, ended.life);
        let is_finalize = |begun: &CallEntry| {
            self.probes.get(begun.probe).is_some_and(|probe| probe.part == Lifecycle::Finalize)
        };
        let forbidden = life.forbidden_call(status);
        let event = ProcessEnded {
            process,
            pid,
            who: self.processes.who(ended.who),
            time_ns,
            status,
            place,
            life,
            in_finalize: self.calls_of(ended).any(|(_, begun)| is_finalize(begun)),
            forbidden: forbidden.map(|(since_ns, begun)| (since_ns, self.call_in_progress(process, &begun))),
            unfinished: life.is_unfinished(status) && self.sees_ends() && self.has_seen_all_calls(),
        };
        self.events.push(Event::ProcessEnded(Box::new(event)));
        self.exit(process, Some(status));
        self.endpoints.forget(pid);
        self.forget_calls(process, pid);
    }

    /// MPI_Finalize has a probe.
    fn sees_ends(&self) -> bool {
        self.probes.all().any(|(_, probe)| probe.part == Lifecycle::Finalize)
    }
}

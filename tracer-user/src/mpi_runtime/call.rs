//! What an MPI call in progress was given, and what that stands for.
//!
//! What a call's arguments are is asked of several sources, and an earlier one is never overruled by a later one:
//!
//! 1. the call's own frame, where registers or the stack still hold them (the caller of this module has looked there);
//! 2. the record of the call, if it is the last one that its thread made;
//! 3. the code before the call, with the registers of the frame that made it;
//! 4. of a blocking call that Open MPI turned into a request, that request.
//!
//! Then the library is asked what the call's requests, communicators and windows are; and for a request that the
//! thread's last call began, which no record tells of yet, that call is named.

use analyzer::calls::{self, Arg, CallRow, Waiting};
use analyzer::input::{CallInProgress, MpiKind, StartedCall};
use analyzer::pipeline::LastCall;

use super::library::{Library, request};
use super::open_mpi::OpenMpi;
use crate::host::memory::RemoteMemory;

/// Requests of one call that are looked at.
const MOST_REQUESTS: u64 = 4096;

/// What is known of a thread in a call besides its stack.
#[derive(Clone, Copy)]
pub struct CallSources<'a> {
    /// The thread.
    pub tid: u32,
    /// The last MPI calls of the process's threads, as they were recorded when they began.
    pub last_calls: &'a [LastCall],
    /// What the code before the call says that it was given: its first arguments, as far as that is known.
    pub passed: &'a [Option<u64>],
    /// Where the thread's last call stored a handle that is in no record yet, and whether handles are half a word.
    pub made: Option<(u64, bool)>,
    /// Of the process.
    pub memory: &'a dyn RemoteMemory,
}

impl CallSources<'_> {
    /// Adds to a call what these sources know, in the order that the module says. `inner`: words that the call and what it calls have in
    /// registers and on the stack.
    pub fn complete(&self, call: &mut CallInProgress, library: Option<&Library<'_>>, inner: &[u64]) {
        self.fill_in(call);
        self.fill_in_passed(call);
        self.look_behind_handles(call, library, inner);
        self.add_last_made(call);
    }

    /// Adds arguments that could not be recovered from the stack, if the call is the last one that was recorded.
    fn fill_in(&self, call: &mut CallInProgress) {
        let is_it = |last: &&LastCall| {
            last.tid == self.tid
                && last.function == call.function
                && self.memory.word(call.return_slot) == Some(last.return_address)
        };
        let Some(last) = self.last_calls.iter().find(is_it) else { return };
        let used = calls::row(&call.function).map_or(0, CallRow::arguments_used);
        call.arguments.resize(used.max(call.arguments.len()), None);
        for (argument, recorded) in call.arguments.iter_mut().zip(last.arguments) {
            *argument = argument.or(Some(recorded));
        }
    }

    /// Adds arguments that the code before the call tells.
    fn fill_in_passed(&self, call: &mut CallInProgress) {
        if self.passed.iter().all(Option::is_none) {
            return;
        }
        let used = calls::row(&call.function).map_or(0, CallRow::arguments_used);
        call.arguments.resize(used.max(call.arguments.len()), None);
        for (argument, passed) in call.arguments.iter_mut().zip(self.passed) {
            *argument = argument.or(*passed);
        }
    }

    /// Adds what the library's memory says of the requests and communicators that a call names.
    /// `inner`: what lies on the stack above the call's return address.
    fn look_behind_handles(&self, call: &mut CallInProgress, library: Option<&Library<'_>>, inner: &[u64]) {
        let Some((row, mpi)) = calls::row(&call.function).zip(call.mpi) else { return };
        if let Some(freed) = row.position(Arg::FreedWin).and_then(|at| call.arguments.get_mut(at)) {
            // Where the handle is: the handle itself says more.
            *freed = freed.and_then(|at| self.handle_at(mpi.kind, at));
        }
        let argument = |at: usize| call.arguments.get(at).copied().flatten();
        let mut handles = Vec::new();
        if let Some(Waiting::Requests { count, at, .. }) = row.awaits() {
            let count = count.map_or(Some(1), |at| argument(at).map(|count| count & u64::from(u32::MAX)));
            let known = argument(at).zip(count.filter(|count| *count <= MOST_REQUESTS));
            handles = known.map_or_else(Vec::new, |(start, count)| self.requests(mpi.kind, start, count));
        }
        call.requests = handles.into_iter().map(|handle| request(library, handle)).collect();
        let Some(library) = library else { return };
        if let Library::OpenMpi(library) = library {
            find_messages(call, row, library, inner);
        }
        let argument = |at: usize| call.arguments.get(at).copied().flatten();
        let named = row.position(Arg::Comm).and_then(argument);
        let of_requests =
            call.requests.iter().filter_map(|request| request.message.map(|message| message.comm));
        let mut communicators: Vec<u64> =
            named.into_iter().chain(of_requests).filter(|comm| Some(*comm) != mpi.comm_world).collect();
        communicators.sort_unstable();
        communicators.dedup();
        call.communicators = library.communicators(&communicators);
        let window = row.position(Arg::Win).or_else(|| row.position(Arg::FreedWin)).and_then(argument);
        let group = row.position(Arg::Group).filter(|_| window.is_some()).and_then(argument);
        call.communicators.extend(window.and_then(|handle| library.window(handle)));
        call.communicators.extend(group.and_then(|handle| library.group(handle)));
    }

    /// What the last call began is in no record before the next one: its handle is where it was stored.
    fn add_last_made(&self, call: &mut CallInProgress) {
        let Some((at, is_half)) = self.made else { return };
        let Some(last) = self.last_calls.iter().find(|last| last.tid == self.tid) else { return };
        let is_maker = calls::row(&last.function).is_some_and(|row| row.made().is_some());
        let handle = if is_half { self.memory.half(at).map(u64::from) } else { self.memory.word(at) };
        for request in call.requests.iter_mut().filter(|r| is_maker && Some(r.handle) == handle) {
            let (function, arguments) = (last.function.clone(), last.arguments.to_vec());
            request.started = Some(StartedCall { function, arguments });
        }
    }

    /// Handles of requests that are not null.
    fn requests(&self, kind: MpiKind, start: u64, count: u64) -> Vec<u64> {
        /// `MPI_REQUEST_NULL` of MPICH.
        const MPICH_NULL: u64 = 0x2c00_0000;
        let size_bytes = match kind {
            MpiKind::OpenMpi => 8,
            MpiKind::Mpich => 4,
        };
        let handle = |number: u64| self.handle_at(kind, start.checked_add(size_bytes * number)?);
        (0..count)
            .filter_map(handle)
            .filter(|handle| kind != MpiKind::Mpich || *handle != MPICH_NULL)
            .collect()
    }

    fn handle_at(&self, kind: MpiKind, at: u64) -> Option<u64> {
        match kind {
            MpiKind::OpenMpi => self.memory.word(at),
            MpiKind::Mpich => self.memory.half(at).map(u64::from),
        }
    }
}

/// Ranks and tags that a blocking call has handed on are in its request, which is found among what lies
/// on the stack: it names the same buffer, count and communicator.
fn find_messages(call: &mut CallInProgress, row: &CallRow, library: &OpenMpi<'_>, inner: &[u64]) {
    let sent = row.sends().map(|envelope| (envelope, row.position(Arg::Buffer), true));
    // Where both are, the buffer of what is received comes second, unless it is the same.
    let received = row.receives().map(|envelope| (envelope, row.last_position(Arg::Buffer), false));
    for (envelope, buffer, sends) in sent.into_iter().chain(received) {
        let Some(buffer) = buffer else { continue };
        let count = buffer + 1;
        let argument = |at: usize| call.arguments.get(at).copied().flatten();
        if argument(envelope.peer).is_some() && argument(envelope.tag).is_some() {
            continue;
        }
        let known = (argument(buffer), argument(count), argument(envelope.comm));
        let (Some(buffer), Some(count), Some(comm)) = known else { continue };
        let count = count & u64::from(u32::MAX);
        let message =
            |handle: &u64| library.message_of(*handle, buffer, count, comm).filter(|m| m.sends == sends);
        let Some(found) = inner.iter().find_map(message) else { continue };
        let mut fill = |at: usize, value: i32| {
            if let Some(argument) = call.arguments.get_mut(at) {
                *argument = argument.or(Some(u64::from(value.cast_unsigned())));
            }
        };
        fill(envelope.peer, found.peer);
        fill(envelope.tag, found.tag);
    }
}

#[cfg(test)]
mod tests {
    use analyzer::input::MpiFacts;

    use super::*;
    use crate::host::memory::Halves;

    const TID: u32 = 7;
    const RETURN_SLOT: u64 = 0x7000_0000_0ff8;
    const RETURN_ADDRESS: u64 = 0x40_0123;
    const REQUEST_AT: u64 = 0x7000_0000_2000;
    const REQUEST: u32 = 0xac00_0005;

    /// The stack of a thread in a call, and a request in the program's memory.
    fn memory() -> Halves {
        let mut memory = Halves::default();
        memory.put_word(RETURN_SLOT, RETURN_ADDRESS);
        memory.put(REQUEST_AT, &[REQUEST]);
        memory
    }

    fn in_call(function: &str, arguments: Vec<Option<u64>>) -> CallInProgress {
        CallInProgress {
            function: function.into(),
            mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: None }),
            return_slot: RETURN_SLOT,
            arguments,
            ..CallInProgress::default()
        }
    }

    fn last(function: &str, arguments: [u64; 6]) -> LastCall {
        LastCall { tid: TID, function: function.into(), return_address: RETURN_ADDRESS, arguments }
    }

    fn completed(mut call: CallInProgress, last: LastCall, made: Option<(u64, bool)>) -> CallInProgress {
        let memory = memory();
        let sources = CallSources { tid: TID, last_calls: &[last], passed: &[], made, memory: &memory };
        sources.complete(&mut call, None, &[]);
        call
    }

    #[test]
    fn the_record_of_a_call_adds_arguments_and_overrules_none() {
        let call = in_call("MPI_Recv", vec![None, Some(5), None]);
        let call = completed(call, last("MPI_Recv", [1, 2, 3, 4, 5, 6]), None);
        assert_eq!(call.arguments[..6], [1, 5, 3, 4, 5, 6].map(Some));
    }

    #[test]
    fn the_record_of_another_call_adds_nothing() {
        let recorded = [1, 2, 3, 4, 5, 6];
        let others = [
            last("MPI_Send", recorded),
            LastCall { tid: TID + 1, ..last("MPI_Recv", recorded) },
            LastCall { return_address: RETURN_ADDRESS + 1, ..last("MPI_Recv", recorded) },
        ];
        for other in others {
            let call = completed(in_call("MPI_Recv", vec![None; 6]), other.clone(), None);
            assert_eq!(call.arguments, vec![None; 6], "{other:?}");
        }
    }

    #[test]
    fn the_code_before_a_call_adds_arguments_and_overrules_none() {
        let memory = memory();
        let mut call = in_call("MPI_Recv", vec![None, Some(5), None]);
        let passed = &[Some(1), Some(2), None, Some(4)];
        let sources = CallSources { tid: TID, last_calls: &[], passed, made: None, memory: &memory };
        sources.complete(&mut call, None, &[]);
        assert_eq!(call.arguments[..5], [Some(1), Some(5), None, Some(4), None]);
    }

    #[test]
    fn a_request_that_the_threads_last_call_began_is_named_by_that_call() {
        let wait = || in_call("MPI_Wait", vec![Some(REQUEST_AT), Some(0)]);
        let begun = |made| {
            let call = completed(wait(), last("MPI_Irecv", [9; 6]), made);
            let request = call.requests.into_iter().next().expect("MPI_Wait waits for one");
            (request.handle, request.started.map(|started| started.function))
        };
        let half = Some((REQUEST_AT, true));
        assert_eq!(begun(half), (u64::from(REQUEST), Some("MPI_Irecv".to_owned())));
        assert_eq!(begun(None), (u64::from(REQUEST), None));
        let barrier = completed(wait(), last("MPI_Barrier", [9; 6]), half);
        assert_eq!(barrier.requests[0].started, None, "a barrier begins no request");
    }
}

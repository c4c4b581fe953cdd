//! What a call answered that the program does not decide.

use super::assemble::Call;
use crate::mpi::calls::{Arg, Does, Form, Which};
use crate::mpi::handles::{Builtin, UNDEFINED};
use crate::mpi::status::{self, Status};

/// Whose message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// Of this rank, in the numbers of the communicator.
    From(u32),
    /// Nobody's: the receive was cancelled.
    Cancelled,
    /// Nobody's: it failed, or there was nothing to receive.
    Nobody,
    /// The program did not want to know: it gave no status.
    Untold,
}

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedRequest {
    /// Its handle, as it was at the entry.
    pub request: u64,
    /// Whose message, if it was a receive.
    pub source: MessageSource,
}

/// Which of its requests a call found complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionChoice {
    /// It had none: it waited.
    All,
    /// A poll: yes.
    Yes,
    /// One of several. None: there was no active one.
    Index(Option<u32>),
    /// Some of several. None: there was no active one.
    Indices(Option<Vec<u32>>),
}

/// What a call answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// Nothing that the program does not decide.
    Nothing,
    /// A poll that names whom it asks for: yes.
    Yes,
    /// A receive or probe from anybody.
    Received(MessageSource),
    /// A receive from anybody is open.
    Posted(u64),
    /// A persistent receive from anybody was made.
    Prepared(u64),
    /// Persistent requests were started.
    Started(Vec<u64>),
    /// Requests are complete.
    Completed(CompletionChoice, Vec<CompletedRequest>),
    /// It was asked about a request that stays.
    Inquired(CompletedRequest),
    /// A request was given back.
    Freed(u64),
}

/// Handles of requests that a call has made, or was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHandles {
    /// The one that it has made.
    pub made: Option<u64>,
    /// Those that it names, as they were at its entry.
    pub named: Vec<u64>,
}

pub(super) fn handles_of(call: &Call, builtin: &Builtin) -> RequestHandles {
    let reader = ResultReader { call, builtin, is_good: call.code == Some(0) };
    RequestHandles {
        made: reader.handle(Arg::NewRequest, true),
        named: reader.requests().unwrap_or_default(),
    }
}

/// Source, in the numbers of the communicator, and tag of the message that a call says it has got or found.
pub(super) fn envelope_of(call: &Call, builtin: &Builtin) -> Option<(u32, u32)> {
    let bytes = call.pointed(Arg::Status, true).filter(|_| call.code == Some(0))?;
    let status = status::read(bytes, 0, builtin.kind).filter(|status| !status.cancelled)?;
    Some((u32::try_from(status.source).ok()?, u32::try_from(status.tag).ok()?))
}

/// What a call answered; `None`: its records do not tell all of it.
pub(super) fn result_of(call: &Call, builtin: &Builtin) -> Option<CallResult> {
    let reader = ResultReader { call, builtin, is_good: call.code? == 0 };
    let row = call.row;
    let from_anybody =
        || row.receives().is_some_and(|at| call.integer(at.peer) == Some(builtin.any_source()));
    Some(match (row.does, row.form) {
        (Does::Receive | Does::Exchange, Form::Blocking) if from_anybody() => {
            CallResult::Received(reader.source(Arg::Status, 0))
        }
        (Does::Receive | Does::Exchange, form @ (Form::Nonblocking | Form::Persistent))
            if from_anybody() && reader.is_good =>
        {
            let request = reader.handle(Arg::NewRequest, true)?;
            if form == Form::Persistent { CallResult::Prepared(request) } else { CallResult::Posted(request) }
        }
        (Does::Probe | Does::ProbeMatched, _) if from_anybody() => {
            CallResult::Received(reader.source(Arg::Status, 0))
        }
        (Does::Probe | Does::ProbeMatched | Does::Window(_), _) if row.polls() => CallResult::Yes,
        (Does::Start, _) => CallResult::Started(reader.requests()?),
        (Does::Complete { which, polls }, _) => reader.completed(which, polls)?,
        (Does::Free, _) => CallResult::Freed(reader.handle(Arg::Request, false)?),
        (Does::Inquire, _) => {
            match call.argument(Arg::RequestItself).filter(|_| row.position(Arg::Status).is_some()) {
                Some(request) => CallResult::Inquired(CompletedRequest {
                    request: builtin.handle(request),
                    source: reader.source(Arg::Status, 0),
                }),
                None => CallResult::Yes,
            }
        }
        _ => CallResult::Nothing,
    })
}

struct ResultReader<'a> {
    call: &'a Call,
    builtin: &'a Builtin,
    is_good: bool,
}

impl ResultReader<'_> {
    fn handle(&self, arg: Arg, at_return: bool) -> Option<u64> {
        self.builtin.handles(self.call.pointed(arg, at_return)?).next()
    }

    /// Those that the call names, as they were at its entry. None were recorded where there are none.
    fn requests(&self) -> Option<Vec<u64>> {
        let bytes =
            self.call.pointed(Arg::Requests, false).or_else(|| self.call.pointed(Arg::Request, false));
        let count = self.call.argument(Arg::Count).map(|count| count as i32);
        match bytes {
            Some(bytes) => Some(self.builtin.handles(bytes).collect()),
            None => count.is_some_and(|count| count <= 0).then(Vec::new),
        }
    }

    /// Whose message it was, as the status at an index says.
    fn source(&self, arg: Arg, index: usize) -> MessageSource {
        if !self.is_good {
            return MessageSource::Nobody;
        }
        let bytes = self.call.pointed(arg, true);
        match bytes.and_then(|bytes| status::read(bytes, index, self.builtin.kind)) {
            None => MessageSource::Untold,
            Some(Status { cancelled: true, .. }) => MessageSource::Cancelled,
            Some(Status { source, .. }) => {
                u32::try_from(source).map_or(MessageSource::Nobody, MessageSource::From)
            }
        }
    }

    fn integers(&self, arg: Arg) -> impl Iterator<Item = i32> {
        let (chunks, _) = self.call.pointed(arg, true).unwrap_or_default().as_chunks::<4>();
        chunks.iter().map(|chunk| i32::from_ne_bytes(*chunk))
    }

    fn completed(&self, which: Which, polls: bool) -> Option<CallResult> {
        let requests = self.requests()?;
        let done = |(at, status): (usize, (Arg, usize))| {
            let request = *requests.get(at)?;
            Some(CompletedRequest { request, source: self.source(status.0, status.1) })
        };
        let of_all = if polls { CompletionChoice::Yes } else { CompletionChoice::All };
        Some(match which {
            Which::One => CallResult::Completed(of_all, done((0, (Arg::Status, 0))).into_iter().collect()),
            Which::All => {
                let all = (0..requests.len()).filter_map(|at| done((at, (Arg::Statuses, at))));
                CallResult::Completed(of_all, all.collect())
            }
            Which::Any => {
                let index = self.integers(Arg::Index).next()?;
                let index = if index == UNDEFINED { None } else { Some(u32::try_from(index).ok()?) };
                let one = index.and_then(|at| done((at as usize, (Arg::Status, 0))));
                CallResult::Completed(CompletionChoice::Index(index), one.into_iter().collect())
            }
            Which::Some => self.some(&done)?,
        })
    }

    fn some(&self, done: &impl Fn((usize, (Arg, usize))) -> Option<CompletedRequest>) -> Option<CallResult> {
        let count = self.integers(Arg::OutCount).next()?;
        if count == UNDEFINED {
            return Some(CallResult::Completed(CompletionChoice::Indices(None), Vec::new()));
        }
        let indices: Vec<u32> = self.integers(Arg::Indices).filter_map(|at| u32::try_from(at).ok()).collect();
        if usize::try_from(count).ok()? != indices.len() {
            return None;
        }
        let each = indices.iter().enumerate().filter_map(|(n, at)| done((*at as usize, (Arg::Statuses, n))));
        let each = each.collect();
        Some(CallResult::Completed(CompletionChoice::Indices(Some(indices)), each))
    }
}

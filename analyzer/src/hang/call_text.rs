//! Calls, their arguments and requests as people write them.

use super::arguments::ArgumentReader;
use super::communicators::SampledCommunicators;
use super::step_budget::StepBudget;
use super::view::JobView;
use crate::job::messages::{KnownRequest, Messages};
use crate::mpi::calls;
use crate::tape::input::{CallInProgress, PendingRequest};

/// Requests that are shown with a call.
const MOST_SHOWN: usize = 4;

/// A communicator or a window by who is in it.
fn communicator_text(call: &CallInProgress, handle: u64) -> String {
    match call.communicators.iter().find(|facts| facts.handle == handle) {
        Some(facts) => format!("one of {} ranks", facts.members.len()),
        None => format!("{handle:#x}"),
    }
}

/// The arguments of a call as people write them.
pub(crate) fn shown(call: &CallInProgress) -> Vec<(&'static str, String)> {
    shown_of(call, None)
}

/// The same; `process`: whose call it is, with what is known of its communicators and requests.
pub(super) fn shown_of(
    call: &CallInProgress,
    process: Option<(u32, &Messages)>,
) -> Vec<(&'static str, String)> {
    let none = SampledCommunicators::default();
    let (pid, messages) = process.unzip();
    let work = StepBudget::default();
    let reader = ArgumentReader::of(call, pid.unwrap_or_default(), messages, &none, &work);
    let Some((row, reader)) = calls::row(&call.function).zip(reader) else { return Vec::new() };
    let value = |at: usize, name: &str| match (name, reader.integer(at)) {
        ("comm", _) => match reader.word(at) {
            Some(handle) if reader.is_world(handle) => "MPI_COMM_WORLD".to_owned(),
            Some(handle) => reader.name(handle).unwrap_or_else(|| communicator_text(call, handle)),
            None => "?".to_owned(),
        },
        ("win", _) => match reader.word(at) {
            Some(handle) => reader.window_text(handle).unwrap_or_else(|| communicator_text(call, handle)),
            None => "?".to_owned(),
        },
        (_, None) => "?".to_owned(),
        ("source", Some(rank)) if rank == reader.any_source() => "MPI_ANY_SOURCE".to_owned(),
        ("source" | "dest", Some(rank)) if rank == reader.proc_null() => "MPI_PROC_NULL".to_owned(),
        ("tag" | "recvtag", Some(-1)) => "MPI_ANY_TAG".to_owned(),
        (_, Some(number)) => number.to_string(),
    };
    let pending = call.requests.iter().filter(|request| request.complete != Some(true)).take(MOST_SHOWN);
    let requests = pending.filter_map(|request| Some(("request", request_text(call, request, process)?)));
    row.shown().map(|(at, name)| (name, value(at, name))).chain(requests).collect()
}

/// What a request stands for.
pub(super) fn request_text(
    call: &CallInProgress,
    request: &PendingRequest,
    process: Option<(u32, &Messages)>,
) -> Option<String> {
    if let Some(started) = &request.started {
        let started = CallInProgress {
            function: started.function.clone(),
            mpi: call.mpi,
            site: call.site,
            return_slot: call.return_slot,
            arguments: started.arguments.iter().copied().map(Some).collect(),
            requests: Vec::new(),
            communicators: call.communicators.clone(),
        };
        let values: Vec<String> =
            shown_of(&started, process).iter().map(|(name, value)| format!("{name} {value}")).collect();
        return Some(format!("{}({})", started.function, values.join(", ")));
    }
    if let Some(message) = request.message {
        let direction = if message.sends { "send to" } else { "receive from" };
        return Some(format!("{direction} {} with tag {}", message.peer, message.tag));
    }
    let (pid, messages) = process?;
    Some(match messages.request_of(pid, request.handle)? {
        KnownRequest::Messages { by, first, .. } => {
            let peer = first.peer.map_or_else(|| "MPI_ANY_SOURCE".to_owned(), |peer| format!("rank {peer}"));
            let tag = first.tag.map_or_else(|| "MPI_ANY_TAG".to_owned(), |tag| tag.to_string());
            let name = if first.sends { "dest" } else { "source" };
            format!("{}({name} {peer}, tag {tag}, comm {})", by.name, messages.name_of(first.comm))
        }
        KnownRequest::Collective { by, call: Some(call) } => {
            format!("{}(comm {})", by.name, messages.name_of(call.comm()))
        }
        KnownRequest::Collective { by, call: None } => by.name.clone(),
    })
}

/// Requests that a call waits for, as many as are looked at to be told.
pub(super) fn pending_of(call: &CallInProgress) -> impl Iterator<Item = &PendingRequest> {
    const MOST_TOLD_OF: usize = 64;
    call.requests.iter().filter(|request| request.complete != Some(true)).take(MOST_TOLD_OF)
}

/// Whether it is known what a request stands for.
pub(super) fn knows_request(request: &PendingRequest, pid: u32, view: &JobView<'_>) -> bool {
    let is_recorded = || view.job.messages.request_of(pid, request.handle).is_some();
    request.started.is_some() || request.message.is_some() || is_recorded()
}

/// What the requests stand for that a call waits for, of those that it is known of.
pub(super) fn request_texts(call: &CallInProgress, pid: u32, view: &JobView<'_>) -> Vec<String> {
    pending_of(call)
        .filter_map(|request| request_text(call, request, Some((pid, &view.job.messages))))
        .collect()
}

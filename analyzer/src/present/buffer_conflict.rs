//! Buffers that were used before their requests were complete, in words.

use super::hang::call_at;
use super::text::{place_text, who_text};
use crate::findings::finding::{BufferAccess, BufferConflict, BufferUser};
use crate::mpi::calls::{Does, row};

/// As a heading.
pub(crate) fn title(found: &BufferConflict) -> &'static str {
    match is_one_sided(found) {
        false => "Buffer of an active request used",
        true => "Buffer of an active one-sided operation used",
    }
}

fn is_one_sided(found: &BufferConflict) -> bool {
    row(&found.request.function).is_some_and(|row| matches!(row.does, Does::OneSided(_)))
}

/// In one sentence, and what to do next.
pub(crate) fn say(found: &BufferConflict) -> (String, Vec<String>) {
    let who = who_text(&found.ranks);
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let (what, moves, completing) = match (is_one_sided(found), found.receives) {
        (false, false) => ("request", "sends", "MPI_Wait, MPI_Test"),
        (false, true) => ("request", "receives", "MPI_Wait, MPI_Test"),
        (true, false) => ("operation", "moves to a window", "MPI_Win_fence, MPI_Win_unlock, MPI_Win_flush"),
        (true, true) => ("operation", "gets from a window", "MPI_Win_fence, MPI_Win_unlock, MPI_Win_flush"),
    };
    let of_request = format!("{} {moves}", call_at(&found.request));
    let used = |by: &str| {
        let did = match found.access {
            BufferAccess::Read => "read",
            BufferAccess::Written => "overwrote",
            BufferAccess::Received => "received another message into",
            BufferAccess::Freed => "gave back",
        };
        let bytes = match (found.used_bytes, found.buffer_bytes) {
            (used, all) if used == all => format!("all {all} bytes"),
            (used, all) => format!("{used} of the {all} bytes"),
        };
        format!("{who}, by {by},{times} {did} {bytes} that {of_request}, before that {what} was complete.")
    };
    let mut next = Vec::new();
    let told = match &found.user {
        BufferUser::Call(call) => used(&call_at(call)),
        BufferUser::Copy { place } => used(&format!("a copy at {}", place_text(place))),
        BufferUser::Free { place } => used(&format!("free or realloc called at {}", place_text(place))),
        BufferUser::Store { seen_by, first_byte } => {
            next.push(format!(
                "Look for assignments between the two calls; a watchpoint on byte {first_byte} of the buffer, set in a debugger after {}, stops at \
                 the one.",
                found.request.function
            ));
            let (all, function, place) = (found.buffer_bytes, &seen_by.function, place_text(&seen_by.place));
            format!(
                "{who} changed{times} the {all} bytes that {of_request}, before that request was complete, by code that calls no copy: at \
                 {function} called at {place} they were not the same any more, from byte {first_byte} on."
            )
        }
    };
    let summary = format!("{}: {told}", title(found));
    let why = match (found.receives, found.access) {
        (_, BufferAccess::Freed) => "the memory may be something else by then",
        (false, _) => "what is sent may be the old bytes or the new ones, as it happens to come",
        (true, BufferAccess::Read) => "the data may not have come yet, and what was read be old",
        (true, BufferAccess::Written) => "the data may come before or after",
        (true, BufferAccess::Received) => "of two messages only one is left, as it happens to come",
    };
    let first = format!("Complete the {what} first ({completing}), or use another buffer: {why}.");
    next.insert(0, first);
    (summary, next)
}

//! Buffers that were used before their requests were complete, in words.

use super::hang::call_at;
use super::text::{place_text, who_text};
use crate::findings::finding::{BufferAccess, BufferConflict, BufferUser};

/// As a heading.
pub(crate) const TITLE: &str = "Buffer of an active request used";

/// In one sentence, and what to do next.
pub(crate) fn say(found: &BufferConflict) -> (String, Vec<String>) {
    let by = match &found.user {
        BufferUser::Call(call) => call_at(call),
        BufferUser::Copy { place } => format!("a copy at {}", place_text(place)),
    };
    let did = match found.access {
        BufferAccess::Read => "read",
        BufferAccess::Written => "overwrote",
        BufferAccess::Received => "received another message into",
    };
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let bytes = match (found.used_bytes, found.buffer_bytes) {
        (used, all) if used == all => format!("all {all} bytes"),
        (used, all) => format!("{used} of the {all} bytes"),
    };
    let summary = format!(
        "{TITLE}: {}, by {by},{times} {did} {bytes} that {} {}, before that request was complete.",
        who_text(&found.ranks),
        call_at(&found.request),
        if found.receives { "receives" } else { "sends" },
    );
    let why = match (found.receives, found.access) {
        (false, _) => "what is sent may be the old bytes or the new ones, as it happens to come",
        (true, BufferAccess::Read) => "the message may not have come yet, and what was read be old",
        (true, BufferAccess::Written) => "the message may come before or after",
        (true, BufferAccess::Received) => "of two messages only one is left, as it happens to come",
    };
    let first = format!("Complete the request first (MPI_Wait, MPI_Test), or use another buffer: {why}.");
    (summary, vec![first])
}

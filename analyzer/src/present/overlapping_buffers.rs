//! Calls whose buffers overlap, in words.

use super::hang::call_at;
use super::text::{counted, who_text};
use crate::findings::finding::OverlappingBuffers;
use crate::mpi::calls::{Does, row};

/// As a heading.
pub(crate) const TITLE: &str = "Overlapping buffers in one call";

/// In one sentence, and what to do next.
pub(crate) fn say(found: &OverlappingBuffers) -> (String, Vec<String>) {
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let (call, who) = (call_at(&found.call), who_text(&found.ranks));
    let read = counted(found.read_bytes as usize, "byte");
    let written = match (found.overlap_bytes, found.read_bytes) {
        (overlap, all) if overlap == all => "the same bytes".to_owned(),
        (overlap, _) => format!("{overlap} of them"),
    };
    let summary = format!("{TITLE}: {call} by {who} reads {read} and writes {written} as well{times}.");
    let exchanges = row(&found.call.function).is_some_and(|row| row.does == Does::Exchange);
    let instead = if exchanges { "MPI_Sendrecv_replace" } else { "MPI_IN_PLACE" };
    let next = match found.is_own_part {
        false => format!(
            "Use {instead}, or buffers that do not overlap: MPI forbids it, and what is sent or received depends on how the library does it."
        ),
        true => format!(
            "Use {instead}: MPI forbids buffers that overlap, though the rank's own part lies where it would be put anyway."
        ),
    };
    (summary, vec![next])
}

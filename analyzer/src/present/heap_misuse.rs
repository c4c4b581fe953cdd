//! Memory of the heap that calls were given and that is not theirs, in words.

use super::hang::call_at;
use super::text::{counted, place_text, who_text};
use crate::findings::finding::{BufferAccess, HeapFault, HeapMisuse};
use crate::mpi::calls::{Does, row};

/// As a heading.
pub(crate) fn title(fault: HeapFault) -> &'static str {
    match fault {
        HeapFault::BufferOverflow => "Heap buffer overflow in an MPI call",
        HeapFault::UseAfterFree => "Heap use after free in an MPI call",
    }
}

/// In one sentence, and what to do next.
pub(crate) fn say(found: &HeapMisuse) -> (String, Vec<String>) {
    let bytes = |count: u64| counted(count as usize, "byte");
    let is_read = found.access == BufferAccess::Read;
    let makes_window =
        row(&found.call.function).is_some_and(|row| matches!(row.does, Does::MakeCommunicator(_)));
    let does = match (makes_window, is_read) {
        (true, _) => "gives to a window",
        (false, true) => "reads",
        (false, false) => "writes",
    };
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let (call, who) = (call_at(&found.call), who_text(&found.ranks));
    let (len, block) = (bytes(found.len_bytes), bytes(found.block_bytes));
    let allocated = place_text(&found.allocated);
    let used = format!(
        "{call} by {who} {does}{times} {len} starting at byte {} of a heap block",
        found.offset_bytes
    );
    let (told, next) = match found.fault {
        HeapFault::BufferOverflow => {
            let harm = match is_read {
                true => "What is read there is not the buffer's: it may change from run to run.",
                false => {
                    "Whatever lies there is overwritten, of a window when others put there: crashes and wrong results elsewhere may follow."
                }
            };
            let check = "Compare count and datatype of the call with the size that is allocated there.";
            let beyond = bytes(found.beyond_bytes);
            (
                format!("{used} of {block} allocated at {allocated}: {beyond} past its end."),
                format!("{check} {harm}"),
            )
        }
        HeapFault::UseAfterFree => {
            let freed = found.freed.as_ref().map_or_else(|| "an unknown place".to_owned(), place_text);
            let told =
                format!("{used} of {block} allocated at {allocated} that was given back before, at {freed}.");
            (
                told,
                "Free the block after the call, or give the call the block that has taken its place."
                    .to_owned(),
            )
        }
    };
    (format!("{}: {told}", title(found.fault)), vec![next])
}

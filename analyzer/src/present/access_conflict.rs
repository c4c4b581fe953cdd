//! Accesses to windows that nothing orders, in words.

use super::hang::call_at;
use super::text::{counted, who_text};
use crate::findings::finding::AccessConflict;

/// As a heading.
pub(crate) const TITLE: &str = "Conflicting accesses to a window";

/// In one sentence, and what to do next.
pub(crate) fn say(found: &AccessConflict) -> (String, Vec<String>) {
    let (first, second) = (call_at(&found.first), call_at(&found.second));
    let (first_ranks, second_ranks) = (who_text(&found.first_ranks), who_text(&found.second_ranks));
    let both = if first == second && found.first_ranks == found.second_ranks {
        format!("{first} by {first_ranks}, and the same call again")
    } else {
        format!("{first} by {first_ranks} and {second} by {second_ranks}")
    };
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let summary = format!(
        "{TITLE}: {both} were{times} to the same {} of the memory of {} (from byte {} of the window on), and nothing says which comes first.",
        counted(found.len_bytes as usize, "byte"),
        who_text(&found.targets),
        found.offset_bytes,
    );
    let order = "Put both into different epochs (MPI_Win_fence, MPI_Win_unlock, MPI_Win_flush with a barrier or message after it), or lock the target exclusively, the rank whose memory it is as well.";
    let add = "If each rank adds to what is there, use MPI_Accumulate in both: such operations are made one after the other.";
    (summary, vec![order.to_owned(), add.to_owned()])
}

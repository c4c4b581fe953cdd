//! Accesses outside of windows, in words.

use super::hang::call_at;
use super::text::{counted, who_text};
use crate::findings::finding::{BufferAccess, OutsideWindow};

/// As a heading.
pub(crate) const TITLE: &str = "Access outside of a window";

/// In one sentence, and what to do next.
pub(crate) fn say(found: &OutsideWindow) -> (String, Vec<String>) {
    let bytes = |count: u64| counted(count as usize, "byte");
    let is_read = found.access == BufferAccess::Read;
    let does = if is_read { "reads" } else { "writes" };
    let times = if found.count == 1 { String::new() } else { format!(" {} times", found.count) };
    let (call, who, target) = (call_at(&found.call), who_text(&found.ranks), who_text(&[found.target]));
    let summary = format!(
        "{TITLE}: {call} by {who} {does}{times} {} starting at byte {} of the memory of {target}, which has {} in the window.",
        bytes(found.len_bytes),
        found.offset_bytes,
        bytes(found.window_bytes),
    );
    let check = "Compare target_disp, in units of the target's disp_unit, and the target's count with the size that it gave when the window was made.";
    let harm = match is_read {
        true => "Libraries do not check it: what is read is some other memory of the target.",
        false => {
            "Libraries do not check it: some other memory of the target is overwritten, and it may crash or go wrong elsewhere."
        }
    };
    (summary, vec![check.to_owned(), harm.to_owned()])
}

//! Deadlocks that buffering hides, in words.

use super::hang::call_at;
use super::text::who_text;
use crate::findings::finding::{BufferedCall, BufferedWait, PotentialDeadlock};

/// As a heading.
pub(crate) const TITLE: &str = "Potential deadlock";

/// Calls that are named in the sentence.
const MOST_CALLS: usize = 8;

/// In one sentence, and what to do next.
pub(crate) fn say(found: &PotentialDeadlock) -> (String, Vec<String>) {
    let mut calls: Vec<String> = found.calls.iter().take(MOST_CALLS).map(call_text).collect();
    let more = found.calls.len().saturating_sub(MOST_CALLS);
    if more > 0 {
        calls.push(format!("and {more} more calls"));
    }
    let (does, next) = match (waits(found, BufferedWait::Receive), waits(found, BufferedWait::Members)) {
        (true, false) => (buffered(found), WITHOUT_BUFFERING),
        (false, _) => (
            "some ranks left collective calls before all others had come to them".to_owned(),
            WITHOUT_EARLY_LEAVING,
        ),
        (true, true) => (
            format!(
                "{}, and some ranks may have left collective calls before all others had come to them",
                buffered(found)
            ),
            WITHOUT_EARLY_LEAVING,
        ),
    };
    let wait = if found.ranks.len() == 1 { "waits for itself" } else { "wait for each other" };
    let summary = format!(
        "{TITLE}: {} {wait} in a circle: {}. The job went on only because {does}.",
        who_text(&found.ranks),
        calls.join("; "),
    );
    (summary, vec![next.to_owned()])
}

const WITHOUT_BUFFERING: &str = "Post the receives first (MPI_Irecv), or use MPI_Sendrecv: MPI promises no buffering (MPI 4.0, 3.5). A longer message, \
                                 another library or a full buffer makes this a deadlock. To try it: put MPI_Ssend in place of MPI_Send.";

const WITHOUT_EARLY_LEAVING: &str = "Make these calls in an order in which nobody waits for who cannot come, whether or not collective calls synchronize \
                                     and messages are buffered (MPI 4.0, 3.5 and 6.14): another library or another size makes this a deadlock.";

fn waits(found: &PotentialDeadlock, what: BufferedWait) -> bool {
    found.calls.iter().any(|call| call.waits_for == what)
}

fn buffered(found: &PotentialDeadlock) -> String {
    match found.calls.iter().filter_map(|call| call.most_bytes).max() {
        Some(bytes) => format!("messages were buffered, of up to {bytes} bytes"),
        None => "messages were buffered".to_owned(),
    }
}

fn call_text(of: &BufferedCall) -> String {
    let until = match of.waits_for {
        BufferedWait::Receive => "until its message is received",
        BufferedWait::Send => "for its message",
        BufferedWait::Members => "until all have come to it",
    };
    format!("{} in {}, {until}", who_text(&of.ranks), call_at(&of.call))
}

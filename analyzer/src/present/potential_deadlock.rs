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
    let (unless, does, next) = if found.calls.iter().any(|call| call.waits_for == BufferedWait::Receive) {
        ("MPI buffered nothing", buffered(found), WITHOUT_BUFFERING)
    } else {
        let left = "some ranks left collective calls before all others had come to them";
        ("collective calls synchronized", left.to_owned(), WITHOUT_EARLY_LEAVING)
    };
    let each_other = if found.ranks.len() == 1 { "itself" } else { "each other" };
    let summary = format!(
        "{TITLE}: {} would wait for {each_other}{} if {unless}: {}. The job went on only because {does}.",
        who_text(&found.ranks),
        first_text(found),
        calls.join("; "),
    );
    (summary, vec![next.to_owned()])
}

const WITHOUT_BUFFERING: &str = "Post the receives first (MPI_Irecv), or use MPI_Sendrecv: MPI promises no buffering (MPI 4.0, 3.5). A longer message, \
                                 another library or a full buffer makes this a deadlock. To try it: put MPI_Ssend in place of MPI_Send.";

const WITHOUT_EARLY_LEAVING: &str = "Make these calls in an order that is right whether or not collective calls synchronize (MPI 4.0, 6.14): \
                                     with another library, another size or another number of ranks this may be a deadlock.";

fn buffered(found: &PotentialDeadlock) -> String {
    match found.calls.iter().filter_map(|call| call.most_bytes).max() {
        Some(bytes) => format!("messages were buffered, of up to {bytes} bytes"),
        None => "messages were buffered".to_owned(),
    }
}

/// Who waits for whom, if that is not all of the ranks, or more than two.
fn first_text(found: &PotentialDeadlock) -> String {
    match &found.first[..] {
        [one, other] if found.ranks.len() > 2 => {
            format!(" (such as {} and {})", who_text(&[*one]), who_text(&[*other]))
        }
        first if first.len() > 2 => format!(", {} in a cycle", first.len()),
        _ => String::new(),
    }
}

fn call_text(of: &BufferedCall) -> String {
    let until = match of.waits_for {
        BufferedWait::Receive => "until its message is received",
        BufferedWait::Send => "for its message",
        BufferedWait::Members => "until all have come to it",
    };
    let begun =
        of.begun_by.as_ref().map_or_else(String::new, |call| format!(" (begun by {})", call_at(call)));
    format!("{} in {}, {until}{begun}", who_text(&of.ranks), call_at(&of.call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::finding::{Place, StuckCall};
    use crate::job::process::Who;

    fn call(function: &str, ranks: &[u32], waits_for: BufferedWait, most_bytes: Option<u64>) -> BufferedCall {
        let call =
            StuckCall { function: function.to_owned(), arguments: Vec::new(), place: Place::default() };
        let ranks = ranks.iter().copied().map(Who::Rank).collect();
        BufferedCall { call, ranks, waits_for, begun_by: None, most_bytes }
    }

    fn summary(calls: Vec<BufferedCall>, ranks: &[u32], first: &[u32]) -> String {
        let whos = |ranks: &[u32]| ranks.iter().copied().map(Who::Rank).collect();
        say(&PotentialDeadlock { calls, ranks: whos(ranks), first: whos(first) }).0
    }

    #[test]
    fn who_waits_for_what_and_why_it_went_on_is_said() {
        let pairs = vec![call("MPI_Send", &[0, 1, 2, 3], BufferedWait::Receive, Some(64))];
        assert_eq!(
            summary(pairs, &[0, 1, 2, 3], &[0, 1]),
            "Potential deadlock: ranks 0-3 would wait for each other (such as rank 0 and rank 1) if MPI buffered nothing: \
             ranks 0-3 in MPI_Send, until its message is received. The job went on only because messages were buffered, of up \
             to 64 bytes."
        );
        let isend =
            StuckCall { function: "MPI_Isend".into(), arguments: Vec::new(), place: Place::default() };
        let wait = call("MPI_Wait", &[0], BufferedWait::Receive, None);
        let wait = summary(vec![BufferedCall { begun_by: Some(isend), ..wait }], &[0], &[0]);
        assert!(wait.contains("in MPI_Wait, until its message is received (begun by MPI_Isend)"), "{wait}");
        let own = vec![call("MPI_Send", &[2], BufferedWait::Receive, None)];
        let own = summary(own, &[2], &[2]);
        assert!(own.contains("rank 2 would wait for itself if MPI buffered nothing"), "{own}");
        assert!(own.ends_with("only because messages were buffered."), "{own}");
        let left = vec![
            call("MPI_Recv", &[1], BufferedWait::Send, Some(8)),
            call("MPI_Bcast", &[0], BufferedWait::Members, None),
        ];
        let left = summary(left, &[0, 1], &[1, 0]);
        assert!(
            left.contains("would wait for each other if collective calls synchronized: rank 1 in"),
            "{left}"
        );
        assert!(left.contains("some ranks left collective calls before"), "{left}");
    }
}

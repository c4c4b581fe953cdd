//! Messages, requests, communicators and windows that were open when ranks ended, in words.

use std::fmt::Write as _;

use super::text::{arguments_text, counted, place_text, who_text};
use super::visible::visible;
use crate::findings::finding::Leak;
use crate::job::messages::LeakKind;
use crate::job::process::Who;

/// Ranks told one by one.
const MOST_TOLD: usize = 8;

/// As a heading.
pub(crate) fn title(what: LeakKind) -> &'static str {
    match what {
        LeakKind::Message => "Unmatched send at MPI_Finalize",
        LeakKind::Request => "Request leak",
        LeakKind::PersistentRequest => "Persistent request leak",
        LeakKind::Communicator => "Communicator leak",
        LeakKind::Window => "Window leak",
        LeakKind::Group => "Group leak",
        LeakKind::Datatype => "Datatype leak",
        LeakKind::Operation => "Operation leak",
    }
}

/// In one sentence, and what to do next.
pub(crate) fn say(left: &Leak) -> (String, Vec<String>) {
    let who = who_text(&left.ranks.iter().map(|rank| rank.who).collect::<Vec<_>>());
    let (function, arguments) = (visible(&left.function), arguments_text(&common_arguments(left)));
    let call = format!("{function}({arguments}) called at {}", place_text(&left.place));
    let title = title(left.what);
    match left.what {
        LeakKind::PersistentRequest => {
            say_handles(left, "persistent request", "MPI_Request_free", &who, &call)
        }
        LeakKind::Communicator => say_handles(left, "communicator", "MPI_Comm_free", &who, &call),
        LeakKind::Window => say_handles(left, "window", "MPI_Win_free", &who, &call),
        LeakKind::Group => say_handles(left, "group", "MPI_Group_free", &who, &call),
        LeakKind::Datatype => say_handles(left, "datatype", "MPI_Type_free", &who, &call),
        LeakKind::Operation => say_handles(left, "operation", "MPI_Op_free", &who, &call),
        LeakKind::Message => {
            let partners: Vec<Who> = left.ranks.iter().flat_map(|rank| rank.peers.iter().copied()).collect();
            let partners = who_text(&distinct(partners));
            let what = counted(left.count as usize, "message");
            (
                format!("{title}: {what} that {who} sent to {partners} by {call}."),
                vec![
                    format!("Compare the receives of {partners} with these sends: source, tag, communicator, and how often."),
                    "A send that nobody receives may wait for ever as soon as its message is too long to be kept.".to_owned(),
                ],
            )
        }
        LeakKind::Request => {
            let what = counted(left.count as usize, "request");
            (
                format!("{title}: {what} that {who} began by {call}."),
                vec![
                    "Wait for each request or test it before MPI_Finalize: until then its buffer is not the program's."
                        .to_owned(),
                ],
            )
        }
    }
}

/// Of handles that were made and not freed; `free`: the call that does.
fn say_handles(left: &Leak, what: &str, free: &str, who: &str, call: &str) -> (String, Vec<String>) {
    let title = title(left.what);
    let (count, each) = (left.count as usize, left.ranks.iter().map(|rank| rank.count).max().unwrap_or(0));
    let made = counted(count, what);
    let next = if each > 1 {
        let why = match left.what {
            LeakKind::Communicator => {
                "libraries have numbers for a few thousand at a time, MPICH for some 2,000"
            }
            _ => "each takes memory until then",
        };
        format!("Call {free} for each, best where it is no longer used: {why}.")
    } else {
        format!("Call {free} before MPI_Finalize, or leave it if it is made once and used to the end.")
    };
    (format!("{title}: {made} that {who} made by {call} and did not free."), vec![next])
}

/// Arguments that are the same for all.
fn common_arguments(left: &Leak) -> Vec<(String, String)> {
    let mut ranks = left.ranks.iter();
    let mut common = ranks.next().map_or_else(Vec::new, |rank| rank.arguments.clone());
    ranks.for_each(|rank| common.retain(|argument| rank.arguments.contains(argument)));
    common
}

fn distinct(mut whos: Vec<Who>) -> Vec<Who> {
    whos.sort_unstable();
    whos.dedup();
    whos
}

/// Rank by rank.
pub(crate) fn render(out: &mut String, left: &Leak) {
    for rank in left.ranks.iter().take(MOST_TOLD) {
        let (function, arguments) = (visible(&left.function), arguments_text(&rank.arguments));
        let to = if rank.peers.is_empty() { String::new() } else { format!(" to {}", who_text(&rank.peers)) };
        let (who, count) = (who_text(&[rank.who]), rank.count);
        let _ = writeln!(out, "   {who}: {count}{to}, {function}({arguments})");
    }
    if left.ranks.len() > MOST_TOLD {
        let _ = writeln!(out, "   … and {} more", left.ranks.len() - MOST_TOLD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::finding::{LeakingRank, Place};

    #[test]
    fn one_call_of_several_ranks_is_one_sentence() {
        let rank = |rank: u32, dest: u32, count| LeakingRank {
            who: Who::Rank(rank),
            count,
            arguments: vec![("dest".into(), dest.to_string()), ("tag".into(), "7".into())],
            peers: vec![Who::Rank(dest)],
        };
        let left = Leak {
            what: LeakKind::Message,
            function: "MPI_Send".into(),
            place: Place { module: "/bin/app".into(), offset_bytes: 16, ..Place::default() },
            count: 3,
            ranks: vec![rank(0, 1, 2), rank(3, 4, 1)],
        };
        let (summary, _) = say(&left);
        assert_eq!(
            summary,
            "Unmatched send at MPI_Finalize: 3 messages that ranks 0, 3 sent to ranks 1, 4 by MPI_Send(tag 7) called at app+0x10."
        );
        let mut text = String::new();
        render(&mut text, &left);
        assert!(text.contains("rank 0: 2 to rank 1, MPI_Send(dest 1, tag 7)"), "{text}");
    }
}

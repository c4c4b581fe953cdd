//! Findings about what is left over when ranks end, and their words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::findings::finding::{LeftOver, LeftOverRank, Place, Severity};
use crate::findings::ids;
use crate::job::messages::{self, LeftWhat};
use crate::job::process::Who;
use crate::present::text::{counted, place_text, who_text};
use crate::tape::input::CodePlace;

/// Ranks told one by one.
const MOST_TOLD: usize = 8;

/// What is to become a finding.
pub(crate) struct Found {
    pub id: String,
    pub severity: Severity,
    pub who: Vec<Who>,
    pub evidence: LeftOver,
}

/// One finding for each call of the program; `place`: what is known of a place.
pub(crate) fn findings(left: &[messages::LeftOver], place: impl Fn(CodePlace) -> Place) -> Vec<Found> {
    let mut by_call: BTreeMap<_, Vec<&messages::LeftOver>> = BTreeMap::new();
    for one in left {
        by_call.entry((one.what, one.function, one.site)).or_default().push(one);
    }
    let found = by_call.into_iter().map(|((what, function, site), all)| {
        let evidence = LeftOver {
            what,
            function: function.to_owned(),
            place: site.map_or_else(Place::default, &place),
            count: all.iter().map(|one| one.count).sum(),
            ranks: all.iter().map(|one| of_rank(one)).collect(),
        };
        let partners = evidence.ranks.iter().flat_map(|rank| rank.peers.iter().copied());
        let who = evidence.ranks.iter().map(|rank| rank.who).chain(partners).collect();
        Found { id: ids::left_over(&evidence), severity: severity(what), who, evidence }
    });
    found.collect()
}

fn of_rank(left: &messages::LeftOver) -> LeftOverRank {
    LeftOverRank {
        who: Who::Rank(left.rank),
        count: left.count,
        arguments: left.arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        peers: left.peers.iter().map(|rank| Who::Rank(*rank)).collect(),
    }
}

/// What was sent and not received is missing somewhere; a request that nobody came back for may have done its work.
fn severity(what: LeftWhat) -> Severity {
    match what {
        LeftWhat::Message => Severity::Warning,
        LeftWhat::Request => Severity::Notice,
    }
}

/// As a heading.
pub(crate) fn title(what: LeftWhat) -> &'static str {
    match what {
        LeftWhat::Message => "Unmatched send at MPI_Finalize",
        LeftWhat::Request => "Request leak",
    }
}

/// In one sentence, and what to do next.
pub(crate) fn say(left: &LeftOver) -> (String, Vec<String>) {
    let who = who_text(&left.ranks.iter().map(|rank| rank.who).collect::<Vec<_>>());
    let arguments = common_arguments(left);
    let arguments: Vec<String> = arguments.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let call = format!("{}({}) called at {}", left.function, arguments.join(", "), place_text(&left.place));
    let title = title(left.what);
    match left.what {
        LeftWhat::Message => {
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
        LeftWhat::Request => {
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

/// Arguments that are the same for all.
fn common_arguments(left: &LeftOver) -> Vec<(String, String)> {
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
pub(crate) fn render(out: &mut String, left: &LeftOver) {
    for rank in left.ranks.iter().take(MOST_TOLD) {
        let arguments: Vec<String> =
            rank.arguments.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let to = if rank.peers.is_empty() { String::new() } else { format!(" to {}", who_text(&rank.peers)) };
        let (who, count) = (who_text(&[rank.who]), rank.count);
        let _ = writeln!(out, "   {who}: {count}{to}, {}({})", left.function, arguments.join(", "));
    }
    if left.ranks.len() > MOST_TOLD {
        let _ = writeln!(out, "   … and {} more", left.ranks.len() - MOST_TOLD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(rank: u32, dest: u32, count: u64) -> messages::LeftOver {
        messages::LeftOver {
            what: LeftWhat::Message,
            rank,
            function: "MPI_Send",
            site: Some(CodePlace::default()),
            arguments: vec![("dest", dest.to_string()), ("tag", "7".to_owned())],
            peers: vec![dest],
            count,
        }
    }

    #[test]
    fn one_call_of_several_ranks_is_one_finding() {
        let place = |_| Place { module: "/bin/app".to_owned(), offset_bytes: 16, ..Place::default() };
        let all = findings(&[left(0, 1, 2), left(3, 4, 1)], place);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].who, [0, 3, 1, 4].map(Who::Rank));
        let (summary, _) = say(&all[0].evidence);
        assert_eq!(
            summary,
            "Unmatched send at MPI_Finalize: 3 messages that ranks 0, 3 sent to ranks 1, 4 by MPI_Send(tag 7) called at app+0x10."
        );
        let mut text = String::new();
        render(&mut text, &all[0].evidence);
        assert!(text.contains("rank 0: 2 to rank 1, MPI_Send(dest 1, tag 7)"), "{text}");
    }

    #[test]
    fn a_request_is_a_notice_and_a_message_is_a_warning() {
        let mut request = left(0, 1, 1);
        (request.what, request.peers) = (LeftWhat::Request, Vec::new());
        let all = findings(&[left(0, 1, 1), request], |_| Place::default());
        let severities: Vec<Severity> = all.iter().map(|found| found.severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Notice]);
        assert_ne!(all[0].id, all[1].id);
    }
}

//! Findings about messages and requests that are open when ranks end.

use std::collections::BTreeMap;

use crate::findings::finding::{Leak, LeakingRank, Place, Severity};
use crate::findings::ids;
use crate::job::messages::{self, LeakKind};
use crate::job::process::Who;
use crate::tape::input::CodePlace;

/// What is to become a finding.
pub(crate) struct LeakFinding {
    pub id: String,
    pub severity: Severity,
    pub who: Vec<Who>,
    pub evidence: Leak,
}

/// One finding for each call of the program; `place`: what is known of a place.
pub(crate) fn findings(
    left: &[messages::Unfinished],
    place: impl Fn(CodePlace) -> Place,
) -> Vec<LeakFinding> {
    let mut by_call: BTreeMap<_, Vec<&messages::Unfinished>> = BTreeMap::new();
    for one in left {
        by_call.entry((one.what, one.function, one.site)).or_default().push(one);
    }
    let found = by_call.into_iter().map(|((what, function, site), all)| {
        let evidence = Leak {
            what,
            function: function.to_owned(),
            place: site.map_or_else(Place::default, &place),
            count: all.iter().map(|one| one.count).sum(),
            ranks: all.iter().map(|one| of_rank(one)).collect(),
        };
        let partners = evidence.ranks.iter().flat_map(|rank| rank.peers.iter().copied());
        let who = evidence.ranks.iter().map(|rank| rank.who).chain(partners).collect();
        LeakFinding { id: ids::leak(&evidence), severity: severity(what), who, evidence }
    });
    found.collect()
}

fn of_rank(left: &messages::Unfinished) -> LeakingRank {
    LeakingRank {
        who: Who::Rank(left.rank),
        count: left.count,
        arguments: left.arguments.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        peers: left.peers.iter().map(|rank| Who::Rank(*rank)).collect(),
    }
}

/// What was sent and not received is missing somewhere; a request that nobody came back for may have done its work, and a
/// communicator may be needed to the end.
fn severity(what: LeakKind) -> Severity {
    match what {
        LeakKind::Message => Severity::Warning,
        LeakKind::Request
        | LeakKind::PersistentRequest
        | LeakKind::Communicator
        | LeakKind::Window
        | LeakKind::Group
        | LeakKind::Datatype
        | LeakKind::Operation => Severity::Notice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(rank: u32, dest: u32, count: u64) -> messages::Unfinished {
        messages::Unfinished {
            what: LeakKind::Message,
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
    }

    #[test]
    fn a_request_is_a_notice_and_a_message_is_a_warning() {
        let mut request = left(0, 1, 1);
        (request.what, request.peers) = (LeakKind::Request, Vec::new());
        let all = findings(&[left(0, 1, 1), request], |_| Place::default());
        let severities: Vec<Severity> = all.iter().map(|found| found.severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Notice]);
        assert_ne!(all[0].id, all[1].id);
    }
}

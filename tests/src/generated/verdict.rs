//! What was said of a program, and whether it is right.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Case, line_of_mark};
use crate::session::findings::summary;

/// What findings call a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingClass {
    /// Ranks wait for each other.
    Deadlock,
    /// A message that nobody sends or receives.
    MissingMessage,
    /// Collective calls that do not go together.
    MismatchedCollective,
    /// Requests or messages that nobody came back for.
    Leak,
    /// A rank went to MPI_Finalize without completing what others wait for.
    UncompletedRequest,
    /// A rank ended before its time, by an error or otherwise.
    Died,
    /// A rank does nothing outside of MPI.
    Outside,
    /// Ranks do not go on, and why is not known.
    UnknownHang,
}

/// The names that findings have for them, as the fault in their evidence.
const FAULTS: [(&str, FindingClass); 11] = [
    ("deadlock", FindingClass::Deadlock),
    ("missing_message", FindingClass::MissingMessage),
    ("mismatched_collective", FindingClass::MismatchedCollective),
    ("crash", FindingClass::Died),
    ("truncated", FindingClass::Died),
    ("invalid_call", FindingClass::Died),
    ("outside", FindingClass::Outside),
    ("stopped", FindingClass::Outside),
    ("unknown_hang", FindingClass::UnknownHang),
    ("uncompleted_request", FindingClass::UncompletedRequest),
    ("not_analysed", FindingClass::UnknownHang),
];

/// What a finding calls the fault; nothing if it is about something else than communication that goes wrong.
pub fn classify(finding: &Value) -> Option<FindingClass> {
    let evidence = &finding["evidence"];
    match evidence["kind"].as_str()? {
        "left_over" => return Some(FindingClass::Leak),
        "collective_mismatch" => return Some(FindingClass::MismatchedCollective),
        _ => {}
    }
    let fault = evidence["fault"].as_str()?;
    FAULTS.iter().find(|(name, _)| *name == fault).map(|(_, class)| *class)
}

/// What was said of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedRun {
    /// The class; `None`: nothing.
    pub class: Option<FindingClass>,
    /// The ranks that were named.
    pub named: Vec<u32>,
    /// Whether the class is the right one.
    pub class_is_right: bool,
    /// Whether the ranks are: the one that made the fault, and nobody who has nothing to do with it.
    pub ranks_are_right: bool,
    /// Whether a named rank is shown at the line where it is.
    pub line_is_right: bool,
    /// The sentence.
    pub summary: String,
}

impl JudgedRun {
    /// Of the most important finding that is about ranks that do not go on; else about communication that goes wrong.
    pub fn of(case: &Case, findings: &[Value]) -> Self {
        let mut told: Vec<_> =
            findings.iter().filter_map(|finding| Some((finding, classify(finding)?))).collect();
        told.sort_by_key(|(_, class)| *class == FindingClass::Leak);
        let told = told.first().copied();
        let Some((finding, class)) = told else { return Self::default() };
        let truth = case.truth();
        let named = ranks_in(&finding["who"]);
        let is_partner = |rank: &u32| truth.may_be_named.contains(rank);
        Self {
            class: Some(class),
            class_is_right: truth.classes.contains(&class),
            ranks_are_right: named.contains(&case.bad) && named.iter().all(is_partner),
            line_is_right: truth
                .lines
                .iter()
                .any(|(rank, marks)| marks.iter().any(|mark| is_at(finding, *rank, mark))),
            named,
            summary: summary(finding),
        }
    }

    /// Whether ranks that hang were not told of at all.
    pub fn says_fine(&self) -> bool {
        !matches!(
            self.class,
            Some(
                FindingClass::Deadlock
                    | FindingClass::UncompletedRequest
                    | FindingClass::MissingMessage
                    | FindingClass::MismatchedCollective
                    | FindingClass::Outside
                    | FindingClass::UnknownHang
            )
        )
    }
}

fn ranks_in(who: &Value) -> Vec<u32> {
    let ranks = who.as_array().into_iter().flatten().filter_map(|who| who["rank"].as_u64());
    ranks.filter_map(|rank| rank.try_into().ok()).collect()
}

/// Whether a finding shows a rank at a line.
fn is_at(finding: &Value, rank: u32, mark: &str) -> bool {
    let Ok((file, line)) = line_of_mark(mark) else { return false };
    let ranks = finding["evidence"]["ranks"].as_array().into_iter().flatten();
    let places = ranks.filter(|shown| shown["who"]["rank"] == rank).flat_map(|shown| {
        shown["stack"].as_array().into_iter().flatten().chain([&shown["call"]["place"], &shown["place"]])
    });
    let mut frames = places.flat_map(|place| place["frames"].as_array().into_iter().flatten());
    frames.any(|frame| {
        let source = frame["source"].as_str().unwrap_or_default();
        frame["line"] == *line && source.rsplit('/').next() == Some(file)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::generated::cases;

    fn case(name: &str) -> Case {
        cases().into_iter().find(|case| case.name() == name).unwrap()
    }

    fn finding(fault: &str, ranks: &[u32], mark: &str) -> Value {
        let (file, line) = line_of_mark(mark).unwrap();
        let who: Vec<_> = ranks.iter().map(|rank| json!({ "rank": rank })).collect();
        let place = json!({"frames": [{"source": format!("/x/{file}"), "line": line}]});
        let shown: Vec<_> =
            who.iter().map(|who| json!({"who": who, "stack": [], "call": {"place": place}})).collect();
        let evidence = json!({"kind": "hang", "fault": fault, "ranks": shown});
        json!({"who": who, "summary": "s", "evidence": evidence})
    }

    #[test]
    fn what_is_told_right_is_right() {
        let case = case("bcast/other_communicator/3/1");
        let told = JudgedRun::of(&case, &[finding("mismatched_collective", &[1], "bcast")]);
        assert!(told.class_is_right && told.ranks_are_right && told.line_is_right, "{told:?}");
        assert!(!told.says_fine());
    }

    #[test]
    fn another_class_rank_or_line_is_wrong() {
        let case = case("bcast/other_communicator/3/1");
        let told = |fault, ranks: &[u32], mark| JudgedRun::of(&case, &[finding(fault, ranks, mark)]);
        assert!(!told("deadlock", &[1], "bcast").class_is_right);
        assert!(!told("mismatched_collective", &[2], "bcast").ranks_are_right);
        assert!(!told("mismatched_collective", &[1, 2], "bcast").ranks_are_right);
        assert!(!told("mismatched_collective", &[1], "gather").line_is_right);
        assert_eq!(told("unknown_hang", &[0, 1, 2], "bcast").class, Some(FindingClass::UnknownHang));
    }

    #[test]
    fn nothing_and_what_is_about_something_else_calls_it_fine() {
        let case = case("bcast/other_communicator/3/1");
        assert!(JudgedRun::of(&case, &[]).says_fine());
        let chain = json!({"who": [], "summary": "s", "evidence": {"kind": "odd_chain"}});
        assert!(JudgedRun::of(&case, &[chain]).says_fine());
        assert!(JudgedRun::of(&case, &[finding("crash", &[1], "bcast")]).says_fine());
    }
}

//! Lists of ranks in JSON. A few are listed one by one; in longer lists, ranks one after the other are one entry:
//! `{"ranks": [0, 65535]}`.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::finding::{WhoCount, WhoOnNode};
use crate::job::process::Who;

/// Lists of more have runs.
const MOST_LISTED: usize = 64;
/// More than jobs have: what is read is not to be believed beyond that.
const MOST_READ: usize = 1 << 20;

/// A rank, a process, or ranks from one to another.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhoRun {
    Rank(u32),
    Pid(u32),
    Ranks(u32, u32),
}

impl WhoRun {
    fn of(who: Who) -> Self {
        match who {
            Who::Rank(rank) => Self::Rank(rank),
            Who::Pid(pid) => Self::Pid(pid),
        }
    }

    /// One more, if it is the next rank.
    fn extended(self, by: Who) -> Option<Self> {
        let (first, last) = match self {
            Self::Rank(rank) => (rank, rank),
            Self::Ranks(first, last) => (first, last),
            Self::Pid(_) => return None,
        };
        match by {
            Who::Rank(rank) if last.checked_add(1) == Some(rank) => Some(Self::Ranks(first, rank)),
            Who::Rank(_) | Who::Pid(_) => None,
        }
    }

    fn all(self) -> Box<dyn Iterator<Item = Who>> {
        match self {
            Self::Rank(rank) => Box::new(std::iter::once(Who::Rank(rank))),
            Self::Pid(pid) => Box::new(std::iter::once(Who::Pid(pid))),
            Self::Ranks(first, last) => Box::new((first..=last).map(Who::Rank)),
        }
    }
}

/// Something about a rank.
pub(crate) trait OfWho: Sized {
    /// Its form in JSON.
    type Entry: Serialize + DeserializeOwned;

    fn who(&self) -> Who;
    /// Whether the same is said of the other.
    fn is_alike(&self, other: &Self) -> bool;
    fn entry(&self, who: WhoRun) -> Self::Entry;
    fn run(entry: &Self::Entry) -> WhoRun;
    fn of(entry: &Self::Entry, who: Who) -> Self;
}

impl OfWho for Who {
    type Entry = WhoRun;

    fn who(&self) -> Who {
        *self
    }

    fn is_alike(&self, _: &Self) -> bool {
        true
    }

    fn entry(&self, who: WhoRun) -> WhoRun {
        who
    }

    fn run(entry: &WhoRun) -> WhoRun {
        *entry
    }

    fn of(_: &WhoRun, who: Who) -> Self {
        who
    }
}

/// A count of each of some ranks.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunCount {
    who: WhoRun,
    count: u64,
}

impl OfWho for WhoCount {
    type Entry = RunCount;

    fn who(&self) -> Who {
        self.who
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.count == other.count
    }

    fn entry(&self, who: WhoRun) -> RunCount {
        RunCount { who, count: self.count }
    }

    fn run(entry: &RunCount) -> WhoRun {
        entry.who
    }

    fn of(entry: &RunCount, who: Who) -> Self {
        Self { who, count: entry.count }
    }
}

/// The node of some ranks.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunOnNode {
    who: WhoRun,
    node: String,
}

impl OfWho for WhoOnNode {
    type Entry = RunOnNode;

    fn who(&self) -> Who {
        self.who
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.node == other.node
    }

    fn entry(&self, who: WhoRun) -> RunOnNode {
        RunOnNode { who, node: self.node.clone() }
    }

    fn run(entry: &RunOnNode) -> WhoRun {
        entry.who
    }

    fn of(entry: &RunOnNode, who: Who) -> Self {
        Self { who, node: entry.node.clone() }
    }
}

/// Writes a list.
pub(crate) fn serialize<T: OfWho, S: Serializer>(all: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut runs: Vec<(WhoRun, &T)> = Vec::new();
    for one in all {
        let extended = runs.last().filter(|(_, first)| all.len() > MOST_LISTED && first.is_alike(one));
        match extended.and_then(|(run, _)| run.extended(one.who())) {
            Some(run) => runs.last_mut().expect("it was extended").0 = run,
            None => runs.push((WhoRun::of(one.who()), one)),
        }
    }
    serializer.collect_seq(runs.into_iter().map(|(run, one)| one.entry(run)))
}

/// Reads one.
pub(crate) fn deserialize<'de, T: OfWho, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut all = Vec::new();
    for entry in Vec::<T::Entry>::deserialize(deserializer)? {
        let left = MOST_READ.saturating_sub(all.len());
        all.extend(T::run(&entry).all().take(left + 1).map(|who| T::of(&entry, who)));
        if all.len() > MOST_READ {
            return Err(D::Error::custom(format!("more than {MOST_READ} ranks in one list")));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Lists {
        #[serde(with = "super")]
        who: Vec<Who>,
        #[serde(with = "super")]
        counts: Vec<WhoCount>,
        #[serde(with = "super")]
        nodes: Vec<WhoOnNode>,
    }

    fn lists(ranks: impl Iterator<Item = u32> + Clone) -> Lists {
        let count = |rank| WhoCount { who: Who::Rank(rank), count: u64::from(rank >= 100) };
        let node = |rank: u32| WhoOnNode { who: Who::Rank(rank), node: format!("node{}", rank / 64) };
        Lists {
            who: ranks.clone().map(Who::Rank).chain([Who::Pid(7)]).collect(),
            counts: ranks.clone().map(count).collect(),
            nodes: ranks.map(node).collect(),
        }
    }

    #[test]
    fn a_few_ranks_are_listed_and_of_many_the_runs() {
        let json = |lists: &Lists| serde_json::to_string(lists).expect("it has a form");
        let few = lists(0..2);
        assert_eq!(
            json(&few),
            r#"{"who":[{"rank":0},{"rank":1},{"pid":7}],"counts":[{"who":{"rank":0},"count":0},{"who":{"rank":1},"count":0}],"nodes":[{"who":{"rank":0},"node":"node0"},{"who":{"rank":1},"node":"node0"}]}"#
        );
        let many = lists((0..200).filter(|rank| *rank != 17));
        let text = json(&many);
        let wanted = [
            r#""who":[{"ranks":[0,16]},{"ranks":[18,199]},{"pid":7}]"#,
            r#""counts":[{"who":{"ranks":[0,16]},"count":0},{"who":{"ranks":[18,99]},"count":0},{"who":{"ranks":[100,199]},"count":1}]"#,
            r#"{"who":{"ranks":[18,63]},"node":"node0"},{"who":{"ranks":[64,127]},"node":"node1"}"#,
        ];
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
        for lists in [few, many] {
            assert_eq!(serde_json::from_str::<Lists>(&json(&lists)).expect("what was written"), lists);
        }
    }

    #[test]
    fn a_list_that_says_it_is_longer_than_any_job_is_refused() {
        let text = r#"{"who":[{"ranks":[0,4294967295]}],"counts":[],"nodes":[]}"#;
        assert!(serde_json::from_str::<Lists>(text).is_err());
        let empty = r#"{"who":[{"ranks":[9,3]}],"counts":[],"nodes":[]}"#;
        assert_eq!(serde_json::from_str::<Lists>(empty).expect("nobody").who, []);
    }
}

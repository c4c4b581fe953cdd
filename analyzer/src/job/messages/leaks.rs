//! What is open when ranks end: messages that nobody received, requests that nobody came back for, communicators and windows
//! that nobody freed.

use std::collections::{BTreeMap, BTreeSet};

use crate::mpi::calls::CallRow;
use crate::tape::input::CodePlace;

/// Call sites of all ranks that are told apart.
const MOST: usize = 1 << 14;
/// Partners of one call site that are named.
const MOST_PEERS: usize = 1 << 10;

/// What is open at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakKind {
    /// A message that was sent and never received.
    Message,
    /// A request that was begun and never completed, freed or cancelled.
    Request,
    /// A persistent request that was made and never freed.
    PersistentRequest,
    /// A communicator that was made and never freed.
    Communicator,
    /// A window that was made and never freed.
    Window,
    /// A group that was made and never freed.
    Group,
    /// A datatype that was made and never freed.
    Datatype,
    /// A reduction operation that was made and never freed.
    Operation,
}

/// What one call site of one rank left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// What.
    pub what: LeakKind,
    /// Who sent or began it.
    pub rank: u32,
    /// By this call, …
    pub function: &'static str,
    /// … called from here.
    pub site: Option<CodePlace>,
    /// Names and values of arguments of the first one; those that are not the same for all are left out.
    pub arguments: Vec<(&'static str, String)>,
    /// To whom they were sent.
    pub peers: Vec<u32>,
    /// How many.
    pub count: u64,
}

/// The call that began something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub row: &'static CallRow,
    /// In the process's space.
    pub return_address: u64,
}

impl Origin {
    /// Whether it is the same call of the program.
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.row, other.row) && self.return_address == other.return_address
    }
}

/// Counts what is open at the end by where it was begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    sites: BTreeMap<(LeakKind, u32, &'static str, u64), Site>,
}

#[derive(Clone, Debug)]
struct Site {
    arguments: Vec<(&'static str, String)>,
    peers: BTreeSet<u32>,
    count: u64,
}

impl Tally {
    /// So many more.
    pub fn add(
        &mut self,
        (what, rank): (LeakKind, u32),
        origin: Origin,
        count: u64,
        peer: Option<u32>,
        arguments: Vec<(&'static str, String)>,
    ) {
        let key = (what, rank, origin.row.name.as_str(), origin.return_address);
        if self.sites.len() >= MOST && !self.sites.contains_key(&key) {
            return;
        }
        let new = || Site { arguments: arguments.clone(), peers: BTreeSet::new(), count: 0 };
        let site = self.sites.entry(key).or_insert_with(new);
        site.arguments.retain(|argument| arguments.contains(argument));
        site.peers.extend(peer.filter(|_| site.peers.len() < MOST_PEERS));
        site.count += count;
    }

    /// All of it; `place`: where a rank's return address is in the code.
    pub fn all(&self, place: impl Fn(u32, u64) -> Option<CodePlace>) -> Vec<Unfinished> {
        let all = self.sites.iter().map(|(&(what, rank, function, return_address), site)| Unfinished {
            what,
            rank,
            function,
            site: place(rank, return_address),
            arguments: site.arguments.clone(),
            peers: site.peers.iter().copied().collect(),
            count: site.count,
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::row;

    #[test]
    fn what_one_call_left_open_is_counted_together_with_what_all_of_it_have_in_common() {
        let origin = |return_address| Origin { row: row("MPI_Send").expect("a call"), return_address };
        let mut tally = Tally::default();
        for (dest, at) in [(1, 0x10), (2, 0x10), (1, 0x20)] {
            let arguments = vec![("dest", format!("{dest}")), ("tag", "7".to_owned())];
            tally.add((LeakKind::Message, 0), origin(at), 1, Some(dest), arguments);
        }
        let all = tally.all(|_, _| None);
        let first = &all[0];
        assert_eq!((first.count, &first.peers[..]), (2, &[1, 2][..]));
        assert_eq!(first.arguments, [("tag", "7".to_owned())]);
        assert_eq!((all.len(), all[1].count, all[1].arguments.len()), (2, 1, 2));
    }
}

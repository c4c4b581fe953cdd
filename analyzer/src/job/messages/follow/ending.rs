//! What is open when ranks end with MPI.

use super::Follower;
use super::collective::name_of;
use crate::job::memory::CodeMap;
use crate::job::messages::assemble::Call;
use crate::job::messages::communicators::Communicators;
use crate::job::messages::ids::CommId;
use crate::job::messages::leaks::{LeakKind, Origin, Unfinished};
use crate::job::messages::op::{Endpoint, Op};
use crate::job::messages::unbuffered::AwaitedSide;
use crate::mpi::handles::ANY_TAG;

impl Follower {
    /// A rank ends with MPI: whatever it has begun and not come back for will stay so.
    pub(super) fn finalize(&mut self, call: &Call, rank: u32) {
        // What is still active then is told as a leak; its memory is given back with all else.
        self.buffers.forget(call.pid);
        if !self.is_complete(call) || self.lost.contains(&rank) || self.ended.contains_key(&rank) {
            return;
        }
        self.ended.insert(rank, CodeMap::default());
        self.ending.push((rank, call.pid));
        let Some(open) = self.requests.open(call.pid) else { return };
        let mut left: Vec<(LeakKind, Origin, Option<Op>, u64)> =
            open.map(|request| (LeakKind::Request, request.origin, request.message, 1)).collect();
        let prepared = self.requests.prepared(call.pid);
        left.extend(
            prepared.map(|request| (LeakKind::PersistentRequest, request.origin, request.message, 1)),
        );
        let at_once = self.requests.open_at_once(call.pid);
        left.extend(
            at_once.filter_map(|known| Some((LeakKind::Request, known.origin?, known.message, known.open))),
        );
        left.sort_by_key(|(_, _, op, _)| op.map(|op| op.id));
        for (what, origin, op, count) in left {
            let named = |op: &Op| {
                let named =
                    |number| op.place.map_or(number, |(comm, _)| self.communicators.rank(comm, number));
                op.peer.map(named)
            };
            let mut arguments = op.map_or_else(Vec::new, |op| envelope(op.sends, named(&op), op.tag));
            let comm = op.and_then(|op| op.place).map(|(comm, _)| self.communicator_name(comm));
            arguments.extend(comm.map(|comm| ("comm", comm)));
            self.left.add((what, rank), origin, count, None, arguments);
        }
    }

    /// What is open at the end of ranks that were followed from their beginning to their end with MPI.
    pub fn leaks(&self) -> Vec<Unfinished> {
        let is_certain = |rank: &u32| self.ended.contains_key(rank) && !self.lost.contains(rank);
        let mut sends: Vec<(u32, u32, u32, CommId, i32, Endpoint)> = Vec::new();
        for (comm, from, number, tag, send) in self.matching.never_received() {
            let Some(members) = self.communicators.members(comm) else { continue };
            let Some((from, to)) = members.get(from as usize).zip(members.get(number as usize)) else {
                continue;
            };
            if [from, to].into_iter().all(is_certain) && self.communicators.is_known_to_all(comm) {
                sends.push((*from, *to, number, comm, tag, send));
            }
        }
        sends.sort_by_key(|(.., send)| send.id);
        let mut tally = self.left.clone();
        for (from, to, number, comm, tag, send) in sends {
            let mut arguments = envelope(true, Some(self.communicators.rank(comm, number)), tag);
            arguments.push(("comm", self.communicator_name(comm)));
            tally.add((LeakKind::Message, from), send.origin, 1, Some(to), arguments);
        }
        for (rank, what, origin) in self.communicators.not_given_back() {
            tally.add((what, rank), origin, 1, None, Vec::new());
        }
        for (rank, what, origin, count) in self.made.open() {
            tally.add((what, rank), origin, count, None, Vec::new());
        }
        let mut all = tally.all(|rank, address| self.ended.get(&rank)?.return_place(address));
        all.retain(|left| is_certain(&left.rank));
        all
    }

    /// Communicators, windows and what else is made of which one call of a rank that has not ended yet has made many that are open.
    pub fn pile_ups(&self) -> Vec<Unfinished> {
        let is_going_on = |rank: &u32| !self.ended.contains_key(rank) && !self.lost.contains(rank);
        let all = self.communicators.open.many().chain(self.made.by_call.many());
        all.filter(|open| is_going_on(&open.rank)).collect()
    }
}

/// Arguments of a call that waits for a message, or for all members of a communicator.
pub(crate) fn wanted_arguments(
    communicators: &Communicators,
    wanted: AwaitedSide,
) -> Vec<(&'static str, String)> {
    let (comm, mut arguments) = match wanted {
        AwaitedSide::Collective { comm } => (CommId(comm), Vec::new()),
        AwaitedSide::Message { sends, comm, peer, tag, .. } => {
            let comm = CommId(comm);
            (comm, envelope(sends, peer.map(|number| communicators.rank(comm, number)), tag))
        }
    };
    arguments.push(("comm", name_of(communicators, comm)));
    arguments
}

/// Arguments of a call that name a message.
fn envelope(sends: bool, peer: Option<u32>, tag: i32) -> Vec<(&'static str, String)> {
    let peer = peer.map_or_else(|| "MPI_ANY_SOURCE".to_owned(), |peer| peer.to_string());
    let tag = if tag == ANY_TAG { "MPI_ANY_TAG".to_owned() } else { tag.to_string() };
    vec![(if sends { "dest" } else { "source" }, peer), ("tag", tag)]
}

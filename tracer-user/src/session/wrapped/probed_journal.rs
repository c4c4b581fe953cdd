//! The journal of a rank's messages, as the wrapper writes it, from what probes saw.

use std::collections::{BTreeMap, HashMap};

use analyzer::messages::{CallCommunicator, MessageFacts, MessageId};
use replay::messages::{CollectiveOrder, MessageEnvelope, MessageJournal, Pattern};

/// Who sent the message that a receive got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceivedFrom {
    /// A rank of MPI_COMM_WORLD, with this tag.
    Told(SendEnvelope),
    /// The sends tell, or nothing does.
    Untold,
    /// It was cancelled, or was a send.
    Nobody,
}

/// A send, as its receiver is to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendEnvelope {
    /// Of MPI_COMM_WORLD.
    pub rank: u32,
    pub tag: u32,
}

/// A place that a call returns to, in the space of the process, and the wrapper's number of the call.
pub(super) type ReturnPlace = (u64, u32);

/// Files and offsets of such places.
pub(super) type ReturnPlaces = HashMap<ReturnPlace, (String, u64)>;

/// What a rank does with messages.
#[derive(Debug)]
pub(super) enum MessageStep {
    /// So many calls begin.
    Calls(u64),
    Send {
        message: MessageId,
        facts: MessageFacts,
        is_synchronous: bool,
        has_request: bool,
    },
    /// A receive is over.
    Received {
        message: MessageId,
        facts: MessageFacts,
        place: ReturnPlace,
        sender: ReceivedFrom,
    },
    /// A probe has found a message, and taken it if it is a matched one.
    Probed {
        pattern: Pattern,
        place: ReturnPlace,
        takes: bool,
        found: Option<MessageEnvelope>,
    },
    Posted {
        message: MessageId,
        facts: MessageFacts,
        place: ReturnPlace,
    },
    Done {
        message: MessageId,
        sender: ReceivedFrom,
    },
    Choice {
        place: ReturnPlace,
        offered: Vec<Option<MessageId>>,
        taken: Vec<u32>,
    },
    Collective {
        order: CollectiveOrder,
        comm: u32,
        root: Option<u32>,
    },
}

/// Communicators of a job by number, each with its group, and the other one if it has two.
#[derive(Debug, Default)]
pub(super) struct ProbedCommunicators(BTreeMap<u32, [Vec<u32>; 2]>);

impl ProbedCommunicators {
    /// A call names one.
    pub fn learn(&mut self, communicator: &CallCommunicator) {
        self.0.entry(communicator.number).or_insert_with(|| {
            let (members, peers) = (communicator.members(), communicator.peers());
            match communicator.is_inter() {
                false => [members.to_vec(), Vec::new()],
                true => {
                    let others: Vec<u32> =
                        members.iter().copied().filter(|member| !peers.contains(member)).collect();
                    [others, peers.to_vec()]
                }
            }
        });
    }

    /// Those of a rank, with its own group and the other one.
    fn of_rank(&self, rank: u32) -> impl Iterator<Item = (u32, [&[u32]; 2])> {
        self.0.iter().filter_map(move |(number, [one, other])| {
            if one.contains(&rank) {
                Some((*number, [&one[..], &other[..]]))
            } else {
                other.contains(&rank).then_some((*number, [&other[..], &one[..]]))
            }
        })
    }
}

/// In place of the number of a communicator of which nothing is known.
pub(super) const UNKNOWN_COMM: u32 = u32::MAX;

/// The journal of a rank that has taken these steps; `sent`: whose message a receive got, if sends tell.
pub(super) fn journal(
    steps: &[MessageStep],
    places: &ReturnPlaces,
    (rank, communicators): (u32, &ProbedCommunicators),
    sent: impl Fn(MessageId) -> Option<SendEnvelope>,
) -> Vec<u8> {
    let mut writing = JournalWriting::new(places);
    for (number, [own, other]) in communicators.of_rank(rank) {
        writing.journal.new_comm(number.into(), own, other, &mut writing.out);
        writing.peers.insert(number, if other.is_empty() { own } else { other });
    }
    steps.iter().for_each(|step| writing.step(step, &sent));
    writing.out
}

/// A journal that is being written.
struct JournalWriting<'a> {
    journal: MessageJournal,
    out: Vec<u8>,
    places: &'a ReturnPlaces,
    /// Whom the rank names by ranks of its communicators.
    peers: HashMap<u32, &'a [u32]>,
    /// Communicators of what was posted.
    comms: HashMap<MessageId, Option<u32>>,
}

impl<'a> JournalWriting<'a> {
    fn new(places: &'a ReturnPlaces) -> Self {
        Self {
            journal: MessageJournal::default(),
            out: Vec::new(),
            places,
            peers: HashMap::new(),
            comms: HashMap::new(),
        }
    }

    fn step(&mut self, step: &MessageStep, sent: &impl Fn(MessageId) -> Option<SendEnvelope>) {
        match step {
            MessageStep::Calls(count) => self.journal.calls(*count),
            MessageStep::Send { message, facts, is_synchronous, has_request } => {
                self.send(*message, facts, *is_synchronous, *has_request);
            }
            MessageStep::Received { message, facts, place, sender } => {
                let got = self.envelope(facts.comm, *sender, *message, sent);
                let (pattern, site) = (self.pattern(facts), self.site(*place));
                self.journal.received(site, pattern, false, got, &mut self.out);
            }
            MessageStep::Probed { pattern, place, takes, found } => {
                let comm = self.journal.comm(pattern.comm.into(), &mut self.out);
                let (pattern, site) = (Pattern { comm, ..*pattern }, self.site(*place));
                self.journal.received(site, pattern, !takes, *found, &mut self.out);
            }
            MessageStep::Posted { message, facts, place } => {
                self.comms.insert(*message, facts.comm);
                let (pattern, site) = (self.pattern(facts), self.site(*place));
                self.journal.posted(site, pattern, key(*message), &mut self.out);
            }
            MessageStep::Done { message, sender } => {
                let comm = self.comms.remove(message).flatten();
                let got = self.envelope(comm, *sender, *message, sent);
                self.journal.done(key(*message), got, &mut self.out);
            }
            MessageStep::Choice { place, offered, taken } => {
                let site = self.site(*place);
                let offered: Vec<u64> = offered.iter().map(|message| message.map_or(NO_KEY, key)).collect();
                self.journal.choice(site, &offered, taken, &mut self.out);
            }
            MessageStep::Collective { order, comm, root } => {
                let comm = self.journal.comm((*comm).into(), &mut self.out);
                self.journal.collective(*order, comm, *root, &mut self.out);
            }
        }
    }

    fn send(&mut self, message: MessageId, facts: &MessageFacts, is_synchronous: bool, has_request: bool) {
        let dest = match facts.comm {
            Some(comm) => facts.peer_rank.and_then(|rank| self.rank_in(comm, rank)),
            // Of such a communicator nothing is known anyway.
            None => Some(0),
        };
        let Some(dest) = dest else { return };
        let comm = self.comm(facts.comm);
        let tag = facts.tag.and_then(|tag| u32::try_from(tag).ok()).unwrap_or(0);
        self.journal.send(comm, dest, tag, is_synchronous, has_request, &mut self.out);
        if has_request {
            self.journal.sent(key(message));
        }
    }

    fn comm(&mut self, number: Option<u32>) -> u32 {
        self.journal.comm(number.unwrap_or(UNKNOWN_COMM).into(), &mut self.out)
    }

    fn site(&mut self, place: ReturnPlace) -> u32 {
        let find = || self.places.get(&place).cloned().unwrap_or_default();
        self.journal.site(place.0, place.1, &mut self.out, find)
    }

    fn pattern(&mut self, facts: &MessageFacts) -> Pattern {
        let source = facts.comm.zip(facts.peer_rank).and_then(|(comm, rank)| self.rank_in(comm, rank));
        let tag = facts.tag.and_then(|tag| u32::try_from(tag).ok());
        Pattern { comm: self.comm(facts.comm), source, tag }
    }

    /// A rank of MPI_COMM_WORLD, as the rank names it.
    fn rank_in(&self, comm: u32, rank: u32) -> Option<u32> {
        let peers = self.peers.get(&comm)?;
        // As in MPI_COMM_WORLD.
        if peers.get(rank as usize) == Some(&rank) {
            return Some(rank);
        }
        let place = peers.iter().position(|peer| *peer == rank)?;
        u32::try_from(place).ok()
    }

    fn envelope(
        &self,
        comm: Option<u32>,
        sender: ReceivedFrom,
        message: MessageId,
        sent: &impl Fn(MessageId) -> Option<SendEnvelope>,
    ) -> Option<MessageEnvelope> {
        let SendEnvelope { rank, tag } = match sender {
            ReceivedFrom::Told(sent) => sent,
            ReceivedFrom::Untold => sent(message)?,
            ReceivedFrom::Nobody => return None,
        };
        Some(MessageEnvelope { source: self.rank_in(comm?, rank)?, tag })
    }
}

/// What a message is called in the journal.
fn key(message: MessageId) -> u64 {
    u64::from(message.call.number) << 32 | u64::from(message.part)
}

/// No message is called so: calls have numbers from 1.
const NO_KEY: u64 = 0;

#[cfg(test)]
mod tests {
    use analyzer::messages::CallId;
    use replay::races::{Alternative, RaceKind, Races};

    use super::*;

    const PLACE: ReturnPlace = (0x100, 1);

    fn message(rank: u32, number: u32) -> MessageId {
        MessageId { call: CallId { rank, tid: 1, number }, part: 0 }
    }

    fn facts(sends: bool, peer_rank: Option<u32>) -> MessageFacts {
        MessageFacts { sends, comm: Some(0), peer: peer_rank, peer_rank, tag: Some(7), len_bytes: None }
    }

    fn world() -> ProbedCommunicators {
        ProbedCommunicators(BTreeMap::from([(0, [vec![0, 1, 2], Vec::new()])]))
    }

    fn sends(rank: u32) -> Vec<MessageStep> {
        let send = MessageStep::Send {
            message: message(rank, 1),
            facts: facts(true, Some(0)),
            is_synchronous: false,
            has_request: false,
        };
        vec![MessageStep::Calls(1), send]
    }

    /// What can go otherwise if rank 0 does this, and the others send one message each; messages of receives 3 and 4 are those of ranks 2
    /// and 1, and no status told.
    fn races(steps: Vec<MessageStep>) -> Races {
        let places = HashMap::from([(PLACE, ("/app".to_owned(), 0x10))]);
        let sent = |receive: MessageId| {
            let rank = if receive.call.number == 3 { 2 } else { 1 };
            Some(SendEnvelope { rank, tag: 7 })
        };
        let ranks = [steps, sends(1), sends(2)];
        let journals: Vec<Vec<u8>> =
            (0..).zip(&ranks).map(|(rank, steps)| journal(steps, &places, (rank, &world()), sent)).collect();
        let journals: Vec<&[u8]> = journals.iter().map(Vec::as_slice).collect();
        Races::find(&journals).expect("a run")
    }

    #[test]
    fn a_receive_from_anybody_could_have_got_what_another_rank_had_sent() {
        let received = |number, sender| MessageStep::Received {
            message: message(0, number),
            facts: facts(false, None),
            place: PLACE,
            sender,
        };
        let first = ReceivedFrom::Told(SendEnvelope { rank: 2, tag: 7 });
        let races = races(vec![
            MessageStep::Calls(5),
            received(3, first),
            MessageStep::Calls(1),
            received(4, ReceivedFrom::Untold),
        ]);
        assert_eq!((races.found.len(), races.unsent), (1, 0));
        let race = &races.found[0];
        assert_eq!((race.rank, race.call, race.kind), (0, 5, RaceKind::Receive));
        assert_eq!(race.taken, [Alternative::Message { source: 2, tag: 7, call: 1 }]);
        assert_eq!(race.others, [Alternative::Message { source: 1, tag: 7, call: 1 }]);
        assert_eq!(race.site.as_ref().map(|site| (&*site.module, site.call)), Some(("/app", 1)));
    }

    #[test]
    fn posted_receives_and_the_choice_of_a_request_are_told_by_their_numbers() {
        let posted = |number| MessageStep::Posted {
            message: message(0, number),
            facts: facts(false, None),
            place: PLACE,
        };
        let done = |number| MessageStep::Done { message: message(0, number), sender: ReceivedFrom::Untold };
        let races = races(vec![
            MessageStep::Calls(1),
            posted(3),
            MessageStep::Calls(1),
            posted(4),
            MessageStep::Calls(1),
            MessageStep::Choice {
                place: PLACE,
                offered: vec![None, Some(message(0, 3)), Some(message(0, 4))],
                taken: vec![1],
            },
            done(3),
            MessageStep::Calls(1),
            done(4),
        ]);
        let found: Vec<_> = races.found.iter().map(|race| (race.kind, race.call)).collect();
        assert_eq!(found, [(RaceKind::Posted, 1), (RaceKind::Choice, 3)]);
        assert_eq!(races.found[1].taken, [Alternative::Request { index: 1 }]);
        assert_eq!(races.found[1].others, [Alternative::Request { index: 2 }]);
    }

    #[test]
    fn a_rank_has_the_communicators_of_which_it_is_a_member_with_its_own_group_first() {
        let inter = [vec![0, 3], vec![1, 2]];
        let communicators = ProbedCommunicators(BTreeMap::from([(4, inter.clone()), (0, [vec![1], vec![]])]));
        let of = |rank| communicators.of_rank(rank).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!([of(1), of(3), of(9)], [vec![0, 4], vec![4], vec![]]);
        let (_, groups) = communicators.of_rank(1).nth(1).expect("two");
        assert_eq!(groups, [&inter[1][..], &inter[0]]);
    }
}

//! Finds what could have gone otherwise.

use super::history::{EventHistory, OpenAt};
use super::order::MatchOrder;
use super::run::{BadRun, RequestOperation, Run};
use super::signature::Signatures;
use crate::cut::{Detour, RankCut};
use crate::messages::CallSite;

/// What kind of call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceKind {
    /// A receive from anybody.
    Receive,
    /// One that is posted here, and completed later.
    Posted,
    /// A probe for a message from anybody.
    Probe,
    /// A call that takes some of several requests.
    Choice,
}

/// Where a run could have gone another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// What it is.
    pub kind: RaceKind,
    /// In MPI_COMM_WORLD.
    pub rank: u32,
    /// The number of the rank's call.
    pub call: u64,
    /// Of several receives that the call posts, from 1.
    pub nth: u32,
    /// Where it is called.
    pub site: Option<CallSite>,
    /// What came in the run.
    pub taken: Vec<Alternative>,
    /// What could have come.
    pub others: Vec<Alternative>,
    /// Whether it was run that way: a number for all that happened before, and for what came.
    pub signature: u64,
    pub(super) event: RaceEvent,
}

/// What comes at such a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// A message.
    Message {
        /// Its sender in MPI_COMM_WORLD.
        source: u32,
        /// Its tag.
        tag: u32,
        /// The number of the sender's call.
        call: u64,
    },
    /// A request.
    Request {
        /// Its index among those of the call.
        index: u32,
    },
}

impl Alternative {
    /// What a user calls it: a rank or an index.
    pub fn number(self) -> u32 {
        match self {
            Self::Message { source, .. } => source,
            Self::Request { index } => index,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaceEvent {
    Receive(usize),
    Probe(usize),
    Choice(usize),
}

/// The races of a run.
///
/// An alternative of a receive from anybody is a message that it could have got, had everything else in the run gone as it went that
/// does not depend on what this receive got: all other ranks, and the rank itself before it. Depends is meant as in [`MatchOrder`]. In that
/// history the send has begun; no other receive has the message, and none that was posted before and is open would take it; and
/// no earlier message of the same sender that this receive takes is left. So what is named is there for the taking, and all that is not named
/// would need something else to go another way before: it is found in the run that went that way.
///
/// A probe is the same without taking. Of a call that takes some of several requests each request is an alternative that is complete
/// in that history, or is as soon as a receive gets an alternative of its own. Sends that are not synchronous may always be complete; of
/// synchronous ones the receive must be complete.
#[derive(Debug)]
pub struct Races {
    pub(super) run: Run,
    pub(super) order: MatchOrder,
    /// In order of ranks, and of calls.
    pub found: Vec<Race>,
    /// Places that were looked at: receives and probes from anybody, calls with several requests.
    pub looked_at: usize,
    /// Sends.
    pub sends: usize,
    /// Entries in communicators that nobody has seen made: nothing is said of them.
    pub unknown: u64,
    /// Messages that came, of which nobody has seen the send.
    pub unsent: u64,
    /// All that was decided in the run: the signatures of what came, at places where something else could have come or not.
    pub decided: Vec<u64>,
}

impl Races {
    /// Finds those of a run; `journals`: what each rank has written down, in order of ranks.
    ///
    /// # Errors
    /// The journals contradict themselves or each other.
    pub fn find(journals: &[&[u8]]) -> Result<Self, BadRun> {
        let run = Run::of(journals)?;
        let order = MatchOrder::of(&run)?;
        let signatures = Signatures::of(&run);
        let open_at = OpenAt::of(&run);
        let mut found = Vec::new();
        let mut looked_at = 0;
        let mut decided = Vec::new();
        for rank in 0..run.calls.len() {
            let events = events(&run, rank);
            looked_at += events.len();
            for event in events {
                let race = race(&run, &order, &open_at, &signatures, rank, event);
                let taken = race.taken.iter().map(|taken| with_choice(race.signature, *taken));
                decided.extend(taken);
                if !race.others.is_empty() {
                    found.push(race);
                }
            }
        }
        found.sort_by_key(|race| (race.rank, race.call, race.nth));
        let (sends, unknown, unsent) = (run.sends.len(), run.unknown, run.unsent);
        Ok(Self { run, order, found, looked_at, sends, unknown, unsent, decided })
    }

    /// How the run is to be played so that it goes the other way: up to where each rank depends on it.
    pub fn cut(&self, race: &Race, instead: Alternative) -> Vec<RankCut> {
        let (run, order) = (&self.run, &self.order);
        let after = after(run, order, race.event);
        let own = match race.event {
            RaceEvent::Receive(at) => Some(at),
            _ => None,
        };
        let open_at = OpenAt::of(run);
        let mut cuts = Vec::new();
        for (rank, calls) in run.calls.iter().enumerate() {
            let event = own.filter(|at| run.receives[*at].rank == rank);
            let history = EventHistory::new(run, order, &open_at, after, rank, event);
            let posts =
                history.waiting().filter_map(|at| Some((run.receives[at].wild_post?, None))).collect();
            // Of a call that nothing is known to follow, all is played.
            let calls = calls.get(after[rank] as usize).map(|number| number.saturating_sub(1));
            cuts.push(RankCut { calls, detour: None, posts });
        }
        let own_cut = &mut cuts[race.rank as usize];
        match (race.event, instead) {
            (RaceEvent::Receive(at), Alternative::Message { source, .. }) => {
                let receive = &run.receives[at];
                let source = run.rank_in(receive.comm, receive.rank, source as usize);
                match receive.wild_post {
                    Some(post) => _ = own_cut.posts.insert(post, source),
                    None => own_cut.detour = source.map(|value| Detour { call: race.call, value }),
                }
            }
            (RaceEvent::Probe(at), Alternative::Message { source, .. }) => {
                let asks = &run.probes[at].asks;
                let source = run.rank_in(asks.comm, asks.rank, source as usize);
                own_cut.detour = source.map(|value| Detour { call: race.call, value });
            }
            (_, instead) => {
                own_cut.detour = Some(Detour { call: race.call, value: instead.number() });
            }
        }
        cuts
    }
}

/// A number for a history and what comes then.
pub fn with_choice(signature: u64, choice: Alternative) -> u64 {
    let kind = match choice {
        Alternative::Message { .. } => 1,
        Alternative::Request { .. } => 2,
    };
    super::signature::mixed(&[signature, kind, u64::from(choice.number())])
}

fn after<'a>(run: &Run, order: &'a MatchOrder, event: RaceEvent) -> &'a [u32] {
    match event {
        RaceEvent::Receive(at) => order.after_receive(at),
        RaceEvent::Probe(at) => order.after_probe(at),
        RaceEvent::Choice(at) => order.after_call(run.choices[at].rank, run.choices[at].call),
    }
}

/// What could have gone otherwise in a rank.
fn events(run: &Run, rank: usize) -> Vec<RaceEvent> {
    let is_wild = |at: &usize| run.receives[*at].source.is_none() && run.receives[*at].message.is_some();
    let receives = run.posts[rank].iter().copied().filter(is_wild).map(RaceEvent::Receive);
    let probes = run.probes.iter().enumerate().filter(|(_, probe)| {
        probe.asks.rank == rank && probe.asks.source.is_none() && probe.asks.message.is_some()
    });
    let choices = run.choices.iter().enumerate().filter(|(_, choice)| choice.rank == rank);
    let probes = probes.map(|(at, _)| RaceEvent::Probe(at));
    receives.chain(probes).chain(choices.map(|(at, _)| RaceEvent::Choice(at))).collect()
}

fn race(
    run: &Run,
    order: &MatchOrder,
    open_at: &OpenAt,
    signatures: &Signatures,
    rank: usize,
    event: RaceEvent,
) -> Race {
    let after = after(run, order, event);
    let own = match event {
        RaceEvent::Receive(at) => Some(at),
        _ => None,
    };
    let histories: Vec<EventHistory<'_>> = (0..run.calls.len())
        .map(|other| EventHistory::new(run, order, open_at, after, other, own.filter(|_| other == rank)))
        .collect();
    let history = &histories[rank];
    let message = |send: usize| {
        let send = &run.sends[send];
        let call = run.calls[send.rank][send.begun as usize];
        Alternative::Message { source: send.rank as u32, tag: send.tag, call }
    };
    let (kind, call, site, place, taken, others) = match event {
        RaceEvent::Receive(at) => {
            let receive = &run.receives[at];
            let kind = if receive.is_posted_receive() { RaceKind::Posted } else { RaceKind::Receive };
            let others = history.candidates(receive, at);
            (kind, receive.posted, receive.site, at as u64, receive.message, others)
        }
        RaceEvent::Probe(at) => {
            let probe = &run.probes[at];
            let next = run.posts[rank].get(probe.receives_before).copied().unwrap_or(usize::MAX);
            let others = history.candidates(&probe.asks, next);
            (RaceKind::Probe, probe.asks.posted, probe.asks.site, at as u64, probe.asks.message, others)
        }
        RaceEvent::Choice(at) => {
            let choice = &run.choices[at];
            (RaceKind::Choice, choice.call, choice.site, at as u64, None, Vec::new())
        }
    };
    let mut race = Race {
        kind,
        rank: rank as u32,
        call: run.calls[rank][call as usize],
        nth: nth(run, event),
        site: run.sites[rank].get(site as usize).cloned(),
        taken: taken.map(message).into_iter().collect(),
        others: others.into_iter().filter(|send| Some(*send) != taken).map(message).collect(),
        signature: signatures.of_place(run, after, &histories, kind as u64, rank, place),
        event,
    };
    if let RaceEvent::Choice(at) = event {
        let choice = &run.choices[at];
        race.taken = choice.taken.iter().map(|index| Alternative::Request { index: *index }).collect();
        let is_complete = |operation: &RequestOperation| match *operation {
            RequestOperation::Send(send) => {
                let send = &run.sends[send];
                let receive = send.receive.map(|receive| &run.receives[receive]);
                let is_received = receive.is_some_and(|receive| {
                    receive.completed.is_some_and(|completed| completed < after[receive.rank])
                });
                !send.is_synchronous || is_received
            }
            RequestOperation::Receive(at) => {
                let receive = &run.receives[at];
                !receive.is_aside && (history.has_message(at) || !history.candidates(receive, at).is_empty())
            }
            RequestOperation::Unknown => false,
        };
        let others = choice
            .offered
            .iter()
            .filter(|(index, operation)| !choice.taken.contains(index) && is_complete(operation));
        race.others = others.map(|(index, _)| Alternative::Request { index: *index }).collect();
    }
    race
}

/// Which of the receives that a call posts it is.
fn nth(run: &Run, event: RaceEvent) -> u32 {
    let RaceEvent::Receive(at) = event else { return 1 };
    let receive = &run.receives[at];
    let posts = &run.posts[receive.rank];
    let Ok(place) = posts.binary_search(&at) else { return 1 };
    let same = posts[..place].iter().rev().take_while(|other| run.receives[**other].posted == receive.posted);
    1 + same.count() as u32
}

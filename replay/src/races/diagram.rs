//! What is drawn of a race: the calls around it, and the messages between them.

use std::collections::{BTreeMap, BTreeSet};

use super::find::{Alternative, Race, RaceEvent, Races};
use super::run::{RequestOperation, Run};
use crate::messages::CallSite;

/// A picture of a race. Columns are numbers in which what comes before something else is farther to the left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaceDiagram {
    /// Ranks that have a part in it.
    pub ranks: Vec<u32>,
    /// Their calls around it, in order of ranks and calls.
    pub calls: Vec<DiagramCall>,
    /// Messages between these calls.
    pub messages: Vec<DiagramMessage>,
    /// How many columns there are.
    pub columns: u32,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagramCall {
    /// A place in [`RaceDiagram::ranks`].
    pub row: u32,
    /// The number of the rank's call.
    pub call: u64,
    /// The columns of its beginning and its end.
    pub columns: [u32; 2],
    /// What it has to do with the race.
    pub part: CallPart,
    /// Where it is made, if that is known.
    pub site: Option<CallSite>,
}

/// What a call has to do with a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// It could have gone otherwise.
    Race,
    /// It sends one of the messages that came or could have come.
    Sender,
    /// It is near.
    Near,
}

/// A message: from the beginning of a call to the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagramMessage {
    /// The call that sends it: a place in [`RaceDiagram::calls`].
    pub from: u32,
    /// The call that has it.
    pub to: u32,
    /// As it was sent.
    pub tag: u32,
    /// What it has to do with the race.
    pub part: MessagePart,
}

/// What a message has to do with a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePart {
    /// It came.
    Taken,
    /// It could have come.
    Possible,
    /// It is near.
    Near,
}

/// Calls that are shown of each rank before one that has a part in the race, and after it.
const NEAR: u32 = 3;
/// Ranks of more alternatives are left out.
const MOST_RANKS: usize = 12;

/// A call: its rank, and its place among the rank's calls.
type CallPlace = (usize, u32);

impl Races {
    /// What is drawn of a race of these.
    pub fn diagram(&self, race: &Race) -> RaceDiagram {
        let own = self.own_call(race);
        let parts = self.parts(race, own);
        let mut ranks: Vec<usize> = vec![own.0];
        for (from, ..) in &parts {
            if !ranks.contains(&from.0) && ranks.len() < MOST_RANKS {
                ranks.push(from.0);
            }
        }
        ranks.sort_unstable();
        let anchors: BTreeSet<CallPlace> = parts.iter().map(|(from, ..)| *from).collect();
        let ends = parts.iter().map(|(_, to, ..)| *to);
        let places: BTreeSet<CallPlace> = anchors
            .iter()
            .copied()
            .chain(ends)
            .chain([own])
            .filter(|(rank, _)| ranks.contains(rank))
            .flat_map(|(rank, call)| near(call, self.run.calls[rank].len()).map(move |call| (rank, call)))
            .collect();
        let levels: Vec<[u32; 2]> =
            places.iter().map(|(rank, call)| self.order.levels_of(*rank, *call)).collect();
        let columns: BTreeSet<u32> = levels.iter().flatten().copied().collect();
        let columns: Vec<u32> = columns.into_iter().collect();
        let column = |level: u32| columns.binary_search(&level).unwrap_or(0) as u32;
        let sites = sites(&self.run, &places);
        let calls = places.iter().zip(&levels).map(|(place, levels)| DiagramCall {
            row: ranks.binary_search(&place.0).unwrap_or(0) as u32,
            call: self.run.calls[place.0][place.1 as usize],
            columns: levels.map(column),
            part: match place {
                place if *place == own => CallPart::Race,
                place if anchors.contains(place) => CallPart::Sender,
                _ => CallPart::Near,
            },
            site: sites.get(place).cloned(),
        });
        RaceDiagram {
            calls: calls.collect(),
            messages: self.messages(&places, &parts),
            ranks: ranks.into_iter().map(|rank| rank as u32).collect(),
            columns: columns.len() as u32,
        }
    }

    fn own_call(&self, race: &Race) -> CallPlace {
        let run = &self.run;
        match race.event {
            RaceEvent::Receive(at) => (run.receives[at].rank, run.receives[at].posted),
            RaceEvent::Probe(at) => (run.probes[at].asks.rank, run.probes[at].asks.posted),
            RaceEvent::Choice(at) => (run.choices[at].rank, run.choices[at].call),
        }
    }

    /// Messages that came there or could have come: the call that sends, the one that has them, tag, part.
    fn parts(&self, race: &Race, own: CallPlace) -> Vec<(CallPlace, CallPlace, u32, MessagePart)> {
        let run = &self.run;
        let to = match race.event {
            RaceEvent::Receive(at) => (own.0, run.receives[at].completed.unwrap_or(own.1)),
            _ => own,
        };
        let taken = race.taken.iter().map(|alternative| (alternative, MessagePart::Taken));
        let others = race.others.iter().map(|alternative| (alternative, MessagePart::Possible));
        let part = |(alternative, part): (&Alternative, MessagePart)| match *alternative {
            Alternative::Message { source, tag, call } => {
                let calls = run.calls.get(source as usize)?;
                let place = calls.binary_search(&call).ok()? as u32;
                Some(((source as usize, place), to, tag, part))
            }
            Alternative::Request { index } => {
                let RaceEvent::Choice(at) = race.event else { return None };
                let (_, operation) = run.choices[at].offered.iter().find(|(offered, _)| *offered == index)?;
                let RequestOperation::Receive(receive) = *operation else { return None };
                let send = &run.sends[run.receives[receive].message?];
                Some(((send.rank, send.begun), to, send.tag, part))
            }
        };
        taken.chain(others).filter_map(part).collect()
    }

    fn messages(
        &self,
        places: &BTreeSet<CallPlace>,
        parts: &[(CallPlace, CallPlace, u32, MessagePart)],
    ) -> Vec<DiagramMessage> {
        let number: BTreeMap<CallPlace, u32> = places.iter().copied().zip(0..).collect();
        let message = |from: CallPlace, to: CallPlace, tag: u32, part: MessagePart| {
            Some(DiagramMessage { from: *number.get(&from)?, to: *number.get(&to)?, tag, part })
        };
        let of_race: Vec<DiagramMessage> =
            parts.iter().filter_map(|(from, to, tag, part)| message(*from, *to, *tag, *part)).collect();
        let near = self.run.receives.iter().filter_map(|receive| {
            let send = &self.run.sends[receive.message?];
            let to = (receive.rank, receive.completed?);
            message((send.rank, send.begun), to, send.tag, MessagePart::Near)
        });
        let is_taken = |near: &DiagramMessage| {
            of_race.iter().any(|other| {
                other.part == MessagePart::Taken && (other.from, other.to) == (near.from, near.to)
            })
        };
        near.filter(|near| !is_taken(near)).chain(of_race.iter().copied()).collect()
    }
}

/// Calls that are shown with one.
fn near(call: u32, calls: usize) -> std::ops::Range<u32> {
    call.saturating_sub(NEAR)..(call + NEAR).min(calls as u32)
}

/// Where calls are made, as far as somebody has written it down.
fn sites(run: &Run, places: &BTreeSet<CallPlace>) -> BTreeMap<CallPlace, CallSite> {
    let receives = run.receives.iter().map(|receive| (receive.rank, receive.posted, receive.site));
    let probes = run.probes.iter().map(|probe| (probe.asks.rank, probe.asks.posted, probe.asks.site));
    let choices = run.choices.iter().map(|choice| (choice.rank, choice.call, choice.site));
    receives
        .chain(probes)
        .chain(choices)
        .filter(|(rank, call, _)| places.contains(&(*rank, *call)))
        .filter_map(|(rank, call, site)| Some(((rank, call), run.sites[rank].get(site as usize)?.clone())))
        .collect()
}

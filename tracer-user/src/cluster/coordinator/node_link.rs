//! One node, as its coordinator sees it.

use std::time::Instant;

use analyzer::input::Input;
use analyzer::tape::{Feed, Item, Reader, TapeError};

use super::node_clock::{AnsweredPing, NodeClock};
use super::node_patience::NodePatience;
use crate::cluster::bus::BusMessage;
use crate::cluster::envelope::{Assembly, ContentKind};
use crate::cluster::protocol::{self, NodeIdentity, UpMessage};
use crate::host::clock::monotonic_ns;
use crate::session::{AttachSummary, SessionStatus};

/// Where a node's part of the session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// It was asked, and has sent nothing yet.
    Asked,
    /// It sends.
    Runs,
    /// It is over, in good order.
    Ended,
    /// There is none (any more).
    Failed,
}

/// What a message of a node brings.
#[derive(Debug)]
pub enum FromNode {
    /// Inputs, in order.
    Input(Input),
    /// Some of its inputs were lost on the way.
    Lost,
    /// A word to people.
    Notice(String),
    /// It has confirmed a round.
    Confirmed(u64),
}

/// See the [module](self).
pub struct NodeLink {
    /// The node.
    pub identity: NodeIdentity,
    /// Where its part stands.
    pub state: PartState,
    /// As it said last.
    pub status: SessionStatus,
    /// It waits for a job that is expected.
    pub is_ready: bool,
    /// What it attached.
    pub attached: Option<AttachSummary>,
    /// It has sent inputs.
    pub has_begun: bool,
    /// What its clock shows beside ours.
    pub clock: NodeClock,
    assembly: Assembly,
    reader: Reader<Feed>,
    heard: Instant,
    is_silent: bool,
    patience: NodePatience,
}

impl NodeLink {
    /// A node that was asked now.
    ///
    /// # Errors
    /// No memory.
    pub fn new(identity: NodeIdentity, patience: NodePatience) -> Result<Self, TapeError> {
        Ok(Self {
            identity,
            state: PartState::Asked,
            status: SessionStatus::default(),
            is_ready: false,
            attached: None,
            has_begun: false,
            clock: NodeClock::default(),
            assembly: Assembly::default(),
            reader: Reader::of_feed()?,
            heard: Instant::now(),
            is_silent: false,
            patience,
        })
    }

    /// Whether anything is to be expected of it.
    pub fn is_open(&self) -> bool {
        matches!(self.state, PartState::Asked | PartState::Runs)
    }

    /// Takes a message of the node.
    pub fn take(&mut self, message: &BusMessage, now: Instant) -> Vec<FromNode> {
        let mut brings = Vec::new();
        let (lost, strange) = (self.assembly.lost, self.assembly.strange);
        let content = self.assembly.take(message);
        // What is none of its messages says nothing of the node.
        if self.assembly.strange == strange {
            self.heard = now;
            if std::mem::take(&mut self.is_silent) {
                brings.push(FromNode::Notice(format!("{} is heard of again", self.identity.host)));
            }
        }
        if self.assembly.lost > lost {
            brings.push(FromNode::Lost);
            brings.push(FromNode::Notice(format!(
                "{} messages of {} were lost on the way: what was in them is missing",
                self.assembly.lost - lost,
                self.identity.host
            )));
        }
        if self.assembly.strange > strange && strange == 0 {
            let host = &self.identity.host;
            brings.push(FromNode::Notice(format!(
                "a message for {host}'s session is not one of its own: it is left aside"
            )));
        }
        let Some(content) = content else { return brings };
        match content.kind {
            ContentKind::Tape => self.take_piece(&content.bytes, &mut brings),
            // Those go from node to node.
            ContentKind::Letter => self.assembly.strange += 1,
            ContentKind::Word | ContentKind::Obituary => match protocol::parse(&content.bytes) {
                Ok(word) => self.take_word(word, &mut brings),
                Err(_) => self.assembly.strange += 1,
            },
        }
        brings
    }

    fn take_piece(&mut self, piece: &[u8], brings: &mut Vec<FromNode>) {
        if self.state == PartState::Asked {
            self.state = PartState::Runs;
        }
        self.has_begun = true;
        self.reader.feed(piece);
        loop {
            match self.reader.poll() {
                Ok(Some(Item::Input(input))) => brings.push(FromNode::Input(input)),
                Ok(Some(Item::Damage(damage))) => {
                    brings.push(FromNode::Notice(format!("{}: {damage}", self.identity.host)));
                }
                Ok(None) => return,
                Err(error) => return self.fail(&error.to_string(), brings),
            }
        }
    }

    fn take_word(&mut self, word: UpMessage, brings: &mut Vec<FromNode>) {
        let host = &self.identity.host;
        match word {
            UpMessage::Placed(_) => {}
            UpMessage::Ready => self.is_ready = true,
            UpMessage::Attached(summary) => {
                let notes = summary.notes.iter().map(|note| FromNode::Notice(format!("{host}: {note}")));
                brings.extend(notes);
                self.attached = Some(summary);
            }
            UpMessage::Notice(text) => brings.push(FromNode::Notice(format!("{host}: {text}"))),
            UpMessage::Status(status) => self.status = status,
            UpMessage::Pong { sent_ns, node_ns, held_ns } => {
                self.clock.take(AnsweredPing { sent_ns, back_ns: monotonic_ns(), node_ns, held_ns });
            }
            UpMessage::Confirmed { round } => brings.push(FromNode::Confirmed(round)),
            UpMessage::Failed(why) => self.fail(&why, brings),
            UpMessage::Ended { is_job_over: true } => self.state = PartState::Ended,
            UpMessage::Ended { is_job_over: false } => self.fail("its session was ended there", brings),
        }
    }

    /// When it was heard of last.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Whether it is waited for: it is open, and speaks.
    pub fn is_awaited(&self, now: Instant) -> bool {
        self.is_open() && now.duration_since(self.heard) <= self.patience.speaks_within()
    }

    /// Its agent takes no part.
    pub fn refuse(&mut self) {
        self.state = PartState::Failed;
    }

    fn fail(&mut self, why: &str, brings: &mut Vec<FromNode>) {
        if self.is_open() {
            self.state = PartState::Failed;
            self.heard = Instant::now();
            brings.push(FromNode::Notice(format!("{} is not watched (any more): {why}", self.identity.host)));
        }
    }

    /// Whether it failed so lately that its agent may still come back.
    pub fn may_come_back(&self, now: Instant) -> bool {
        self.state == PartState::Failed && now.duration_since(self.heard) < self.patience.given_up_after
    }

    /// Whether it has been silent for so long that its session is over; it is as if that had failed.
    pub fn becomes_lost(&mut self, now: Instant) -> bool {
        let is_lost = self.is_open() && now.duration_since(self.heard) > self.patience.lost_after;
        if is_lost {
            self.state = PartState::Failed;
            self.heard = now;
        }
        is_lost
    }

    /// Whether it has become silent: said once each time.
    pub fn becomes_silent(&mut self, now: Instant) -> bool {
        let is_silent = self.is_open() && now.duration_since(self.heard) > self.patience.silent_after();
        is_silent && !std::mem::replace(&mut self.is_silent, is_silent)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_that_is_not_heard_of_is_silent_and_then_lost_and_may_come_back_for_a_while() {
        let identity = NodeIdentity { host: "n".into(), ..NodeIdentity::default() };
        let (lost_after, given_up_after) = (Duration::from_secs(30), Duration::from_secs(15));
        let mut link = NodeLink::new(identity, NodePatience { lost_after, given_up_after }).expect("memory");
        let begun = link.heard;
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        assert!(!link.becomes_silent(at(2)) && link.becomes_silent(at(4)) && !link.becomes_silent(at(5)));
        assert!(!link.becomes_lost(at(29)) && link.is_open());
        assert!(link.becomes_lost(at(31)) && !link.is_open());
        assert!(!link.becomes_lost(at(32)), "once");
        assert!(link.may_come_back(at(40)) && !link.may_come_back(at(50)));
    }
}

//! Letters between the nodes of a session, over the bus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use analyzer::pipeline::{Letter, LetterTo};
use crossbeam_channel::Receiver;

use super::bus::{Bus, BusError, BusMessage, Inbox, SharedInbox};
use super::envelope::{Assembly, ContentKind, Numbering};
use super::protocol::{UpMessage, UserSubjects};
use super::uplink::Uplink;
use crate::session::{FromNodes, LetterBox};

/// Bytes of a message before the letter: who sent it.
const SENDER_BYTES: usize = 4;
/// Nodes that are listened to.
const MOST_NODES: u32 = 1 << 16;

/// See the [module](self).
pub struct PeerLetters {
    bus: Arc<dyn Bus>,
    uplink: Uplink,
    subjects: UserSubjects,
    session: String,
    number: u32,
    own: Inbox,
    of_topics: SharedInbox,
    /// What is listened to.
    topics: BTreeSet<u32>,
    /// What the coordinator says.
    words: Receiver<FromNodes>,
    /// By the node that a letter is for; none: those who listen to any topic.
    numbering: BTreeMap<Option<u32>, Numbering>,
    /// By who sent it, and whether it was for a topic.
    assemblies: BTreeMap<(u32, bool), Assembly>,
}

impl PeerLetters {
    /// Of the node with a number. `words`: what the coordinator says of other nodes and of rounds; `uplink`: the way to it.
    ///
    /// # Errors
    /// No bus.
    pub fn new(
        uplink: Uplink,
        subjects: UserSubjects,
        session: &str,
        number: u32,
        words: Receiver<FromNodes>,
    ) -> Result<Self, BusError> {
        let bus = uplink.bus();
        let own = bus.subscribe(&subjects.peer(session, &number.to_string()))?;
        Ok(Self {
            bus,
            uplink,
            subjects,
            session: session.to_owned(),
            number,
            own,
            of_topics: SharedInbox::default(),
            topics: BTreeSet::new(),
            words,
            numbering: BTreeMap::new(),
            assemblies: BTreeMap::new(),
        })
    }

    fn topic(&self, topic: u32) -> String {
        self.subjects.peer(&self.session, &format!("topic-{topic}"))
    }

    fn take(&mut self, message: BusMessage, is_for_topic: bool) -> Option<FromNodes> {
        let (sender, payload) = message.payload.split_first_chunk::<SENDER_BYTES>()?;
        let from = u32::from_le_bytes(*sender);
        if from == self.number || from >= MOST_NODES {
            return None;
        }
        let message = BusMessage { payload: payload.to_vec(), ..BusMessage::default() };
        let content = self.assemblies.entry((from, is_for_topic)).or_default().take(&message)?;
        (content.kind == ContentKind::Letter).then_some(FromNodes::Letter(from, content.bytes))
    }
}

impl LetterBox for PeerLetters {
    fn send(&mut self, letter: Letter) {
        let most_bytes = self.bus.facts().most_bytes.saturating_sub(SENDER_BYTES);
        let (subject, to) = match letter.to {
            LetterTo::Node(to) => (self.subjects.peer(&self.session, &to.to_string()), Some(to)),
            LetterTo::Topic(topic) => (self.topic(topic), None),
        };
        let numbering = self.numbering.entry(to).or_default();
        for message in numbering.messages(ContentKind::Letter, &letter.bytes, most_bytes) {
            let payload = [&self.number.to_le_bytes()[..], &message].concat();
            // One that is not taken is missed by its number.
            let _ = self.bus.publish(&subject, None, payload);
        }
    }

    fn listen(&mut self, topic: u32) {
        if self.topics.insert(topic) {
            // Without a connection nothing is heard of anybody.
            let _ = self.bus.subscribe_into(&self.topic(topic), &self.of_topics);
        }
    }

    fn confirm(&mut self, round: u64) {
        // By the connection that letters go by, and after them.
        self.uplink.say(&UpMessage::Confirmed { round });
    }

    fn receive(&mut self) -> Option<FromNodes> {
        if let Ok(word) = self.words.try_recv() {
            if let FromNodes::Gone(node) = word {
                self.assemblies.retain(|(from, _), _| *from != node);
            }
            return Some(word);
        }
        while let Some(message) = self.of_topics.inbox().try_next() {
            if let Some(letter) = self.take(message, true) {
                return Some(letter);
            }
        }
        while let Some(message) = self.own.try_next() {
            if let Some(letter) = self.take(message, false) {
                return Some(letter);
            }
        }
        None
    }

    fn wait(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        // What has come is left where it is.
        while Instant::now() < deadline && self.own.is_empty() && self.of_topics.inbox().is_empty() {
            std::thread::sleep(Duration::from_millis(1).min(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::super::bus::LocalBus;
    use super::*;

    fn node(bus: &LocalBus, number: u32) -> PeerLetters {
        let (_, words) = unbounded();
        let uplink = Uplink::new(Arc::new(bus.clone()), "up");
        PeerLetters::new(uplink, UserSubjects::of("alice"), "s", number, words).expect("a bus")
    }

    #[test]
    fn letters_come_to_whom_they_are_for_and_to_those_who_listen_to_their_topic() {
        let bus = LocalBus::default();
        let (mut one, mut two, mut three) = (node(&bus, 0), node(&bus, 1), node(&bus, 2));
        one.listen(77);
        (76..79).for_each(|topic| three.listen(topic));
        one.send(Letter { to: LetterTo::Node(2), bytes: vec![7; 3 << 20] });
        two.send(Letter { to: LetterTo::Topic(78), bytes: b"of another topic".to_vec() });
        two.send(Letter { to: LetterTo::Topic(77), bytes: b"wanted".to_vec() });
        assert_eq!(three.receive(), Some(FromNodes::Letter(1, b"of another topic".to_vec())));
        assert_eq!(three.receive(), Some(FromNodes::Letter(1, b"wanted".to_vec())));
        assert_eq!(three.receive(), Some(FromNodes::Letter(0, vec![7; 3 << 20])));
        assert_eq!(one.receive(), Some(FromNodes::Letter(1, b"wanted".to_vec())));
        assert_eq!((one.receive(), two.receive(), three.receive()), (None, None, None));
    }

    #[test]
    fn what_is_no_letter_is_left_aside() {
        let bus = LocalBus::default();
        let mut one = node(&bus, 0);
        let subject = UserSubjects::of("alice").peer("s", "0");
        for garbage in [vec![], vec![1, 0, 0], vec![1, 0, 0, 0, 9, 9], vec![255; 40]] {
            bus.publish(&subject, None, garbage).expect("a bus");
        }
        assert_eq!(one.receive(), None);
    }
}

//! Messages between the nodes of a job, and within one process.
//!
//! A bus carries a message from whoever publishes on a subject to all that subscribe to it, at most once. What is lost on the
//! way shows to the receiver by what is in the messages, not by the bus.

mod credentials;
mod local;
mod nats;
mod subjects;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

pub use credentials::{Credentials, CredentialsError};
pub use local::LocalBus;
pub use nats::{NatsBus, NatsSettings};
pub use subjects::{matches, token, untoken};

/// Bytes that may wait in an inbox; what comes beyond is dropped and counted.
const MOST_INBOX_BYTES: usize = 64 << 20;

/// A message as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusMessage {
    /// What it was published on.
    pub subject: String,
    /// Where an answer is expected, if one is.
    pub reply: Option<String>,
    /// What it says.
    pub payload: Vec<u8>,
    /// Nobody has sent it: nobody heard the question whose answers were to come here. Not every bus says so.
    pub is_unheard: bool,
}

/// What happens to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// It is there, perhaps again.
    Connected,
    /// It is gone; it is tried again and again.
    Disconnected,
    /// The server gave up messages, since we took them too slowly.
    TooSlow,
    /// The server does not allow something: what.
    Refused(String),
}

/// Why something cannot be sent or received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// What waits to be sent is at its bound.
    #[error("the bus does not take what is sent: {waiting_bytes} bytes wait already")]
    Full {
        /// Bytes that wait.
        waiting_bytes: usize,
    },
    /// A message is larger than the server takes.
    #[error("a message of {bytes} bytes is larger than the bus takes ({most_bytes} bytes)")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most that is taken.
        most_bytes: usize,
    },
    /// There is no connection, and none to come.
    #[error("the connection to the bus is closed")]
    Closed,
    /// No connection could be made: why, and what to do.
    #[error("{0}")]
    NoConnection(String),
}

/// What is known of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusFacts {
    /// Whoever connects has to say who they are, and to prove it.
    pub authenticates: bool,
    /// Length of the longest message.
    pub most_bytes: usize,
}

/// A connection.
pub trait Bus: Send + Sync {
    /// Publishes a message. Returns at once.
    ///
    /// # Errors
    /// It will not be sent.
    fn publish(&self, subject: &str, reply: Option<&str>, payload: Vec<u8>) -> Result<(), BusError>;

    /// Receives from now on what is published on subjects of this form (`*`: one word, `>`: all that follow).
    ///
    /// # Errors
    /// There is no connection any more.
    fn subscribe(&self, subjects: &str) -> Result<Inbox, BusError>;

    /// The same, into an inbox for many subscriptions.
    ///
    /// # Errors
    /// There is no connection any more.
    fn subscribe_into(&self, subjects: &str, inbox: &SharedInbox) -> Result<(), BusError>;

    /// What happens to the connection.
    fn events(&self) -> Receiver<BusEvent>;

    /// What is known of the other side.
    fn facts(&self) -> BusFacts;

    /// Waits until all that was published is sent, for so long at most. False: it is not.
    fn flush(&self, limit: Duration) -> bool;
}

/// What arrives for a subscription, until dropped.
pub struct Inbox {
    messages: Receiver<BusMessage>,
    room: Arc<InboxRoom>,
}

/// An inbox that many subscriptions share.
pub struct SharedInbox {
    sender: InboxSender,
    inbox: Inbox,
}

impl Default for SharedInbox {
    fn default() -> Self {
        let (sender, inbox) = Inbox::pair();
        Self { sender, inbox }
    }
}

impl SharedInbox {
    /// What has come.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

/// What waits in an inbox, and what was dropped.
#[derive(Debug, Default)]
struct InboxRoom {
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// The other end of an inbox.
#[derive(Clone)]
struct InboxSender {
    messages: Sender<BusMessage>,
    room: Arc<InboxRoom>,
}

impl InboxSender {
    /// Puts a message in, if there is room. False: nobody has the inbox any more.
    fn put(&self, message: BusMessage) -> bool {
        let bytes = message.payload.len() + message.subject.len();
        if self.room.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST_INBOX_BYTES {
            self.room.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.room.dropped.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.messages.send(message).is_ok()
    }
}

impl Inbox {
    fn pair() -> (InboxSender, Self) {
        let (sender, messages) = unbounded();
        let room = Arc::new(InboxRoom::default());
        (InboxSender { messages: sender, room: Arc::clone(&room) }, Self { messages, room })
    }

    /// Where messages come from, to be waited for among others; each that is taken from here is told with [`Inbox::took`].
    pub fn receiver(&self) -> &Receiver<BusMessage> {
        &self.messages
    }

    /// A message was taken from [`Inbox::receiver`].
    pub fn took(&self, message: BusMessage) -> BusMessage {
        let bytes = message.payload.len() + message.subject.len();
        self.room.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        message
    }

    /// The next message, if one is there.
    pub fn try_next(&self) -> Option<BusMessage> {
        self.messages.try_recv().ok().map(|message| self.took(message))
    }

    /// The next message, if one comes in time.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn next(&self, timeout: Duration) -> Result<Option<BusMessage>, BusError> {
        match self.messages.recv_timeout(timeout) {
            Ok(message) => Ok(Some(self.took(message))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(BusError::Closed),
        }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages that found no room, since the last time this was asked.
    pub fn take_dropped(&self) -> u64 {
        self.room.dropped.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_that_nobody_reads_drops_and_counts_what_is_beyond_its_bound() {
        let (sender, inbox) = Inbox::pair();
        let message = || BusMessage { payload: vec![0; 1 << 20], ..BusMessage::default() };
        (0..80).for_each(|_| assert!(sender.put(message())));
        let taken = std::iter::from_fn(|| inbox.try_next()).count();
        assert_eq!((taken, inbox.take_dropped(), inbox.take_dropped()), (64, 16, 0));
        assert!(sender.put(message()) && inbox.try_next().is_some(), "there is room again");
        drop(inbox);
        assert!(!sender.put(message()));
    }
}

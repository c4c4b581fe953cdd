//! A node's connection, which counts what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;
use dmscope::cluster::bus::{Bus, BusError, BusEvent, BusFacts, Inbox, NatsBus, SharedInbox};

/// What nodes have sent, by where it goes.
#[derive(Debug, Default)]
pub(super) struct SendCounters {
    up: [AtomicU64; 2],
    letters: [AtomicU64; 2],
    refused: AtomicU64,
}

/// What nodes have sent so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentMessages {
    /// To the coordinator.
    pub up_messages: u64,
    /// Bytes of these.
    pub up_bytes: u64,
    /// Letters to other nodes.
    pub letters: u64,
    /// Bytes of these.
    pub letter_bytes: u64,
    /// What the connection did not take.
    pub refused: u64,
}

impl SendCounters {
    pub(super) fn read(&self) -> SentMessages {
        let [up_messages, up_bytes] = self.up.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [letters, letter_bytes] = self.letters.each_ref().map(|count| count.load(Ordering::Relaxed));
        let refused = self.refused.load(Ordering::Relaxed);
        SentMessages { up_messages, up_bytes, letters, letter_bytes, refused }
    }

    fn count(&self, subject: &str, bytes: usize) {
        let is_letter = subject.starts_with("dmscope.peer.");
        let [messages, sum] = if is_letter { &self.letters } else { &self.up };
        messages.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add((subject.len() + bytes) as u64, Ordering::Relaxed);
    }
}

/// See the [module](self).
pub(super) struct CountedBus {
    pub(super) bus: NatsBus,
    pub(super) counters: Arc<SendCounters>,
}

impl Bus for CountedBus {
    fn publish(&self, subject: &str, reply: Option<&str>, payload: Vec<u8>) -> Result<(), BusError> {
        let bytes = payload.len();
        let sent = self.bus.publish(subject, reply, payload);
        match sent {
            Ok(()) => self.counters.count(subject, bytes),
            Err(_) => _ = self.counters.refused.fetch_add(1, Ordering::Relaxed),
        }
        sent
    }

    fn subscribe(&self, subjects: &str) -> Result<Inbox, BusError> {
        self.bus.subscribe(subjects)
    }

    fn subscribe_into(&self, subjects: &str, inbox: &SharedInbox) -> Result<(), BusError> {
        self.bus.subscribe_into(subjects, inbox)
    }

    fn events(&self) -> Receiver<BusEvent> {
        self.bus.events()
    }

    fn facts(&self) -> BusFacts {
        self.bus.facts()
    }

    fn flush(&self, limit: Duration) -> bool {
        self.bus.flush(limit)
    }
}

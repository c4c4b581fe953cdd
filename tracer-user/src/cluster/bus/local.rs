//! A bus within one process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::{Bus, BusError, BusEvent, BusFacts, BusMessage, Inbox, InboxSender, SharedInbox, matches};

/// As NATS servers have it, unless they are told otherwise.
const MOST_BYTES: usize = 1 << 20;

/// One connection; its clones are others to the same bus.
#[derive(Clone)]
pub struct LocalBus {
    subscriptions: Arc<Mutex<Vec<(String, InboxSender)>>>,
    events: (Sender<BusEvent>, Receiver<BusEvent>),
}

impl Default for LocalBus {
    fn default() -> Self {
        Self { subscriptions: Arc::default(), events: unbounded() }
    }
}

impl LocalBus {
    fn subscriptions(&self) -> MutexGuard<'_, Vec<(String, InboxSender)>> {
        // Whoever panicked had the list whole: it is changed in one step.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bus for LocalBus {
    fn publish(&self, subject: &str, reply: Option<&str>, payload: Vec<u8>) -> Result<(), BusError> {
        if payload.len() > MOST_BYTES {
            return Err(BusError::TooLarge { bytes: payload.len(), most_bytes: MOST_BYTES });
        }
        let reply = reply.map(str::to_owned);
        let message = BusMessage { subject: subject.to_owned(), reply, payload, is_unheard: false };
        let mut subscriptions = self.subscriptions();
        subscriptions.retain(|(form, inbox)| !matches(form, subject) || inbox.put(message.clone()));
        if let Some(reply) = message.reply
            && !subscriptions.iter().any(|(form, _)| matches(form, subject))
        {
            let unheard = BusMessage { subject: reply, is_unheard: true, ..BusMessage::default() };
            subscriptions
                .retain(|(form, inbox)| !matches(form, &unheard.subject) || inbox.put(unheard.clone()));
        }
        Ok(())
    }

    fn subscribe(&self, subjects: &str) -> Result<Inbox, BusError> {
        let (sender, inbox) = Inbox::pair();
        self.subscriptions().push((subjects.to_owned(), sender));
        Ok(inbox)
    }

    fn subscribe_into(&self, subjects: &str, inbox: &SharedInbox) -> Result<(), BusError> {
        self.subscriptions().push((subjects.to_owned(), inbox.sender.clone()));
        Ok(())
    }

    fn events(&self) -> Receiver<BusEvent> {
        self.events.1.clone()
    }

    fn facts(&self) -> BusFacts {
        // Whoever is in this process is who it is.
        BusFacts { authenticates: true, most_bytes: MOST_BYTES }
    }

    fn flush(&self, _limit: Duration) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_a_question_that_nobody_hears_is_told_so() {
        let bus = LocalBus::default();
        let answers = bus.subscribe("answers").expect("a bus");
        bus.publish("question", Some("answers"), vec![1]).expect("a bus");
        assert!(answers.try_next().is_some_and(|message| message.is_unheard));
        let questions = bus.subscribe("question").expect("a bus");
        bus.publish("question", Some("answers"), vec![1]).expect("a bus");
        assert!(questions.try_next().is_some_and(|message| !message.is_unheard) && answers.is_empty());
    }

    #[test]
    fn a_message_comes_to_all_that_subscribe_to_its_subject() {
        let bus = LocalBus::default();
        let one = bus.subscribe("a.*").expect("a bus");
        let all = bus.clone().subscribe(">").expect("a bus");
        bus.publish("a.b", Some("r"), vec![1]).expect("a bus");
        bus.publish("c", None, vec![2]).expect("a bus");
        let subjects = |inbox: &Inbox| -> Vec<String> {
            std::iter::from_fn(|| inbox.try_next()).map(|message| message.subject).collect()
        };
        assert_eq!((subjects(&one), subjects(&all)), (vec!["a.b".into()], vec!["a.b".into(), "c".into()]));
        drop(one);
        bus.publish("a.b", None, vec![3]).expect("a bus");
        assert_eq!(bus.subscriptions().len(), 1, "who is gone is forgotten");
        assert!(bus.publish("a", None, vec![0; MOST_BYTES + 1]).is_err());
    }
}

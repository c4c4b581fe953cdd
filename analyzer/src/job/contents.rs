//! The content of messages: where in memory it is, and whose it was.
//!
//! A message is a movement if its data was not seen to move. What is sent is what is in memory when the send begins; where no
//! operation has written into the receiver's buffer since the receive was posted (code without calls, hardware), the
//! matched pair is the movement. And where nobody was told whose message a receive got, the copies that were seen tell.

use super::Job;
use super::heap_errors::faulty_use;
use super::messages::{Arrival, Asked, CallBuffer, Data, MessageContent};
use super::movement::{Movement, Side};
use super::names::Kind;
use super::resolve;

/// What a message does with memory.
#[derive(Debug)]
pub(crate) enum ContentEvent {
    /// What is here now is sent; numbers of messages grow by one.
    Sent { number: u64, process: u32, source: Side },
    /// A message is in the receiver's memory.
    Arrived(ArrivedContent),
    /// A receive got something, and nobody was told from whom: to be answered with [`Job::answer`].
    FromAnybody { asked: Asked, process: u32, destination: Side },
}

/// Content that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivedContent {
    /// Of the message.
    pub number: u64,
    /// Index of the receiver.
    pub process: usize,
    pub destination: Side,
    /// When the receive was posted, CLOCK_MONOTONIC.
    pub since_ns: u64,
    arrival: Arrival,
}

impl Job {
    /// Whether messages have done anything with memory, or calls were given any.
    #[inline(always)]
    pub fn has_contents(&self) -> bool {
        self.messages.has_data()
    }

    /// What messages have done with memory by the last record, the oldest first. Answers may make more known.
    pub fn next_content(&mut self) -> Option<ContentEvent> {
        while let Some(call) = self.messages.next_use() {
            self.check_heap(&call);
        }
        Some(match self.messages.next_data()? {
            Data::Sent { number, pid, content } => {
                let process = self.process(pid);
                ContentEvent::Sent { number, process: process as u32, source: self.side(process, &content) }
            }
            Data::Received(arrival) => {
                let process = self.process(arrival.pid);
                let destination = self.side(process, &arrival.content);
                let since_ns = arrival.content.since_ns;
                let number = arrival.number;
                ContentEvent::Arrived(ArrivedContent { number, process, destination, since_ns, arrival })
            }
            Data::FromAnybody(asked) => {
                let process = self.process(asked.pid);
                let destination = self.side(process, &asked.content);
                ContentEvent::FromAnybody { asked, process: process as u32, destination }
            }
        })
    }

    /// A call is given memory.
    fn check_heap(&mut self, call: &CallBuffer) {
        let process = self.process(call.pid);
        if !self.heap_errors.are_known_of(process) {
            return;
        }
        let memory = &self.processes.get(process).memory;
        if let Some(used) = faulty_use(memory, &call.content, self.start.alloc_min_bytes) {
            self.heap_errors.note(call, used, |address| memory.return_place(address));
        }
    }

    /// Who sent what was received from anybody, if it is known: the index of a process, and when it moved the data.
    pub fn answer(&mut self, asked: &Asked, sender: Option<(u32, u64)>) {
        let ranked = |(sender, time_ns)| Some((self.processes.all().get(sender as usize)?.rank?, time_ns));
        self.messages.answer(asked, sender.and_then(ranked));
        self.tell_learnt();
    }

    /// A message whose data moved unseen, as the movement that it is; counted.
    pub fn message_movement(
        &mut self,
        arrived: &ArrivedContent,
        (sender, sent): (u32, Side),
        destination: Side,
        time_ns: u64,
    ) -> Movement {
        let process = arrived.process;
        let len_bytes = destination.end - destination.start;
        let m = Movement {
            thread: self.thread(process, arrived.arrival.tid),
            process: process as u32,
            pid: arrived.arrival.pid,
            tid: arrived.arrival.tid,
            who: self.processes.get(process).who,
            time_ns,
            site: self.site_of(process, arrived.arrival.return_address),
            kind: Kind::Message,
            source: Side { end: sent.start + len_bytes, ..sent },
            destination,
            len_bytes,
            segments: 1,
            remote: Some(sender),
            call: super::ids::CallSiteId::NONE,
        };
        self.processes.get_mut(process).count_movement(len_bytes);
        self.probes.call_counts(0).count_movement(len_bytes);
        self.totals.unseen_messages += 1;
        m
    }

    #[inline(never)]
    fn side(&mut self, process: usize, content: &MessageContent) -> Side {
        let memory = &mut self.processes.get_mut(process).memory;
        resolve::own(memory, content.addr, content.len_bytes.get())
    }
}

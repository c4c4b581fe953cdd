//! What the pipeline makes of the content of messages: the way from [`mpi`](crate::job::messages) to [`chains`](crate::chains) and back.
//!
//! Between a send and its receive data is mostly copied by functions that are watched. Where nothing was seen to write into the
//! receiver's buffer since the receive was posted (code without calls, hardware), the matched pair is the movement.
//! And where nobody was told whose message a receive got, the copies that were seen tell.

use crate::chains::{Movement, Sent, Side};
use crate::job::messages::{Arrival, Asked, Content, Data};
use crate::job::names::Kind;
use crate::job::process::CallId;
use crate::job::resolve;
use crate::pipeline::Pipeline;

impl Pipeline {
    /// Takes what messages have done with memory by the last record.
    pub(crate) fn follow_data(&mut self, time_ns: u64) {
        // What is answered may make more known.
        while let Some(data) = self.messages.next_data() {
            match data {
                Data::Sent { number, pid, content } => self.send(number, pid, &content),
                Data::Received(arrival) => self.arrive(&arrival, time_ns),
                Data::FromAnybody(asked) => self.find_sender(&asked),
            }
        }
    }

    #[inline(never)]
    fn side(&mut self, process: usize, content: &Content) -> Side {
        let memory = &mut self.state.processes.get_mut(process).memory;
        resolve::own(memory, content.addr, content.len_bytes.get())
    }

    fn send(&mut self, number: u64, pid: u32, content: &Content) {
        let process = self.state.process(pid);
        let source = self.side(process, content);
        let state = &mut self.state;
        state.chains.hold(number, process as u32, source, &mut state.names, &mut state.groups);
    }

    fn arrive(&mut self, arrival: &Arrival, time_ns: u64) {
        let Some(sent) = self.state.chains.take_sent(arrival.number) else { return };
        let process = self.state.process(arrival.pid);
        let mut destination = self.side(process, &arrival.content);
        let sent_bytes = sent.source.end - sent.source.start;
        destination.end = destination.end.min(destination.start.saturating_add(sent_bytes));
        let state = &mut self.state;
        let is_unseen = destination.start < destination.end
            && !state.chains.is_written_since(&destination, arrival.content.since_ns);
        if !is_unseen || self.coverage.is_paused() {
            return state.chains.drop_sent(sent, &mut state.names, &mut state.groups);
        }
        let m = self.movement_of(arrival, process, sent, destination, time_ns);
        self.count_movement(process, 0, &m);
        self.totals.unseen_messages += 1;
        let state = &mut self.state;
        state.chains.arrive(&m, sent, &mut state.names, &mut state.groups);
    }

    fn movement_of(
        &mut self,
        arrival: &Arrival,
        process: usize,
        sent: Sent,
        destination: Side,
        time_ns: u64,
    ) -> Movement {
        let state = &mut self.state;
        let len_bytes = destination.end - destination.start;
        let source = Side { end: sent.source.start + len_bytes, ..sent.source };
        Movement {
            thread: state.thread(process, arrival.tid),
            process: process as u32,
            pid: arrival.pid,
            tid: arrival.tid,
            who: state.processes.get(process).who,
            time_ns,
            site: state.site_of(process, arrival.return_address),
            kind: Kind::Message,
            source,
            destination,
            len_bytes,
            segments: 1,
            remote: Some(sent.process),
            call: CallId::NONE,
        }
    }

    fn find_sender(&mut self, asked: &Asked) {
        let process = self.state.process(asked.pid);
        let destination = self.side(process, &asked.content);
        let sender = self.state.chains.came_from(&destination, asked.content.since_ns, process as u32);
        let rank = sender.and_then(|sender| self.state.processes.all().get(sender as usize)?.rank);
        self.messages.answer(asked, rank);
    }
}

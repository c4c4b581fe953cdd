//! MPI calls and messages as a timeline of Perfetto: a track for each thread of each rank, a slice for each call, an arrow for each
//! message.

use std::collections::HashSet;
use std::io::{self, Write};

use analyzer::messages::{CallId, MessageId};

use super::perfetto::{
    DebugAnnotation, INSTANT, ProcessDescriptor, SLICE_BEGIN, SLICE_END, ThreadDescriptor, TracePacket,
    TraceWriter, TrackDescriptor, TrackEvent,
};
use super::recent::Recent;

/// Calls and messages that wait for what else is to be known of them: of more than this the oldest have no arrows.
const MOST_WAITING: usize = 1 << 18;

/// A call, in words.
#[derive(Clone, Debug)]
pub struct ExportedCall {
    /// Which.
    pub id: CallId,
    /// Its process.
    pub pid: u32,
    /// `MPI_Recv`.
    pub function: String,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// The same, if it was seen to return.
    pub end_ns: Option<u64>,
    /// Names and values that are shown with it.
    pub annotations: Vec<(String, String)>,
}

/// When a call was, and who waits for that.
#[derive(Debug, Default)]
struct CallTimes {
    /// Beginning and end, once it is over.
    times: Option<[u64; 2]>,
    /// Ends of messages that are drawn then.
    arrows: Vec<ArrowEnd>,
}

/// One end of an arrow.
#[derive(Clone, Copy, Debug)]
struct ArrowEnd {
    flow: u64,
    is_send: bool,
    peer: u32,
}

/// What is known of a message by one of its sides.
#[derive(Debug, Default)]
struct MessageSide {
    /// Of a receive: the arrow, and whose message it got.
    arrow: Option<ArrowEnd>,
    /// The call in which its buffer was the user's again.
    completed_by: Option<CallId>,
}

/// Counts what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Calls.
    pub calls: u64,
    /// Messages whose send and receive are known.
    pub messages: u64,
}

/// Writes a timeline as it becomes known.
#[derive(Debug)]
pub struct TimelineExport<W> {
    writer: TraceWriter<W>,
    ranks: HashSet<u32>,
    threads: HashSet<(u32, u32)>,
    calls: Recent<CallId, CallTimes>,
    sides: Recent<MessageId, MessageSide>,
    counts: ExportCounts,
}

impl<W: Write> TimelineExport<W> {
    /// Into a file or memory.
    pub fn new(out: W) -> Self {
        Self {
            writer: TraceWriter::new(out),
            ranks: HashSet::new(),
            threads: HashSet::new(),
            calls: Recent::new(MOST_WAITING),
            sides: Recent::new(MOST_WAITING),
            counts: ExportCounts::default(),
        }
    }

    /// A call is over.
    ///
    /// # Errors
    /// There is no room for what is written.
    pub fn call(&mut self, call: &ExportedCall) -> io::Result<()> {
        let ExportedCall { id, pid, function, begin_ns, end_ns, annotations } = call;
        self.describe(*id, *pid)?;
        let annotation = |(name, value): &(String, String)| DebugAnnotation {
            name: Some(name.clone()),
            string_value: Some(value.clone()),
        };
        let event = TrackEvent {
            r#type: Some(if end_ns.is_some() { SLICE_BEGIN } else { INSTANT }),
            name: Some(function.clone()),
            debug_annotations: annotations.iter().map(annotation).collect(),
            ..TrackEvent::default()
        };
        self.event(*id, *begin_ns, event)?;
        let times = [*begin_ns, end_ns.unwrap_or(*begin_ns)];
        let known = self.calls.entry(*id, CallTimes::default);
        known.times = Some(times);
        for arrow in std::mem::take(&mut known.arrows) {
            self.arrow(*id, times, arrow)?;
        }
        if let Some(end_ns) = end_ns {
            let end = TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() };
            self.event(*id, *end_ns, end)?;
        }
        self.counts.calls += 1;
        Ok(())
    }

    /// A receive has got a send's message.
    ///
    /// # Errors
    /// There is no room for what is written.
    pub fn matched(&mut self, send: MessageId, receive: MessageId) -> io::Result<()> {
        // Of no other message, whatever is forgotten.
        self.counts.messages += 1;
        let flow = self.counts.messages;
        self.sides.remove(send);
        self.end(send.call, ArrowEnd { flow, is_send: true, peer: receive.call.rank })?;
        let arrow = ArrowEnd { flow, is_send: false, peer: send.call.rank };
        let side = self.sides.entry(receive, MessageSide::default);
        side.arrow = Some(arrow);
        match side.completed_by {
            Some(by) => {
                self.sides.remove(receive);
                self.end(by, arrow)
            }
            None => Ok(()),
        }
    }

    /// The buffer of a message is the user's again.
    ///
    /// # Errors
    /// There is no room for what is written.
    pub fn completed(&mut self, message: MessageId, by: CallId) -> io::Result<()> {
        let side = self.sides.entry(message, MessageSide::default);
        side.completed_by = Some(by);
        match side.arrow {
            Some(arrow) => {
                self.sides.remove(message);
                self.end(by, arrow)
            }
            None => Ok(()),
        }
    }

    /// Draws an end of an arrow in a call, as soon as the call is known.
    fn end(&mut self, call: CallId, arrow: ArrowEnd) -> io::Result<()> {
        let known = self.calls.entry(call, CallTimes::default);
        match known.times {
            Some(times) => self.arrow(call, times, arrow),
            None => {
                known.arrows.push(arrow);
                Ok(())
            }
        }
    }

    /// Messages leave when their call begins, and are there just before it ends.
    fn arrow(&mut self, call: CallId, [begin_ns, end_ns]: [u64; 2], arrow: ArrowEnd) -> io::Result<()> {
        let ArrowEnd { flow, is_send, peer } = arrow;
        let event = TrackEvent { r#type: Some(INSTANT), ..TrackEvent::default() };
        if is_send {
            let event = TrackEvent { name: Some(format!("to rank {peer}")), flow_ids: vec![flow], ..event };
            self.event(call, begin_ns, event)
        } else {
            let name = Some(format!("from rank {peer}"));
            let event = TrackEvent { name, terminating_flow_ids: vec![flow], ..event };
            self.event(call, end_ns.saturating_sub(1).max(begin_ns), event)
        }
    }

    fn event(&mut self, call: CallId, time_ns: u64, event: TrackEvent) -> io::Result<()> {
        let track_event = Some(TrackEvent { track_uuid: Some(thread_track(call)), ..event });
        self.writer.packet(TracePacket { timestamp: Some(time_ns), track_event, ..TracePacket::default() })
    }

    /// Says what its tracks are, the first time.
    fn describe(&mut self, call: CallId, pid: u32) -> io::Result<()> {
        let (rank, tid) = (call.rank, call.tid);
        let number = |id: u32| i32::try_from(id).ok();
        if self.ranks.insert(rank) {
            let process = ProcessDescriptor { pid: number(pid), process_name: Some(format!("rank {rank}")) };
            let uuid = Some(rank_track(rank));
            self.track(TrackDescriptor { uuid, process: Some(process), ..TrackDescriptor::default() })?;
        }
        if self.threads.insert((rank, tid)) {
            let thread_name = if tid == pid { "main thread".to_owned() } else { format!("thread {tid}") };
            let thread =
                ThreadDescriptor { pid: number(pid), tid: number(tid), thread_name: Some(thread_name) };
            let (uuid, parent_uuid) = (Some(thread_track(call)), Some(rank_track(rank)));
            let thread = Some(thread);
            self.track(TrackDescriptor { uuid, thread, parent_uuid, process: None })?;
        }
        Ok(())
    }

    fn track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.writer.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    /// All was given.
    ///
    /// # Errors
    /// There is no room for the last of it.
    pub fn finish(self) -> io::Result<(W, ExportCounts)> {
        Ok((self.writer.finish()?, self.counts))
    }
}

/// No thread has number 0.
fn rank_track(rank: u32) -> u64 {
    (u64::from(rank) + 1) << 32
}

fn thread_track(call: CallId) -> u64 {
    rank_track(call.rank) | u64::from(call.tid)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::perfetto::PerfettoTrace;
    use super::*;

    fn id(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: 10 + rank, number }
    }

    fn call(rank: u32, number: u32, begin_ns: u64, end_ns: u64) -> ExportedCall {
        ExportedCall {
            id: id(rank, number),
            pid: 10 + rank,
            function: format!("call {number}"),
            begin_ns,
            end_ns: Some(end_ns),
            annotations: vec![("tag".to_owned(), "5".to_owned())],
        }
    }

    fn message(rank: u32, number: u32) -> MessageId {
        MessageId { call: id(rank, number), part: 0 }
    }

    fn events(export: TimelineExport<Vec<u8>>) -> Vec<(u64, TrackEvent)> {
        let (bytes, _) = export.finish().expect("memory has room");
        let trace = PerfettoTrace::decode(&bytes[..]).expect("a trace");
        let event = |packet: TracePacket| Some((packet.timestamp?, packet.track_event?));
        trace.packet.into_iter().filter_map(event).collect()
    }

    /// Where arrow 1 begins and ends.
    fn arrow(events: &[(u64, TrackEvent)]) -> [Vec<(u64, u64)>; 2] {
        let ends = |of: fn(&TrackEvent) -> &Vec<u64>| {
            let has = events.iter().filter(|(_, event)| of(event).contains(&1));
            has.map(|(time, event)| (*time, event.track_uuid.unwrap_or(0) >> 32)).collect()
        };
        [ends(|event| &event.flow_ids), ends(|event| &event.terminating_flow_ids)]
    }

    /// A receive that is posted in one call and completed in another, told of in any order.
    #[test]
    fn an_arrow_goes_from_the_send_to_the_call_that_completes_the_receive_whatever_is_told_first() {
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [3, 4, 0, 2, 1], [2, 0, 4, 1, 3]] {
            let mut export = TimelineExport::new(Vec::new());
            for step in order {
                let result = match step {
                    0 => export.call(&call(0, 1, 100, 200)),
                    1 => export.call(&call(1, 1, 50, 60)),
                    2 => export.call(&call(1, 2, 150, 300)),
                    3 => export.matched(message(0, 1), message(1, 1)),
                    _ => export.completed(message(1, 1), id(1, 2)),
                };
                result.expect("memory has room");
            }
            let events = events(export);
            assert_eq!(arrow(&events), [vec![(100, 1)], vec![(299, 2)]], "{order:?}");
        }
    }

    #[test]
    fn a_call_is_a_slice_and_one_that_was_not_seen_to_return_an_instant() {
        let mut export = TimelineExport::new(Vec::new());
        export.call(&call(0, 1, 100, 200)).expect("memory has room");
        export.call(&ExportedCall { end_ns: None, ..call(0, 2, 300, 0) }).expect("memory has room");
        let kinds: Vec<_> = events(export).into_iter().map(|(time, event)| (time, event.r#type)).collect();
        assert_eq!(kinds, [(100, Some(SLICE_BEGIN)), (200, Some(SLICE_END)), (300, Some(INSTANT))]);
    }
}

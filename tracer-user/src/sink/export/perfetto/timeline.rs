//! A job as a timeline of Perfetto: a track for each thread of each rank, a slice for each call, an arrow for each message and
//! each step of a chain, and a mark for each movement of data, finding and gap.

use std::collections::HashMap;
use std::io::Write;

use analyzer::finding::{Finding, Severity};
use analyzer::input::ClockReading;
use analyzer::messages::ShownArgument;
use analyzer::process::Who;
use analyzer::timeline::kept_map::KeptMap;
use anyhow::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::exported::{
    ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedMessage, ExportedMovement,
    ExportedSession, Exporter,
};
use super::format::{
    Clock, ClockSnapshot, DebugAnnotation, INSTANT, MONOTONIC, NEEDS_STATE, ProcessDescriptor, REALTIME,
    SLICE_BEGIN, SLICE_END, STATE_CLEARED, ThreadDescriptor, TracePacket, TracePacketDefaults, TraceWriter,
    TrackDescriptor, TrackEvent,
};
use super::interned::{InternedTexts, TextUse};

/// Operations that wrote something which may still be read: what others wrote has no arrow.
const MOST_OPERATIONS: usize = 1 << 18;
/// Ranks of a finding that have a mark of their own.
const MOST_MARKED: usize = 64;
/// Tracks that are no process's: of findings, of pauses, and of nodes from there on.
const FINDINGS_TRACK: u64 = 1;
const COVERAGE_TRACK: u64 = 2;
const NODE_TRACKS: u64 = 3;

/// Where an operation is drawn.
#[derive(Clone, Copy, Debug)]
struct OperationMark {
    time_ns: u64,
    track: u64,
    /// Its own arrow has gone to somebody.
    is_read: bool,
}

/// Writes a timeline as it becomes known.
#[derive(Debug)]
pub struct TimelineExport<W> {
    writer: TraceWriter<W>,
    texts: InternedTexts,
    processes: FxHashSet<u32>,
    threads: FxHashSet<(u32, u32)>,
    /// By rank, the tracks of its process and of its threads.
    of_rank: FxHashMap<u32, u64>,
    of_thread: FxHashMap<(u32, u32), u64>,
    operations: KeptMap<u64, OperationMark>,
    arrows: u64,
    has_findings: bool,
    has_coverage: bool,
    counts: ExportCounts,
}

impl<W: Write> TimelineExport<W> {
    /// Into a file or memory.
    pub fn new(out: W) -> Self {
        Self {
            writer: TraceWriter::new(out),
            texts: InternedTexts::default(),
            processes: FxHashSet::default(),
            threads: FxHashSet::default(),
            of_rank: HashMap::default(),
            of_thread: HashMap::default(),
            operations: KeptMap::new(MOST_OPERATIONS),
            arrows: 0,
            has_findings: false,
            has_coverage: false,
            counts: ExportCounts::default(),
        }
    }

    /// Where it was written.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }

    fn event(&mut self, track: u64, time_ns: u64, event: TrackEvent) -> Result<()> {
        let packet = TracePacket {
            timestamp: Some(time_ns),
            interned_data: self.texts.take_new(),
            sequence_flags: Some(NEEDS_STATE),
            track_event: Some(TrackEvent { track_uuid: Some(track), ..event }),
            ..TracePacket::default()
        };
        Ok(self.writer.packet(packet)?)
    }

    fn named(&mut self, kind: i32, name: &str) -> TrackEvent {
        let name_iid = self.texts.number(TextUse::EventName, name);
        let name = name_iid.is_none().then(|| name.to_owned());
        TrackEvent { r#type: Some(kind), name_iid, name, ..TrackEvent::default() }
    }

    fn number(&mut self, name: &str, value: i64) -> DebugAnnotation {
        let name_iid = self.texts.number(TextUse::AnnotationName, name);
        DebugAnnotation { name_iid, int_value: Some(value), ..DebugAnnotation::default() }
    }

    fn text(&mut self, name: &str, value: &str) -> DebugAnnotation {
        let name_iid = self.texts.number(TextUse::AnnotationName, name);
        let string_value_iid = self.texts.number(TextUse::AnnotationValue, value);
        let string_value = string_value_iid.is_none().then(|| value.to_owned());
        DebugAnnotation { name_iid, string_value_iid, string_value, ..DebugAnnotation::default() }
    }

    fn argument(&mut self, name: &str, value: &ShownArgument) -> DebugAnnotation {
        match value {
            ShownArgument::Number(number) => self.number(name, i64::from(*number)),
            ShownArgument::Name(value) => self.text(name, value),
            ShownArgument::Text(value) => self.text(name, value),
            ShownArgument::Unknown => self.text(name, "?"),
        }
    }

    fn arguments(&mut self, call: &ExportedCall<'_>) -> Vec<DebugAnnotation> {
        let mut annotations = Vec::with_capacity(call.arguments.len() + 1);
        for (name, value) in call.arguments {
            annotations.push(self.argument(name, value));
        }
        if let Some(place) = call.place {
            annotations.push(self.text("at", place));
        }
        if let Some([begin_ns, end_ns]) = call.error_ns {
            let error_ns = i64::try_from(begin_ns.max(end_ns)).unwrap_or(i64::MAX);
            annotations.push(self.number("may be off by ns", error_ns));
        }
        annotations
    }

    /// An arrow of its own.
    fn next_arrow(&mut self) -> u64 {
        self.arrows += 1;
        // Those of operations are even.
        self.arrows * 2 + 1
    }

    /// The arrow from the operation that wrote what is read, if that is drawn.
    fn arrow_from(&mut self, writer: u64, by: &str) -> Result<Option<u64>> {
        let Some(mark) = self.operations.get_mut(writer) else { return Ok(None) };
        if !std::mem::replace(&mut mark.is_read, true) {
            return Ok(Some(arrow_of(writer)));
        }
        // An arrow has one end: who reads the same after others gets one of its own.
        let OperationMark { time_ns, track, .. } = *mark;
        let arrow = self.next_arrow();
        let event = TrackEvent { flow_ids: vec![arrow], ..self.named(INSTANT, by) };
        self.event(track, time_ns, event)?;
        Ok(Some(arrow))
    }

    /// Tells what tracks there are, the first time.
    fn process(&mut self, session: &ExportedSession<'_>, pid: u32, rank: Option<u32>) -> Result<u64> {
        let track = process_track(pid);
        if self.processes.insert(pid) {
            let own = session.pid_on_node(pid);
            let name = rank.map_or_else(|| format!("process {own}"), |rank| format!("rank {rank}"));
            let name = match session.start.nodes.as_slice() {
                [] | [_] => name,
                _ => format!("{name} on {} (pid {own})", session.node_of(pid)),
            };
            // Nodes give the same numbers to their processes: these here are unique.
            let process = ProcessDescriptor { pid: Some(pid as i32), process_name: Some(name) };
            let process = Some(process);
            self.track(TrackDescriptor { uuid: Some(track), process, ..TrackDescriptor::default() })?;
        }
        if let Some(rank) = rank {
            self.of_rank.insert(rank, track);
        }
        Ok(track)
    }

    fn thread(
        &mut self,
        session: &ExportedSession<'_>,
        (pid, tid): (u32, u32),
        rank: Option<u32>,
    ) -> Result<u64> {
        let track = process_track(pid) | u64::from(tid);
        if self.threads.insert((pid, tid)) {
            let parent = self.process(session, pid, rank)?;
            let name = match tid == pid {
                true => "main thread".to_owned(),
                false => format!("thread {}", session.pid_on_node(tid)),
            };
            let thread =
                ThreadDescriptor { pid: Some(pid as i32), tid: Some(tid as i32), thread_name: Some(name) };
            let (uuid, parent_uuid, thread) = (Some(track), Some(parent), Some(thread));
            self.track(TrackDescriptor { uuid, parent_uuid, thread, ..TrackDescriptor::default() })?;
        }
        if let Some(rank) = rank {
            self.of_thread.insert((rank, tid), track);
        }
        Ok(track)
    }

    fn track(&mut self, track: TrackDescriptor) -> Result<()> {
        Ok(self.writer.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })?)
    }

    fn named_track(&mut self, uuid: u64, name: &str, description: Option<String>) -> Result<()> {
        let (uuid, name) = (Some(uuid), Some(name.to_owned()));
        self.track(TrackDescriptor { uuid, name, description, ..TrackDescriptor::default() })
    }

    fn coverage_track(&mut self) -> Result<u64> {
        if !std::mem::replace(&mut self.has_coverage, true) {
            self.named_track(COVERAGE_TRACK, "coverage", None)?;
        }
        Ok(COVERAGE_TRACK)
    }

    fn mark_finding(&mut self, track: u64, time_ns: u64, finding: &Finding) -> Result<()> {
        let severity = if finding.severity == Severity::Warning { "warning" } else { "notice" };
        let mut event = self.named(INSTANT, &finding.summary);
        event.debug_annotations = vec![self.text("severity", severity), self.text("id", &finding.id)];
        self.event(track, time_ns, event)
    }
}

impl<W: Write> Exporter for TimelineExport<W> {
    fn session(&mut self, session: &ExportedSession<'_>) -> Result<()> {
        let start = session.start;
        self.writer.packet(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(MONOTONIC) }),
            clock_snapshot: Some(snapshot(start.time_ns, start.wall_clock_ns())),
            ..TracePacket::default()
        })?;
        if start.nodes.len() > 1 {
            for (node, name) in start.nodes.iter().enumerate() {
                let track = NODE_TRACKS + node as u64;
                self.named_track(track, &format!("node {name}"), session.clocks.map(str::to_owned))?;
            }
        }
        Ok(())
    }

    fn clock(&mut self, reading: &ClockReading) -> Result<()> {
        // Times are those of the first node.
        if reading.node != 0 {
            return Ok(());
        }
        let clock_snapshot = Some(snapshot(reading.time_ns, reading.wall_clock_ns));
        Ok(self.writer.packet(TracePacket { clock_snapshot, ..TracePacket::default() })?)
    }

    fn call(&mut self, session: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()> {
        let track = self.thread(session, (call.pid, call.id.tid), Some(call.id.rank))?;
        let kind = if call.end_ns.is_some() { SLICE_BEGIN } else { INSTANT };
        let mut event = self.named(kind, &call.row.name);
        event.debug_annotations = self.arguments(call);
        self.event(track, call.begin_ns, event)?;
        if let Some(end_ns) = call.end_ns {
            let end = TrackEvent { r#type: Some(SLICE_END), ..TrackEvent::default() };
            self.event(track, end_ns.max(call.begin_ns), end)?;
        }
        self.counts.calls += 1;
        Ok(())
    }

    /// Messages leave when their call begins, and are there just before the call that completes them ends.
    fn message(&mut self, _: &ExportedSession<'_>, message: &ExportedMessage) -> Result<()> {
        self.counts.messages += 1;
        let ExportedMessage { send, receive, sent_ns, received, .. } = *message;
        let arrow = self.next_arrow();
        let track = |of: &Self, rank: u32, tid: u32| of.of_thread.get(&(rank, tid)).copied();
        if let Some((track, sent_ns)) = track(self, send.call.rank, send.call.tid).zip(sent_ns) {
            let name = format!("to rank {}", receive.call.rank);
            let event = TrackEvent { flow_ids: vec![arrow], ..self.named(INSTANT, &name) };
            self.event(track, sent_ns, event)?;
        }
        let by = received.and_then(|by| Some((track(self, by.by.rank, by.by.tid)?, by.time_ns)));
        if let Some((track, time_ns)) = by {
            let name = format!("from rank {}", send.call.rank);
            let event = TrackEvent { terminating_flow_ids: vec![arrow], ..self.named(INSTANT, &name) };
            let not_before = sent_ns.unwrap_or(0);
            self.event(track, time_ns.saturating_sub(1).max(not_before), event)?;
        }
        Ok(())
    }

    fn movement(&mut self, session: &ExportedSession<'_>, movement: &ExportedMovement<'_>) -> Result<()> {
        let track = self.thread(session, (movement.pid, movement.tid), movement.rank)?;
        let from = match movement.written_by.filter(|writer| Some(*writer) != movement.operation) {
            Some(writer) => self.arrow_from(writer, "read again")?,
            None => None,
        };
        let mut event = self.named(INSTANT, movement.kind);
        event.debug_annotations = vec![
            self.number("bytes", i64::try_from(movement.len_bytes).unwrap_or(i64::MAX)),
            self.text("from", movement.source),
            self.text("to", movement.destination),
            self.text("at", movement.place),
        ];
        if !movement.function.is_empty() {
            let call = self.text("in", movement.function);
            event.debug_annotations.push(call);
        }
        if let Some(peer) = movement.peer_rank {
            let peer = self.number("peer", i64::from(peer));
            event.debug_annotations.push(peer);
        }
        event.terminating_flow_ids.extend(from);
        if let Some(operation) = movement.operation {
            let mark = OperationMark { time_ns: movement.time_ns, track, is_read: false };
            let mut is_new = false;
            self.operations.entry(operation, || {
                is_new = true;
                mark
            });
            event.flow_ids.extend(is_new.then_some(arrow_of(operation)));
        }
        self.event(track, movement.time_ns, event)?;
        self.counts.movements += 1;
        Ok(())
    }

    fn gap(&mut self, session: &ExportedSession<'_>, gap: &ExportedGap) -> Result<()> {
        let track = match gap.pid {
            Some(pid) => self.process(session, pid, gap.rank)?,
            None => self.coverage_track()?,
        };
        let name = match (gap.why, gap.records) {
            ("lost", Some(records)) => format!("{records} records lost"),
            ("lost", None) => "records lost".to_owned(),
            (why, _) => format!("tracing {why}"),
        };
        let mut event = self.named(INSTANT, &name);
        let since = session.start.time_ns;
        event.debug_annotations.push(self.number("from_ns", gap.from_ns.saturating_sub(since) as i64));
        if let Some(to_ns) = gap.to_ns {
            let to = self.number("to_ns", to_ns.saturating_sub(since) as i64);
            event.debug_annotations.push(to);
        }
        self.event(track, gap.from_ns, event)
    }

    fn finding(&mut self, found: &ExportedFinding<'_>) -> Result<()> {
        if !std::mem::replace(&mut self.has_findings, true) {
            self.named_track(FINDINGS_TRACK, "findings", None)?;
        }
        self.mark_finding(FINDINGS_TRACK, found.raised_ns, found.finding)?;
        let ranks = found
            .finding
            .who
            .iter()
            .filter_map(|who| if let Who::Rank(rank) = who { Some(*rank) } else { None });
        let tracks: Vec<u64> =
            ranks.filter_map(|rank| self.of_rank.get(&rank).copied()).take(MOST_MARKED).collect();
        for track in tracks {
            self.mark_finding(track, found.raised_ns, found.finding)?;
        }
        self.counts.findings += 1;
        Ok(())
    }

    fn finish(&mut self, _: &ExportedSession<'_>) -> Result<()> {
        Ok(self.writer.flush()?)
    }

    fn counts(&self) -> ExportCounts {
        self.counts
    }
}

/// No process has number 0.
fn process_track(pid: u32) -> u64 {
    u64::from(pid) << 32
}

fn arrow_of(operation: u64) -> u64 {
    operation.wrapping_mul(2).wrapping_add(2)
}

fn snapshot(monotonic_ns: u64, realtime_ns: u64) -> ClockSnapshot {
    let clock = |clock_id, timestamp| Clock { clock_id: Some(clock_id), timestamp: Some(timestamp) };
    let clocks = vec![clock(MONOTONIC, monotonic_ns), clock(REALTIME, realtime_ns)];
    ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) }
}

#[cfg(test)]
mod tests {
    use analyzer::calls::row;
    use analyzer::input::Start;
    use analyzer::messages::{CallId, MessageId};
    use prost::Message;

    use super::super::super::exported::{CallParts, Reception};
    use super::super::format::PerfettoTrace;
    use super::*;

    fn id(rank: u32, number: u32) -> CallId {
        CallId { rank, tid: 10 + rank, number }
    }

    fn trace(
        tell: impl FnOnce(&mut TimelineExport<Vec<u8>>, &ExportedSession<'_>) -> Result<()>,
    ) -> PerfettoTrace {
        let start = Start { time_ns: 50, ..Start::default() };
        let session = ExportedSession { start: &start, clocks: None };
        let mut export = TimelineExport::new(Vec::new());
        export.session(&session).expect("memory has room");
        tell(&mut export, &session).expect("memory has room");
        export.finish(&session).expect("memory has room");
        PerfettoTrace::decode(&export.into_inner()[..]).expect("a trace")
    }

    fn call(rank: u32, number: u32, end_ns: Option<u64>, parts: &CallParts) -> ExportedCall<'_> {
        ExportedCall {
            id: id(rank, number),
            pid: 10 + rank,
            row: row("MPI_Send").expect("a call"),
            begin_ns: 100,
            end_ns,
            error_ns: None,
            arguments: &[("tag", ShownArgument::Number(5))],
            place: Some("main (a.c:7)"),
            communicator: None,
            root: None,
            collective_bytes: None,
            parts,
        }
    }

    fn events(trace: &PerfettoTrace) -> Vec<(u64, &TrackEvent)> {
        trace
            .packet
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)))
            .collect()
    }

    #[test]
    fn a_call_is_a_slice_and_one_that_was_not_seen_to_return_an_instant() {
        let parts = CallParts::default();
        let trace = trace(|export, session| {
            export.call(session, &call(0, 1, Some(200), &parts))?;
            export.call(session, &call(0, 2, None, &parts))
        });
        let kinds: Vec<_> = events(&trace).into_iter().map(|(time, event)| (time, event.r#type)).collect();
        assert_eq!(kinds, [(100, Some(SLICE_BEGIN)), (200, Some(SLICE_END)), (100, Some(INSTANT))]);
    }

    #[test]
    fn an_arrow_goes_from_the_send_to_the_end_of_the_call_that_completes_the_receive() {
        let parts = CallParts::default();
        let trace = trace(|export, session| {
            export.call(session, &call(0, 1, Some(200), &parts))?;
            export.call(session, &call(1, 1, Some(300), &parts))?;
            let message = ExportedMessage {
                send: MessageId { call: id(0, 1), part: 0 },
                receive: MessageId { call: id(1, 1), part: 0 },
                sent_ns: Some(100),
                received: Some(Reception { by: id(1, 1), time_ns: 300 }),
                comm: None,
                tag: None,
                len_bytes: None,
            };
            export.message(session, &message)
        });
        let ends: Vec<_> = events(&trace)
            .into_iter()
            .filter(|(_, event)| !event.flow_ids.is_empty() || !event.terminating_flow_ids.is_empty())
            .map(|(time, event)| (time, event.track_uuid, event.flow_ids.len()))
            .collect();
        assert_eq!(ends, [(100, Some(10 << 32 | 10), 1), (299, Some(11 << 32 | 11), 0)]);
    }

    fn movement(time_ns: u64, operation: u64, written_by: Option<u64>) -> ExportedMovement<'static> {
        ExportedMovement {
            time_ns,
            pid: 10,
            tid: 10,
            rank: Some(0),
            kind: "copy",
            len_bytes: 8,
            place: "copy (a.c:1)",
            function: "",
            called_at: "",
            source: "heap block",
            source_addr: 1,
            destination: "stack",
            destination_addr: 2,
            peer_rank: None,
            operation: Some(operation),
            written_by,
        }
    }

    /// What operation 1 wrote is read twice: by two pieces of operation 2, and by operation 3.
    #[test]
    fn steps_of_chains_are_arrows_with_one_end_each() {
        let trace = trace(|export, session| {
            for (time_ns, operation, written_by) in
                [(1, 1, None), (2, 2, Some(1)), (3, 2, Some(1)), (4, 3, Some(1))]
            {
                export.movement(session, &movement(time_ns, operation, written_by))?;
            }
            Ok(())
        });
        let events = events(&trace);
        let ends = |of: fn(&TrackEvent) -> &Vec<u64>| -> Vec<(u64, u64)> {
            events.iter().flat_map(|(time, event)| of(event).iter().map(|arrow| (*arrow, *time))).collect()
        };
        let from: HashMap<u64, u64> = ends(|event| &event.flow_ids).into_iter().collect();
        let to = ends(|event| &event.terminating_flow_ids);
        let steps: Vec<_> = to.iter().map(|(arrow, time)| (from[arrow], *time)).collect();
        assert_eq!(steps, [(1, 2), (1, 3), (1, 4)]);
        let arrows: FxHashSet<u64> = to.iter().map(|(arrow, _)| *arrow).collect();
        assert_eq!(arrows.len(), 3);
    }

    #[test]
    fn texts_are_written_once_and_before_they_are_needed() {
        let parts = CallParts::default();
        let trace = trace(|export, session| {
            (1..4).try_for_each(|number| export.call(session, &call(0, number, None, &parts)))
        });
        let interned: Vec<_> =
            trace.packet.iter().filter_map(|packet| packet.interned_data.as_ref()).collect();
        assert_eq!(interned.len(), 1);
        assert_eq!(interned[0].event_names[0].name.as_deref(), Some("MPI_Send"));
        assert_eq!(trace.packet[0].sequence_flags, Some(STATE_CLEARED));
        let clocks = trace.packet[0].clock_snapshot.as_ref().expect("clocks");
        assert_eq!(clocks.primary_trace_clock, Some(MONOTONIC));
    }
}

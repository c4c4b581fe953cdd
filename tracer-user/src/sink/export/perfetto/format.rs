//! The part of Perfetto's trace format that is written: packets of track events, names, clocks.
//!
//! Numbers of fields are those of `protos/perfetto/trace/` in Perfetto, which stay as they are.

use std::io::{self, Write};

use prost::Message;

/// A packet of a trace.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// What clocks show at the same time.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    /// Who has written it.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// What happened.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Texts that have numbers from here on.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// One of the constants below.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// What holds for all packets.
    #[prost(message, optional, tag = "59")]
    pub trace_packet_defaults: Option<TracePacketDefaults>,
    /// What a track is.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// Nothing that has a number comes before it.
pub const STATE_CLEARED: u32 = 1;
/// It needs what has numbers.
pub const NEEDS_STATE: u32 = 2;

/// What holds for all packets.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacketDefaults {
    /// The clock of their times.
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
}

/// CLOCK_REALTIME.
pub const REALTIME: u32 = 1;
/// CLOCK_MONOTONIC.
pub const MONOTONIC: u32 = 3;

/// What clocks show at the same time.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    /// One each.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    /// The clock that all times are told by.
    #[prost(uint32, optional, tag = "2")]
    pub primary_trace_clock: Option<u32>,
}

/// What a clock shows.
#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    /// One of the constants above.
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// Texts with numbers.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedName>,
    /// Names of values.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedName>,
    /// Values.
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<InternedName>,
}

/// A text with a number.
#[derive(Clone, PartialEq, Message)]
pub struct InternedName {
    /// From 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The text.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// What happened on a track.
#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    /// Names and values that are shown with it.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// One of the constants below.
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Where.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Number of what it is called.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// What it is called.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// Arrows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Arrows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// A slice begins.
pub const SLICE_BEGIN: i32 = 1;
/// The innermost slice ends.
pub const SLICE_END: i32 = 2;
/// Something without a duration.
pub const INSTANT: i32 = 3;

/// A name and a value.
#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    /// Number of the name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// The value, if it is a number.
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    /// The value, if it is a text …
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// … and the number of the value, if it has one.
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}

/// A track: a process, or a thread of one.
#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    /// What events call it.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// What it is called, if it is neither a process nor a thread.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// If it is a process.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// If it is a thread.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadDescriptor>,
    /// The track of its process.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// More about it.
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    /// Its number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// What it is called.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub struct ThreadDescriptor {
    /// Of its process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its number.
    #[prost(int32, optional, tag = "2")]
    pub tid: Option<i32>,
    /// What it is called.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// All packets, as a reader of the file has them.
#[derive(Clone, PartialEq, Message)]
pub struct PerfettoTrace {
    /// In the order of the file.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// Writes packets one after the other: a trace is nothing else.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> TraceWriter<W> {
    /// Into a file or memory.
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::new() }
    }

    /// One packet more.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn packet(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(1);
        self.buffer.clear();
        // Field 1 of a message, with a length.
        prost::encoding::message::encode(1, &packet, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }

    /// All was told.
    ///
    /// # Errors
    /// There is no room for the last of it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Where it was written.
    pub fn into_inner(self) -> W {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_one_after_the_other_are_a_trace() {
        let mut writer = TraceWriter::new(Vec::new());
        for timestamp in [7, 300] {
            let track_event = Some(TrackEvent { flow_ids: vec![timestamp], ..TrackEvent::default() });
            let packet = TracePacket { timestamp: Some(timestamp), track_event, ..TracePacket::default() };
            writer.packet(packet).expect("memory has room");
        }
        let bytes = writer.into_inner();
        let trace = PerfettoTrace::decode(&bytes[..]).expect("a trace");
        let times: Vec<_> = trace.packet.iter().map(|packet| packet.timestamp).collect();
        assert_eq!(times, [Some(7), Some(300)]);
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut writer = TraceWriter::new(Vec::new());
        writer.packet(TracePacket { timestamp: Some(5), ..TracePacket::default() }).expect("memory has room");
        // Field 1, four bytes: field 8 is 5, field 10 is 1.
        assert_eq!(writer.into_inner(), [0x0a, 4, 0x40, 5, 0x50, 1]);
    }
}

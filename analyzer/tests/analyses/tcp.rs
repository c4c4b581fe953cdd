//! Chains that go through TCP connections.

use crate::common::Trace;
use analyzer::finding::{Evidence, Finding, Report, Severity};
use analyzer::input::Input;
use analyzer::names::Kind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::wire::Body;
use proptest::prelude::*;

const STREAM: u64 = 77;
const HEADER_BYTES: u64 = 24;
const DATA_BYTES: u64 = 64;
const MESSAGE_BYTES: u64 = HEADER_BYTES + DATA_BYTES;
/// Messages that a side has room for.
const SLOTS: u64 = 8;

fn run(inputs: &[Input]) -> Report {
    let mut pipeline = Pipeline::new(Options::default());
    inputs.iter().for_each(|input| pipeline.push(input));
    pipeline.report()
}

fn warnings(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.severity == Severity::Warning).collect()
}

/// Rank 0 sends messages to rank 1: a header of the library's and staged data, one behind the other. Rank 1 receives into
/// one buffer, as far as it goes, and takes messages from there.
struct Connection {
    trace: Trace,
    messages: u64,
    written: u64,
    read: u64,
    /// Messages for which another buffer than the staged one is sent.
    misplaced: fn(u64) -> bool,
    /// Whether what is written and what is read is told.
    tells: fn(u64, bool) -> bool,
}

impl Connection {
    fn new(messages: u64) -> Self {
        let mut trace = Trace::new(2, true);
        // Places have their names in the order in which they are first used.
        for name in ["data", "staging", "headers", "received", "result", "input", "output"] {
            trace.heap(0, name);
            trace.heap(1, name);
        }
        for site in ["stage", "deliver", "work"] {
            trace.probe(site, ProbeClass::Copy);
        }
        Self { trace, messages, written: 0, read: 0, misplaced: |_| false, tells: |_, _| true }
    }

    fn total(&self) -> u64 {
        self.messages * MESSAGE_BYTES
    }

    fn moved(&mut self, position: u64, addr: u64, len_bytes: u64, receive: bool) {
        if !(self.tells)(position, receive) {
            return;
        }
        let rank = u32::from(receive);
        let context = self.trace.context_of(rank);
        // The numbers of TCP go around in the midst of it.
        let position = (u32::MAX - 3000).wrapping_add(position as u32);
        let len_bytes = len_bytes as u32;
        let body = Body::Stream { addr, stream: STREAM, position, len_bytes, receive, context };
        self.trace.record(rank, 0, body);
    }

    /// Sends at most so many bytes; as one system call does that takes a header and the data behind it.
    fn write(&mut self, most_bytes: u64) {
        let room = (self.read / MESSAGE_BYTES + SLOTS) * MESSAGE_BYTES;
        let end = (self.written + most_bytes).min(room).min(self.total());
        while self.written < end {
            let (message, within) = (self.written / MESSAGE_BYTES, self.written % MESSAGE_BYTES);
            let slot = message % SLOTS;
            let staged = self.trace.heap(0, "staging") + slot * 256;
            if within == 0 {
                let data = self.trace.heap(0, "data");
                self.trace.call(0, "MPI_Send", "main: send");
                self.trace.copy(0, "stage", data, staged, DATA_BYTES);
            }
            let (addr, left) = match within.checked_sub(HEADER_BYTES) {
                None => (self.trace.heap(0, "headers") + slot * 256 + within, HEADER_BYTES - within),
                Some(sent) if (self.misplaced)(message) => (staged + 0x8000 + sent, DATA_BYTES - sent),
                Some(sent) => (staged + sent, DATA_BYTES - sent),
            };
            let bytes = left.min(end - self.written);
            self.moved(self.written, addr, bytes, false);
            self.written += bytes;
        }
    }

    /// Receives at most so many bytes of what was sent.
    fn read(&mut self, most_bytes: u64) {
        let end = (self.read + most_bytes).min(self.written);
        while self.read < end {
            let room = SLOTS * MESSAGE_BYTES;
            let begin = self.read % room;
            let bytes = (end - self.read).min(room - begin);
            let buffer = self.trace.heap(1, "received");
            if self.read.is_multiple_of(MESSAGE_BYTES) {
                self.trace.call(1, "MPI_Recv", "main: receive");
            }
            self.moved(self.read, buffer + begin, bytes, true);
            let before = self.read / MESSAGE_BYTES;
            self.read += bytes;
            for message in before..self.read / MESSAGE_BYTES {
                let data = buffer + message % SLOTS * MESSAGE_BYTES + HEADER_BYTES;
                let result = self.trace.heap(1, "result");
                self.trace.copy(1, "deliver", data, result, DATA_BYTES);
            }
        }
    }

    /// Other work of both ranks.
    fn work(&mut self) {
        for rank in 0..2 {
            let (from, to) = (self.trace.heap(rank, "input"), self.trace.heap(rank, "output"));
            self.trace.copy(rank, "work", from, to, 32);
        }
    }

    fn message_by_message(mut self) -> Self {
        while self.read < self.total() {
            self.write(MESSAGE_BYTES);
            self.read(MESSAGE_BYTES);
        }
        self
    }

    fn report(self) -> Report {
        run(&self.trace.end())
    }
}

/// What there is of chains, but for other work.
fn groups(report: &Report) -> Vec<(String, u64)> {
    let groups = report.statistics.top_groups.iter();
    let of_stream = groups.filter(|g| g.ops.iter().any(|op| is_of_stream(op.kind)));
    of_stream.map(|group| (group.id.clone(), group.chains)).collect()
}

fn is_of_stream(kind: Kind) -> bool {
    matches!(kind, Kind::StreamWrite | Kind::StreamRead)
}

#[test]
fn a_chain_goes_through_a_connection_step_by_step() {
    let report = Connection::new(100).message_by_message().report();
    let longest = report.statistics.top_groups.iter().max_by_key(|g| g.ops.len()).expect("a group");
    let kinds: Vec<_> = longest.ops.iter().map(|op| (op.kind, op.crosses)).collect();
    let expected =
        [(Kind::Copy, false), (Kind::StreamWrite, false), (Kind::StreamRead, true), (Kind::Copy, false)];
    assert_eq!((kinds.as_slice(), longest.chains), (&expected[..], 100));
    let tcp = report.statistics.tcp.expect("TCP was used");
    let bytes = 100 * MESSAGE_BYTES;
    assert_eq!((tcp.sent_bytes, tcp.received_bytes), (bytes, bytes));
    assert_eq!((tcp.unseen_bytes, tcp.missed_bytes, tcp.unread_bytes), (0, 0, 0));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn what_is_sent_from_the_wrong_place_is_found_behind_the_connection() {
    let misplaced = |message| message % 100 == 50;
    let connection = Connection { misplaced, ..Connection::new(400) };
    let report = connection.message_by_message().report();
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    let Evidence::OddChain(chain) = &report.findings[0].evidence else { panic!("{report:#?}") };
    assert_eq!((chain.odd.chains, chain.frequent.chains), (4, 396));
    assert_eq!((chain.odd.ops.len(), chain.frequent.ops.len()), (3, 4));
}

/// The kernel's functions that move data have no places in code that tell them apart.
#[test]
fn addresses_of_what_was_received_are_not_mistaken_for_positions_of_what_was_sent() {
    let mut t = Trace::new(1, true);
    for site in ["deliver", "use", "keep"] {
        t.probe(site, ProbeClass::Copy);
    }
    let [buffer, acknowledged, result, output, kept] =
        ["received", "headers", "result", "output", "kept"].map(|name| t.heap(0, name));
    for message in 0..200 {
        t.call(0, "MPI_Recv", "main: receive");
        let context = t.context_of(0);
        let mut moved = |addr, stream, len_bytes: u32, receive| {
            let body =
                Body::Stream { addr, stream, position: message * len_bytes, len_bytes, receive, context };
            t.record(0, 0, body);
        };
        moved(buffer, STREAM, 64, true);
        moved(acknowledged, STREAM + 1, 1, false);
        let from = if message == 77 { buffer + 1024 } else { buffer };
        t.copy(0, "deliver", from, result, 64);
        t.copy(0, "use", result, output, 64);
        t.copy(0, "keep", output, kept, 64);
    }
    let report = run(&t.end());
    let [finding] = warnings(&report)[..] else { panic!("{:#?}", report.findings) };
    assert!(finding.next_steps[0].contains("1024 bytes above"), "{:#?}", finding.next_steps);
}

#[test]
fn bytes_that_nobody_was_seen_to_send_or_receive_make_nothing_odd() {
    for tells in [
        // A few messages, by one end or the other; all of one end.
        (|position, receive| receive || position / MESSAGE_BYTES % 50 != 7) as fn(u64, bool) -> bool,
        |position, receive| !receive || position / MESSAGE_BYTES % 50 != 7,
        |_, receive| receive,
        |_, receive| !receive,
    ] {
        let report = Connection { tells, ..Connection::new(400) }.message_by_message().report();
        assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
    }
}

#[test]
fn what_one_end_alone_tells_is_no_traffic_of_the_job() {
    let tells: fn(u64, bool) -> bool = |_, receive| receive;
    let report = Connection { tells, ..Connection::new(10) }.message_by_message().report();
    let tcp = report.statistics.tcp.expect("TCP was used");
    assert_eq!((tcp.sent_bytes, tcp.received_bytes, tcp.with_others_bytes), (0, 0, 10 * MESSAGE_BYTES));
}

proptest! {
    /// TCP takes and gives what there is at the moment: parts of messages, or several at once, with other work in between.
    #[test]
    fn how_a_connection_divides_what_it_carries_changes_nothing(
        steps in prop::collection::vec((0u8..5, 1u64..300), 1..400),
    ) {
        let whole = Connection::new(60).message_by_message().report();
        let mut connection = Connection::new(60);
        let mut worked = 0;
        for (what, bytes) in steps {
            match what {
                0 | 1 => connection.write(bytes),
                2 | 3 => connection.read(bytes),
                _ => {
                    connection.work();
                    worked += 2;
                }
            }
        }
        while connection.read < connection.total() {
            connection.write(MESSAGE_BYTES);
            connection.read(MESSAGE_BYTES);
        }
        let divided = connection.report();
        prop_assert_eq!(divided.statistics.tcp, whole.statistics.tcp);
        prop_assert_eq!(groups(&divided), groups(&whole));
        prop_assert_eq!(divided.statistics.operations, whole.statistics.operations + worked);
        prop_assert!(divided.findings.iter().all(|f| f.severity == Severity::Notice));
    }
}

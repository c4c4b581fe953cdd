//! What messages tell of the movement of data, and the movement of data of messages. The library is MPICH.

use crate::common::calls::{ANY_SOURCE, CHAR, Job, TAG, WORLD};
use crate::common::segment_at;
use analyzer::finding::Report;
use analyzer::messages::MessageEvent;
use analyzer::names::Kind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::wire::{Body, CallContext};

const BYTES: u64 = 64;

/// Kinds of the operations of each group of chains, with how many there were.
fn chains(report: &Report) -> Vec<(Vec<Kind>, u64)> {
    let groups = report.statistics.top_groups.iter();
    groups.map(|group| (group.ops.iter().map(|op| op.kind).collect(), group.chains)).collect()
}

trait Messages {
    fn copy_in(&mut self, rank: u32, site: &str, src: u64, dst: u64);
    fn begin_send(&mut self, rank: u32, dest: u64, at: u64);
    fn begin_receive(&mut self, rank: u32, source: u64, at: u64);
}

impl Messages for Job {
    fn copy_in(&mut self, rank: u32, site: &str, src: u64, dst: u64) {
        let probe = self.t.probe(site, analyzer::plan::ProbeClass::Copy);
        let body = Body::Copy { dst, src, len_bytes: BYTES, context: CallContext::default() };
        self.t.record(rank, probe, body);
    }

    fn begin_send(&mut self, rank: u32, dest: u64, at: u64) {
        self.begin(rank, "MPI_Send", [at, BYTES, CHAR, dest, TAG, WORLD], 10);
    }

    fn begin_receive(&mut self, rank: u32, source: u64, at: u64) {
        self.begin(rank, "MPI_Recv", [at, BYTES, CHAR, source, TAG, WORLD], 20);
    }
}

/// Rank 0 makes a message and sends it to rank 1, which passes it on; nothing in between is seen.
fn unseen(messages: u64, meanwhile: impl Fn(&mut Job)) -> Job {
    let mut job = Job::begun(2);
    let (made, sent) = (job.t.heap(0, "made"), job.t.heap(0, "sent"));
    let (received, used) = (job.t.heap(1, "received"), job.t.heap(1, "used"));
    for _ in 0..messages {
        job.copy_in(0, "make", made, sent);
        job.begin_send(0, 1, sent);
        job.over(0, "MPI_Send", None);
        meanwhile(&mut job);
        job.begin_receive(1, 0, received);
        job.over(1, "MPI_Recv", None);
        job.copy_in(1, "use", received, used);
    }
    job
}

#[test]
fn a_message_whose_data_moves_unseen_is_one_movement_of_its_chain() {
    let report = unseen(5, |_| ()).report();
    assert_eq!(report.statistics.unseen_messages, 5);
    assert_eq!(report.statistics.movements, 15);
    assert_eq!(chains(&report), [(vec![Kind::Copy, Kind::Message, Kind::Copy], 5)]);
    let message = &report.statistics.top_groups[0].ops[1];
    assert!(message.crosses);
    assert_eq!(message.place.offset_bytes, 0x100 + 16 * 20 - 1);
}

#[test]
fn each_movement_is_told_with_what_wrote_what_it_read() {
    let mut pipeline = Pipeline::with_movements(Options::default());
    let mut told = Vec::new();
    for input in unseen(2, |_| ()).t.end() {
        pipeline.push(&input);
        told.extend(pipeline.take_movements());
    }
    let kinds: Vec<_> = told.iter().map(|m| (m.kind, m.rank, m.peer_rank, m.len_bytes)).collect();
    let one = [
        (Kind::Copy, Some(0), None, BYTES),
        (Kind::Message, Some(1), Some(0), BYTES),
        (Kind::Copy, Some(1), None, BYTES),
    ];
    assert_eq!(kinds, [one, one].concat());
    let operations: Vec<_> = told.iter().map(|m| m.operation).collect();
    assert!(operations.iter().all(Option::is_some), "{operations:?}");
    let written_by: Vec<_> = told.iter().map(|m| m.written_by).collect();
    let [first, second] = [0, 3].map(|at| [None, operations[at], operations[at + 1]]);
    assert_eq!(written_by, [first, second].concat());
    assert_eq!(pipeline.report().statistics.movements, told.len() as u64);
    let place = pipeline.site_place(told[0].site);
    assert!(place.file.is_some(), "{place:?}");
}

/// What is posted and completed of a message: whether it is sent, the other side, its tag and size.
type MessageStep = (bool, Option<u32>, Option<i32>, Option<u64>);

#[test]
fn a_message_is_told_when_it_is_posted_and_when_it_is_over() {
    let mut pipeline = Pipeline::with_events(Options::default());
    let mut job = Job::begun(2);
    let (sent, received) = (job.t.heap(0, "sent"), job.t.heap(1, "received"));
    job.begin_send(0, 1, sent);
    job.over(0, "MPI_Send", None);
    job.begin_receive(1, 0, received);
    job.over(1, "MPI_Recv", None);
    job.t.end().iter().for_each(|input| pipeline.push(input));
    let (mut posted, mut completed): (Vec<MessageStep>, Vec<MessageStep>) = Default::default();
    for event in pipeline.take_events() {
        match event {
            MessageEvent::Posted { facts, .. } => {
                posted.push((facts.sends, facts.peer_rank, facts.tag, facts.len_bytes));
            }
            MessageEvent::Completed { facts, cancelled: false, .. } => {
                completed.push((facts.sends, facts.peer_rank, facts.tag, facts.len_bytes));
            }
            _ => {}
        }
    }
    let tag = Some(TAG as i32);
    assert_eq!(posted, [(true, Some(1), tag, Some(BYTES)), (false, Some(0), tag, Some(BYTES))]);
    // Nobody was told how much was received: it may be less than there was room for.
    assert_eq!(completed, [(true, Some(1), tag, Some(BYTES)), (false, Some(0), tag, None)]);
}

#[test]
fn what_is_written_over_a_message_that_was_sent_does_not_change_it() {
    let report = unseen(5, |job| {
        let (other, sent) = (job.t.heap(0, "other"), job.t.heap(0, "sent"));
        job.copy_in(0, "overwrite", other, sent);
    })
    .report();
    assert_eq!(report.statistics.unseen_messages, 5);
    let mut chains = chains(&report);
    chains.sort_by_key(|(kinds, _)| kinds.len());
    assert_eq!(chains, [(vec![Kind::Copy], 5), (vec![Kind::Copy, Kind::Message, Kind::Copy], 5)]);
}

#[test]
fn a_message_whose_data_was_seen_to_move_is_counted_once() {
    let mut job = Job::begun(2);
    let (sent, received) = (job.t.heap(0, "sent"), job.t.heap(1, "received"));
    for _ in 0..5 {
        job.begin_send(0, 1, sent);
        job.copy_in(0, "write", sent, segment_at(0));
        job.over(0, "MPI_Send", None);
        job.begin_receive(1, 0, received);
        job.copy_in(1, "read", segment_at(1), received);
        job.over(1, "MPI_Recv", None);
    }
    let report = job.report();
    assert_eq!(report.statistics.unseen_messages, 0);
    assert_eq!(report.statistics.movements, 10);
    assert_eq!(chains(&report), [(vec![Kind::Copy, Kind::Copy], 5)]);
}

#[test]
fn nothing_is_taken_for_a_movement_after_something_was_lost() {
    let mut job = Job::begun(2);
    let (sent, received) = (job.t.heap(0, "sent"), job.t.heap(1, "received"));
    job.begin_send(0, 1, sent);
    job.over(0, "MPI_Send", None);
    job.begin_receive(1, 0, received);
    job.t.lose_calls(1, 1);
    job.over(1, "MPI_Recv", None);
    assert_eq!(job.report().statistics.unseen_messages, 0);
}

/// Ranks 1 and 2 send to rank 0, which receives from anybody and looks at no status; `seen`: whose data is seen to move,
/// in the order in which it arrives.
fn from_anybody(seen: &[u32]) -> Vec<u32> {
    let mut job = Job::begun(3);
    let received = job.t.heap(0, "received");
    for rank in [1, 2] {
        let sent = job.t.heap(rank, "sent");
        job.begin_send(rank, 0, sent);
        job.copy_in(rank, "write", sent, segment_at(rank) + u64::from(rank) * 4096);
        job.over(rank, "MPI_Send", None);
    }
    for rank in seen {
        job.begin_receive(0, ANY_SOURCE, received);
        if *rank != 0 {
            job.copy_in(0, "read", segment_at(0) + u64::from(*rank) * 4096, received);
        }
        job.over(0, "MPI_Recv", None);
    }
    let mut pipeline = Pipeline::with_events(Options::default());
    job.t.end().iter().for_each(|input| pipeline.push(input));
    let events = pipeline.take_events().into_iter();
    let senders = events.filter_map(|event| match event {
        MessageEvent::Matched { send, .. } => Some(send.call.rank),
        _ => None,
    });
    senders.collect()
}

#[test]
fn whose_message_a_receive_from_anybody_got_is_told_by_the_data_if_by_nothing_else() {
    assert_eq!(from_anybody(&[2, 1]), [2, 1]);
    assert_eq!(from_anybody(&[1, 2]), [1, 2]);
}

#[test]
fn where_neither_status_nor_data_tells_whose_message_it_was_nothing_is_said_from_there_on() {
    assert_eq!(from_anybody(&[0, 1]), [0; 0]);
    // Who has nothing left to send did not send it: what was in the buffer is from the message before. There is one who has.
    assert_eq!(from_anybody(&[2, 0]), [2, 1]);
}

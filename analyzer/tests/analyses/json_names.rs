//! Names in the JSON of a report: programs rely on them, so that renaming a type must not change them.
//!
//! Whoever renames or takes away what is pinned here changes `REPORT_SCHEMA` as well; what is added is no change for them.

use analyzer::finding::{
    AccessConflict, BufferAccess, BufferConflict, BufferKind, BufferUser, BufferedCall, BufferedWait,
    CallError, CollectiveCounts, CollectiveMismatch, ComparedBy, DatatypeMismatch, ErrorReturned, Evidence,
    Fault, Hang, HangGroup, HeapFault, HeapMisuse, Leak, LeakingRank, MessagesBetween, MismatchedGroup,
    MismatchedRank, OutsideWindow, OverlappingBuffers, Place, PotentialDeadlock, REPORT_SCHEMA, Severity,
    StuckCall, StuckRank, StuckState, Verdict, WhoCount,
};
use analyzer::input::{End, Input, StrangerCost};
use analyzer::messages::LeakKind;
use analyzer::names::Kind;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::plan::ProbeClass;
use analyzer::process::Who;
use serde::Serialize;
use serde_json::Value;

fn json(of: impl Serialize) -> Value {
    serde_json::to_value(of).expect("findings have a JSON form")
}

fn names<T: Serialize>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| json(one).as_str().expect("a name").to_owned()).collect()
}

/// The keys of an object, in order.
fn keys(of: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = of.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn call() -> StuckCall {
    let arguments = vec![("source".to_owned(), "1".to_owned())];
    StuckCall { function: "MPI_Recv".into(), arguments, place: Place::default() }
}

fn rank() -> StuckRank {
    StuckRank {
        who: Who::Rank(1),
        pid: 7,
        at_fault: true,
        state: StuckState::InCall,
        status: Some(9),
        call: Some(call()),
        error: Some(CallError::Code(3)),
        sender: Some(Who::Pid(8)),
        waits_for: vec![Who::Rank(0)],
        waits_for_left_out: 3,
        stack: Vec::new(),
    }
}

fn hang() -> Hang {
    let entered = vec![WhoCount { who: Who::Rank(1), count: 4 }];
    Hang {
        fault: Fault::UnknownHang,
        since_ns: 5,
        ranks: vec![rank()],
        groups: vec![HangGroup {
            ranks: vec![Who::Rank(1)],
            at_fault: true,
            state: StuckState::Outside,
            call: Some(call()),
            place: Some(Place::default()),
            pending: vec!["a receive".into()],
            waits_for: vec![Who::Rank(0)],
            waits_for_left_out: 3,
        }],
        unknown: vec!["the requests".into()],
        complete: vec![Who::Rank(1)],
        results: true,
        collectives: vec![CollectiveCounts {
            comm: "MPI_COMM_WORLD".into(),
            completed: entered.clone(),
            unknown: entered.clone(),
            entered,
            differ_at: Some(3),
        }],
    }
}

#[test]
fn names_of_values_stay_what_they_are() {
    use Fault::{Crash, Deadlock, InvalidCall, MismatchedCollective, MissingMessage};
    let faults = [Crash, MismatchedCollective, MissingMessage, Deadlock, Fault::Truncated, InvalidCall];
    let faults =
        faults.into_iter().chain([Fault::Outside, Fault::Stopped, Fault::UnknownHang, Fault::NotAnalysed]);
    let faults = faults.chain([Fault::UncompletedRequest]);
    let wanted =
        ["crash", "mismatched_collective", "missing_message", "deadlock", "truncated", "invalid_call"];
    let wanted: Vec<&str> = wanted
        .into_iter()
        .chain(["outside", "stopped", "unknown_hang", "not_analysed", "uncompleted_request"])
        .collect();
    assert_eq!(names(faults), wanted);
    assert_eq!(names([Severity::Notice, Severity::Warning]), ["notice", "warning"]);
    let verdicts = [Verdict::Inconclusive, Verdict::Sampled, Verdict::Violated];
    assert_eq!(names(verdicts), ["inconclusive", "sampled", "violated"]);
    let states = [StuckState::InCall, StuckState::Outside, StuckState::Stopped, StuckState::Ended];
    let states = states.into_iter().chain([StuckState::Died]);
    assert_eq!(names(states), ["in_call", "outside", "stopped", "ended", "died"]);
    let kinds = [LeakKind::Message, LeakKind::Request, LeakKind::Communicator, LeakKind::Window];
    assert_eq!(names(kinds), ["message", "request", "communicator", "window"]);
    assert_eq!(names([LeakKind::PersistentRequest]), ["persistent_request"]);
    let described = [LeakKind::Group, LeakKind::Datatype, LeakKind::Operation];
    assert_eq!(names(described), ["group", "datatype", "operation"]);
    assert_eq!(names([ComparedBy::Beginnings, ComparedBy::WholeChains]), ["beginnings", "whole_chains"]);
    let kinds = [Kind::Copy, Kind::Pack, Kind::Unpack, Kind::CrossRead, Kind::CrossWrite, Kind::Message];
    assert_eq!(names([Kind::StreamWrite, Kind::StreamRead]), ["stream_write", "stream_read"]);
    let rdma = [Kind::RdmaSend, Kind::RdmaReceive, Kind::RdmaWrite, Kind::RdmaRead];
    assert_eq!(names(rdma), ["rdma_send", "rdma_receive", "rdma_write", "rdma_read"]);
    assert_eq!(names(kinds), ["copy", "pack", "unpack", "cross_read", "cross_write", "message"]);
    let buffers = [BufferKind::Heap, BufferKind::HeapBeforeAttach, BufferKind::Shared, BufferKind::Static];
    let buffers = buffers.into_iter().chain([BufferKind::Stack, BufferKind::Anonymous]);
    let buffers = buffers.chain([
        BufferKind::NotWatched,
        BufferKind::TcpStream,
        BufferKind::QueuePair,
        BufferKind::Unknown,
    ]);
    let wanted = ["heap", "heap_before_attach", "shared", "static", "stack", "anonymous"];
    let wanted: Vec<&str> =
        wanted.into_iter().chain(["not_watched", "tcp_stream", "queue_pair", "unknown"]).collect();
    assert_eq!(names(buffers), wanted);
}

#[test]
fn evidence_of_a_hang_has_the_fields_that_it_has() {
    let hang = json(Evidence::Hang(Box::new(hang())));
    assert_eq!(hang["kind"], "hang");
    let wanted =
        ["collectives", "complete", "fault", "groups", "kind", "ranks", "results", "since_ns", "unknown"];
    assert_eq!(keys(&hang), wanted);
    let rank = &hang["ranks"][0];
    let wanted = [
        "at_fault",
        "call",
        "error",
        "pid",
        "sender",
        "stack",
        "state",
        "status",
        "waits_for",
        "waits_for_left_out",
        "who",
    ];
    assert_eq!(keys(rank), wanted);
    assert_eq!((&rank["who"]["rank"], &rank["sender"]["pid"]), (&Value::from(1), &Value::from(8)));
    assert_eq!(keys(&rank["call"]), ["arguments", "function", "place"]);
    assert_eq!(rank["error"]["code"], 3);
    assert_eq!(
        keys(&hang["groups"][0]),
        ["at_fault", "call", "pending", "place", "ranks", "state", "waits_for", "waits_for_left_out"]
    );
    assert_eq!(keys(&hang["collectives"][0]), ["comm", "completed", "differ_at", "entered", "unknown"]);
}

#[test]
fn other_evidence_has_the_fields_that_it_has() {
    let ranks = vec![MismatchedRank { who: Who::Rank(2), at_fault: true, group: 1, call: call() }];
    let mismatch = CollectiveMismatch {
        comm: "MPI_COMM_WORLD".into(),
        position: 3,
        is_tie: false,
        first_ns: 9,
        ranks,
        groups: vec![MismatchedGroup { ranks: vec![Who::Rank(2)], at_fault: true, group: 1, call: call() }],
        hang: Some(hang()),
        death: Some(hang()),
    };
    let mismatch = json(Evidence::CollectiveMismatch(Box::new(mismatch)));
    assert_eq!(mismatch["kind"], "collective_mismatch");
    let wanted = ["comm", "death", "first_ns", "groups", "hang", "is_tie", "kind", "position", "ranks"];
    assert_eq!(keys(&mismatch), wanted);
    assert_eq!(keys(&mismatch["groups"][0]), ["at_fault", "call", "group", "ranks"]);
    assert_eq!(keys(&mismatch["ranks"][0]), ["at_fault", "call", "group", "who"]);
    let between = MessagesBetween { sender: Who::Rank(0), receiver: Who::Rank(1), count: 1 };
    let types =
        DatatypeMismatch { send: call(), receive: call(), count: 1, first_ns: 9, messages: vec![between] };
    let types = json(Evidence::DatatypeMismatch(Box::new(types)));
    assert_eq!(types["kind"], "datatype_mismatch");
    assert_eq!(keys(&types), ["count", "first_ns", "kind", "messages", "receive", "send"]);
    assert_eq!(keys(&types["messages"][0]), ["count", "receiver", "sender"]);
    let copy = BufferUser::Copy { place: Place::default() };
    let buffer = BufferConflict {
        request: call(),
        receives: true,
        user: copy,
        access: BufferAccess::Read,
        count: 1,
        buffer_bytes: 8,
        used_bytes: 4,
        first_ns: 9,
        ranks: vec![Who::Rank(0)],
    };
    let by_call = json(BufferUser::Call(call()));
    assert_eq!(
        (&by_call["kind"], keys(&by_call)),
        (&json("call"), vec!["arguments", "function", "kind", "place"])
    );
    let accesses = AccessConflict {
        first: call(),
        first_ranks: vec![Who::Rank(0)],
        second: call(),
        second_ranks: vec![Who::Rank(2)],
        targets: vec![Who::Rank(1)],
        count: 1,
        len_bytes: 8,
        offset_bytes: 0,
        first_ns: 9,
    };
    let accesses = json(Evidence::AccessConflict(Box::new(accesses)));
    assert_eq!(accesses["kind"], "access_conflict");
    let of_accesses = [
        "count",
        "first",
        "first_ns",
        "first_ranks",
        "kind",
        "len_bytes",
        "offset_bytes",
        "second",
        "second_ranks",
        "targets",
    ];
    assert_eq!(keys(&accesses), of_accesses);
    let heap = HeapMisuse {
        call: call(),
        fault: HeapFault::UseAfterFree,
        access: BufferAccess::Read,
        allocated: Place::default(),
        freed: Some(Place::default()),
        count: 1,
        block_bytes: 8,
        offset_bytes: 0,
        len_bytes: 9,
        beyond_bytes: 1,
        first_ns: 9,
        ranks: vec![Who::Rank(0)],
    };
    let heap = json(Evidence::HeapMisuse(Box::new(heap)));
    assert_eq!(heap["kind"], "heap_misuse");
    let of_heap = [
        "access",
        "allocated",
        "beyond_bytes",
        "block_bytes",
        "call",
        "count",
        "fault",
        "first_ns",
        "freed",
        "kind",
        "len_bytes",
        "offset_bytes",
        "ranks",
    ];
    assert_eq!(keys(&heap), of_heap);
    assert_eq!(
        names([HeapFault::BufferOverflow, HeapFault::UseAfterFree]),
        ["buffer_overflow", "use_after_free"]
    );
    let by_free = json(BufferUser::Free { place: Place::default() });
    assert_eq!((&by_free["kind"], keys(&by_free)), (&json("free"), vec!["kind", "place"]));
    let outside = OutsideWindow {
        call: call(),
        access: BufferAccess::Written,
        count: 1,
        target: Who::Rank(1),
        window_bytes: 8,
        offset_bytes: -8,
        len_bytes: 8,
        first_ns: 9,
        ranks: vec![Who::Rank(0)],
    };
    let outside = json(Evidence::OutsideWindow(Box::new(outside)));
    assert_eq!(outside["kind"], "outside_window");
    let of_outside = [
        "access",
        "call",
        "count",
        "first_ns",
        "kind",
        "len_bytes",
        "offset_bytes",
        "ranks",
        "target",
        "window_bytes",
    ];
    assert_eq!(keys(&outside), of_outside);
    let overlapping = OverlappingBuffers {
        call: call(),
        is_own_part: false,
        count: 1,
        read_bytes: 8,
        overlap_bytes: 4,
        first_ns: 9,
        ranks: vec![Who::Rank(0)],
    };
    let overlapping = json(Evidence::OverlappingBuffers(Box::new(overlapping)));
    assert_eq!(overlapping["kind"], "overlapping_buffers");
    let of_overlapping =
        ["call", "count", "first_ns", "is_own_part", "kind", "overlap_bytes", "ranks", "read_bytes"];
    assert_eq!(keys(&overlapping), of_overlapping);
    let by_store = json(BufferUser::Store { seen_by: call(), first_byte: 0 });
    assert_eq!((&by_store["kind"], keys(&by_store)), (&json("store"), vec!["first_byte", "kind", "seen_by"]));
    let buffer = json(Evidence::BufferConflict(Box::new(buffer)));
    assert_eq!(buffer["kind"], "buffer_conflict");
    let of_buffer = [
        "access",
        "buffer_bytes",
        "count",
        "first_ns",
        "kind",
        "ranks",
        "receives",
        "request",
        "used_bytes",
        "user",
    ];
    assert_eq!(keys(&buffer), of_buffer);
    assert_eq!(keys(&buffer["user"]), ["kind", "place"]);
    let accesses = names([BufferAccess::Read, BufferAccess::Written, BufferAccess::Received]);
    assert_eq!(accesses, ["read", "written", "received"]);
    assert_eq!(names([BufferAccess::Freed]), ["freed"]);
    let of_cycle = BufferedCall {
        call: call(),
        ranks: vec![Who::Rank(0)],
        waits_for: BufferedWait::Receive,
        begun_by: Some(call()),
        most_bytes: Some(8),
    };
    let ranks = || vec![Who::Rank(0)];
    let potential = PotentialDeadlock { calls: vec![of_cycle], ranks: ranks(), first: ranks() };
    let potential = json(Evidence::PotentialDeadlock(Box::new(potential)));
    assert_eq!(potential["kind"], "potential_deadlock");
    assert_eq!(keys(&potential), ["calls", "first", "kind", "ranks"]);
    assert_eq!(keys(&potential["calls"][0]), ["begun_by", "call", "most_bytes", "ranks", "waits_for"]);
    let waits = names([BufferedWait::Receive, BufferedWait::Send, BufferedWait::Members]);
    assert_eq!(waits, ["receive", "send", "members"]);
    let ranks =
        vec![LeakingRank { who: Who::Rank(0), count: 1, arguments: Vec::new(), peers: vec![Who::Rank(1)] }];
    let left = Leak {
        what: LeakKind::Message,
        function: "MPI_Send".into(),
        place: Place::default(),
        count: 1,
        ranks,
    };
    let left = json(Evidence::Leak(Box::new(left)));
    assert_eq!(left["kind"], "left_over");
    assert_eq!(keys(&left), ["count", "function", "kind", "place", "ranks", "what"]);
    assert_eq!(keys(&left["ranks"][0]), ["arguments", "count", "peers", "who"]);
    let error = CallError::Class("MPI_ERR_RANK".into());
    let returned = ErrorReturned { call: call(), error, count: 2, first_ns: 1 };
    let returned = json(Evidence::ErrorReturned(Box::new(returned)));
    assert_eq!(returned["kind"], "error_returned");
    assert_eq!(keys(&returned), ["call", "count", "error", "first_ns", "kind"]);
}

#[test]
fn a_report_has_the_fields_that_it_has() {
    let report = json(Pipeline::new(Options::default()).report());
    assert_eq!(keys(&report), ["ended", "findings", "schema", "session", "statistics", "thresholds"]);
    assert_eq!((&report["schema"], REPORT_SCHEMA), (&Value::from(4), 4));
}

#[test]
fn what_strangers_paid_has_the_fields_that_it_has() {
    let hits = [(ProbeClass::Alloc, 7)].into();
    let mut pipeline = Pipeline::new(Options::default());
    let strangers = Some(Box::new(StrangerCost { hits, ..StrangerCost::default() }));
    pipeline.push(&Input::End(End { strangers, ..End::default() }));
    let strangers = &json(pipeline.report())["statistics"]["strangers"];
    assert_eq!(keys(strangers), ["cost_ns", "counted_ns", "hits", "of_other_users", "processes"]);
    assert_eq!(strangers["hits"]["alloc"], 7);
}

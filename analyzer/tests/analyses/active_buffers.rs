//! Buffers that are used before the requests that they belong to are complete, and when nothing is said of them. The library is MPICH.

use crate::common::calls::{CHAR, Job, POINTER, TAG, WORLD};
use crate::common::{LIBRARY, PROGRAM};
use analyzer::finding::{BufferAccess, BufferConflict, BufferUser, Evidence, Report, Severity};
use analyzer::input::Input;
use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass, ProbePlace};
use analyzer::wire::{Body, CHANGED_BUFFERS, CallContext};

const REQUEST: u64 = 7;
const BYTES: u64 = 100;
const AT: u64 = 0x9000;
const ELSEWHERE: u64 = 0xa000;

trait Buffers {
    fn new_job() -> Self;
    fn begin_request(&mut self, function: &str, request: u64, at: u64);
    fn copy(&mut self, context: CallContext, src: u64, dst: u64);
    fn found(self) -> Vec<(Severity, BufferConflict)>;
}

impl Buffers for Job {
    fn new_job() -> Self {
        let mut job = Job::begun(2);
        // Its copies are the program's, as if it were one itself.
        let file =
            PlannedFile { id: LIBRARY, path: "/lib/messages.so".into(), own: true, ..PlannedFile::default() };
        job.t.inputs.insert(2, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
        job
    }

    /// Of rank 0.
    fn begin_request(&mut self, function: &str, request: u64, at: u64) {
        self.begin(0, function, [at, BYTES, CHAR, 1, TAG, WORLD], 10);
        self.points(0, function, 6, false, &[POINTER as i32, 0]);
        self.over(0, function, Some((6, request)));
    }

    fn copy(&mut self, context: CallContext, src: u64, dst: u64) {
        let probe = self.t.probe("copy", ProbeClass::Copy);
        self.t.record(0, probe, Body::Copy { dst, src, len_bytes: 10, context });
    }

    fn found(self) -> Vec<(Severity, BufferConflict)> {
        conflicts(&self.report())
    }
}

fn conflicts(report: &Report) -> Vec<(Severity, BufferConflict)> {
    let found = report.findings.iter().filter_map(|finding| match &finding.evidence {
        Evidence::BufferConflict(found) => Some((finding.severity, (**found).clone())),
        _ => None,
    });
    found.collect()
}

fn outside() -> CallContext {
    CallContext::default()
}

/// A request of rank 0 with something in between that copies, and nothing else.
fn found_with(function: &str, meanwhile: impl Fn(&mut Job)) -> Vec<(Severity, BufferConflict)> {
    let mut job = Job::new_job();
    job.begin_request(function, REQUEST, AT);
    meanwhile(&mut job);
    job.with_request(0, "MPI_Wait", REQUEST);
    // Afterwards all is allowed.
    job.copy(outside(), AT, AT + 20);
    job.found()
}

#[test]
fn a_copy_over_what_is_sent_is_told_with_both_places() {
    let found = found_with("MPI_Isend", |job| job.copy(outside(), ELSEWHERE, AT + 95));
    let [(Severity::Warning, found)] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(
        (found.access, found.buffer_bytes, found.used_bytes, found.count),
        (BufferAccess::Written, BYTES, 5, 1)
    );
    assert!(!found.receives);
    assert_eq!(
        (&*found.request.function, found.request.place.offset_bytes),
        ("MPI_Isend", 0x100 + 16 * 10 - 1)
    );
    assert!(
        matches!(&found.user, BufferUser::Copy { place } if place.module == "/lib/messages.so"),
        "{found:#?}"
    );
}

#[test]
fn what_is_sent_may_be_read_and_what_is_received_may_not() {
    let reads = |job: &mut Job| job.copy(outside(), AT, ELSEWHERE);
    assert!(found_with("MPI_Isend", reads).is_empty());
    let found = found_with("MPI_Irecv", reads);
    assert!(
        matches!(&found[..], [(Severity::Warning, found)] if found.access == BufferAccess::Read),
        "{found:#?}"
    );
}

#[test]
fn what_the_library_does_in_its_calls_is_its_own_affair() {
    let in_call = CallContext { return_address: 0x1234, probe: 1, ..CallContext::default() };
    assert!(found_with("MPI_Irecv", |job| job.copy(in_call, ELSEWHERE, AT)).is_empty());
}

#[test]
fn copies_of_files_that_are_not_the_programs_are_none_of_the_program() {
    let found = found_with("MPI_Irecv", |job| {
        let place =
            Probe { place: ProbePlace::Call, ..Probe::at(900, PROGRAM, 0x50, ProbeClass::Copy, "other") };
        job.t.inputs.push(Input::Plan(Box::new(Plan { probes: vec![place], ..Plan::default() })));
        job.t.record(0, 900, Body::Copy { dst: AT, src: ELSEWHERE, len_bytes: 10, context: outside() });
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_call_that_is_given_the_buffer_uses_it() {
    let call = |function: &'static str, at: u64| {
        found_with(if function == "MPI_Send" { "MPI_Irecv" } else { "MPI_Isend" }, move |job| {
            job.call(0, function, [at, BYTES, CHAR, 1, TAG, WORLD], 30, None);
        })
    };
    let found = call("MPI_Recv", AT + 50);
    let [(Severity::Warning, found)] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((found.access, found.used_bytes), (BufferAccess::Received, 50));
    let BufferUser::Call(by) = &found.user else { panic!("{found:#?}") };
    assert_eq!((&*by.function, by.place.offset_bytes), ("MPI_Recv", 0x100 + 16 * 30 - 1));
    assert_eq!(call("MPI_Send", AT).len(), 1);
    assert!(call("MPI_Recv", AT + BYTES).is_empty() && call("MPI_Send", AT - BYTES).is_empty());
}

#[test]
fn two_receives_into_one_buffer_are_a_warning_unless_they_may_be_meant() {
    let severities = |second: u64, bytes: u64| {
        let mut job = Job::new_job();
        for (request, at) in [(REQUEST, AT), (REQUEST + 1, second)] {
            job.begin(0, "MPI_Irecv", [at, bytes, CHAR, 1, TAG, WORLD], 10);
            job.points(0, "MPI_Irecv", 6, false, &[POINTER as i32, 0]);
            job.over(0, "MPI_Irecv", Some((6, request)));
        }
        job.found().iter().map(|(severity, _)| *severity).collect::<Vec<_>>()
    };
    assert_eq!(severities(AT, BYTES), [Severity::Warning]);
    // Tokens, and one that has more room than it needs.
    assert_eq!(severities(AT, 8), [Severity::Notice]);
    assert_eq!(severities(AT + 50, BYTES), [Severity::Notice]);
    assert_eq!(severities(AT + BYTES, BYTES), []);
}

/// The request is waited for in a call that shows its buffer, which was looked at so long before, changed from a byte on.
fn found_changed(handle: u64, at: u64, byte: u64, age_ns: u64) -> Vec<(Severity, BufferConflict)> {
    let mut job = Job::new_job();
    job.begin_request("MPI_Isend", REQUEST, AT);
    wait_and_show(&mut job, handle, &[[0, at, age_ns, byte, 0]]);
    job.found()
}

fn wait_and_show(job: &mut Job, handle: u64, changed: &[[u64; 5]]) {
    job.begin(0, "MPI_Wait", [POINTER, 0, 0, 0, 0, 0], 40);
    job.points(0, "MPI_Wait", 0, false, &[handle as i32]);
    let probe = job.t.probe("MPI_Wait", ProbeClass::CallResults);
    for (position_bytes, words) in (0..).step_by(40).zip(changed) {
        let serial = job.serial(0);
        let (argument, total_bytes) = (CHANGED_BUFFERS, 8192);
        let body =
            Body::Values { serial, argument, total_bytes, position_bytes, at_return: false, words: *words };
        job.t.record(0, probe, body);
    }
    job.over(0, "MPI_Wait", None);
}

#[test]
fn what_is_sent_and_found_changed_before_it_is_complete_is_told_with_the_call_that_showed_it() {
    let found = found_changed(REQUEST, AT, 64, 1);
    let [(Severity::Warning, found)] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((found.access, found.buffer_bytes, found.count), (BufferAccess::Written, BYTES, 1));
    let BufferUser::Store { seen_by, first_byte: 64 } = &found.user else { panic!("{found:#?}") };
    assert_eq!((&*seen_by.function, seen_by.place.offset_bytes), ("MPI_Wait", 0x100 + 16 * 40 - 1));
}

#[test]
fn a_change_of_what_is_not_sent_is_none() {
    for (handle, at, byte, age_ns) in [
        (REQUEST + 1, AT, 0, 1),
        (REQUEST, AT + 8, 0, 1),
        // Beyond its end, and of an earlier send of the same request.
        (REQUEST, AT, BYTES, 1),
        (REQUEST, AT, 0, 1 << 40),
    ] {
        let found = found_changed(handle, at, byte, age_ns);
        assert!(found.is_empty(), "{handle} {at} {byte} {age_ns}: {found:#?}");
    }
}

#[test]
fn a_change_of_which_it_was_seen_how_it_came_about_is_told_once() {
    let mut job = Job::new_job();
    job.begin_request("MPI_Isend", REQUEST, AT);
    job.copy(outside(), ELSEWHERE, AT);
    wait_and_show(&mut job, REQUEST, &[[0, AT, 1, 0, 0]]);
    let found = job.found();
    assert!(
        matches!(&found[..], [(_, found)] if matches!(found.user, BufferUser::Copy { .. })),
        "{found:#?}"
    );
}

#[test]
fn a_request_that_is_known_to_be_complete_lets_its_buffer_go() {
    let found = found_with("MPI_Irecv", |job| {
        job.begin(0, "MPI_Request_get_status", [REQUEST, POINTER, 0, 0, 0, 0], 35);
        job.over(0, "MPI_Request_get_status", None);
        job.copy(outside(), AT, ELSEWHERE);
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_is_said_once_something_may_have_been_missed() {
    // A loss, and a handle that is given out again though nobody was seen to complete what it stood for.
    let lost = found_with("MPI_Irecv", |job| {
        job.t.lose_calls(0, 1);
        job.copy(outside(), AT, ELSEWHERE);
        // A loss comes before records that are older: what completed this one may have been lost.
        job.begin_request("MPI_Irecv", REQUEST + 1, ELSEWHERE + 0x1000);
        job.copy(outside(), AT, ELSEWHERE + 0x1000);
    });
    let given_out_again = found_with("MPI_Irecv", |job| {
        job.begin_request("MPI_Irecv", REQUEST, ELSEWHERE + 0x1000);
        job.copy(outside(), AT, ELSEWHERE);
    });
    assert!(lost.is_empty() && given_out_again.is_empty(), "{lost:#?} {given_out_again:#?}");
}

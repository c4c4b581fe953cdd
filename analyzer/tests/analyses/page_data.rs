//! What a page is made from: events, where ranks ended up, and what is said of it.

use crate::common;
use crate::common::{PROGRAM, PROGRAM_AT, Trace, pid};
use analyzer::input::{
    CallInProgress, CodePlace, Coverage, Frame, Input, MpiFacts, MpiKind, Symbol, ThreadFacts, ThreadState,
    Threads,
};
use analyzer::options::Options;
use analyzer::page::{EventKind, HangRole, Page, PageEvent, RowGroup, Sort, Tone};
use analyzer::pipeline::Pipeline;
use analyzer::plan::{MpiObjects, Plan, PlannedFile, ProbeClass};
use analyzer::symbols::SymbolTable;
use analyzer::timeline::DEFAULT_CALLS;
use analyzer::wire::{Body, NO_ARGUMENT};
use serde_json::json;

const S: u64 = 1_000_000_000;
const WORLD: u64 = 0x4400_0000;

/// An MPI call: function, arguments, and the line of the program that makes it.
type Made = (&'static str, [u64; 6], u64);

fn receive(source: u64) -> Made {
    ("MPI_Recv", [0x1000, 8, 5, source, 3, WORLD], 20)
}

fn send(dest: u64) -> Made {
    ("MPI_Send", [0x1000, 8, 5, dest, 3, WORLD], 10)
}

const BARRIER: Made = ("MPI_Barrier", [WORLD, 0, 0, 0, 0, 0], 30);

/// Where a line of the program returns to.
fn return_offset(line: u64) -> u64 {
    0x100 + 16 * line
}

/// A rank makes a call.
fn make(t: &mut Trace, rank: u32, (function, args, line): Made) {
    let probe = t.probe(function, ProbeClass::Call);
    t.record(
        rank,
        probe,
        Body::Call { return_address: PROGRAM_AT + return_offset(line), args, nested: false },
    );
}

fn found_in((function, args, line): Made, pid: u32, ran_ns: u64) -> ThreadFacts {
    let site = CodePlace { file: PROGRAM, offset_bytes: return_offset(line) };
    let call = CallInProgress {
        function: function.to_owned(),
        mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(WORLD) }),
        site: Some(site),
        return_slot: 0x7000_0000,
        arguments: args.map(Some).into(),
        ..CallInProgress::default()
    };
    ThreadFacts {
        pid,
        tid: pid,
        state: ThreadState::Running,
        ran_ns,
        call: Some(call),
        frames: vec![site],
        cut: None,
    }
}

/// All ranks are looked at for some seconds; `None`: it computes.
fn look(t: &mut Trace, at: &[Option<Made>]) {
    for second in 1..6 {
        t.now_ns += S;
        let thread = |(rank, made): (u32, &Option<Made>)| match made {
            Some(made) => found_in(*made, pid(rank), second * S / 2),
            None => {
                ThreadFacts { pid: pid(rank), tid: pid(rank), ran_ns: second * S, ..ThreadFacts::default() }
            }
        };
        let threads = (0..).zip(at).map(thread).collect();
        t.inputs.push(Input::Threads(Box::new(Threads { time_ns: t.now_ns, threads })));
        t.tick();
    }
}

fn page_of(inputs: &[Input], calls: usize) -> Page {
    let mut pipeline = Pipeline::with_timeline(Options::default(), calls);
    inputs.iter().for_each(|input| pipeline.push(input));
    let mut names = SymbolTable::default();
    let wanted = pipeline.wanted_by_timeline(&names);
    let named: Vec<Symbol> = wanted.into_iter().filter(|(file, _)| *file == PROGRAM).map(symbol).collect();
    names.extend(&named);
    let mut report = pipeline.report();
    report.symbolize(&names);
    pipeline.page_with(report, &names).expect("a timeline was asked for")
}

fn symbol((file, offset_bytes): (analyzer::wire::FileId, u64)) -> Symbol {
    let line = u32::try_from((offset_bytes - 0x100).div_ceil(16)).ok();
    let frame = Frame { function: "work".into(), source: Some("src/job.c".into()), line };
    Symbol { file, offset_bytes, frames: vec![frame] }
}

/// Ranks 0 and 1 have exchanged something and wait for each other now; rank 2 waits for both.
fn deadlock() -> Vec<Input> {
    let mut t = Trace::new(3, true);
    for (rank, made) in
        [(0, send(1)), (1, receive(0)), (2, BARRIER), (0, receive(1)), (1, receive(0)), (2, BARRIER)]
    {
        make(&mut t, rank, made);
    }
    look(&mut t, &[Some(receive(1)), Some(receive(0)), Some(BARRIER)]);
    t.end()
}

fn events(page: &Page, row: usize) -> &[PageEvent] {
    let row = &page.timeline.rows[row];
    &page.timeline.events[row.first_event as usize..][..row.events as usize]
}

fn kinds(page: &Page, row: usize) -> Vec<EventKind> {
    events(page, row).iter().map(|event| event.kind).collect()
}

#[test]
fn the_call_that_a_rank_hangs_in_is_the_recorded_one_and_the_one_before_it_is_marked() {
    let page = page_of(&deadlock(), DEFAULT_CALLS);
    assert_eq!(kinds(&page, 0), [EventKind::Call, EventKind::InCall]);
    let [before, last] = events(&page, 0) else { panic!("two events") };
    assert!(before.is_before_last && !before.is_last && last.is_last && !last.is_before_last);
    // The fourth call of the job, one every microsecond.
    assert_eq!((before.begin_ns, last.begin_ns, last.began_earlier), (1000, 4000, false));
    assert_eq!(
        (last.role, last.reason.as_str()),
        (Some(HangRole::AtFault), "At fault: deadlock (ranks 0-1).")
    );
    assert_eq!(last.end_ns, None);
}

#[test]
fn a_page_as_json_is_what_it_is_documented_to_be() {
    let page = page_of(&deadlock(), DEFAULT_CALLS);
    let timeline = serde_json::to_value(&page.timeline).expect("JSON");
    let place = |line: u64, number: u64| {
        json!({
            "text": format!("work (job.c:{line})"), "module": "/bin/job", "file": {"dev": 1, "inode": 10},
            "offset_bytes": number, "frames": [{"function": "work", "source": "src/job.c", "line": line}],
        })
    };
    assert_eq!(timeline["places"][2], place(10, 0x100 + 160 - 1));
    assert_eq!(timeline["functions"][1], json!({"name": "MPI_Send", "sort": "send"}));
    assert_eq!(
        timeline["rows"][0],
        json!({
            "who": {"rank": 0}, "name": "Rank 0", "pid": 1000, "role": "at_fault", "waits_for": [1],
            "first_event": 0, "events": 2, "given_up": 0,
        })
    );
    let arguments = json!([["count", "8"], ["dest", "1"], ["tag", "3"], ["comm", "MPI_COMM_WORLD"]]);
    assert_eq!(
        timeline["events"][0],
        json!({
            "row": 0, "tid": 1000, "kind": "call", "begin_ns": 1000, "function": 1, "arguments": arguments,
            "place": 2, "is_before_last": true,
        })
    );
    assert_eq!(timeline["gaps"], json!([]));
    let again: Page = serde_json::from_value(serde_json::to_value(&page).expect("JSON")).expect("a page");
    assert_eq!(again, page);
}

#[test]
fn the_verdict_names_who_is_at_fault_and_who_only_waits() {
    let page = page_of(&deadlock(), DEFAULT_CALLS);
    let who = |whos: &[analyzer::process::Who]| analyzer::text::who_text(whos);
    assert_eq!((page.verdict.tone, page.verdict.title.as_str()), (Tone::Fault, "Deadlock"));
    assert!(
        page.verdict.text.starts_with("Ranks 0-1 wait for each other: rank 0 in MPI_Recv(count 8, source 1")
    );
    assert_eq!(
        (who(&page.verdict.at_fault), who(&page.verdict.affected)),
        ("ranks 0-1".into(), "rank 2".into())
    );
}

#[test]
fn ranks_that_ended_up_alike_are_one_group_and_those_at_fault_come_first() {
    let mut t = Trace::new(6, false);
    let waits =
        [Some(receive(1)), Some(receive(0)), Some(BARRIER), Some(BARRIER), Some(BARRIER), Some(BARRIER)];
    look(&mut t, &waits);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    let text = |group: &RowGroup| (group.who.clone(), group.at.clone(), group.waits_for_text.clone());
    let found: Vec<_> = page.groups.iter().map(text).collect();
    let wanted = [
        ("rank 0", "MPI_Recv", "rank 1"),
        ("rank 1", "MPI_Recv", "rank 0"),
        ("ranks 2-5", "MPI_Barrier", "ranks 0-1"),
    ];
    assert_eq!(found, wanted.map(|(who, at, for_)| (who.into(), at.into(), for_.into())));
}

#[test]
fn what_was_under_way_when_dmscope_came_began_earlier() {
    let mut t = Trace::new(2, false);
    let begin_ns = t.now_ns;
    look(&mut t, &[Some(receive(1)), Some(receive(0))]);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    let [last] = events(&page, 0) else { panic!("one event") };
    assert!(last.began_earlier && last.is_last);
    // First seen at the first look.
    assert_eq!(last.begin_ns, begin_ns + S - 1_000_000);
}

#[test]
fn a_call_from_before_a_gap_is_not_taken_for_the_one_that_hangs() {
    let mut t = Trace::new(2, true);
    make(&mut t, 0, receive(1));
    make(&mut t, 1, receive(0));
    t.lose_calls(0, 5);
    t.now_ns += 1000;
    for paused in [true, false] {
        t.now_ns += 1000;
        t.inputs.push(Input::Coverage(Box::new(Coverage {
            time_ns: t.now_ns,
            paused,
            ..Coverage::default()
        })));
    }
    make(&mut t, 1, receive(0));
    look(&mut t, &[Some(receive(1)), Some(receive(0))]);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    assert_eq!(kinds(&page, 0), [EventKind::Call, EventKind::InCall]);
    assert!(events(&page, 0)[1].began_earlier, "calls in between may have been missed");
    assert_eq!(kinds(&page, 1), [EventKind::Call, EventKind::InCall]);
    assert!(!events(&page, 1)[1].began_earlier, "nothing was missed since this one");
    let gaps: Vec<_> = page.timeline.gaps.iter().map(|gap| (gap.row, gap.gap.lost)).collect();
    assert_eq!(gaps, [(Some(0), 5), (None, 0)]);
}

#[test]
fn the_last_calls_of_each_thread_are_kept_and_the_rest_is_counted() {
    let mut t = Trace::new(2, true);
    for n in 0..100 {
        make(&mut t, 0, if n % 2 == 0 { send(1) } else { BARRIER });
    }
    make(&mut t, 1, receive(0));
    let page = page_of(&t.end(), 20);
    assert_eq!((events(&page, 0).len(), events(&page, 1).len()), (10, 1));
    assert_eq!((page.timeline.given_up, page.timeline.rows[0].given_up), (90, 90));
    assert_eq!(events(&page, 0)[9].begin_ns, 100_000, "the last ones");
}

#[test]
fn a_rank_that_died_ends_with_its_death() {
    let mut t = Trace::new(2, true);
    make(&mut t, 0, send(1));
    t.record(0, 0, Body::Exit { status: 11, at: PROGRAM_AT + return_offset(40) - 1 });
    t.record(1, 0, Body::Exit { status: 15, at: 0 });
    let page = page_of(&t.end(), DEFAULT_CALLS);
    assert_eq!(kinds(&page, 0), [EventKind::Call, EventKind::Died]);
    let died = &events(&page, 0)[1];
    assert_eq!(died.reason, "Was killed by SIGSEGV. At fault: crash (rank 0).");
    let place = died.place.map(|at| page.timeline.places[at as usize].text.clone());
    assert_eq!(place.as_deref(), Some("work (job.c:40)"));
    assert!(events(&page, 1)[0].reason.ends_with("It ended after rank 0, most likely because of that."));
    assert_eq!(page.verdict.title, "Crash");
}

#[test]
fn where_nothing_is_found_it_is_shown_where_ranks_were() {
    let mut t = Trace::new(2, false);
    look(&mut t, &[Some(receive(1)), None]);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    assert_eq!((page.verdict.tone, page.verdict.title.as_str()), (Tone::Fine, "No fault found"));
    assert_eq!((kinds(&page, 0), kinds(&page, 1)), (vec![EventKind::InCall], vec![EventKind::Outside]));
    let last = &events(&page, 0)[0];
    assert_eq!(last.role, None);
    assert!(last.reason.contains("for 4.0 s"), "{}", last.reason);
    assert_eq!(
        page.groups.iter().map(|group| group.at.as_str()).collect::<Vec<_>>(),
        ["MPI_Recv", "outside of MPI"]
    );
}

#[test]
fn a_page_about_a_job_that_went_well_but_for_notices_names_them() {
    use crate::common::calls::{CHAR, Job, POINTER};
    let mut job = Job::begun(1);
    job.call(0, "MPI_Type_contiguous", [2, CHAR, POINTER, 0, 0, 0], 10, Some((2, 0x8c00_0001)));
    job.finalize();
    let verdict = page_of(&job.t.end(), DEFAULT_CALLS).verdict;
    assert_eq!((verdict.tone, verdict.title.as_str()), (Tone::Suspicion, "No fault in this run"));
    assert!(verdict.text.ends_with(" To look at, below: datatype leak."), "{}", verdict.text);
}

#[test]
fn a_page_about_a_job_that_was_watched_in_part_says_how_much_of_the_time() {
    let mut t = Trace::new(2, false);
    t.now_ns += S;
    for (paused, then_ns) in [(true, 3 * S), (false, 0)] {
        t.inputs.push(Input::Coverage(Box::new(Coverage {
            time_ns: t.now_ns,
            paused,
            ..Coverage::default()
        })));
        t.now_ns += then_ns;
    }
    t.tick();
    let verdict = page_of(&t.end(), DEFAULT_CALLS).verdict;
    assert_eq!((verdict.tone, verdict.title.as_str()), (Tone::Suspicion, "No fault found"));
    assert!(verdict.text.starts_with("Ranks 0-1 were watched for 4.0 s: "), "{}", verdict.text);
    assert!(verdict.text.contains("movements were watched for 25.0% of that time"), "{}", verdict.text);
}

#[test]
fn a_page_without_ranks_says_how_long_nobody_was_seen() {
    let mut t = Trace::new(0, false);
    t.now_ns += S;
    t.tick();
    let verdict = page_of(&t.end(), DEFAULT_CALLS).verdict;
    assert!(verdict.text.starts_with("No rank was seen in 1.0 s of watching: "), "{}", verdict.text);
}

#[test]
fn a_rank_that_went_on_after_it_was_looked_at_is_not_shown_where_it_was() {
    let mut t = Trace::new(1, false);
    look(&mut t, &[Some(receive(0))]);
    make(&mut t, 0, BARRIER);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    assert_eq!(kinds(&page, 0), [EventKind::Call]);
}

#[test]
fn a_polling_call_that_answered_yes_is_over_at_once() {
    let mut t = Trace::new(1, true);
    let probe = t.probe("MPI_Test", ProbeClass::PollSuccess);
    t.record(0, probe, Body::Done);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    let [event] = events(&page, 0) else { panic!("one event") };
    assert_eq!(event.end_ns, Some(event.begin_ns));
    assert_eq!(page.timeline.functions[0].sort, Sort::Completion);
}

#[test]
fn a_helper_with_a_ranks_environment_has_no_row() {
    let mut t = Trace::new(1, true);
    let mut helper = common::facts(0, 1, t.now_ns);
    (helper.pid, helper.namespace_pid) = (77, 77);
    t.inputs.push(Input::Process(Box::new(helper)));
    make(&mut t, 0, BARRIER);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    assert_eq!(page.timeline.rows.iter().map(|row| row.pid).collect::<Vec<_>>(), [Some(1000)]);
}

#[test]
fn ends_of_calls_and_messages_are_told_where_returns_were_recorded() {
    let mut t = Trace::new(2, true);
    let mpi = MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None };
    let file = PlannedFile { id: PROGRAM, path: "/bin/job".into(), mpi: Some(mpi), ..PlannedFile::default() };
    t.inputs.insert(1, Input::Plan(Box::new(Plan { files: vec![file], ..Plan::default() })));
    let over = |t: &mut Trace, rank: u32, function: &str| {
        let probe = t.probe(function, ProbeClass::Call);
        t.record(rank, probe, Body::Return { serial: 0, code: 0, argument: NO_ARGUMENT, bytes: 0, word: 0 });
    };
    for rank in 0..2 {
        make(&mut t, rank, ("MPI_Init", [0; 6], 5));
        over(&mut t, rank, "MPI_Init");
    }
    for (rank, made) in [(0, send(1)), (1, receive(0))] {
        make(&mut t, rank, made);
        over(&mut t, rank, made.0);
    }
    let page = page_of(&t.end(), DEFAULT_CALLS);
    let (sent, received) = (&events(&page, 0)[1], &events(&page, 1)[1]);
    assert_eq!((sent.end_ns, received.end_ns), (Some(sent.begin_ns + 1000), Some(received.begin_ns + 1000)));
    assert_eq!((sent.sent_to.as_slice(), received.got_from.as_slice()), (&[3][..], &[1][..]));
    assert!(sent.got_from.is_empty() && received.sent_to.is_empty());
}

#[test]
fn calls_that_come_before_their_process_is_known_get_their_places_when_it_is() {
    let mut t = Trace::new(1, true);
    let known = t.inputs.iter().position(|input| matches!(input, Input::Process(_))).expect("facts");
    let facts = t.inputs.remove(known);
    make(&mut t, 0, send(1));
    t.record(0, 0, Body::Exec);
    make(&mut t, 0, BARRIER);
    t.inputs.push(facts);
    let page = page_of(&t.end(), DEFAULT_CALLS);
    let place = |event: &PageEvent| event.place.map(|at| page.timeline.places[at as usize].text.clone());
    let places: Vec<_> = events(&page, 0).iter().map(place).collect();
    assert_eq!(places, [None, Some("work (job.c:30)".to_owned())], "the first was of another program");
}

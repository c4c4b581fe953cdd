//! Ranks that are not like the others, and jobs in which nothing is odd.

use crate::broken_chains::{figure_two, run, run_with, send_one, warnings};
use crate::common;
use crate::common::{Trace, segment_at};
use analyzer::finding::{ComparedBy, Evidence, Finding, Report, Severity, Verdict};
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::process::Who;
use analyzer::render::{self, Style};

/// Every rank sends a message to its right neighbour; `storm` is a rank that asks again and again.
fn ring_of_eight(storm: impl Fn(u64) -> Option<u32>) -> Vec<Input> {
    ring_of_eight_by(|_, _| false, storm)
}

/// The same; `unexpected` messages of a rank are set aside by the receiver's library until they are asked for.
fn ring_of_eight_by(unexpected: impl Fn(u64, u32) -> bool, storm: impl Fn(u64) -> Option<u32>) -> Vec<Input> {
    let mut t = Trace::new(8, true);
    for step in 0..400u64 {
        for rank in 0..8u32 {
            let slot = 4096 * u64::from(rank);
            let (x, y) = (t.heap(rank, "send"), t.heap((rank + 1) % 8, "receive"));
            t.call(rank, "MPI_Sendrecv", "main: exchange");
            t.copy(rank, "write", x, segment_at(rank) + slot, 64);
            let segment = segment_at((rank + 1) % 8) + slot;
            if unexpected(step, rank) {
                let aside = t.heap((rank + 1) % 8, "aside");
                t.copy((rank + 1) % 8, "set aside", segment, aside, 64);
                t.copy((rank + 1) % 8, "deliver late", aside, y, 64);
            } else {
                t.copy((rank + 1) % 8, "read", segment, y, 64);
            }
            let requests = if storm(step) == Some(rank) { 40 } else { u64::from(step % 50 == 0) };
            for _ in 0..requests {
                connect(&mut t, rank);
            }
        }
        t.now_ns += 1_000_000;
    }
    t.end()
}

fn connect(t: &mut Trace, rank: u32) {
    connect_in(t, rank, "MPI_Test");
}

fn connect_in(t: &mut Trace, rank: u32, function: &str) {
    let request = t.heap(rank, "connection request");
    t.call(rank, function, "library: connect");
    t.copy(rank, "post request", request, segment_at(rank) + 0x8_0000 + u64::from(rank) * 64, 32);
}

fn first_rank(report: &Report) -> (&Finding, &analyzer::finding::OddRank) {
    let finding = report.findings.first().expect("a finding");
    let Evidence::OddRank(rank) = &finding.evidence else { panic!("not a rank: {finding:#?}") };
    (finding, rank)
}

#[test]
fn a_rank_in_a_storm_is_named() {
    let report = run(&ring_of_eight(|_| Some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, finding.verdict), (Severity::Warning, Verdict::Violated));
    assert_eq!((rank.who, rank.part, rank.nearest), (Who::Rank(5), 1, 2));
    assert!(rank.share > 0.9 && rank.peers_share < 0.05, "{rank:#?}");
    assert_eq!(rank.group.ops[0].calls[0].function, "MPI_Test");
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn a_storm_at_the_end_is_found_in_the_last_part() {
    let report = run(&ring_of_eight(|step| (step >= 399).then_some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(rank.who, Who::Rank(5));
    assert!(rank.part > 1, "{rank:#?}");
}

#[test]
fn a_ring_without_a_storm_has_no_finding() {
    let report = run(&ring_of_eight(|_| None));
    assert_eq!(report.findings, []);
    assert_eq!(report.thresholds.compared_ranks.len(), 8);
}

#[test]
fn a_storm_is_found_among_ranks_whose_messages_go_different_ways() {
    let by_chance = |step: u64, rank: u32| step * 7 % 8 < u64::from(rank);
    let report = run(&ring_of_eight_by(by_chance, |_| Some(5)));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Warning, Who::Rank(5)));
    assert_eq!(rank.compared_by, ComparedBy::Beginnings);
}

#[test]
fn a_rank_whose_messages_go_another_way_is_a_notice() {
    let report = run(&ring_of_eight_by(|_, rank| rank == 3, |_| None));
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Notice, Who::Rank(3)));
    assert_eq!(rank.compared_by, ComparedBy::WholeChains);
}

#[test]
fn what_a_score_alone_speaks_for_is_one_line_of_text_unless_all_is_asked_for() {
    let report = run(&ring_of_eight_by(|_, rank| rank == 3, |_| None));
    let alone = report.findings.iter().filter(|finding| finding.is_score_alone()).count();
    assert!(alone > 0 && alone == report.findings.len(), "{:#?}", report.findings);
    let (text, all) = (
        render::report(&report, Style::default()),
        render::report(&report, Style { all: true, ..Style::default() }),
    );
    let first = text.lines().next();
    assert_eq!(first, Some("Nothing odd was found."));
    assert!(
        text.lines().nth(1).is_some_and(|line| line.starts_with(&format!("{alone} rare path"))),
        "{text}"
    );
    assert!(!text.contains(&report.findings[0].id) && all.contains(&report.findings[0].id), "{all}");
}

#[test]
fn what_the_library_does_more_of_in_calls_that_carry_no_data_is_a_notice() {
    let severity = |function: &str| {
        let mut t = Trace::new(8, true);
        for step in 0..400u64 {
            for rank in 0..8u32 {
                let data = t.heap(rank, "send");
                t.call(rank, "MPI_Isend", "main: ring");
                t.copy(rank, "write", data, segment_at(rank) + 64 * (step % 8), 64);
                let times = if rank == 5 { 4 } else { u64::from(step % 50 == 0) };
                (0..times).for_each(|_| connect_in(&mut t, rank, function));
            }
            t.tick();
        }
        let report = run(&t.end());
        let (finding, rank) = first_rank(&report);
        assert_eq!((rank.who, &*rank.group.ops[0].calls[0].function), (Who::Rank(5), function));
        finding.severity
    };
    assert_eq!(severity("MPI_Test"), Severity::Warning);
    assert_eq!(severity("MPI_Comm_dup"), Severity::Notice);
}

/// The root of a broadcast sends more than half of what it sends to others in work that is its own.
#[test]
fn a_rank_that_does_work_of_its_own_is_no_warning_for_doing_less_of_the_rest() {
    let mut t = Trace::new(8, true);
    for step in 0..400u64 {
        for rank in 0..8 {
            let data = t.heap(rank, "data");
            let slot = 4096 * u64::from(rank) + 64 * (step % 8);
            t.call(rank, "MPI_Isend", "main: ring");
            t.copy(rank, "write", data, segment_at(rank) + slot, 64);
            let times = if rank == 0 { 2 } else { 0 };
            for to in 1..=times {
                let root = t.heap(rank, "what all are told");
                t.call(rank, "MPI_Bcast", "main: tell");
                t.copy(rank, "tell", root, segment_at(rank) + 0x8_0000 + to * 64, 8);
            }
        }
        t.tick();
    }
    let report = run(&t.end());
    let (finding, rank) = first_rank(&report);
    assert_eq!((finding.severity, rank.who), (Severity::Notice, Who::Rank(0)), "{finding:#?}");
    assert_eq!(rank.group.ops[0].calls[0].function, "MPI_Bcast");
}

#[test]
fn a_subset_of_the_ranks_can_be_compared_alone() {
    let options = Options { ranks: Some(vec![0, 1, 2, 3]), ..Options::default() };
    let report = run_with(&ring_of_eight(|_| Some(5)), options);
    assert_eq!(report.findings, []);
    assert_eq!(report.thresholds.compared_ranks, [0, 1, 2, 3].map(Who::Rank));
}

#[test]
fn a_token_that_goes_round_for_ever_is_not_odd() {
    let mut t = Trace::new(4, true);
    for step in 0..4000u64 {
        let (rank, next) = ((step % 4) as u32, ((step + 1) % 4) as u32);
        let (from, to) = (t.heap(rank, "token"), t.heap(next, "token"));
        let slot = 4096 * u64::from(rank);
        t.copy(rank, "write", from, segment_at(rank) + slot, 64);
        t.copy(next, "read", segment_at(next) + slot, to, 64);
        if step % 100 == 0 {
            t.tick();
        }
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
    assert!(report.statistics.pending_operations < 20);
}

#[test]
fn a_master_and_its_workers_are_not_odd() {
    let mut t = Trace::new(8, true);
    for step in 0..600u64 {
        let worker = 1 + (step % 7) as u32;
        let (task, got) = (t.heap(0, "tasks"), t.heap(worker, "task"));
        let (result, all) = (t.heap(worker, "result"), t.heap(0, "results"));
        let slot = 4096 * u64::from(worker);
        t.copy(0, "write", task, segment_at(0) + slot, 64);
        t.copy(worker, "read", segment_at(worker) + slot, got, 64);
        t.copy(worker, "write", result, segment_at(worker) + slot + 2048, 64);
        t.copy(0, "read", segment_at(0) + slot + 2048, all, 64);
        t.now_ns += 100_000;
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
}

#[test]
fn two_user_buffers_through_one_staging_path_are_not_odd() {
    let mut t = Trace::new(2, true);
    for step in 0..600u64 {
        let user = if step % 10 == 0 { "rare user buffer" } else { "user buffer" };
        let (x, a, y) = (t.heap(0, user), t.heap(0, "staging"), t.heap(1, "receive"));
        let slot = 4096 * (step % 8);
        t.copy(0, "stage", x, a + slot, 64);
        t.copy(0, "write", a + slot, segment_at(0) + slot, 64);
        t.copy(1, "read", segment_at(1) + slot, y, 64);
    }
    let report = run(&t.end());
    assert!(warnings(&report).is_empty(), "{:#?}", report.findings);
}

#[test]
fn headers_that_join_no_chain_are_not_odd() {
    let mut t = Trace::new(2, true);
    for step in 0..600u64 {
        let (x, h, y) = (t.heap(0, "user"), t.heap(0, "header"), t.heap(1, "receive"));
        let slot = 4096 * (step % 8);
        t.copy(0, "header", h, segment_at(0) + slot, 14);
        t.copy(0, "write", x, segment_at(0) + slot + 14, 64);
        t.copy(1, "read", segment_at(1) + slot + 14, y, 64);
    }
    let report = run(&t.end());
    assert_eq!(report.findings, []);
    assert_eq!(report.statistics.groups, 2);
}

#[test]
fn a_late_attach_does_not_look_like_broken_chains() {
    let inputs = figure_two(0);
    // Cut off before the end and after the beginning: messages are under way at both.
    for skip in 0..60 {
        let mut cut = Trace::new(2, false).inputs;
        let is_fact = |i: &Input| matches!(i, Input::Plan(_)) || is_allocation(i);
        let (facts, records): (Vec<_>, Vec<_>) = inputs.iter().skip(4).cloned().partition(is_fact);
        cut.extend(facts);
        cut.extend(records.into_iter().skip(skip));
        let report = run(&cut);
        assert!(report.findings.is_empty(), "{skip}: {:#?}", report.findings);
    }
}

fn is_allocation(input: &Input) -> bool {
    let Input::Record(raw) = input else { return false };
    matches!(analyzer::wire::Record::decode(raw).map(|r| r.body), Ok(analyzer::wire::Body::Alloc { .. }))
}

#[test]
fn a_run_is_held_against_a_good_one() {
    let mut good = Pipeline::new(Options::default());
    figure_two(0).iter().for_each(|input| good.push(input));
    let reference = good.into_reference();
    let json = serde_json::to_string(&reference).expect("a reference has a JSON form");
    let reference = serde_json::from_str(&json).expect("and is read back");
    // Here the bug is so common that it would be the usual way of this run.
    let mut t = Trace::new(2, true);
    (0..50).for_each(|step| send_one(&mut t, step, true));
    let options = Options { reference: Some(reference), ..Options::default() };
    let report = run_with(&t.end(), options);
    assert_eq!(warnings(&report).len(), 1, "{:#?}", report.findings);
    let Evidence::OddChain(chain) = &report.findings[0].evidence else { panic!("not a chain") };
    assert_eq!((chain.odd.chains, chain.frequent.reference_chains), (50, 400));
    assert_eq!((chain.rareness, chain.context.matched), (1.0, 50));
}

#[test]
fn an_alert_is_raised_once_and_withdrawn_when_the_odd_becomes_usual() {
    let mut t = Trace::new(2, true);
    for step in 0..2000 {
        send_one(&mut t, step, step == 399 || step > 600);
        if step % 50 == 0 {
            t.tick();
        }
    }
    let mut pipeline = Pipeline::new(Options::default());
    let mut log = Vec::new();
    for input in t.end() {
        pipeline.push(&input);
        log.extend(pipeline.take_alerts().into_iter().map(|alert| match alert {
            analyzer::finding::Alert::Raised(f) => ("raised", f.id),
            analyzer::finding::Alert::Withdrawn { id, .. } => ("withdrawn", id),
        }));
    }
    let told: Vec<&str> = log.iter().map(|l| l.0).collect();
    assert_eq!(told, ["raised", "withdrawn"], "{log:?}");
    assert_eq!(log[0].1, log[1].1);
}

#[test]
fn names_of_places_come_last_and_change_the_words_only() {
    use analyzer::input::{Frame, Symbol};
    let mut pipeline = Pipeline::new(Options::default());
    figure_two(3).iter().for_each(|input| pipeline.push(input));
    let mut report = pipeline.report();
    let wanted = pipeline.wanted_symbols();
    assert!(!wanted.is_empty());
    let symbol = |&(file, offset_bytes): &(_, u64)| Symbol {
        file,
        offset_bytes,
        frames: vec![Frame {
            function: format!("f{offset_bytes:x}"),
            source: Some("/src/a.c".into()),
            line: Some(3),
        }],
    };
    pipeline.push(&Input::Symbols(wanted.iter().map(symbol).collect()));
    assert_eq!(pipeline.report(), report);
    assert_eq!(pipeline.wanted_symbols(), []);
    report.symbolize(pipeline.symbols());
    assert!(report.findings[0].summary.contains("f1030 (a.c:3)"), "{}", report.findings[0].summary);
    let text = analyzer::render::report(&report, analyzer::render::Style::default());
    assert!(text.contains("576 bytes below") && !text.contains("libmpi.so+"), "{text}");
}

#[test]
fn facts_that_are_told_again_leave_heap_blocks_known() {
    let mut inputs = figure_two(3);
    // In the middle of the run: what the ranks map is read again, with nothing new in it.
    let middle = inputs.len() / 2;
    let time_ns = inputs[..middle]
        .iter()
        .rev()
        .find_map(|input| if let Input::Record(record) = input { Some(record.time_ns()) } else { None })
        .expect("there are records");
    for rank in 0..2 {
        inputs.insert(middle, Input::Process(Box::new(common::facts(rank, 2, time_ns))));
    }
    let told_again = run(&inputs);
    assert_eq!(told_again.statistics.groups, run(&figure_two(3)).statistics.groups);
}

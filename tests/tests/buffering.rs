//! Calls that wait for each other in a cycle, unless MPI buffers messages, are told with their lines; others are not.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use live::findings::frame;
use live::processes::HungJob;
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;

/// Cases, with the ranks that wait for each other.
const CASES: [(&str, &[u64]); 14] = [
    ("both_send_first", &[0, 1, 2, 3]),
    ("both_wait_first", &[0, 1, 2, 3]),
    ("all_wait_for_several", &[0, 1, 2, 3]),
    ("a_ring_sends_first", &[0, 1, 2, 3]),
    ("one_sends_to_itself", &[2]),
    ("each_time_again", &[0, 1, 2, 3]),
    ("only_later", &[0, 1, 2, 3]),
    ("sent_before_a_barrier", &[0, 1]),
    ("received_before_a_broadcast", &[0, 1]),
    // Whoever comes first of those that wait in the first broadcast.
    ("two_broadcasts_in_another_order", &[]),
    ("a_started_broadcast", &[0, 1]),
    ("started_again_and_again", &[0, 1, 2, 3]),
    ("three_in_a_cycle", &[0, 1, 2]),
    ("before_a_new_communicator", &[0, 1]),
];
/// Programs that need no buffering.
const RIGHT: [&str; 8] = [
    "one_runs_ahead",
    "a_line_of_senders",
    "buffered_by_the_program",
    "workers_of_a_master",
    "whoever_comes",
    "asked_for",
    "a_halo",
    "received_meanwhile",
];
/// In this case other functions make the calls.
const CALLS_ANOTHER: (&str, &str) = ("only_later", "both_send_first");

fn told(library: MpiImplementation, arguments: &[&str]) -> Result<Vec<Value>> {
    let job = JobSpec::own(library, "buffering")?.ranks(4).args(arguments.iter().copied());
    let session = Dmscope::run(&job).args(["--returns", "all", "--budget", "none"]).finish()?;
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    Ok(findings.into_iter().filter(|finding| finding["evidence"]["kind"] == "potential_deadlock").collect())
}

/// The lines of a function that are marked.
fn marked(function: &str) -> Result<BTreeSet<(String, u64)>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/jobs/faulty/buffering.c");
    let source = fs::read_to_string(path).context(path)?;
    let lines = (1..).zip(source.lines());
    let inside = lines.skip_while(|(_, line)| !line.starts_with(&format!("static void {function}(")));
    let inside = inside.take_while(|(_, line)| *line != "}");
    let found: BTreeSet<(String, u64)> = inside
        .filter(|(_, line)| line.ends_with("// cycle"))
        .map(|(number, _)| (function.to_owned(), number))
        .collect();
    ensure!(!found.is_empty(), "no line of {function} is marked");
    Ok(found)
}

fn ranks(who: &Value) -> BTreeSet<u64> {
    who.as_array().into_iter().flatten().filter_map(|who| who["rank"].as_u64()).collect()
}

#[test]
fn each_cycle_that_only_buffering_lets_go_on_is_told_with_its_lines() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (case, expected) in CASES {
            let name = format!("{} {case}", library.name());
            let found = told(library, &[case]).with_context(|| name.clone())?;
            ensure!(found.len() == 1, "{name}: {found:#?}");
            eprintln!("{name}: {}", found[0]["summary"]);
            ensure!(found[0]["severity"] == "notice", "{name}: {found:#?}");
            let who = ranks(&found[0]["who"]);
            let is_as_expected = match expected {
                [] => who.len() == 2 && who.contains(&1),
                _ => who == expected.iter().copied().collect(),
            };
            ensure!(is_as_expected, "{name}: {found:#?}");
            let calls = found[0]["evidence"]["calls"].as_array().context("calls")?;
            let lines: Option<BTreeSet<(String, u64)>> = calls
                .iter()
                .map(|of| frame(&of["call"]["place"]).map(|(function, _, line)| (function.to_owned(), line)))
                .collect();
            let function = if case == CALLS_ANOTHER.0 { CALLS_ANOTHER.1 } else { case };
            ensure!(lines == Some(marked(function)?), "{name}: {lines:?}");
        }
    }
    Ok(())
}

#[test]
fn of_programs_that_need_no_buffering_nothing_is_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let twins = CASES.iter().map(|(case, _)| vec![*case, "--right"]);
        for arguments in twins.chain(RIGHT.map(|case| vec![case])) {
            let found = told(library, &arguments)?;
            ensure!(found.is_empty(), "{} {arguments:?}: {found:#?}", library.name());
        }
    }
    Ok(())
}

#[test]
fn a_job_that_deadlocks_because_its_messages_are_long_is_told_as_that_alone() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job =
            JobSpec::own(library, "buffering")?.ranks(2).args(["both_send_first", "--bytes", "1000000"]);
        let run = Dmscope::run(&job).args(["--returns", "all", "--budget", "none"]).spawn()?;
        run.wait_for_alert(|finding| finding["evidence"]["kind"] == "hang")?;
        drop(HungJob::started_by(run.pid()));
        let session = run.finish()?;
        let findings = session.report()?["findings"].as_array().context("findings")?.clone();
        // That they were killed is one too.
        let are_hangs = findings.iter().all(|finding| finding["evidence"]["kind"] == "hang");
        ensure!(are_hangs, "{}: {findings:#?}", library.name());
    }
    Ok(())
}

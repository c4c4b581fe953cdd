//! Calls that wait for each other in a cycle, unless MPI buffers messages, are told with their lines; others are not.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use live::findings::frame;
use live::processes::HungJob;
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;

/// Functions that make the calls of a cycle, with the ranks that wait for each other.
const CASES: [(&str, &[u64]); 14] = [
    ("both_send_first", &[0, 1, 2, 3]),
    ("both_wait_first", &[0, 1, 2, 3]),
    ("all_wait_for_several", &[0, 1, 2, 3]),
    ("a_ring_sends_first", &[0, 1, 2, 3]),
    ("one_sends_to_itself", &[2]),
    ("each_time_again", &[0, 1, 2, 3]),
    ("sent_before_a_barrier", &[0, 1]),
    ("received_before_a_broadcast", &[0, 1]),
    // Whoever comes first of those that wait in the first broadcast.
    ("two_broadcasts_in_another_order", &[]),
    ("a_started_broadcast", &[0, 1]),
    ("started_again_and_again", &[0, 1, 2, 3]),
    ("three_in_a_cycle", &[0, 1, 2]),
    ("before_a_new_communicator", &[0, 1]),
    ("asked_for_one", &[0, 1, 2, 3]),
];

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

/// The lines of a finding's calls.
fn lines(finding: &Value) -> Option<BTreeSet<(String, u64)>> {
    let calls = finding["evidence"]["calls"].as_array()?;
    let line =
        |of: &Value| frame(&of["call"]["place"]).map(|(function, _, line)| (function.to_owned(), line));
    calls.iter().map(line).collect()
}

#[test]
fn each_cycle_that_only_buffering_lets_go_on_is_told_with_its_lines() -> Result<()> {
    for library in MpiImplementation::ALL {
        let found = told(library, &["all"])?;
        for (case, expected) in CASES {
            let name = format!("{} {case}", library.name());
            let wanted = Some(marked(case)?);
            let all: Vec<&Value> = found.iter().filter(|finding| lines(finding) == wanted).collect();
            ensure!(all.len() == 1, "{name}, {wanted:?}: {found:#?}");
            eprintln!("{name}: {}", all[0]["summary"]);
            ensure!(all[0]["severity"] == "notice", "{name}: {all:#?}");
            let who = ranks(&all[0]["who"]);
            let is_as_expected = match expected {
                [] => who.len() == 2 && who.contains(&1),
                _ => who == expected.iter().copied().collect(),
            };
            ensure!(is_as_expected, "{name}: {all:#?}");
        }
        let waits = |finding: &&Value| finding["evidence"]["calls"][0]["call"]["function"] == "MPI_Wait";
        let begun: Vec<&str> = found
            .iter()
            .filter(waits)
            .filter_map(|finding| finding["evidence"]["calls"][0]["begun_by"]["function"].as_str())
            .collect();
        for function in ["MPI_Isend", "MPI_Send_init"] {
            ensure!(begun.contains(&function), "{}: {begun:?}", library.name());
        }
        ensure!(found.len() == CASES.len(), "{}: {found:#?}", library.name());
    }
    Ok(())
}

#[test]
fn of_programs_that_need_no_buffering_nothing_is_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let found = told(library, &["all", "--right"])?;
        ensure!(found.is_empty(), "{}: {found:#?}", library.name());
    }
    Ok(())
}

#[test]
fn a_cycle_is_told_of_a_job_that_went_on_for_long_without_one() -> Result<()> {
    for library in MpiImplementation::ALL {
        let found = told(library, &["only_later"])?;
        ensure!(found.len() == 1, "{}: {found:#?}", library.name());
        ensure!(lines(&found[0]) == Some(marked("both_send_first")?), "{}: {found:#?}", library.name());
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

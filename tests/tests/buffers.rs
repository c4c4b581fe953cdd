//! Buffers that are used before the requests that they belong to are complete are told with both places; other uses are not.

use std::fs;

use anyhow::{Context, Result, ensure};
use live::findings::frame;
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;

/// Cases, with how the buffer is used meanwhile, by what, how often, and how that is told.
const CASES: [(&str, &str, &str, u64, &str); 12] = [
    ("sent_and_copied_over", "written", "copy", 1, "warning"),
    ("sent_and_received_over", "received", "MPI_Recv", 1, "warning"),
    ("received_and_copied_out", "read", "copy", 1, "warning"),
    ("received_and_sent", "read", "MPI_Send", 1, "notice"),
    ("received_and_sent_meanwhile", "read", "MPI_Send", 1, "warning"),
    ("received_twice", "received", "MPI_Irecv", 1, "warning"),
    ("tokens_received_twice", "received", "MPI_Irecv", 1, "notice"),
    ("started_and_copied_over", "written", "copy", 3, "warning"),
    ("sent_and_stored_over", "written", "store", 1, "warning"),
    ("sent_and_stored_at_the_end", "written", "store", 1, "warning"),
    ("two_sent_and_one_stored_over", "written", "store", 1, "warning"),
    ("started_and_stored_over", "written", "store", 3, "warning"),
];
/// What uses buffers as it may.
const RIGHT: [&str; 2] = ["used_rightly", "stored_rightly"];

fn told(library: MpiImplementation, arguments: &[&str]) -> Result<Vec<Value>> {
    let job = JobSpec::own(library, "buffers")?.ranks(2).args(arguments.iter().copied());
    let session = Dmscope::run(&job).args(["--returns", "all", "--budget", "none"]).finish()?;
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    Ok(findings.into_iter().filter(|finding| finding["evidence"]["kind"] == "buffer_conflict").collect())
}

/// The lines of a case that are marked so.
fn marked(case: &str, mark: &str) -> Result<u64> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/jobs/faulty/buffers.c");
    let source = fs::read_to_string(path).context(path)?;
    let mut lines =
        (1..).zip(source.lines()).skip_while(|(_, line)| !line.starts_with(&format!("static void {case}(")));
    let found = lines.find(|(_, line)| line.ends_with(&format!("// {mark}")));
    found.map(|(number, _)| number).with_context(|| format!("no line of {case} is marked {mark:?}"))
}

#[test]
fn each_use_of_an_active_buffer_is_told_with_both_places() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (case, access, user, count, severity) in CASES {
            let name = format!("{} {case}", library.name());
            let found = told(library, &[case]).with_context(|| name.clone())?;
            ensure!(found.len() == 1, "{name}: {found:#?}");
            eprintln!("{name}: {}", found[0]["summary"]);
            let evidence = &found[0]["evidence"];
            let (by, at) = match &evidence["user"] {
                user if user["kind"] == "copy" => ("copy", &user["place"]),
                user if user["kind"] == "store" => ("store", &user["seen_by"]["place"]),
                user => (user["function"].as_str().context("a call")?, &user["place"]),
            };
            ensure!((by, evidence["access"].as_str()) == (user, Some(access)), "{name}: {evidence:#}");
            ensure!(evidence["count"] == count, "{name}: {evidence:#}");
            ensure!(found[0]["severity"] == severity, "{name}: {found:#?}");
            ensure!(found[0]["who"] == serde_json::json!([{"rank": 0}]), "{name}: {found:#?}");
            let line = |place: &Value| frame(place).map(|(function, _, line)| (function.to_owned(), line));
            let begun = if case.starts_with("started") { "prepared" } else { "begun" };
            let expected = |mark| Ok::<_, anyhow::Error>(Some((case.to_owned(), marked(case, mark)?)));
            ensure!(line(&evidence["request"]["place"]) == expected(begun)?, "{name}: {evidence:#}");
            ensure!(line(at) == expected("used")?, "{name}: {evidence:#}");
        }
    }
    Ok(())
}

#[test]
fn of_buffers_that_are_used_as_they_may_be_nothing_is_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let twins = CASES.iter().map(|(case, ..)| vec![*case, "--right"]);
        for arguments in twins.chain(RIGHT.map(|case| vec![case])) {
            let found = told(library, &arguments)?;
            ensure!(found.is_empty(), "{} {arguments:?}: {found:#?}", library.name());
        }
    }
    Ok(())
}

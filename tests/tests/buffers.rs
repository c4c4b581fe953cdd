//! Buffers that are used before the requests that they belong to are complete are told with both places, and so are accesses to memory of a
//! window that nothing orders; other uses are not.

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

/// Cases of accesses to a window, with the calls that are in no order, and who makes them.
const ACCESSES: [(&str, [(&str, u64); 2]); 7] = [
    ("put_by_two_between_fences", [("MPI_Put", 0), ("MPI_Put", 2)]),
    ("put_and_got_between_fences", [("MPI_Put", 0), ("MPI_Get", 2)]),
    ("put_by_two_with_shared_locks", [("MPI_Put", 0), ("MPI_Put", 2)]),
    ("put_twice_without_a_flush", [("MPI_Put", 0), ("MPI_Put", 0)]),
    ("put_while_its_rank_sends", [("MPI_Put", 0), ("MPI_Send", 1)]),
    ("got_while_its_rank_receives", [("MPI_Get", 0), ("MPI_Irecv", 1)]),
    ("put_while_its_rank_puts_from_there", [("MPI_Put", 0), ("MPI_Put", 1)]),
];

/// Cases of accesses that go past an end of the memory of rank 1, with what they do, how long they are, and where they begin.
const OUTSIDE: [(&str, &str, u64, u64); 3] = [
    ("put_outside", "written", 80, 8 * (500 - 9)),
    ("got_outside", "read", 80, 8 * 510),
    ("added_outside", "written", 8, 8 * 500),
];

fn told(library: MpiImplementation, arguments: &[&str]) -> Result<Vec<Value>> {
    told_of("buffers", 2, library, arguments)
}

fn told_of(job: &str, ranks: usize, library: MpiImplementation, arguments: &[&str]) -> Result<Vec<Value>> {
    let job = JobSpec::own(library, job)?.ranks(ranks).args(arguments.iter().copied());
    let session = Dmscope::run(&job).args(["--returns", "all", "--budget", "none"]).finish()?;
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    let is_wanted = |finding: &Value| {
        let kind = finding["evidence"]["kind"].as_str();
        matches!(kind, Some("buffer_conflict" | "access_conflict" | "outside_window" | "overlapping_buffers"))
    };
    Ok(findings.into_iter().filter(is_wanted).collect())
}

/// The lines of a case that are marked so.
fn marked(case: &str, mark: &str) -> Result<u64> {
    marked_in("buffers", case, mark)
}

fn marked_in(job: &str, case: &str, mark: &str) -> Result<u64> {
    let path = format!("{}/jobs/faulty/{job}.c", env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(&path).context(path)?;
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
fn an_exchange_in_one_buffer_is_told_unless_its_parts_are_apart() -> Result<()> {
    let case = "exchanged_in_one_buffer";
    for library in MpiImplementation::ALL {
        let found = told(library, &[case])?;
        ensure!(found.len() == 1 && found[0]["severity"] == "warning", "{}: {found:#?}", library.name());
        eprintln!("{}: {}", library.name(), found[0]["summary"]);
        let evidence = &found[0]["evidence"];
        ensure!(evidence["overlap_bytes"] == 1 && evidence["count"] == 2, "{}: {evidence:#}", library.name());
        let line = frame(&evidence["call"]["place"]).map(|(_, _, line)| line);
        ensure!(line == Some(marked(case, "overlaps")?), "{}: {evidence:#}", library.name());
        let found = told(library, &[case, "--right"])?;
        ensure!(found.is_empty(), "{}: {found:#?}", library.name());
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

#[test]
fn accesses_to_the_same_memory_of_a_window_that_nothing_orders_are_told_with_both_calls() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (case, calls) in ACCESSES {
            let name = format!("{} {case}", library.name());
            let found = told_of("accesses", 3, library, &[case]).with_context(|| name.clone())?;
            ensure!(found.len() == 1, "{name}: {found:#?}");
            eprintln!("{name}: {}", found[0]["summary"]);
            let evidence = &found[0]["evidence"];
            ensure!(found[0]["severity"] == "warning", "{name}: {found:#?}");
            ensure!(evidence["targets"] == serde_json::json!([{"rank": 1}]), "{name}: {evidence:#}");
            let line = |place: &Value| frame(place).map(|(_, _, line)| line);
            let mut ends = ["first", "second"].map(|end| {
                let (call, ranks) = (&evidence[end], &evidence[format!("{end}_ranks")]);
                (line(&call["place"]), call["function"].as_str(), ranks[0]["rank"].as_u64())
            });
            // Between fences either may be made first.
            ends.sort_unstable();
            let [(first, first_rank), (second, second_rank)] = calls;
            let expected = [
                (Some(marked_in("accesses", case, "first")?), Some(first), Some(first_rank)),
                (Some(marked_in("accesses", case, "second")?), Some(second), Some(second_rank)),
            ];
            ensure!(ends == expected, "{name}: {evidence:#}");
        }
    }
    Ok(())
}

#[test]
fn accesses_outside_of_the_memory_in_a_window_are_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (case, access, len_bytes, offset_bytes) in OUTSIDE {
            let name = format!("{} {case}", library.name());
            let found = told_of("accesses", 3, library, &[case]).with_context(|| name.clone())?;
            ensure!(found.len() == 1 && found[0]["severity"] == "warning", "{name}: {found:#?}");
            eprintln!("{name}: {}", found[0]["summary"]);
            let evidence = &found[0]["evidence"];
            ensure!(evidence["access"] == access && evidence["window_bytes"] == 4000, "{name}: {evidence:#}");
            ensure!(
                evidence["len_bytes"] == len_bytes && evidence["offset_bytes"] == offset_bytes,
                "{name}: {evidence:#}"
            );
            ensure!(evidence["target"] == serde_json::json!({"rank": 1}), "{name}: {evidence:#}");
            let line = frame(&evidence["call"]["place"]).map(|(_, _, line)| line);
            ensure!(line == Some(marked_in("accesses", case, "outside")?), "{name}: {evidence:#}");
        }
    }
    Ok(())
}

#[test]
fn of_accesses_that_are_in_order_nothing_is_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let outside = OUTSIDE.iter().map(|(case, ..)| *case);
        let cases = ACCESSES.iter().map(|(case, _)| *case).chain(outside);
        for arguments in cases.map(|case| vec![case, "--right"]).chain([vec!["ordered"]]) {
            let found = told_of("accesses", 3, library, &arguments)?;
            ensure!(found.is_empty(), "{} {arguments:?}: {found:#?}", library.name());
        }
    }
    Ok(())
}

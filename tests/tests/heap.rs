//! Memory of the heap that MPI calls are given: what goes past the end of a block, was given back before, or is given back while it is in use
//! is told with the places of the program; what is used rightly is not.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use live::findings::frame;
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;

const KINDS: [&str; 2] = ["heap_misuse", "buffer_conflict"];

/// A case, what is wrong there, and the line of the call that is given the memory.
type Faults = BTreeMap<String, (String, u64)>;

/// What the source says: each case marks the call that uses the memory, or the one that begins a request.
fn expected() -> Result<Faults> {
    let path = format!("{}/jobs/faulty/heap.c", env!("CARGO_MANIFEST_DIR"));
    let source = fs::read_to_string(&path).context(path)?;
    let mut case = String::new();
    let mut faults = Faults::new();
    for (number, line) in (1..).zip(source.lines()) {
        if let Some(name) = line.strip_prefix("static void ").and_then(|rest| rest.strip_suffix("(void)")) {
            name.clone_into(&mut case);
        }
        let fault = match line.rsplit_once("// ").map(|(_, mark)| mark) {
            Some("begun") => "freed",
            Some("used") if case.ends_with("_after_free") => "use_after_free",
            Some("used") => "buffer_overflow",
            _ => continue,
        };
        faults.insert(case.clone(), (fault.to_owned(), number));
    }
    Ok(faults)
}

fn told(library: MpiImplementation, more: &[&str]) -> Result<Vec<Value>> {
    let job = JobSpec::own(library, "heap")?.ranks(2).args(["all"].iter().chain(more).copied());
    let session = Dmscope::run(&job).args(["--returns", "all", "--budget", "none"]).finish()?;
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    let is_wanted =
        |finding: &Value| finding["evidence"]["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind));
    Ok(findings.into_iter().filter(is_wanted).collect())
}

/// What a finding says.
fn fault(finding: &Value) -> Result<(String, (String, u64))> {
    let evidence = &finding["evidence"];
    ensure!(finding["severity"] == "warning", "{finding:#}");
    ensure!(finding["who"] == serde_json::json!([{"rank": 0}]), "{finding:#}");
    let (fault, call) = match evidence["fault"].as_str() {
        Some(fault) => (fault, &evidence["call"]),
        None => (evidence["access"].as_str().context("an access")?, &evidence["request"]),
    };
    let (function, _, line) = frame(&call["place"]).context("a place")?;
    for place in
        ["allocated", "freed"].map(|place| &evidence[place]).into_iter().chain([&evidence["user"]["place"]])
    {
        ensure!(place.is_null() || frame(place).is_some(), "{evidence:#}");
    }
    Ok((function.to_owned(), (fault.to_owned(), line)))
}

#[test]
fn each_misuse_of_heap_memory_is_told_at_the_call_that_was_given_it() -> Result<()> {
    let expected = expected()?;
    ensure!(expected.len() > 25, "{expected:#?}");
    for library in MpiImplementation::ALL {
        let findings = told(library, &[])?;
        findings.iter().for_each(|finding| eprintln!("{}: {}", library.name(), finding["summary"]));
        let found = findings.iter().map(fault).collect::<Result<Faults>>()?;
        ensure!(found == expected, "{}: {found:#?} instead of {expected:#?}", library.name());
        ensure!(findings.len() == expected.len(), "{}: some are told twice: {findings:#?}", library.name());
    }
    Ok(())
}

#[test]
fn of_heap_memory_that_is_used_rightly_nothing_is_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let findings = told(library, &["--right"])?;
        ensure!(findings.is_empty(), "{}: {findings:#?}", library.name());
    }
    Ok(())
}

//! What jobs leave over when they end: messages that nobody received, requests that nobody came back for, communicators and
//! windows that nobody freed.

use std::collections::BTreeSet;
use std::fs::File;

use anyhow::{Context, Result, ensure};
use live::catalogue::CASES;
use live::fault_case::{FaultCase, FaultClass};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation};
use serde_json::Value;
use tempfile::TempDir;

/// Runs a job under dmscope. It goes on when dmscope knows all its ranks.
fn watch(
    library: MpiImplementation,
    case: &FaultCase,
    arguments: &[&str],
    tape: &TempDir,
) -> Result<FinishedSession> {
    let go = tape.path().join("go");
    let job = JobSpec::own(library, case.job)?.ranks(case.ranks as usize).args(arguments.iter().copied());
    let job = job.args(["--wait-for".to_owned(), go.to_string_lossy().into_owned()]);
    let run = Dmscope::run(&job).args(["--returns", "all"]).record(&tape.path().join("x.dmt")).spawn()?;
    let all = u64::from(case.ranks);
    let knows_all = |event: &Value| {
        event["event"] == "status" && event["ranks"].as_array().is_some_and(|ranks| ranks.len() as u64 == all)
    };
    run.wait_for(knows_all)?;
    File::create(&go).context("cannot let the job go")?;
    run.finish()
}

fn leaks(session: &FinishedSession) -> Result<Vec<Value>> {
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    Ok(findings.into_iter().filter(|finding| finding["evidence"]["kind"] == "left_over").collect())
}

fn check(library: MpiImplementation, case: &FaultCase) -> Result<()> {
    let name = format!("{} {:?}", library.name(), case.args);
    let folder = TempDir::new()?;
    let session = watch(library, case, case.args, &folder)?;
    let left = leaks(&session)?;
    ensure!(left.len() == 1, "{name}: {left:#?}");
    let (finding, evidence) = (&left[0], &left[0]["evidence"]);
    let who = finding["who"].as_array().into_iter().flatten();
    let who: BTreeSet<u64> = who.filter_map(|who| who["rank"].as_u64()).collect();
    ensure!(who == case.at_fault.iter().map(|rank| u64::from(*rank)).collect(), "{name}: {finding:#?}");
    ensure!(evidence["function"] == case.function && evidence["count"] == 1, "{name}: {finding:#?}");
    let (file, _) = case.place.context("a place")?;
    let frame = live::findings::frame(&evidence["place"]);
    let expected = case.line()?.map(u64::from);
    ensure!(
        frame.is_some_and(|(_, source, line)| source == file && Some(line) == expected),
        "{name}: {finding:#?}"
    );
    let again = Dmscope::analyze(&folder.path().join("x.dmt")).finish()?;
    ensure!(again.report_line()? == session.report_line()?, "{name}: the tape says something else");
    let calls = Dmscope::command("calls", [folder.path().join("x.dmt")]).finish()?;
    let is_told = |line: &str| line.starts_with("unmatched send") || line.split(' ').nth(1) == Some("leak");
    let told = calls.stdout.iter().filter(|line| is_told(line.trim_start()));
    ensure!(told.count() == 1, "{name}: {}", calls.stdout.join("\n"));
    Ok(())
}

fn cases() -> impl Iterator<Item = (MpiImplementation, &'static FaultCase)> {
    let all = || CASES.iter().filter(|case| case.class == FaultClass::Leak);
    MpiImplementation::ALL.into_iter().flat_map(move |library| all().map(move |case| (library, case)))
}

#[test]
fn what_a_job_leaves_over_is_told_with_ranks_and_line() -> Result<()> {
    let mut checked = 0;
    for (library, case) in cases() {
        check(library, case)?;
        checked += 1;
    }
    ensure!(checked >= 8, "only {checked} cases");
    Ok(())
}

#[test]
fn nothing_is_said_of_jobs_that_leave_nothing_over() -> Result<()> {
    for (library, case) in cases() {
        let right = case.twin.context("a right twin")?;
        let session = watch(library, case, right, &TempDir::new()?)?;
        let left = leaks(&session)?;
        ensure!(left.is_empty(), "{} {right:?}: {left:#?}", library.name());
    }
    Ok(())
}

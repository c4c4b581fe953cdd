//! Where movements of data are too many for the rings or the budget, all MPI calls are watched still, and what is said of them
//! is as certain as ever.

use anyhow::{Context, Result, ensure};
use live::counted::{LIBRARY, run_unread, statistics};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation};
use serde_json::Value;

/// A job that copies all the time and leaves a communicator over at its end.
fn job(library: MpiImplementation, iterations: &str) -> Result<JobSpec> {
    Ok(JobSpec::own(library, "counts")?.args(["--leak", "--iterations", iterations]))
}

/// What one must have seen all calls for, from `MPI_Init` on.
fn check_leak_is_told(session: &FinishedSession) -> Result<()> {
    let findings = session.report()?["findings"].as_array().context("no findings")?.clone();
    let is_leak = |finding: &&Value| {
        let evidence = &finding["evidence"];
        evidence["kind"] == "left_over" && evidence["function"] == "MPI_Comm_dup"
    };
    let leak = findings.iter().find(is_leak).with_context(|| format!("no leak: {findings:#?}"))?;
    ensure!(leak["who"].as_array().map(Vec::len) == Some(2), "{leak:#}");
    ensure!(leak["verdict"] == "violated", "{leak:#}");
    Ok(())
}

/// dmscope stands still while the job makes all its copies, and the calls at its end.
#[test]
fn when_rings_are_full_of_movements_no_call_is_lost() -> Result<()> {
    for library in MpiImplementation::ALL {
        let session = run_unread(job(library, "200000")?, &["--returns", "all", "--ring-size", "1M"])?;
        let statistics = statistics(&session)?;
        let lost = ["lost_movements", "lost_calls", "lost_state"].map(|lost| statistics[lost].as_u64());
        eprintln!("{library:?}: lost {lost:?} of {} records", statistics["records"]);
        ensure!(lost[0] > Some(1_000_000), "little was lost: the test does not test");
        ensure!(lost[1..] == [Some(0); 2], "{library:?}: {lost:?}");
        check_leak_is_told(&session).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn when_the_budget_does_not_allow_for_movements_calls_are_watched_all_the_time() -> Result<()> {
    for library in MpiImplementation::ALL {
        let run = Dmscope::run(&job(library, "1000000")?).args(LIBRARY);
        let session = run.args(["--returns", "all", "--budget", "1%"]).finish()?;
        let statistics = statistics(&session)?;
        let number = |name: &str| statistics[name].as_u64();
        let [all, movements, calls] = ["duration_ns", "watched_ns", "calls_watched_ns"]
            .map(|name| number(name).unwrap_or(0) / 1_000_000);
        eprintln!("{library:?}: {movements} of {all} ms, calls {calls} ms, {:?} pauses", number("pauses"));
        ensure!(number("pauses") > Some(0) && movements < all / 2, "{library:?}: it hardly paused");
        ensure!(calls == all, "{library:?}: calls were watched for {calls} of {all} ms");
        check_leak_is_told(&session).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

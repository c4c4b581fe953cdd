//! What watching may cost is kept, and faults are found nevertheless.

use std::time::Duration;

use anyhow::{Result, ensure};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation, RunningJob};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What the accounting may be above the budget at the end of a session of twelve seconds: where ranks keep all processors busy, a
/// pause begins late, and what that cost is paid back by pauses of up to twenty seconds, which may be still to come.
const TOLERANCE: f64 = (12.0 + 20.0) / 12.0;

fn endless(job: JobSpec) -> Result<RunningJob> {
    let job = job.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    job.go()?;
    Ok(job)
}

/// What a session spent of the job's time, by its own accounting.
fn spent_share(session: &FinishedSession) -> f64 {
    let spent: Vec<f64> =
        session.events_of("status").iter().filter_map(|e| e["budget"]["spent_share"].as_f64()).collect();
    // The first is of the moment at which watching begins.
    spent.iter().skip(1).sum::<f64>() / spent.len().saturating_sub(1).max(1) as f64
}

#[test]
fn a_fault_in_a_storm_is_found_under_a_budget_and_said_to_be_of_a_sample() -> Result<()> {
    for (library, ranks) in [(MpiImplementation::OpenMpi, 4), (MpiImplementation::Mpich, 2)] {
        find_in_a_storm(library, ranks)?;
    }
    Ok(())
}

fn find_in_a_storm(library: MpiImplementation, ranks: usize) -> Result<()> {
    let job = endless(JobSpec::own(library, "figure2")?.ranks(ranks))?;
    let dmscope =
        Dmscope::attach(job.launcher_pid()).args(["--budget", "1%", "--duration", "12s"]).spawn()?;
    let alert = dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    ensure!(alert["verdict"] == "sampled" || alert["verdict"] == "violated", "{alert}");
    let session = dmscope.finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let statistics = &session.report()?["statistics"];
    let (watched, all) = (statistics["watched_ns"].as_f64(), statistics["duration_ns"].as_f64());
    ensure!(statistics["pauses"].as_u64() > Some(1) && watched < all, "{statistics}");
    let spent = spent_share(&session);
    eprintln!("{library:?}: spent {:.2}%, watched {watched:?} of {all:?} ns", spent * 100.0);
    ensure!(spent < 0.01 * TOLERANCE, "spent {spent}");
    // Never sure, whatever was found: not everything was watched.
    let findings = session.report()?["findings"].as_array().cloned().unwrap_or_default();
    ensure!(findings.iter().all(|finding| finding["verdict"] != "violated"), "{findings:?}");
    ensure!(session.status == Some(3), "{:?}", session.status);
    Ok(())
}

#[test]
fn a_clean_storm_under_a_budget_raises_no_warning() -> Result<()> {
    for (library, name, ranks) in
        [(MpiImplementation::OpenMpi, "halo2d", 4), (MpiImplementation::Mpich, "ring", 2)]
    {
        watch_a_clean_storm(library, name, ranks)?;
    }
    Ok(())
}

fn watch_a_clean_storm(library: MpiImplementation, name: &str, ranks: usize) -> Result<()> {
    let job = endless(JobSpec::own(library, name)?.ranks(ranks))?;
    let session =
        Dmscope::attach(job.launcher_pid()).args(["--budget", "1%", "--duration", "12s"]).finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    session.findings()?.check_no_warning()?;
    let spent = spent_share(&session);
    eprintln!("{library:?} {name}: spent {:.2}%", spent * 100.0);
    ensure!(spent < 0.01 * TOLERANCE, "{name}: spent {spent}");
    Ok(())
}

/// Two milliseconds between messages: nothing has to be left out.
#[test]
fn a_quiet_job_is_watched_all_the_time_under_a_budget() -> Result<()> {
    let quiet = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.args(["--pause-us", "5000"]);
    let job = endless(quiet)?;
    let session =
        Dmscope::attach(job.launcher_pid()).args(["--budget", "3%", "--duration", "5s"]).finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let thresholds = &session.report()?["thresholds"];
    let status = session.events_of("status").last().map(|e| e["budget"].clone());
    ensure!(thresholds["sampled"] == Value::Bool(false), "{thresholds} {status:?}");
    Ok(())
}

#[test]
fn a_tape_of_a_session_under_a_budget_gives_the_same_findings() -> Result<()> {
    let directory = tempfile::TempDir::new()?;
    let tape = directory.path().join("x.dmt");
    let job = endless(JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.ranks(4))?;
    let watch = Dmscope::attach(job.launcher_pid()).record(&tape);
    let session = watch.args(["--budget", "2%", "--duration", "6s"]).finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let again = Dmscope::analyze(&tape).finish()?;
    ensure!(session.report()?["statistics"]["pauses"].as_u64() > Some(0), "it never paused");
    ensure!(session.report()? == again.report()?, "the tape tells another story");
    Ok(())
}

#[test]
fn polling_calls_that_say_no_are_paid_for_though_they_leave_no_record() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "errors")?.ranks(2).args(["--fault", "test_forever"]);
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    job.go()?;
    let dmscope = Dmscope::attach(job.launcher_pid()).args(["--returns", "all", "--budget", "1%"]);
    let session = dmscope.args(["--duration", "4s"]).finish()?;
    job.stop()?;
    let statistics = &session.report()?["statistics"];
    let (watched, all) = (statistics["watched_ns"].as_f64(), statistics["duration_ns"].as_f64());
    ensure!(watched.zip(all).is_some_and(|(watched, all)| watched < all / 2.0), "{watched:?} of {all:?} ns");
    Ok(())
}

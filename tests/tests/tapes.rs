//! A tape gives the findings of the session again, byte for byte.

use std::time::Duration;

use anyhow::{Result, ensure};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation};
use rustix::process::Signal;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The report of the tape is that of the session, and so is the exit status.
fn check_same(name: &str, live: &FinishedSession, tape: &std::path::Path) -> Result<()> {
    let again = Dmscope::analyze(tape).finish()?;
    let (expected, found) = (live.report_line()?, again.report_line()?);
    if expected != found {
        let at = expected.bytes().zip(found.bytes()).take_while(|(a, b)| a == b).count();
        let around = |text: &str| {
            String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(100)..(at + 100).min(text.len())])
                .into_owned()
        };
        anyhow::bail!("{name}: reports differ at {at}:\n{}\n{}", around(expected), around(found));
    }
    let notices = again.events_of("notice");
    ensure!(notices.is_empty(), "{name}: a whole tape is complained of: {notices:?}");
    ensure!(again.status == live.status, "{name}: {:?}, then {:?}", live.status, again.status);
    Ok(())
}

/// By which signals, if it does not go on to the end of the job.
fn attached(spec: &JobSpec, options: &[&str], interrupted_by: &[Signal]) -> Result<()> {
    let directory = TempDir::new()?;
    let tape = directory.path().join("x.dmt");
    let job = spec.clone().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let attach = Dmscope::attach(job.launcher_pid()).args(options.iter().copied()).record(&tape);
    let mut dmscope = attach.spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    if interrupted_by.is_empty() {
        job.finish(TIMEOUT)?.check_status()?;
    } else {
        dmscope.wait_for(|event| event["event"] == "status" && event["records"].as_u64() > Some(10_000))?;
        interrupted_by.iter().for_each(|signal| dmscope.signal(*signal));
    }
    check_same(&format!("{spec:?}"), &dmscope.finish()?, &tape)
}

fn job(library: MpiImplementation, name: &str) -> Result<JobSpec> {
    let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
    Ok(JobSpec::own(library, name)?.ranks(ranks).args(["--seconds", "1.5"]))
}

#[test]
fn the_report_of_a_whole_job_comes_again_from_its_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in ["figure2", "halo2d", "onesided"] {
            attached(&job(library, name)?, &[], &[])?;
        }
    }
    Ok(())
}

#[test]
fn the_report_of_an_interrupted_session_comes_again_from_its_tape() -> Result<()> {
    attached(&job(MpiImplementation::OpenMpi, "headercache")?.endless(), &[], &[Signal::INT])
}

/// As `timeout` does: it signals its child, and then all of its process group.
#[test]
fn a_session_that_is_told_to_end_twice_at_once_still_reports() -> Result<()> {
    let job = job(MpiImplementation::OpenMpi, "headercache")?.endless();
    attached(&job, &[], &[Signal::INT, Signal::TERM, Signal::INT])
}

#[test]
fn losses_come_again_from_the_tape() -> Result<()> {
    attached(&job(MpiImplementation::OpenMpi, "figure2")?, &["--ring-size", "4096"], &[])
}

#[test]
fn processes_that_came_and_went_come_again_from_the_tape() -> Result<()> {
    let forker = JobSpec::own(MpiImplementation::OpenMpi, "forker")?.args(["--iterations", "3000"]);
    attached(&forker, &[], &[])
}

#[test]
fn the_report_of_a_job_under_run_comes_again_from_its_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        let directory = TempDir::new()?;
        let tape = directory.path().join("x.dmt");
        let session = Dmscope::run(&job(library, "figure2")?).record(&tape).finish()?;
        check_same(&format!("{library:?}"), &session, &tape)?;
    }
    Ok(())
}

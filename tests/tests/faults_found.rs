//! Faulty jobs: the fault is found, and it is the right one, however dmscope came to the job.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::findings::{frame, missing_operation, summary};
use live::{
    Dmscope, Findings, FinishedJob, FinishedSession, JobSpec, MpiImplementation, RunningJob, RunningSession,
};
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A job with a fault in a messaging library.
fn faulty(library: MpiImplementation, name: &str) -> Result<JobSpec> {
    let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
    Ok(JobSpec::own(library, name)?.ranks(ranks))
}

/// When a session has seen what it should see.
enum WatchedUntil {
    Warning,
    Records(u64),
}

impl WatchedUntil {
    fn wait(&self, dmscope: &RunningSession) -> Result<()> {
        match self {
            Self::Warning => dmscope.wait_for_alert(|finding| finding["severity"] == "warning"),
            Self::Records(count) => dmscope
                .wait_for(|event| event["event"] == "status" && event["records"].as_u64() >= Some(*count)),
        }
        .map(|_| ())
    }
}

/// Watches a held job from its first message on; stops it when the condition holds.
fn watch(spec: &JobSpec, until: WatchedUntil, args: &[&str]) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.clone().held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(args.iter().copied()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    end(dmscope, job, until)
}

/// Watches a job that is in the middle of its messages, by the process id that `pid` chooses.
fn watch_in_mid_run(
    spec: &JobSpec,
    pid: impl Fn(&RunningJob) -> Result<u32>,
) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.clone().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = Dmscope::attach(pid(&job)?).spawn()?;
    end(dmscope, job, WatchedUntil::Warning)
}

fn end(
    dmscope: RunningSession,
    job: RunningJob,
    until: WatchedUntil,
) -> Result<(FinishedSession, FinishedJob)> {
    until.wait(&dmscope)?;
    job.stop()?;
    let job = job.finish(TIMEOUT)?;
    job.check_verdict()?;
    Ok((dmscope.finish()?, job))
}

/// The missing operation is the copy that staged the right data, at the line that the job says.
fn check_staging_copy(findings: &Findings, job: &FinishedJob) -> Result<()> {
    let finding = findings.first_warning()?;
    let site = job.sites()?.into_iter().find(|site| site.label == "stage").context("no staging copy")?;
    let missing = missing_operation(finding)?;
    let found = frame(&missing["place"]).context("a place without a line")?;
    ensure!(
        found == (&site.function, &site.file, site.line.into()),
        "{found:?} instead of {site:?}: {}",
        summary(finding)
    );
    ensure!(summary(finding).contains(&site.function), "{}", summary(finding));
    Ok(())
}

fn check_found(name: &str, how: &str, session: &FinishedSession, job: &FinishedJob) -> Result<()> {
    let what = || format!("{name}, {how}");
    check_staging_copy(&session.findings().with_context(what)?, job).with_context(what)?;
    ensure!(session.status == Some(1), "{}: status {:?}", what(), session.status);
    Ok(())
}

fn is_found_from_the_start_and_from_the_tape(name: &str) -> Result<()> {
    for library in MpiImplementation::ALL {
        let directory = TempDir::new()?;
        let tape = directory.path().join("x.dmt");
        let spec = faulty(library, name)?;
        let (session, job) = watch(&spec, WatchedUntil::Warning, &["--record", &tape.to_string_lossy()])?;
        check_found(name, &format!("{library:?}, attached"), &session, &job)?;
        let again = Dmscope::analyze(&tape).finish()?;
        check_found(name, &format!("{library:?}, tape"), &again, &job)?;
    }
    Ok(())
}

fn is_found_under_run(name: &str) -> Result<()> {
    for library in MpiImplementation::ALL {
        let session = Dmscope::run(&faulty(library, name)?.args(["--iterations", "2000"])).finish()?;
        let job = session.job()?;
        live_verdict(job)?;
        check_found(name, &format!("{library:?}, run"), &session, job)?;
    }
    Ok(())
}

/// Under `dmscope run` the exit status is that of dmscope.
fn live_verdict(job: &FinishedJob) -> Result<()> {
    ensure!(job.stdout.iter().any(|line| line.starts_with("ok ")), "no ok: {:?}", job.stdout);
    Ok(())
}

fn is_found_in_mid_run(name: &str) -> Result<()> {
    for library in MpiImplementation::ALL {
        let spec = faulty(library, name)?;
        let (session, job) = watch_in_mid_run(&spec, |job| Ok(job.launcher_pid()))?;
        check_found(name, &format!("{library:?}, launcher in mid-run"), &session, &job)?;
        let (session, job) = watch_in_mid_run(&spec, |job| Ok(job.rank_pids()?[1]))?;
        check_found(name, &format!("{library:?}, rank 1 in mid-run"), &session, &job)?;
    }
    Ok(())
}

fn is_not_found_where_it_is_not(name: &str) -> Result<()> {
    for library in MpiImplementation::ALL {
        let (session, _) =
            watch(&faulty(library, name)?.args(["--no-bug"]), WatchedUntil::Records(100_000), &[])?;
        let findings = session.findings()?;
        findings.check_no_warning().with_context(|| format!("{name}, {library:?}"))?;
        for notice in findings.notices() {
            eprintln!("notice: {name} --no-bug, {library:?}: {}", summary(notice));
        }
        ensure!(session.status != Some(1), "status 1 without a warning");
    }
    Ok(())
}

#[test]
fn the_pointer_fault_is_found_when_attached_before_it_and_from_the_tape() -> Result<()> {
    is_found_from_the_start_and_from_the_tape("figure2")
}

#[test]
fn the_pointer_fault_is_found_under_run() -> Result<()> {
    is_found_under_run("figure2")
}

#[test]
fn the_pointer_fault_is_found_when_attached_in_mid_run() -> Result<()> {
    is_found_in_mid_run("figure2")
}

#[test]
fn without_the_pointer_fault_nothing_is_called_broken() -> Result<()> {
    is_not_found_where_it_is_not("figure2")
}

#[test]
fn the_stale_slot_is_found_when_attached_before_it_and_from_the_tape() -> Result<()> {
    is_found_from_the_start_and_from_the_tape("headercache")
}

#[test]
fn the_stale_slot_is_found_under_run() -> Result<()> {
    is_found_under_run("headercache")
}

#[test]
fn the_stale_slot_is_found_when_attached_in_mid_run() -> Result<()> {
    is_found_in_mid_run("headercache")
}

/// The receiver reads them out of the sender's memory: what is odd is the buffer, which is the sender's.
#[test]
fn the_stale_slot_that_long_messages_leave_from_is_found() -> Result<()> {
    for library in MpiImplementation::ALL {
        let long = faulty(library, "headercache")?.args(["--size", "60000"]);
        let (session, job) = watch(&long, WatchedUntil::Warning, &[])?;
        check_found("headercache", &format!("{library:?}, long messages"), &session, &job)?;
        let right = long.args(["--no-bug", "--iterations", "500"]);
        let session = Dmscope::run(&right).finish()?;
        let findings = session.findings()?;
        ensure!(findings.warnings().is_empty(), "{library:?}: {:?}", findings.warnings());
    }
    Ok(())
}

#[test]
fn without_the_stale_slot_nothing_is_called_broken() -> Result<()> {
    is_not_found_where_it_is_not("headercache")
}

#[test]
fn a_fault_inside_the_program_itself_is_found() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (session, job) = watch(&faulty(library, "figure2_static")?, WatchedUntil::Warning, &[])?;
        check_found("figure2_static", &format!("{library:?}"), &session, &job)?;
    }
    Ok(())
}

/// Of a library that is linked in, a program has what it calls: this one begins by `MPI_Init_thread` alone.
#[test]
fn a_fault_is_found_in_a_program_that_mpi_is_linked_into() -> Result<()> {
    let name = "figure2_with_mpi";
    let (session, job) = watch(&faulty(MpiImplementation::Mpich, name)?, WatchedUntil::Warning, &[])?;
    check_found(name, "MPICH", &session, &job)?;
    let calls = session.report()?["statistics"]["calls"].to_string();
    ensure!(calls.contains("MPI_Send") || calls.contains("MPI_Isend"), "no MPI call was seen: {calls}");
    Ok(())
}

#[test]
fn a_fault_in_a_stripped_library_is_found_at_the_same_offset() -> Result<()> {
    for library in MpiImplementation::ALL {
        let place = |name: &str| -> Result<Value> {
            let (session, _) = watch(&faulty(library, name)?, WatchedUntil::Warning, &[])?;
            Ok(missing_operation(session.findings()?.first_warning()?)?["place"].clone())
        };
        let (full, stripped) = (place("figure2")?, place("stripped/figure2")?);
        ensure!(frame(&full).is_some() && frame(&stripped).is_none(), "{full} {stripped}");
        ensure!(full["offset_bytes"] == stripped["offset_bytes"], "{full} {stripped}");
        for module in [&full["module"], &stripped["module"]] {
            ensure!(module.as_str().is_some_and(|path| path.ends_with("/libmsg_figure2.so")), "{module}");
        }
    }
    Ok(())
}

/// Rank 5 is the odd one, and what it does too often is posted by `cm_post_ud_packet`.
fn check_retry_storm(findings: &Findings) -> Result<()> {
    check_odd_rank(findings.first_warning()?)
}

fn check_odd_rank(finding: &serde_json::Value) -> Result<()> {
    ensure!(finding["evidence"]["kind"] == "odd_rank", "{}", summary(finding));
    ensure!(finding["who"] == serde_json::json!([{ "rank": 5 }]), "{}: {}", finding["who"], summary(finding));
    let text = finding.to_string();
    ensure!(text.contains("cm_post_ud_packet"), "{text}");
    ensure!(summary(finding).contains("cm_post_ud_packet"), "{}", summary(finding));
    Ok(())
}

/// Sixteen ranks: with eight, five times the average, which the odd rank itself is part of, is near the largest
/// distance there can be.
fn retry_storm() -> Result<JobSpec> {
    Ok(JobSpec::own(MpiImplementation::OpenMpi, "retrystorm")?.ranks(16))
}

#[test]
fn the_rank_that_repeats_its_requests_is_found() -> Result<()> {
    let job = retry_storm()?.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let finding = dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    dmscope.interrupt();
    let findings = dmscope.finish()?.findings()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_status()?;
    check_odd_rank(&finding)?;
    check_retry_storm(&findings)
}

#[test]
fn the_rank_that_repeats_its_requests_in_the_last_part_of_the_run_is_found() -> Result<()> {
    let late = ["--iterations", "2000", "--late", "--repetitions", "128"];
    let job = retry_storm()?.args(late).held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    check_retry_storm(&dmscope.finish()?.findings()?)
}

#[test]
fn where_no_rank_repeats_its_requests_no_rank_is_odd() -> Result<()> {
    let (session, _) = watch(&retry_storm()?.args(["--no-bug"]), WatchedUntil::Records(200_000), &[])?;
    session.findings()?.check_no_warning()
}

//! Jobs whose ranks reach each other over TCP: what moves through its connections is seen at both ends, and linked.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::findings::{frame, missing_operation, summary};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation, RunningJob, TcpBytes, Transport};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes that the ranks send each other where they are counted; DMSCOPE_TEST_TCP_BYTES asks for more.
const COUNTED_BYTES: u64 = 400 << 20;
const MESSAGE_BYTES: u64 = 4 << 20;
/// Both ends are compared, which says nothing where records are lost: rings that hold what two seconds make.
const RING_SIZE: &str = "64M";

fn over_tcp(library: MpiImplementation, name: &str) -> Result<JobSpec> {
    let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
    Ok(JobSpec::own(library, name)?.ranks(ranks).transport(Transport::Tcp))
}

/// MPICH with UCX hangs now and then when it ends (see [`Transport::Tcp`]): what the job says of itself is the end of it.
fn end(job: RunningJob, dmscope: live::RunningSession) -> Result<FinishedSession> {
    let is_verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = job.wait_for_line(TIMEOUT, is_verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    dmscope.interrupt();
    dmscope.finish()
}

fn attach(job: &RunningJob) -> Result<live::RunningSession> {
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(["--ring-size", RING_SIZE]).spawn()?;
    dmscope.wait_until_attached()?;
    Ok(dmscope)
}

/// Watched from the first message on.
fn watch(spec: JobSpec) -> Result<FinishedSession> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = attach(&job)?;
    job.go()?;
    end(job, dmscope)
}

/// Watched until there is a warning: either from the first message on, or in the midst of them.
fn watch_until_warning(spec: JobSpec, in_mid_run: bool) -> Result<FinishedSession> {
    let spec = spec.endless();
    let job = if in_mid_run { spec.spawn()? } else { spec.held().spawn()? };
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = attach(&job)?;
    if !in_mid_run {
        job.go()?;
    }
    dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    job.stop()?;
    end(job, dmscope)
}

#[test]
fn what_is_sent_over_tcp_is_received_to_the_byte() -> Result<()> {
    let wanted = TcpBytes::wanted(COUNTED_BYTES);
    for library in MpiImplementation::ALL {
        let spec = over_tcp(library, "large")?;
        let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
        let iterations = wanted.div_ceil(MESSAGE_BYTES * ranks);
        let (size, iterations) = (MESSAGE_BYTES.to_string(), iterations.to_string());
        let session = watch(spec.args(["--size", &size, "--iterations", &iterations]))?;
        let tcp = session.tcp().with_context(|| format!("{library:?}"))?;
        eprintln!("{library:?}: {tcp:?}");
        tcp.check_all_received(wanted).with_context(|| format!("{library:?}"))?;
        session.findings()?.check_no_warning().with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

/// Operations of an odd chain or of what it should have been.
fn kinds<'a>(finding: &'a Value, which: &str) -> Vec<&'a str> {
    let ops = finding["evidence"][which]["ops"].as_array().into_iter().flatten();
    ops.filter_map(|op| op["kind"].as_str()).collect()
}

fn is_found(name: &str, in_mid_run: bool) -> Result<()> {
    for library in MpiImplementation::ALL {
        let what = || format!("{name}, {library:?}, in mid-run: {in_mid_run}");
        let session = watch_until_warning(over_tcp(library, name)?, in_mid_run).with_context(what)?;
        let findings = session.findings()?;
        let finding = findings.first_warning().with_context(what)?;
        let missing = missing_operation(finding).with_context(what)?;
        let function = frame(&missing["place"]).with_context(what)?.0;
        ensure!(function == "msg_send", "{}: {function} is missing: {}", what(), summary(finding));
        let kinds = kinds(finding, "frequent");
        let sent = kinds.iter().position(|kind| *kind == "stream_write");
        let sent = sent.with_context(|| format!("{}: {kinds:?}", what()))?;
        ensure!(sent > 0 && kinds.get(sent + 1) == Some(&"stream_read"), "{}: {kinds:?}", what());
    }
    Ok(())
}

#[test]
fn the_pointer_fault_is_found_behind_a_connection_when_attached_before_it() -> Result<()> {
    is_found("figure2", false)
}

#[test]
fn the_pointer_fault_is_found_behind_a_connection_in_mid_run() -> Result<()> {
    is_found("figure2", true)
}

#[test]
fn right_jobs_over_tcp_are_clean() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in ["ring", "halo2d", "alltoall", "masterworker", "anysource", "testany"] {
            let what = || format!("{name}, {library:?}");
            // A job that only polls makes more records than a collector beside it takes: this is not about losses.
            let steps: &[&str] = if name == "testany" { &["--steps", "4000"] } else { &[] };
            let spec = over_tcp(library, name)?.args(["--seconds", "2"]).args(steps.iter().copied());
            let session = watch(spec).with_context(what)?;
            let tcp = session.tcp().with_context(what)?;
            eprintln!("{}: {tcp:?}", what());
            tcp.check_both_ends().with_context(what)?;
            session.findings()?.check_no_warning().with_context(what)?;
        }
    }
    Ok(())
}

//! RDMA verbs: the functions of a provider are found through the table of an opened device, and what they do is counted
//! exactly. A library of our own stands in for a provider, so that neither RDMA hardware nor its modules are needed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation};

const TIMEOUT: Duration = Duration::from_secs(120);
const RANKS: u64 = 2;
const ITERATIONS: u64 = 3000;
/// Of each iteration: three work requests to send, one of them a write, and two to receive.
const EXPECTED: [(&str, u64); 8] = [
    ("sends", 3),
    ("sent_bytes", 230),
    ("writes", 1),
    ("reads", 0),
    ("atomics", 0),
    ("receives", 2),
    ("completions", 5),
    ("failed", 0),
];

fn watch(library: MpiImplementation, options: &[&str]) -> Result<FinishedSession> {
    let iterations = ITERATIONS.to_string();
    let spec = JobSpec::own(library, "standin")?.ranks(RANKS as usize);
    let job = spec.args(["--iterations", &iterations]).args(options.iter().copied()).held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    dmscope.finish()
}

fn check_exact(session: &FinishedSession) -> Result<()> {
    let statistics = &session.report()?["statistics"];
    for loss in ["lost_movements", "lost_calls", "lost_state", "bad_records", "unplanned_records"] {
        ensure!(statistics[loss] == 0, "{loss}: {}", statistics[loss]);
    }
    let rdma = statistics.get("rdma").context("nothing was seen of verbs")?;
    for (name, each) in EXPECTED {
        ensure!(rdma[name] == each * RANKS * ITERATIONS, "{name}: {rdma}");
    }
    Ok(())
}

#[test]
fn work_requests_and_completions_of_a_device_that_is_open_already_are_counted_exactly() -> Result<()> {
    for library in MpiImplementation::ALL {
        check_exact(&watch(library, &[])?).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn those_of_a_device_that_is_opened_later_are_found_soon_after() -> Result<()> {
    check_exact(&watch(MpiImplementation::OpenMpi, &["--late"])?)
}

#[test]
fn a_job_without_a_provider_has_no_probe_for_verbs() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "counts")?.args(["--iterations", "100"]);
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let session = dmscope.finish()?;
    ensure!(session.report()?["statistics"].get("rdma").is_none(), "work requests of nobody");
    Ok(())
}

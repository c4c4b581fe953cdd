//! How fast it is, printed; the limits are loose, for machines that have other things to do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::{Dmscope, JobSpec, MpiLibrary};
use rustix::time::{ClockId, clock_gettime};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The clock of the jobs' time stamps.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// From the first wrong movement to the alert's arrival.
fn alert_latency() -> Result<Duration> {
    let spec = JobSpec::own(MpiLibrary::OpenMpi, "figure2")?.ranks(4);
    let job = spec.args(["--start-after", "1"]).held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    let arrived_ns = monotonic_ns();
    job.stop()?;
    let results = job.finish(TIMEOUT)?.lines_of_type("result")?;
    let wrong_ns = results.iter().filter_map(|result| result["first_wrong_movement_monotonic_ns"].as_u64());
    let first_ns = wrong_ns.filter(|at| *at > 0).min().context("nothing went wrong")?;
    dmscope.finish()?;
    Ok(Duration::from_nanos(arrived_ns.checked_sub(first_ns).context("an alert before its cause")?))
}

#[test]
fn an_alert_comes_soon_after_its_cause() -> Result<()> {
    let mut latencies = (0..5).map(|_| alert_latency()).collect::<Result<Vec<_>>>()?;
    latencies.sort_unstable();
    eprintln!("from the first wrong movement to the alert: median {:?} of {latencies:?}", latencies[2]);
    ensure!(latencies[2] < Duration::from_secs(2), "{latencies:?}");
    Ok(())
}

#[test]
fn sixteen_ranks_are_attached_and_detached_quickly() -> Result<()> {
    let job = JobSpec::own(MpiLibrary::OpenMpi, "ring")?.ranks(16).endless().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let begin = Instant::now();
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    let attached = dmscope.wait_until_attached()?;
    let attaching = begin.elapsed();
    let begin = Instant::now();
    dmscope.interrupt();
    dmscope.wait_for_event("report")?;
    let detaching = begin.elapsed();
    dmscope.finish()?;
    eprintln!(
        "16 ranks, {} probes: attached {attaching:?} after the start (it says {} ms), detached and reported after {detaching:?}",
        attached["probes"], attached["took_ms"]
    );
    ensure!(attaching < Duration::from_secs(3) && detaching < Duration::from_secs(3));
    Ok(())
}

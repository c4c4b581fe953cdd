//! How fast it is, printed; the limits are loose, for machines that have other things to do.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use live::{Dmscope, JobSpec, MpiImplementation, latency};

const TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn an_alert_comes_soon_after_its_cause() -> Result<()> {
    let mut latencies = (0..5).map(|_| latency::of_one_alert("1")).collect::<Result<Vec<_>>>()?;
    latencies.sort_unstable();
    eprintln!("from the first wrong movement to the alert: median {:?} of {latencies:?}", latencies[2]);
    ensure!(latencies[2] < Duration::from_secs(2), "{latencies:?}");
    Ok(())
}

#[test]
fn sixteen_ranks_are_attached_and_detached_quickly() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.ranks(16).endless().held().spawn()?;
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

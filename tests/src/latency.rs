//! How long it takes from a wrong movement to its alert.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::{Cluster, Dmscope, JobSpec, MpiImplementation, RunningJob, RunningSession};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The clock of the jobs' time stamps.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// From the first wrong movement of a job to the arrival of the alert on dmscope's output: one job, one alert. The job
/// moves right data for `seconds_before`.
pub fn of_one_alert(seconds_before: &str) -> Result<Duration> {
    let job = job(seconds_before)?.ranks(4).spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    until_alert(job, dmscope)
}

/// The same of a job with a rank on each of two nodes, to the arrival where both are looked at. All of them have one clock.
pub fn of_one_alert_over_nodes(cluster: &Cluster, seconds_before: &str) -> Result<Duration> {
    // As in tests: not faster than what two cores can follow that the ranks use themselves.
    let job = job(seconds_before)?.ranks(2).args(["--pause-us", "200"]).on_nodes(&cluster.nodes)?.spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = cluster.attach(&cluster.job(2)?).spawn()?;
    dmscope.wait_for_event("attached")?;
    until_alert(job, dmscope)
}

fn job(seconds_before: &str) -> Result<JobSpec> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "figure2")?;
    Ok(spec.args(["--start-after", seconds_before]).held().endless())
}

fn until_alert(job: RunningJob, dmscope: RunningSession) -> Result<Duration> {
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

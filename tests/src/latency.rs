//! How long it takes from a wrong movement to its alert.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::{Dmscope, JobSpec, MpiImplementation};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The clock of the jobs' time stamps.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// From the first wrong movement of a job to the arrival of the alert on dmscope's output: one job, one alert. The job
/// moves right data for `seconds_before`.
pub fn of_one_alert(seconds_before: &str) -> Result<Duration> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.ranks(4);
    let job = spec.args(["--start-after", seconds_before]).held().endless().spawn()?;
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

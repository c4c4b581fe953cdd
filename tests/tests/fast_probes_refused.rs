//! What forbids fast probes, made to happen: all of the job has kernel probes, one line says why, and the job stays right.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::processes::signal;
use live::{Dmscope, JobSpec, MpiImplementation, RunningJob, build, debugger};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);
const FAST: [&str; 2] = ["--probes", "fast"];

/// How many probes are code in the job.
fn fast_probes(attached: &Value) -> u64 {
    attached["fast"].as_u64().unwrap_or(0)
}

/// A job that checks its data all the time, until it is stopped.
fn endless() -> Result<JobSpec> {
    Ok(JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.args(["--no-bug"]).endless())
}

fn start(spec: JobSpec) -> Result<RunningJob> {
    let job = spec.spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

/// Waits until `/proc/PID/status` is so.
fn wait_for_status(pid: u32, is_so: impl Fn(&str) -> bool) -> Result<()> {
    let begun = Instant::now();
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        if is_so(&status) {
            return Ok(());
        }
        ensure!(begun.elapsed() < TIMEOUT, "{status}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Attaches to a busy job, and lets go of what forbids it; one line says why all is done by the kernel, and the job is seen and
/// stays right.
fn check_refused(job: RunningJob, why: &str, let_go: impl FnOnce() -> Result<()>) -> Result<()> {
    let rank = job.rank_pids()?[1];
    let mut dmscope = Dmscope::attach(rank).args(FAST).spawn()?;
    let attached = dmscope.wait_until_attached()?;
    ensure!(fast_probes(&attached) == 0, "{why}: {attached}");
    let_go()?;
    dmscope.wait_for(|event| event["event"] == "status" && event["records"].as_u64() > Some(100))?;
    dmscope.interrupt();
    let session = dmscope.finish()?;
    let notices: Vec<&str> =
        session.events_of("notice").iter().filter_map(|notice| notice["message"].as_str()).collect();
    let told = notices.iter().filter(|notice| notice.contains(why)).count();
    ensure!(told == 1, "{why}: {notices:?}");
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

/// It stays forbidden.
fn never() -> Result<()> {
    Ok(())
}

#[test]
fn a_process_under_a_seccomp_filter_has_kernel_probes() -> Result<()> {
    let filtered = build::jobs_for(MpiImplementation::OpenMpi)?.join("filtered");
    let job = start(endless()?.through([filtered.to_str().context("a path")?]))?;
    check_refused(job, "under a seccomp filter", never)
}

#[test]
fn a_process_in_a_pid_namespace_has_kernel_probes() -> Result<()> {
    let namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let job = start(endless()?.within(namespace))?;
    check_refused(job, "in a PID namespace of its own", never)
}

#[test]
fn a_process_that_is_stopped_has_kernel_probes() -> Result<()> {
    let job = start(endless()?)?;
    let rank = job.rank_pids()?[0];
    signal(rank, Signal::STOP);
    wait_for_status(rank, |status| status.contains("(stopped)"))?;
    check_refused(job, "it is stopped", || {
        signal(rank, Signal::CONT);
        Ok(())
    })
}

#[test]
fn a_process_that_waits_for_a_child_of_vfork_has_kernel_probes() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "forker")?.args(["--vfork-ms", "8000"]).endless();
    let job = start(spec)?;
    wait_for_status(job.rank_pids()?[1], |status| status.contains("(disk sleep)"))?;
    check_refused(job, "does not stop", never)
}

#[test]
fn a_process_that_has_no_room_for_code_has_kernel_probes() -> Result<()> {
    let job = start(endless()?)?;
    let rank = Pid::from_raw(job.rank_pids()?[0].cast_signed()).context("a rank without a process")?;
    let limit = |bytes| prlimit(Some(rank), Resource::As, Rlimit { current: bytes, maximum: None });
    limit(Some(1 << 20))?;
    check_refused(job, "Cannot allocate memory", || limit(None).map(|_| ()).map_err(Into::into))
}

#[test]
fn a_process_that_another_session_has_its_code_in_has_kernel_probes() -> Result<()> {
    let job = start(endless()?)?;
    let mut first = Dmscope::attach(job.launcher_pid()).args(FAST).spawn()?;
    let attached = first.wait_until_attached()?;
    ensure!(fast_probes(&attached) > 0, "{attached}");
    check_refused(job, "another session has its code in it", never)?;
    let session = first.finish()?;
    let records = session.report()?["statistics"]["records"].as_u64();
    ensure!(records > Some(100), "the first session saw nothing: {records:?}");
    Ok(())
}

#[test]
fn a_program_that_mpi_is_linked_into_has_kernel_probes() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::Mpich, "figure2_with_mpi")?.args(["--no-bug"]).endless();
    check_refused(start(spec)?, "linked into the program", never)
}

#[test]
fn a_process_that_a_debugger_has_is_left_alone_and_kernel_probes_do_it() -> Result<()> {
    let job = start(endless()?)?;
    let traced = job.rank_pids()?[1];
    let holder = std::thread::spawn(move || debugger::hold(traced, Duration::from_secs(3)));
    wait_for_status(traced, |status| status.contains("(tracing stop)"))?;
    let let_go = || holder.join().map_err(|_| anyhow::anyhow!("the debugger failed"))?;
    check_refused(job, "traced by process", let_go)
}

//! Right jobs, watched with everything on: their own checks pass, and nothing is called broken. What is called odd is printed.

use std::time::Duration;

use anyhow::{Context, Result};
use live::findings::summary;
use live::packaged;
use live::{Dmscope, FinishedJob, FinishedSession, JobSpec, MpiImplementation};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

fn check_session(name: &str, session: &FinishedSession) -> Result<()> {
    let findings = session.findings().with_context(|| name.to_owned())?;
    for notice in findings.notices() {
        eprintln!("notice: {name}: {}", summary(notice));
    }
    let statistics = &session.report()?["statistics"];
    eprintln!(
        "{name}: {} movements, {} chains in {} groups, lost {}+{}+{}, late {}, unplanned {}, bad {}",
        statistics["movements"],
        statistics["chains"],
        statistics["groups"],
        statistics["lost_movements"],
        statistics["lost_calls"],
        statistics["lost_state"],
        statistics["late_records"],
        statistics["unplanned_records"],
        statistics["bad_records"]
    );
    findings.check_no_warning().with_context(|| name.to_owned())?;
    anyhow::ensure!(statistics["movements"].as_u64() > Some(0), "{name}: nothing was seen");
    anyhow::ensure!(statistics["bad_records"] == 0, "{name}: unreadable records");
    Ok(())
}

/// Attached from the first message on.
fn own(library: MpiImplementation, name: &str, args: &[&str]) -> Result<()> {
    let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
    let directory = TempDir::new()?;
    let spec = JobSpec::own(library, name)?.ranks(ranks).args(args.iter().copied());
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let attach = Dmscope::attach(job.launcher_pid()).args(["--statistics"]);
    let mut dmscope = attach.record(&directory.path().join("x.dmt")).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict().with_context(|| format!("{name}, {library:?}"))?;
    check_session(&format!("{name}, {library:?}"), &dmscope.finish()?)
}

/// Started under `dmscope run`.
fn packaged(name: &str, spec: &JobSpec, check: impl Fn(&FinishedJob) -> Result<()>) -> Result<()> {
    let directory = TempDir::new()?;
    let run = Dmscope::run(spec).args(["--statistics"]).record(&directory.path().join("x.dmt"));
    let session = run.finish()?;
    check(session.job()?).with_context(|| format!("{name}: {:?}", session.stderr))?;
    check_session(name, &session)
}

fn own_with_both(name: &str, args: &[&str]) -> Result<()> {
    MpiImplementation::ALL.into_iter().try_for_each(|library| own(library, name, args))
}

#[test]
fn a_ring_is_clean() -> Result<()> {
    own_with_both("ring", &["--seconds", "2"])
}

#[test]
fn a_stencil_with_derived_datatypes_is_clean() -> Result<()> {
    own_with_both("halo2d", &["--seconds", "2"])
}

#[test]
fn collectives_are_clean() -> Result<()> {
    own_with_both("alltoall", &["--seconds", "2"])
}

#[test]
fn a_master_and_its_workers_are_clean() -> Result<()> {
    own_with_both("masterworker", &["--seconds", "2"])
}

#[test]
fn one_sided_communication_is_clean() -> Result<()> {
    own_with_both("onesided", &["--seconds", "2"])
}

#[test]
fn threads_that_all_send_are_clean() -> Result<()> {
    own_with_both("threads", &["--seconds", "2"])
}

#[test]
fn large_messages_are_clean() -> Result<()> {
    own_with_both("large", &["--seconds", "2"])
}

#[test]
fn a_server_with_wildcards_is_clean() -> Result<()> {
    own_with_both("anysource", &["--seconds", "2"])
}

#[test]
fn a_ping_pong_is_clean() -> Result<()> {
    own_with_both("pingpong", &["--iterations", "50000"])
}

#[test]
fn a_job_that_asks_again_and_again_is_clean() -> Result<()> {
    own_with_both("testany", &["--iterations", "5000"])
}

#[test]
fn hpcc_is_clean() -> Result<()> {
    packaged("hpcc", &packaged::hpcc(), packaged::check_hpcc)
}

#[test]
fn the_blacs_tester_is_clean() -> Result<()> {
    packaged("xCbtest", &packaged::blacs_tester(MpiImplementation::OpenMpi)?, packaged::check_blacs_tester)
}

#[test]
fn the_lu_tester_is_clean() -> Result<()> {
    packaged("xdlu", &packaged::lu_tester(MpiImplementation::OpenMpi)?, packaged::check_lu_tester)
}

#[test]
fn lammps_is_clean_and_comes_to_the_state_of_an_untraced_run() -> Result<()> {
    let untraced = packaged::lammps().spawn()?.finish(TIMEOUT)?;
    packaged("LAMMPS", &packaged::lammps(), |job| packaged::check_lammps(job, &untraced))
}

#[test]
fn mpi_from_python_is_clean() -> Result<()> {
    packaged("mpi4py", &packaged::python(), packaged::check_python)
}

/// By MPICH alone: Open MPI 4 has no such call. Statuses of MPICH 4.0 do not say what was received.
#[test]
fn messages_sent_and_received_by_one_request_from_anybody_are_clean() -> Result<()> {
    let logs = TempDir::new()?;
    let folder = logs.path().to_string_lossy();
    let arguments = ["isendrecv", "--log", &folder, "--rounds", "10", "--delay-us", "200"];
    let spec = JobSpec::own(MpiImplementation::Mpich, "anyorder")?.ranks(4).args(arguments);
    let session =
        Dmscope::run(&spec).args(["--statistics", "--returns", "all", "--budget", "none"]).finish()?;
    session.job()?.check_status()?;
    check_session("isendrecv", &session)
}

/// Rank 0 tells the others when to stop: work of its own, which makes it differ from them and not odd.
#[test]
fn a_ring_of_sixteen_ranks_whose_first_leads_broadcasts_is_clean() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.ranks(16).args(["--pause-us", "2000"]);
    let job = job.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(["--duration", "3s"]).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let session = dmscope.finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    check_session("ring of 16", &session)
}

/// As an operator does it: the job runs already when dmscope comes.
#[test]
fn lammps_is_clean_when_attached_in_mid_run() -> Result<()> {
    let untraced = packaged::lammps().spawn()?.finish(TIMEOUT)?;
    let mut job = packaged::lammps().spawn()?;
    job.wait_for_line(TIMEOUT, |line| line.starts_with("Step "))?;
    let pid = job.wait_for_ranks(TIMEOUT)?[2];
    let dmscope = Dmscope::attach(pid).args(["--statistics"]).spawn()?;
    packaged::check_lammps(&job.finish(TIMEOUT)?, &untraced)?;
    check_session("LAMMPS in mid-run", &dmscope.finish()?)
}

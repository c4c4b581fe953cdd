//! Jobs from Debian packages run and pass their own checks. A packaged job that is missing is a failure: `cargo xtask setup`
//! installs all of them.

use std::time::Duration;

use anyhow::Result;
use live::packaged;
use live::{FinishedJob, JobSpec, MpiImplementation};

const TIMEOUT: Duration = Duration::from_secs(180);

fn run(spec: JobSpec) -> Result<FinishedJob> {
    let job = spec.spawn()?.finish(TIMEOUT)?;
    eprintln!("{:.1} s", job.elapsed.as_secs_f64());
    Ok(job)
}

#[test]
fn hpcc_passes_its_checks() -> Result<()> {
    packaged::check_hpcc(&run(packaged::hpcc())?)
}

#[test]
fn the_blacs_tester_passes_its_checks() -> Result<()> {
    packaged::check_blacs_tester(&run(packaged::blacs_tester(MpiImplementation::OpenMpi)?)?)
}

#[test]
fn the_blacs_tester_comes_to_its_own_abort() -> Result<()> {
    let job = run(packaged::blacs_tester_that_aborts(MpiImplementation::OpenMpi)?)?;
    packaged::check_blacs_tester(&job)?;
    assert!(!job.status.success());
    Ok(())
}

#[test]
fn the_lu_tester_passes_its_checks() -> Result<()> {
    packaged::check_lu_tester(&run(packaged::lu_tester(MpiImplementation::OpenMpi)?)?)
}

#[test]
fn lammps_comes_to_the_same_state_twice() -> Result<()> {
    packaged::check_lammps(&run(packaged::lammps())?, &run(packaged::lammps())?)
}

#[test]
fn mpi_from_python_finds_its_data_right() -> Result<()> {
    packaged::check_python(&run(packaged::python())?)
}

#[test]
fn a_job_that_failed_passes_no_check() -> Result<()> {
    let failed = run(JobSpec::installed(MpiImplementation::OpenMpi, "/bin/false"))?;
    assert!(packaged::check_hpcc(&failed).is_err());
    assert!(packaged::check_blacs_tester(&failed).is_err());
    assert!(packaged::check_lu_tester(&failed).is_err());
    assert!(packaged::check_lammps(&failed, &failed).is_err());
    assert!(packaged::check_python(&failed).is_err());
    Ok(())
}

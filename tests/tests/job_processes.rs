//! Jobs whose processes come, go and change; finding, holding and ending processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use live::{JobSpec, MpiImplementation};

const TIMEOUT: Duration = Duration::from_secs(60);

fn executable(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

#[test]
fn the_ranks_of_a_held_job_are_found_in_order_and_do_not_move_before_the_go() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "ring")?.args(["--iterations", "10"]).held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let pids = job.rank_pids()?;
        let environments: Vec<_> =
            pids.iter().map(|pid| fs::read(format!("/proc/{pid}/environ")).unwrap()).collect();
        for (rank, environment) in environments.iter().enumerate() {
            let names = [format!("OMPI_COMM_WORLD_RANK={rank}"), format!("PMI_RANK={rank}")];
            let mut variables = environment.split(|byte| *byte == 0);
            assert!(variables.any(|variable| names.iter().any(|name| name.as_bytes() == variable)));
        }
        assert!(pids.iter().all(|pid| executable(*pid).ends_with("ring")));
        assert!(job.wait_for_line(Duration::from_millis(300), |line| line.starts_with("ok")).is_err());
        job.go()?;
        job.finish(TIMEOUT)?.check_verdict()?;
    }
    Ok(())
}

#[test]
fn a_job_that_is_dropped_leaves_no_process() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "ring")?.args(["--seconds", "600"]).held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let pids = job.rank_pids()?;
        drop(job);
        // A killed rank whose launcher is gone needs a moment to be reaped.
        for _ in 0..500 {
            if pids.iter().all(|pid| !executable(*pid).ends_with("ring")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(pids.iter().all(|pid| !executable(*pid).ends_with("ring")), "{pids:?}");
    }
    Ok(())
}

#[test]
fn a_job_that_takes_too_long_is_an_error_with_its_output() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.args(["--seconds", "600"]).spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let error =
        job.finish(Duration::from_millis(100)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("did not end within") && error.contains("ready"), "{error}");
    Ok(())
}

#[test]
fn a_library_loaded_in_mid_run_carries_the_second_half_of_the_messages() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "dlopener")?
        .args(["--iterations", "1000"])
        .spawn()?
        .finish(TIMEOUT)?;
    job.check_verdict()?;
    let calls = |module: &str| -> Result<Vec<u64>> {
        Ok(job.sites()?.iter().filter(|site| site.module == module).map(|site| site.calls).collect())
    };
    assert_eq!(calls("libmsg_figure2.so")?, [500; 8]); // two ranks, four sites
    assert_eq!(calls("dlopener")?, [500; 4]);
    Ok(())
}

#[test]
fn a_job_that_makes_children_goes_on_sending() -> Result<()> {
    let spec =
        JobSpec::own(MpiImplementation::OpenMpi, "forker")?.args(["--iterations", "1000", "--every", "100"]);
    let job = spec.spawn()?.finish(TIMEOUT)?;
    job.check_verdict()?;
    assert_eq!(job.total("children")?, 20);
    Ok(())
}

#[test]
fn a_crashing_rank_says_so_and_the_job_fails() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "crasher")?.args(["--after", "100"]).spawn()?.finish(TIMEOUT)?;
        assert!(!job.status.success());
        let crashes = job.lines_of_type("crash")?;
        assert_eq!(
            (crashes.len(), &crashes[0]["rank"], &crashes[0]["iteration"]),
            (1, &1.into(), &100.into())
        );
        assert!(job.check_verdict().is_err());
    }
    Ok(())
}

#[test]
fn a_process_that_becomes_the_job_keeps_its_id() -> Result<()> {
    let library = MpiImplementation::OpenMpi;
    let ring = live::build::jobs_for(library)?.join("ring");
    let spec =
        JobSpec::own(library, "execer")?.args(["--exec-when", "become"]).args([ring.display().to_string()]);
    let mut job = spec.args(["--iterations", "10"]).spawn()?;
    job.wait_for_line(TIMEOUT, |line| line.contains("before_exec"))?;
    let before = job.wait_for_ranks(TIMEOUT)?;
    assert!(before.iter().all(|pid| executable(*pid).ends_with("execer")));
    assert!(!maps_mpi(before[0])?);
    fs::write(job.directory().join("become"), "")?;
    let finished = job.finish(TIMEOUT)?;
    finished.check_verdict()?;
    let mut said: Vec<_> =
        finished.lines_of_type("before_exec")?.iter().map(|line| line["pid"].clone()).collect();
    said.sort_by_key(|pid| pid.as_u64());
    let mut found = before.clone();
    found.sort_unstable();
    assert_eq!(said, found);
    Ok(())
}

fn maps_mpi(pid: u32) -> Result<bool> {
    Ok(fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("maps"))?.contains("libmpi"))
}

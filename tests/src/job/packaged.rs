//! Jobs from Debian packages, unchanged, with small inputs of our own, and how to tell that their results are right.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::{FinishedJob, JobSpec, MpiImplementation};

/// HPC Challenge: HPL, transposition, random access, FFT, STREAM, latency. 400 rows, 4 ranks.
pub fn hpcc() -> JobSpec {
    JobSpec::installed(MpiImplementation::OpenMpi, "/usr/bin/hpcc")
        .ranks(4)
        .file("hpccinf.txt", include_str!("../../inputs/hpccinf.txt"))
}

/// Fails unless all of HPC Challenge's own checks passed.
pub fn check_hpcc(job: &FinishedJob) -> Result<()> {
    job.check_status()?;
    let output = job.file("hpccoutf.txt")?;
    for failure in ["FAILED", "Success=0"] {
        ensure!(!output.contains(failure), "HPCC reports {failure}");
    }
    for part in ["Success=1", "PTRANS_residual=0", "Solution Validates"] {
        ensure!(output.contains(part), "HPCC does not report {part}");
    }
    let residual_checks =
        output.lines().filter(|line| line.contains("tests completed and passed residual checks"));
    ensure!(residual_checks.count() == 2, "HPCC does not report the residual checks of HPL and PTRANS");
    for line in output.lines().filter(|line| line.contains("errors in")) {
        ensure!(line.contains("Found 0 errors"), "HPCC: {line}");
    }
    Ok(())
}

/// The BLACS tester with two of its five number types. 4 ranks.
pub fn blacs_tester(library: MpiImplementation) -> Result<JobSpec> {
    blacs_tester_with(library, include_str!("../../inputs/bt.dat").to_owned())
}

/// The BLACS tester with its auxiliary tests, which take seconds of waiting; the last is that BLACS can abort the job.
pub fn blacs_tester_that_aborts(library: MpiImplementation) -> Result<JobSpec> {
    let without = "'F'                             Run AUX?";
    blacs_tester_with(
        library,
        include_str!("../../inputs/bt.dat").replace(without, &without.replace('F', "T")),
    )
}

fn blacs_tester_with(library: MpiImplementation, input: String) -> Result<JobSpec> {
    let spec = JobSpec::installed(library, scalapack_test(library, "xCbtest")).ranks(4).file("bt.dat", input);
    ["sdrv.dat", "bsbr.dat", "comb.dat"].iter().try_fold(spec, |spec, name| {
        let path = Path::new("/usr/share/scalapack/BLACS").join(name);
        Ok(spec.file(name, fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
    })
}

/// Fails unless all tests of the BLACS tester passed and it ended as it should: well, or by the abort it tests.
pub fn check_blacs_tester(job: &FinishedJob) -> Result<()> {
    let summaries: Vec<_> = job.stdout.iter().filter(|line| line.contains(" TESTS;")).collect();
    // Number types times sends, broadcasts and three combinations.
    ensure!(summaries.len() == 2 * 5, "the BLACS tester reports {} groups of tests", summaries.len());
    for line in summaries {
        ensure!(line.ends_with(" 0 FAILED."), "the BLACS tester reports {line}");
    }
    ensure!(
        !job.stdout.iter().any(|line| line.contains("Invalid element")),
        "the BLACS tester reports wrong data"
    );
    if !job.stdout.iter().any(|line| line.starts_with("AUXILIARY TESTS")) {
        return job.check_status();
    }
    let at_its_end =
        job.stdout.iter().any(|line| line.contains("The final auxiliary test is for BLACS_ABORT"));
    ensure!(at_its_end, "the BLACS tester did not come to its end");
    ensure!(!job.status.success(), "BLACS_ABORT did not end the job");
    Ok(())
}

/// ScaLAPACK's tester of the LU decomposition. 4 ranks.
pub fn lu_tester(library: MpiImplementation) -> Result<JobSpec> {
    let input = fs::read("/usr/share/scalapack/LU.dat").context("cannot read the LU tester's input")?;
    Ok(JobSpec::installed(library, scalapack_test(library, "xdlu")).ranks(4).file("LU.dat", input))
}

/// Fails unless the LU tester made tests and all passed.
pub fn check_lu_tester(job: &FinishedJob) -> Result<()> {
    job.check_status()?;
    let count = |what: &str| {
        let line = job.stdout.iter().find(|line| line.contains(what));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok())
            .with_context(|| format!("the LU tester does not report {what}"))
    };
    ensure!(count("tests completed and passed residual checks")? > 0, "the LU tester made no tests");
    ensure!(count("tests completed and failed residual checks")? == 0, "tests of the LU tester failed");
    Ok(())
}

fn scalapack_test(library: MpiImplementation, name: &str) -> String {
    format!("/usr/lib/x86_64-linux-gnu/scalapack/{}-tests/{name}", library.name())
}

/// LAMMPS: a Lennard-Jones melt of 4000 atoms, 500 steps. 4 ranks.
pub fn lammps() -> JobSpec {
    JobSpec::installed(MpiImplementation::OpenMpi, "/usr/bin/lmp")
        .ranks(4)
        .file("melt.in", include_str!("../../inputs/melt.in"))
        .args(["-in", "melt.in", "-log", "none"])
}

/// The lines that LAMMPS writes about the state of the atoms: equal in all runs of the same input with the same ranks.
pub fn lammps_thermodynamics(job: &FinishedJob) -> Result<Vec<String>> {
    job.check_status()?;
    let table = job.stdout.iter().skip_while(|line| !line.starts_with("Step ")).skip(1);
    let rows: Vec<_> = table.take_while(|line| !line.starts_with("Loop time")).cloned().collect();
    ensure!(rows.len() == 6, "LAMMPS wrote {} lines of its table", rows.len());
    Ok(rows)
}

/// Fails unless the run came to the same state as another run of the same input.
pub fn check_lammps(job: &FinishedJob, untraced: &FinishedJob) -> Result<()> {
    let (rows, expected) = (lammps_thermodynamics(job)?, lammps_thermodynamics(untraced)?);
    if let Some((row, other)) = rows.iter().zip(&expected).find(|(row, other)| row != other) {
        bail!("LAMMPS: {row} where another run had {other}");
    }
    Ok(())
}

/// MPI from Python: pickled objects, buffers, reductions. 2 ranks. Checks its own data.
pub fn python() -> JobSpec {
    JobSpec::installed(MpiImplementation::OpenMpi, "/usr/bin/python3")
        .file("exchange.py", include_str!("../../inputs/exchange.py"))
        .args(["exchange.py"])
}

/// Fails unless the Python job found its data right.
pub fn check_python(job: &FinishedJob) -> Result<()> {
    job.check_verdict()
}

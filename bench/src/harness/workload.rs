//! Jobs that are measured, and one run of a job with or without somebody looking on.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::{FinishedJob, JobSpec, MpiImplementation, Transport, packaged};
use rustix::process::{Pid, Signal, kill_process};

use super::onlooker::{Onlooker, PATIENCE};
use crate::kernel_time::KernelTime;

const POLL: Duration = Duration::from_millis(2);

/// A job that is measured.
#[derive(Clone)]
pub struct Workload {
    /// What the tables call it.
    pub name: String,
    /// How it is started.
    pub spec: JobSpec,
    library: MpiImplementation,
    hold: HoldMethod,
}

/// One run of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobRun {
    /// Time that the job took.
    pub seconds: f64,
    /// Part of the ranks' processor time that they spent in the kernel, since the onlooker was in place; NaN where that is
    /// not known.
    pub in_kernel: f64,
}

/// How a job is made to wait for who looks on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HoldMethod {
    /// It waits by itself.
    Waits,
    /// Its ranks are stopped.
    IsStopped,
    /// Not at all: who looks on has started the ranks.
    Free,
}

impl Workload {
    /// One of the project's own jobs.
    ///
    /// # Errors
    /// The jobs cannot be built.
    pub fn own(
        name: &str,
        library: MpiImplementation,
        job: &str,
        ranks: usize,
        args: &[&str],
    ) -> Result<Self> {
        let spec = JobSpec::own(library, job)?.ranks(ranks).args(args.iter().copied()).held();
        let says = match library {
            MpiImplementation::OpenMpi => "Open MPI",
            MpiImplementation::Mpich => "MPICH",
        };
        Ok(Self { name: format!("{name}, {ranks} ranks, {says}"), spec, library, hold: HoldMethod::Waits })
    }

    /// The same over TCP, on this machine's own addresses.
    pub fn over_tcp(self) -> Self {
        Self { spec: self.spec.transport(Transport::Tcp), ..self }
    }

    /// HPC Challenge with so many rows.
    pub fn hpcc(rows: u32) -> Self {
        let input = include_str!("../../../tests/inputs/hpccinf.txt");
        let spec = packaged::hpcc().file("hpccinf.txt", with_rows(input, rows));
        Self {
            name: format!("hpcc, N = {rows}, 4 ranks, Open MPI"),
            spec,
            library: MpiImplementation::OpenMpi,
            hold: HoldMethod::IsStopped,
        }
    }

    /// LAMMPS: a melt of 4 atoms in each of so many cells along each edge of a cube, so many steps. 20 cells are its own
    /// benchmark's size.
    pub fn lammps(cells: u32, steps: u32) -> Self {
        let input = melt(include_str!("../../../tests/inputs/melt.in"), cells, steps);
        let spec = packaged::lammps().file("melt.in", input);
        Self {
            name: format!("LAMMPS, {} atoms, {steps} steps, 4 ranks, Open MPI", 4 * cells.pow(3)),
            spec,
            library: MpiImplementation::OpenMpi,
            hold: HoldMethod::IsStopped,
        }
    }

    /// Whether ranks that wait give their core to others: only such jobs can share one.
    pub fn yields(&self) -> bool {
        self.library == MpiImplementation::OpenMpi
    }

    /// The same job, on these CPUs.
    pub fn on_cpus(&self, cpus: &str) -> Self {
        Self { spec: self.spec.clone().on_cpus(cpus), ..self.clone() }
    }

    /// The same job, each rank started through another command.
    pub fn through(&self, wrapper: &[String]) -> Self {
        let hold = if self.hold == HoldMethod::Waits { HoldMethod::Waits } else { HoldMethod::Free };
        Self { spec: self.spec.clone().through(wrapper.iter().cloned()), hold, ..self.clone() }
    }

    /// Seconds that the job took while `onlooker` was in place. The job is held while that comes: own jobs wait by
    /// themselves and say how long they moved data; others are stopped when their ranks have loaded MPI, and the time
    /// they stood still is not counted. Who cannot come to stopped ranks comes just after.
    ///
    /// # Errors
    /// The job or the onlooker failed.
    pub fn seconds(&self, onlooker: &mut dyn Onlooker) -> Result<f64> {
        Ok(self.run(onlooker)?.seconds)
    }

    /// The same, with what the job did in that time.
    ///
    /// # Errors
    /// The job or the onlooker failed.
    pub fn run(&self, onlooker: &mut dyn Onlooker) -> Result<JobRun> {
        let (run, job) = match self.hold {
            HoldMethod::Waits => self.own_run(onlooker)?,
            HoldMethod::IsStopped => self.stopped_run(onlooker)?,
            HoldMethod::Free => {
                let job = self.spec.spawn()?.finish(PATIENCE)?;
                (JobRun { seconds: job.elapsed.as_secs_f64(), in_kernel: f64::NAN }, job)
            }
        };
        job.check_status()?;
        onlooker.end()?;
        Ok(run)
    }

    fn own_run(&self, onlooker: &mut dyn Onlooker) -> Result<(JobRun, FinishedJob)> {
        let job = self.spec.spawn()?;
        job.wait_until_ready(PATIENCE)?;
        onlooker.begin(&job)?;
        let reading = KernelTime::start(job.rank_pids()?);
        job.go()?;
        let job = job.finish(PATIENCE)?;
        Ok((JobRun { seconds: job.moving_seconds()?, in_kernel: reading.finish()? }, job))
    }

    fn stopped_run(&self, onlooker: &mut dyn Onlooker) -> Result<(JobRun, FinishedJob)> {
        let mut job = self.spec.spawn()?;
        let ranks = job.wait_for_ranks(PATIENCE)?;
        let deadline = Instant::now() + PATIENCE;
        while !ranks.iter().all(|pid| has_loaded_mpi(*pid)) {
            ensure!(
                Instant::now() < deadline && !job.has_ended()?,
                "{}: its ranks do not load MPI",
                self.name
            );
            std::thread::sleep(POLL);
        }
        let stopped = Instant::now();
        signal(&ranks, Signal::STOP)?;
        if onlooker.comes_while_ranks_are_stopped() {
            onlooker.begin(&job)?;
        }
        let reading = KernelTime::start(ranks.clone());
        signal(&ranks, Signal::CONT)?;
        let standstill = stopped.elapsed();
        if !onlooker.comes_while_ranks_are_stopped() {
            onlooker.begin(&job)?;
        }
        let job = job.finish(PATIENCE)?;
        let seconds = (job.elapsed - standstill).as_secs_f64();
        Ok((JobRun { seconds, in_kernel: reading.finish()? }, job))
    }
}

fn with_rows(input: &str, rows: u32) -> String {
    let lines = input.lines().map(|line| {
        if line.trim_end().ends_with(" Ns") { format!("{rows}          Ns") } else { line.to_owned() }
    });
    lines.map(|line| line + "\n").collect()
}

fn melt(input: &str, cells: u32, steps: u32) -> String {
    let edges = format!("block 0 {cells} 0 {cells} 0 {cells}");
    input.replace("block 0 10 0 10 0 10", &edges).replace("run 500", &format!("run {steps}"))
}

/// The part of Open MPI that moves messages comes late in MPI_Init: what is probed is there then.
fn has_loaded_mpi(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("/mca_pml_ob1"))
}

fn signal(pids: &[u32], what: Signal) -> Result<()> {
    for pid in pids {
        let pid = Pid::from_raw(pid.cast_signed()).context("a process without a number")?;
        kill_process(pid, what).context("a rank that is to be held")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_of_rows_of_hpl_is_changed() {
        let input = include_str!("../../../tests/inputs/hpccinf.txt");
        let changed = with_rows(input, 1234);
        let different: Vec<_> = input.lines().zip(changed.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(different.len(), 1);
        assert!(different[0].1.starts_with("1234 "));
    }

    #[test]
    fn a_melt_is_as_large_and_as_long_as_it_is_to_be() {
        let input = include_str!("../../../tests/inputs/melt.in");
        let changed = melt(input, 20, 400);
        let different: Vec<_> =
            input.lines().zip(changed.lines()).filter(|(a, b)| a != b).map(|(_, b)| b).collect();
        assert_eq!(different, ["region box block 0 20 0 20 0 20", "run 400"]);
    }
}

//! Tools that attach to the ranks of a running job with probes of their own.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::RunningJob;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::harness::{Onlooker, PATIENCE};

/// What they probe: the calls that dmscope probes as well and that the measured jobs make. Polling calls are
/// not among them, which dmscope probes only where they succeed.
pub const FUNCTIONS: [&str; 12] = [
    "MPI_Send",
    "MPI_Recv",
    "MPI_Isend",
    "MPI_Irecv",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Sendrecv",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Reduce",
    "MPI_Allreduce",
    "MPI_Alltoall",
];

/// Events are there when no more have come for this long.
const SETTLED: Duration = Duration::from_millis(500);

/// A tool that can attach to processes which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// A bpftrace script that writes a line a call.
    Bpftrace,
    /// perf, with uprobes of its own.
    Perf,
}

/// A tool while it runs.
pub struct Alongside {
    tool: Tool,
    directory: TempDir,
    library: Option<PathBuf>,
    running: Option<Child>,
}

impl Alongside {
    /// Makes room for the output of a tool that is started later.
    ///
    /// # Errors
    /// There is no room for its output.
    pub fn new(tool: Tool) -> Result<Self> {
        Ok(Self { tool, directory: TempDir::with_prefix("bench-")?, library: None, running: None })
    }

    fn command(&self, library: &Path, ranks: &[u32]) -> Result<Command> {
        let output = self.directory.path().join("output");
        Ok(match self.tool {
            Tool::Bpftrace => {
                let mut command = Command::new("bpftrace");
                command.arg("-e").arg(script(library)).arg("-o").arg(output);
                command
            }
            Tool::Perf => {
                remove_perf_probes();
                for function in FUNCTIONS {
                    let place = format!("{function} %di %si %dx %cx %r8 %r9");
                    quiet(Command::new("perf").args(["probe", "-q", "-x"]).arg(library).arg(place))?;
                }
                let pids = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                let mut command = Command::new("perf");
                command
                    .args(["record", "-q", "-e", &format!("{PERF_GROUP}:*"), "-p", &pids, "-o"])
                    .arg(output);
                command
            }
        })
    }
}

impl Onlooker for Alongside {
    fn begin(&mut self, job: &RunningJob) -> Result<()> {
        let ranks = job.rank_pids()?;
        let library = mpi_library(ranks[0])?;
        let errors = File::create(self.directory.path().join("errors"))?;
        let mut command = self.command(&library, &ranks)?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let child = child.with_context(|| format!("cannot start {command:?}"))?;
        let pid = child.id();
        self.running = Some(child);
        self.library = Some(library);
        self.wait_for_probes(pid)
    }

    fn end(&mut self) -> Result<()> {
        let mut child = self.running.take().context("the tool was not started")?;
        // One that has seen its processes end may have ended as well.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait()?.is_none() {
            ensure!(Instant::now() < deadline, "{:?} does not end", self.tool);
            std::thread::sleep(Duration::from_millis(10));
        }
        if self.tool == Tool::Perf {
            remove_perf_probes();
        }
        let written = fs::metadata(self.directory.path().join("output"))?.len();
        ensure!(written > 0, "{:?} saw nothing: {}", self.tool, self.errors());
        Ok(())
    }
}

impl Alongside {
    /// These tools do not say when their probes are in place: they hold an event for each.
    fn wait_for_probes(&mut self, pid: u32) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let (mut count, mut since) = (0, Instant::now());
        while count < FUNCTIONS.len() || since.elapsed() < SETTLED {
            let child = self.running.as_mut().context("the tool was not started")?;
            ensure!(child.try_wait()?.is_none(), "{:?} has ended: {}", self.tool, self.errors());
            ensure!(Instant::now() < deadline, "{:?} does not attach: {}", self.tool, self.errors());
            let now = perf_events(pid);
            if now != count {
                (count, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.directory.path().join("errors")).unwrap_or_default()
    }
}

impl Drop for Alongside {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            // It failed already; nothing of it may stay.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const PERF_GROUP: &str = "probe_libmpi";

fn remove_perf_probes() {
    // There may be none.
    let _ = quiet(Command::new("perf").args(["probe", "-q", "-d", &format!("{PERF_GROUP}:*")]));
}

fn quiet(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn script(library: &Path) -> String {
    let probes = FUNCTIONS.map(|function| format!("uprobe:{}:{function}", library.display())).join(",\n");
    format!(
        "{probes} {{ printf(\"%llu %d %s %lx %lx %lx %lx %lx %lx\\n\", nsecs, tid, func, arg0, arg1, arg2, arg3, arg4, arg5); }}"
    )
}

fn mpi_library(pid: u32) -> Result<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let found = paths.into_iter().find(|path| path.contains("/libmpi.so"));
    found.map(PathBuf::from).context("the job has loaded no libmpi.so")
}

fn perf_events(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("[perf_event]")).count()
}

/// Mounts what these tools need and most systems have.
///
/// # Errors
/// It cannot be mounted.
pub fn mount_tracefs() -> Result<()> {
    if !Path::new("/sys/kernel/tracing/events").exists() {
        quiet(Command::new("mount").args(["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]))?;
    }
    Ok(())
}

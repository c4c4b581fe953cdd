//! `cargo xtask demo`: a real job with a real fault, found while it runs.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{cargo, run, target_dir};
use crate::{jobs, setup};

/// How long the job would run, and dmscope watch it, if nothing were found.
const JOB_SECONDS: &str = "30";
const WATCH_AT_MOST: &str = "25s";
/// Where the fault is: the copy that stages a message is the last right step.
const FAULT_FUNCTION: &str = "msg_send";
const FAULT_FILE: &str = "msg_figure2.c";

/// Sets up, builds, and shows it. Fails if the alert did not come while the job ran, did not
/// name the fault's call site, or the job did not end well.
pub fn show() -> Result<ExitCode> {
    if setup::run()? != ExitCode::SUCCESS {
        return Ok(ExitCode::from(2));
    }
    say("Building dmscope and the demo job (the first time takes some minutes)");
    run(cargo().args(["build", "--release", "--package", "dmscope"]))?;
    jobs::build()?;

    say("Starting an MPI job: 4 ranks, in a library that now and then sends the wrong buffer");
    let mut job = DemoJob::start()?;
    say(&format!("Attaching to it while it runs: dmscope attach {}", job.process.id()));
    let alert = watch(&mut job)?;
    say("dmscope has detached; the job goes on to its end");
    let last = job.end()?;
    println!("{last}");

    ensure!(alert.came, "dmscope raised no warning within {WATCH_AT_MOST}");
    ensure!(alert.while_running, "the warning came only after the job had ended");
    ensure!(alert.names_the_fault, "the warning does not name {FAULT_FUNCTION} in {FAULT_FILE}");
    ensure!(last.starts_with("ok "), "the job did not end well");
    say("The fault was found while the job ran, and the job ended well");
    print!("{}", your_own_job());
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) {
    println!("\n==> {text}\n");
}

fn dmscope() -> PathBuf {
    target_dir().join("release/dmscope")
}

fn your_own_job() -> String {
    let dmscope = dmscope();
    let dmscope = dmscope.display();
    format!(
        "\nNow your own job:\n\n  {dmscope} ps                        which MPI jobs run here?\n  \
         {dmscope} attach PID                watch one of them\n  \
         {dmscope} attach PID --record t.dmt keep a tape; later: {dmscope} analyze t.dmt\n  \
         {dmscope} run -- mpirun …           watch a job from its start\n"
    )
}

/// What was seen of the alert.
#[derive(Debug, Default)]
struct SeenAlert {
    came: bool,
    complete: bool,
    while_running: bool,
    names_the_fault: bool,
}

/// Attaches, shows what dmscope prints, and lets it go once the warning is complete.
fn watch(job: &mut DemoJob) -> Result<SeenAlert> {
    let mut child = Command::new(dmscope())
        .args(["attach", &job.process.id().to_string(), "--budget", "none", "--duration", WATCH_AT_MOST])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start dmscope")?;
    let stdout = child.stdout.take().context("output of dmscope")?;
    let mut alert = SeenAlert::default();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("output of dmscope")?;
        println!("  {line}");
        if line.contains("WARNING") && !alert.came {
            alert.came = true;
            alert.while_running = job.is_running()?;
        }
        alert.names_the_fault |= alert.came && line.contains(FAULT_FUNCTION) && line.contains(FAULT_FILE);
        // The last line of a finding. A second signal would end dmscope without its report.
        if alert.came && !alert.complete && line.trim_start().starts_with("id ") {
            alert.complete = true;
            interrupt(&child)?;
        }
    }
    let status = child.wait()?;
    match status.code() {
        Some(0 | 1 | 3) => Ok(alert),
        _ => bail!("dmscope ended with {status}"),
    }
}

fn interrupt(child: &Child) -> Result<()> {
    // Without a dependency for one signal; the shell's own `kill` is there without procps.
    Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().context("sh")?;
    Ok(())
}

/// The demo job.
struct DemoJob {
    process: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl DemoJob {
    fn start() -> Result<Self> {
        let folder = target_dir().join("jobs/openmpi");
        let mut process = Command::new("mpirun.openmpi")
            .args(["--oversubscribe", "--mca", "btl", "self,vader", "-n", "4"])
            .arg(folder.join("figure2"))
            .args(["--seconds", JOB_SECONDS, "--size", "128", "--rare", "0.01", "--pause-us", "300"])
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start mpirun.openmpi")?;
        let stdout = process.stdout.take().context("output of the job")?;
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let job = Self { process, lines };
        let ready = job.lines.recv_timeout(Duration::from_secs(60)).context("the job does not start")?;
        println!("  the job says: {ready}");
        Ok(job)
    }

    fn is_running(&mut self) -> Result<bool> {
        Ok(self.process.try_wait()?.is_none())
    }

    /// Waits for its end; gives its last line.
    fn end(mut self) -> Result<String> {
        let mut last = String::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(90)) {
            last = line;
        }
        let status = self.process.wait()?;
        ensure!(status.success(), "the job ended with {status}");
        Ok(last)
    }
}

impl Drop for DemoJob {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

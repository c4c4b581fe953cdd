//! `cargo xtask costs`: what watching costs, in paired runs; prints the tables of BENCHMARKS.md.
//!
//! Each pair is one run without dmscope and one with everything on (recording too), in turn, so
//! that a machine whose speed drifts does not decide the ratio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::jobs;
use crate::process::{cargo, root, run, target_dir};

const PAIRS: usize = 5;

/// Builds, measures, prints.
pub fn measure() -> Result<ExitCode> {
    run(cargo().args(["build", "--release", "--package", "dmscope"]))?;
    jobs::build()?;
    let folder = target_dir().join(format!("costs-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let result = tables(&folder);
    fs::remove_dir_all(&folder)?;
    result.map(|()| ExitCode::SUCCESS)
}

fn tables(folder: &Path) -> Result<()> {
    fs::copy(root().join("tests/inputs/hpccinf.txt"), folder.join("hpccinf.txt"))?;
    println!(
        "| job | plain, s | watched / plain, median of {PAIRS} pairs (min–max) | records | lost | bytes a record on tape | `analyze`, records/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for job in jobs_to_measure() {
        println!("{}", job.row(folder)?);
    }
    println!();
    attach_and_detach(folder)
}

struct Job {
    name: &'static str,
    ranks: &'static str,
    program: PathBuf,
    arguments: Vec<&'static str>,
}

fn jobs_to_measure() -> Vec<Job> {
    let own = |name| target_dir().join("jobs/openmpi").join(name);
    vec![
        Job {
            name: "hpcc, N = 400, 4 ranks",
            ranks: "4",
            program: "/usr/bin/hpcc".into(),
            arguments: vec![],
        },
        Job {
            name: "halo exchange, rows of 64 KiB, 4 ranks",
            ranks: "4",
            program: own("halo2d"),
            arguments: vec!["--halo-bytes", "1024", "--row-bytes", "65536", "--iterations", "400"],
        },
        Job {
            name: "ring, small messages, 4 ranks (worst case)",
            ranks: "4",
            program: own("ring"),
            arguments: vec!["--iterations", "20000"],
        },
    ]
}

/// What a watched run left.
struct Watched {
    seconds: f64,
    report: Value,
    tape_bytes: u64,
}

impl Job {
    fn row(&self, folder: &Path) -> Result<String> {
        let (mut plain, mut ratios, mut last) = (Vec::new(), Vec::new(), None);
        for _ in 0..PAIRS {
            let without = self.plain(folder)?;
            let watched = self.watched(folder)?;
            plain.push(without);
            ratios.push(watched.seconds / without);
            last = Some(watched);
        }
        let last = last.context("at least one pair")?;
        let statistics = &last.report["statistics"];
        let count = |name: &str| statistics[name].as_u64().unwrap_or(0);
        let records = count("records");
        let per_second = records as f64 / analyze(&folder.join("tape.dmt"))?;
        let (median, min, max) = spread(&mut ratios);
        Ok(format!(
            "| {} | {:.2} | {median:.3} ({min:.3}–{max:.3}) | {records} | {} | {:.2} | {:.2} M |",
            self.name,
            spread(&mut plain).0,
            count("lost_movements") + count("lost_state"),
            last.tape_bytes as f64 / records.max(1) as f64,
            per_second / 1e6,
        ))
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = mpirun(self.ranks);
        command.arg(&self.program).args(&self.arguments).current_dir(folder).stdout(Stdio::null());
        command
    }

    fn plain(&self, folder: &Path) -> Result<f64> {
        let begin = Instant::now();
        let status = self.command(folder).status().context("mpirun.openmpi")?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(begin.elapsed().as_secs_f64())
    }

    /// The job's own time, from start to end; dmscope attaches as soon as there are ranks.
    fn watched(&self, folder: &Path) -> Result<Watched> {
        let tape = folder.join("tape.dmt");
        let begin = Instant::now();
        let mut job = self.command(folder).spawn().context("mpirun.openmpi")?;
        let pid = job.id().to_string();
        while !ranks_are_there(job.id())? {
            std::thread::sleep(Duration::from_millis(5));
        }
        let dmscope = Command::new(dmscope())
            .args(["attach", &pid, "--json", "--quiet", "--record"])
            .arg(&tape)
            .stdout(Stdio::piped())
            .spawn()
            .context("dmscope")?;
        let status = job.wait()?;
        let seconds = begin.elapsed().as_secs_f64();
        ensure!(status.success(), "{} ended with {status} while it was watched", self.name);
        let output = dmscope.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().context("dmscope printed nothing")?;
        let mut document: Value = serde_json::from_str(line).context("output of dmscope")?;
        Ok(Watched { seconds, report: document["report"].take(), tape_bytes: fs::metadata(&tape)?.len() })
    }
}

fn dmscope() -> PathBuf {
    target_dir().join("release/dmscope")
}

fn mpirun(ranks: &str) -> Command {
    let mut command = Command::new("mpirun.openmpi");
    command
        .args(["--oversubscribe", "--mca", "btl", "self,vader", "-n", ranks])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn ranks_are_there(launcher: u32) -> Result<bool> {
    let output = Command::new(dmscope()).args(["ps", "--json"]).output().context("dmscope ps")?;
    let document: Value = serde_json::from_slice(&output.stdout).context("output of dmscope ps")?;
    let jobs = document["jobs"].as_array().cloned().unwrap_or_default();
    Ok(jobs.iter().any(|job| job["pid"].as_u64() == Some(launcher.into())))
}

/// Seconds that `analyze` takes, median of three.
fn analyze(tape: &Path) -> Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let begin = Instant::now();
        Command::new(dmscope()).arg("analyze").arg("--quiet").arg(tape).stdout(Stdio::null()).status()?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    Ok(spread(&mut seconds).0)
}

/// Sixteen ranks: from the start of `dmscope attach` to all probes in place, and from the signal to its end.
fn attach_and_detach(folder: &Path) -> Result<()> {
    let (mut attach, mut all) = (Vec::new(), Vec::new());
    let program = target_dir().join("jobs/openmpi/ring");
    let mut job = mpirun("16")
        .arg(program)
        .args(["--seconds", "40", "--pause-us", "20000"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()?;
    let pid = job.id().to_string();
    while !ranks_are_there(job.id())? {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..PAIRS {
        let begin = Instant::now();
        let output = Command::new(dmscope()).args(["attach", &pid, "--json", "--duration", "1s"]).output()?;
        let total_ms = begin.elapsed().as_secs_f64() * 1e3;
        let text = String::from_utf8_lossy(&output.stdout);
        let attached =
            text.lines().find(|l| l.contains("\"event\":\"attached\"")).context("no attached event")?;
        let took_ms = serde_json::from_str::<Value>(attached)?["took_ms"].as_f64().context("took_ms")?;
        attach.push(took_ms);
        // The second that was asked for began when the programs were loaded.
        all.push(total_ms - 1000.0);
    }
    job.kill()?;
    job.wait()?;
    let (a, d) = (spread(&mut attach), spread(&mut all));
    println!("| 16 ranks, Open MPI | median (min–max), ms |");
    println!("| --- | --- |");
    println!("| attach: all probes in place | {:.0} ({:.0}–{:.0}) |", a.0, a.1, a.2);
    println!(
        "| everything beside the second that was asked for: loading, detaching, last analysis, report | {:.0} ({:.0}–{:.0}) |",
        d.0, d.1, d.2
    );
    Ok(())
}

/// Median, smallest, largest.
fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

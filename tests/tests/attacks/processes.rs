//! Processes that end, come again under the same PID, or run out of something.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use dmscope::collector::Collector;
use dmscope::host::processes::start_ticks;
use dmscope::kernel::{LoadSettings, ProcessKey, Tracer};
use live::processes::{ChangedCode, changed_code};
use live::{Dmscope, JobSpec, MpiImplementation};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(120);
const DEFAULT_BUDGET: [&str; 2] = ["--budget", "10%"];
/// A killed session and its probes are gone by then, however busy the machine is.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn killed_under_load_with_a_budget_it_and_its_probes_are_gone_at_once() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "halo2d")?.ranks(4).held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let ranks = job.rank_pids()?;
        let own = live::build::jobs_for(library)?.canonicalize()?;
        let all_changed = || -> Result<Vec<ChangedCode>> {
            let places =
                ranks.iter().flat_map(|rank| [Path::new("/usr/lib"), &own].map(|folder| (*rank, folder)));
            places.map(|(rank, folder)| changed_code(rank, folder)).collect()
        };
        let before = all_changed()?;
        job.go()?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET).spawn()?;
        dmscope.wait_until_attached()?;
        let while_watched: Vec<_> =
            all_changed()?.into_iter().zip(&before).map(|(now, before)| now.since(before)).collect();
        ensure!(while_watched.iter().any(|changed| changed.check().is_err()), "no probe was seen");
        std::thread::sleep(Duration::from_millis(300));
        let killed = Instant::now();
        dmscope.signal(Signal::KILL);
        dmscope.finish()?;
        let gone = killed.elapsed();
        for (now, before) in all_changed()?.into_iter().zip(&before) {
            now.since(before).check()?;
        }
        eprintln!("{library:?}: gone after {gone:?}");
        job.stop()?;
        job.finish(TIMEOUT)?.check_verdict()?;
        ensure!(gone < SOON, "gone after {gone:?}");
    }
    Ok(())
}

/// A program that waits for a line, and then runs another.
fn waiting_shell() -> Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec true"]).stdin(Stdio::piped());
    shell.spawn().context("a shell")
}

/// The same with a PID that was another's. Other processes may get it first.
fn waiting_shell_with_pid(pid: u32) -> Result<Child> {
    for _ in 0..200 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).context("choosing a PID")?;
        let mut shell = waiting_shell()?;
        if shell.id() == pid {
            return Ok(shell);
        }
        end(&mut shell)?;
    }
    bail!("PID {pid} cannot be had again")
}

fn end(shell: &mut Child) -> Result<()> {
    shell.stdin.take().context("its standard input")?.write_all(b"go\n")?;
    shell.wait().context("its end")?;
    Ok(())
}

#[test]
fn a_process_that_gets_the_pid_of_a_watched_one_is_not_watched() -> Result<()> {
    let mut tracer = Tracer::load(LoadSettings { ring_bytes: 1 << 16, ..LoadSettings::default() })?;
    tracer.attach_kernel_events()?;
    let ring = tracer.make_ring(0)?;
    let mut collector = Collector::start(tracer.counters(), Vec::new())?;
    collector.add(ring);
    let mut first = waiting_shell()?;
    let pid = first.id();
    let key = ProcessKey { pid, start_ticks: start_ticks(pid)? };
    tracer.watch(key, 0)?;
    end(&mut first)?;
    let ended_ns = dmscope::host::clock::monotonic_ns();
    std::thread::sleep(Duration::from_millis(50));
    // What a session does that has not heard of the end.
    tracer.tell_own_code(pid, &[])?;
    end(&mut waiting_shell_with_pid(pid)?)?;
    // And one that only now comes to watch what it found a moment ago.
    tracer.watch(key, 0)?;
    end(&mut waiting_shell_with_pid(pid)?)?;
    let batches = collector.finish();
    let times: Vec<u64> =
        batches.iter().flat_map(|b| &b.records).flat_map(|(_, r)| r).map(|r| r.time_ns()).collect();
    ensure!(times.iter().any(|time_ns| *time_ns <= ended_ns), "the first one was not watched at all");
    let later = times.iter().filter(|time_ns| **time_ns > ended_ns).count();
    ensure!(later == 0, "{later} records of processes that nobody asked for");
    Ok(())
}

/// A shell that lowers a limit of open files and becomes what it is told.
fn with_limit(option: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("ulimit {option}; exec \"$0\" \"$@\"")]
}

#[test]
fn with_too_few_descriptors_it_says_so_and_touches_nothing() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "halo2d")?.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET);
    let session = dmscope.spawn_through(with_limit("-n 64"))?.finish()?;
    session.check_refusal(&["64 files", "ulimit -Hn"])?;
    job.go()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

#[test]
fn a_low_soft_limit_of_descriptors_costs_no_probe() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "halo2d")?.ranks(4).held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET);
        let mut dmscope = dmscope.spawn_through(with_limit("-Sn 256"))?;
        let attached = dmscope.wait_until_attached()?;
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", dmscope.pid()))?;
        ensure!(!limits.lines().any(|l| l.starts_with("Max open files") && l.contains(" 256 ")), "{limits}");
        ensure!(attached["failed"] == 0 && attached["probes"].as_u64() > Some(300), "{attached}");
        dmscope.interrupt();
        dmscope.finish()?;
        job.go()?;
        job.stop()?;
        job.finish(TIMEOUT)?.check_verdict()?;
    }
    Ok(())
}

#[test]
fn a_job_that_it_starts_has_the_limit_of_descriptors_that_it_would_have_had() -> Result<()> {
    let run = Dmscope::command("run", ["--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    let session = run.spawn_through(with_limit("-Sn 300"))?.finish()?;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let hard = hard.map_or("unlimited".into(), |limit| limit.to_string());
    ensure!(session.stdout == ["300".to_owned(), hard], "{:?}", session.stdout);
    Ok(())
}

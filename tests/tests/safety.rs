//! Whatever happens to dmscope or to the job, the other goes on as it should, and nothing is left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::processes::{check_code, descendants};
use live::{Dmscope, JobSpec, MpiImplementation, RunningJob, SmallDisk};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

/// A job that checks its data all the time, until it is stopped.
fn busy() -> Result<RunningJob> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.ranks(4).args(["--no-bug"]);
    let job = spec.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

fn stop_and_check(job: RunningJob) -> Result<()> {
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

fn code_is_as_it_was(pids: &[u32]) -> Result<()> {
    let own = live::build::jobs_for(MpiImplementation::OpenMpi)?.canonicalize()?;
    pids.iter().try_for_each(|pid| check_code(*pid, &own))
}

/// Moments that differ from round to round and are the same in every run of the test.
fn moments(count: u32, longest: Duration) -> impl Iterator<Item = Duration> {
    (0..count).map(move |round| longest * (round * 7919 % 1000) / 1000)
}

/// A tape that nobody ended is read to its last whole frame. Returns how many records it has.
fn records_of_an_unended_tape(tape: &Path) -> Result<u64> {
    let session = Dmscope::analyze(tape).finish()?;
    if std::fs::metadata(tape)?.len() == 0 {
        session.check_refusal(&["tape"])?;
        return Ok(0);
    }
    let report = session.report()?;
    ensure!(report["ended"] != "the job ended", "an end that was not: {}", report["ended"]);
    session.findings()?.check_no_warning()?;
    Ok(report["statistics"]["records"].as_u64().unwrap_or(0))
}

#[test]
fn killed_at_any_moment_it_harms_no_job_and_leaves_a_tape() -> Result<()> {
    let directory = TempDir::new()?;
    let job = busy()?;
    let pids = job.rank_pids()?;
    job.go()?;
    let mut records = Vec::new();
    for (round, moment) in moments(20, Duration::from_millis(800)).enumerate() {
        let tape = directory.path().join(format!("{round}.dmt"));
        let mut dmscope = Dmscope::attach(job.launcher_pid()).record(&tape).spawn()?;
        if round % 4 == 0 {
            // In the middle of being attached.
            dmscope.wait_for_event("placed")?;
        } else {
            dmscope.wait_until_attached()?;
        }
        std::thread::sleep(moment * if round % 4 == 0 { 1 } else { 3 });
        dmscope.signal(Signal::KILL);
        let session = dmscope.finish()?;
        ensure!(session.status.is_none(), "it ended by itself: {:?}: {:?}", session.status, session.stderr);
        code_is_as_it_was(&pids)?;
        records.push(records_of_an_unended_tape(&tape).with_context(|| format!("round {round}"))?);
    }
    eprintln!("records on the tapes of killed sessions: {records:?}");
    ensure!(records.iter().any(|count| *count > 1000), "no tape has anything: {records:?}");
    stop_and_check(job)
}

/// While it stands still rings overflow; what is missing then is no finding.
#[test]
fn stopped_for_seconds_it_harms_no_job_and_finds_nothing_in_the_gap() -> Result<()> {
    let job = busy()?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(["--ring-size", "64K"]).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let many = |event: &Value| event["event"] == "status" && event["records"].as_u64() > Some(10_000);
    dmscope.wait_for(many)?;
    dmscope.signal(Signal::STOP);
    std::thread::sleep(Duration::from_secs(10));
    dmscope.signal(Signal::CONT);
    stop_and_check(job)?;
    let session = dmscope.finish()?;
    let statistics = &session.report()?["statistics"];
    eprintln!("lost while stopped: {} of {} records", statistics["lost_movements"], statistics["records"]);
    ensure!(statistics["lost_movements"].as_u64() > Some(0), "rings of 64 KiB lasted for ten seconds");
    session.findings()?.check_no_warning()
}

#[test]
fn a_full_disk_ends_the_tape_and_not_the_session() -> Result<()> {
    let disk = SmallDisk::mount(256)?;
    let tape = disk.path().join("x.dmt");
    let job = JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.ranks(4).held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).record(&tape).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let notice =
        dmscope.wait_for(|event| event["event"] == "notice" && event.to_string().contains("x.dmt"))?;
    ensure!(notice.to_string().contains("No space left"), "{notice}");
    dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let session = dmscope.finish()?;
    ensure!(session.status == Some(1), "the fault was not found without a tape: {:?}", session.status);
    let recorded = session.events_of("recorded");
    ensure!(recorded[0]["incomplete"] == true, "{recorded:?}");
    let statistics = Dmscope::analyze(&tape).finish()?.report()?["statistics"].clone();
    ensure!(statistics["records"].as_u64() > Some(0), "nothing is on the tape: {statistics}");
    Ok(())
}

#[test]
fn a_job_that_crashes_crashes_as_ever_and_ends_the_session() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "crasher")?.args(["--after", "2000"]).held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        let job = job.finish(TIMEOUT)?;
        ensure!(!job.status.success() && job.lines_of_type("crash")?.len() == 1, "{:?}", job.stdout);
        let session = dmscope.finish()?;
        ensure!(session.report()?["ended"] == "the job ended", "{}", session.report()?["ended"]);
        let findings = session.findings()?;
        let warnings = findings.warnings();
        let is_crash = |finding: &&serde_json::Value| finding["evidence"]["fault"] == "crash";
        ensure!(warnings.len() == 1 && warnings.iter().all(is_crash), "{warnings:?}");
    }
    Ok(())
}

#[test]
fn children_of_ranks_come_and_go_unharmed() -> Result<()> {
    for library in MpiImplementation::ALL {
        let forker = JobSpec::own(library, "forker")?.args(["--iterations", "3000", "--every", "20"]);
        let job = forker.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        let job = job.finish(TIMEOUT)?;
        job.check_verdict()?;
        ensure!(job.total("children")? == 300, "{:?}", job.stdout);
        let session = dmscope.finish()?;
        session.findings()?.check_no_warning()?;
        ensure!(session.report()?["ended"] == "the job ended", "{}", session.report()?["ended"]);
    }
    Ok(())
}

/// Movements by rank.
fn movements(report: &Value) -> Vec<(u64, u64)> {
    let processes = report["statistics"]["processes"].as_array().into_iter().flatten();
    processes
        .filter_map(|process| Some((process["rank"].as_u64()?, process["movements"].as_u64()?)))
        .collect()
}

#[test]
fn a_process_that_becomes_a_rank_is_watched_from_then_on() -> Result<()> {
    let library = MpiImplementation::OpenMpi;
    let ring = live::build::jobs_for(library)?.join("ring");
    let spec = JobSpec::own(library, "execer")?.args([ring.display().to_string()]);
    let session = Dmscope::run(&spec.args(["--iterations", "2000"])).finish()?;
    ensure!(session.job()?.stdout.iter().any(|line| line.starts_with("ok ring")), "{:?}", session.stdout);
    let movements = movements(session.report()?);
    ensure!(movements.len() == 2 && movements.iter().all(|(_, count)| *count > 2000), "{movements:?}");
    Ok(())
}

/// How many processes of a job have an MPI library.
fn ranks_begun(launcher: u32) -> usize {
    let maps = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    descendants(launcher).iter().filter(|pid| maps(pid).contains("/libmpi.so")).count()
}

#[test]
fn ranks_that_begin_after_dmscope_has_attached_are_watched_from_their_first_instruction() -> Result<()> {
    let library = MpiImplementation::OpenMpi;
    let directory = TempDir::new()?;
    let now = directory.path().join("now").display().to_string();
    let jobs = live::build::jobs_for(library)?;
    let (ring, execer) = (jobs.join("ring").display().to_string(), jobs.join("execer").display().to_string());
    let others = [":", "-n", "2", &execer, "--exec-when", &now, &ring, "--iterations", "2000"];
    let job = JobSpec::own(library, "ring")?.args(["--iterations", "2000"]).args(others).spawn()?;
    job.wait_for_line(TIMEOUT, |line| line.contains("before_exec"))?;
    let deadline = Instant::now() + TIMEOUT;
    while ranks_begun(job.launcher_pid()) < 2 {
        ensure!(Instant::now() < deadline, "the first two ranks did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(["--statistics"]).spawn()?;
    dmscope.wait_until_attached()?;
    std::fs::write(&now, "")?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let session = dmscope.finish()?;
    let movements = movements(session.report()?);
    ensure!(movements.len() == 4 && movements.iter().all(|(_, count)| *count > 2000), "{movements:?}");
    session.findings()?.check_no_warning()
}

#[test]
fn a_library_that_is_loaded_later_is_watched_from_then_on() -> Result<()> {
    for library in MpiImplementation::ALL {
        // Two milliseconds a message, so that there is time to find the probes' places in the library.
        let spec = JobSpec::own(library, "dlopener")?.args(["--iterations", "3000", "--pause-us", "2000"]);
        let job = spec.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        let job = job.finish(TIMEOUT)?;
        job.check_verdict()?;
        let session = dmscope.finish()?;
        let probes = session.report()?["statistics"]["probes"].as_array().cloned().unwrap_or_default();
        let in_library = probes.iter().filter(|probe| {
            probe["class"] == "copy" && probe["place"]["module"].to_string().contains("libmsg_figure2.so")
        });
        let hits: u64 = in_library.filter_map(|probe| probe["hits"].as_u64()).sum();
        let sites = job.sites()?;
        let in_library =
            sites.iter().filter(|site| site.module == "libmsg_figure2.so" && site.kind == "copy");
        let calls: u64 = in_library.map(|site| site.calls).sum();
        eprintln!("{library:?}: {hits} of {calls} copies of the new library were seen");
        // Between the loading and the probes there is a moment in which copies go unseen.
        ensure!(hits <= calls && hits > calls / 2, "{hits} of {calls}");
    }
    Ok(())
}

/// `DMSCOPE_TEST_ATTACHES` says how often; 100 takes a minute.
#[test]
fn attached_and_detached_again_and_again_it_leaves_nothing() -> Result<()> {
    let times = std::env::var("DMSCOPE_TEST_ATTACHES").map_or(Ok(20), |text| text.parse::<u32>())?;
    let job = busy()?;
    let pids = job.rank_pids()?;
    job.go()?;
    for round in 0..times {
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached().with_context(|| format!("round {round}"))?;
        dmscope.interrupt();
        let session = dmscope.finish()?;
        ensure!(session.report()?["ended"] == "interrupted", "{}", session.report()?["ended"]);
        code_is_as_it_was(&pids).with_context(|| format!("round {round}"))?;
    }
    stop_and_check(job)
}

#[test]
fn under_run_a_job_has_the_priority_and_the_processors_it_would_have_had() -> Result<()> {
    const QUESTION: &str = "nice; grep Cpus_allowed_list /proc/self/status";
    let output = std::process::Command::new("sh").args(["-c", QUESTION]).output()?;
    let expected: Vec<_> = String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect();
    let session = Dmscope::command("run", ["--", "sh", "-c", QUESTION]).finish()?;
    ensure!(session.stdout == expected, "{:?} instead of {expected:?}", session.stdout);
    Ok(())
}

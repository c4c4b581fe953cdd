//! Whatever happens to dmscope or to the job, the other goes on as it should, and nothing is left behind.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::processes::{ChangedCode, changed_code, check_code, descendants};
use live::{
    Dmscope, FinishedSession, JobSpec, MpiImplementation, RunningJob, SmallDisk, deadline,
    number_from_environment, patience,
};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

/// What dmscope and all that it has in the kernel may take to be gone, however busy the machine is.
const SOON: Duration = Duration::from_secs(2);
/// What an orderly end may take.
const PATIENCE: Duration = Duration::from_secs(10);
const DEFAULT_BUDGET: [&str; 2] = ["--budget", "10%"];

/// A job that checks its data all the time, until it is stopped.
fn busy_with(library: MpiImplementation) -> Result<RunningJob> {
    let spec = JobSpec::own(library, "figure2")?.ranks(4).args(["--no-bug"]);
    let job = spec.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

fn busy() -> Result<RunningJob> {
    busy_with(MpiImplementation::OpenMpi)
}

fn stop_and_check(job: RunningJob) -> Result<()> {
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

fn code_is_as_it_was(pids: &[u32]) -> Result<()> {
    let own = live::build::jobs_for(MpiImplementation::OpenMpi)?.canonicalize()?;
    pids.iter().try_for_each(|pid| check_code(*pid, &own))
}

/// The code of a job's ranks, as it was before anybody looked.
struct CodeBefore(Vec<(u32, PathBuf, ChangedCode)>);

impl CodeBefore {
    fn of(job: &RunningJob, library: MpiImplementation) -> Result<Self> {
        let folders = [PathBuf::from("/usr/lib"), live::build::jobs_for(library)?.canonicalize()?];
        let ranks = job.rank_pids()?;
        let places = ranks.iter().flat_map(|rank| folders.iter().map(|folder| (*rank, folder.clone())));
        let before = places.map(|(rank, folder)| Ok((rank, folder.clone(), changed_code(rank, &folder)?)));
        Ok(Self(before.collect::<Result<_>>()?))
    }

    /// Fails if it is not so again when one begins to look by then. When that was: looking takes a while.
    fn check_again(&self, deadline: Instant) -> Result<Instant> {
        let now = || {
            self.0
                .iter()
                .try_for_each(|(rank, folder, before)| changed_code(*rank, folder)?.since(before).check())
        };
        loop {
            let began = Instant::now();
            match now() {
                Ok(()) => return Ok(began),
                Err(error) if began > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// How often something is done: 8 times, or as a variable says. Each library gets half of it: with and without a budget, attaching and attached.
fn times(variable: &str) -> Result<u32> {
    Ok(u32::try_from(number_from_environment(variable, 8)?)?)
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

/// A session that is ended by a signal at some moment, with or without a budget.
struct EndedSession {
    session: FinishedSession,
    tape: PathBuf,
    /// Until dmscope was gone, and what it had in the kernel.
    ended: Duration,
    /// Until its probes were.
    clean: Duration,
}

fn end_at(
    job: &RunningJob,
    before: &CodeBefore,
    round: u32,
    moment: Duration,
    signal: Signal,
    folder: &Path,
) -> Result<EndedSession> {
    let tape = folder.join(format!("{round}.dmt"));
    // A budget takes probes out, and puts them in again.
    let budget: &[&str] = if round.is_multiple_of(2) { &DEFAULT_BUDGET } else { &["--budget", "none"] };
    let mut dmscope =
        Dmscope::attach(job.launcher_pid()).record(&tape).args(budget.iter().copied()).spawn()?;
    // In the middle of being attached.
    let is_attaching = round % 4 < 2;
    if is_attaching {
        dmscope.wait_for_event("placed")?;
    } else {
        dmscope.wait_until_attached()?;
    }
    std::thread::sleep(moment);
    dmscope.end_by(signal);
    let signalled = Instant::now();
    let session = dmscope.finish()?;
    let ended = Instant::now();
    let clean = before.check_again(ended + patience(SOON))?;
    Ok(EndedSession { session, tape, ended: ended - signalled, clean: clean - signalled })
}

/// Ends a session again and again, beside a job of each library. Only the tape may be left of it.
fn end_at_any_moment(
    signal: Signal,
    variable: &str,
    check: &mut dyn FnMut(&EndedSession) -> Result<()>,
) -> Result<()> {
    let count = times(variable)?.div_ceil(2);
    for library in MpiImplementation::ALL {
        let directory = TempDir::new()?;
        let job = busy_with(library)?;
        let before = CodeBefore::of(&job, library)?;
        job.go()?;
        let mut longest = (Duration::ZERO, Duration::ZERO);
        for (round, moment) in (0..count).zip(moments(count, Duration::from_millis(800))) {
            let what = || format!("{library:?}, {signal:?}, round {round}, after {moment:?}");
            let ended = end_at(&job, &before, round, moment, signal, directory.path()).with_context(what)?;
            longest = longest.max((ended.ended, ended.clean));
            check(&ended).with_context(what)?;
            if ended.tape.exists() {
                std::fs::remove_file(&ended.tape)?;
            }
            let left: Vec<_> = std::fs::read_dir(directory.path())?.collect::<Result<_, _>>()?;
            ensure!(left.is_empty(), "left: {left:?}: {}", what());
        }
        let (ended, clean) = longest;
        eprintln!("{library:?}: {count} sessions, gone after {ended:?} at most, its probes after {clean:?}");
        stop_and_check(job)?;
    }
    Ok(())
}

/// `DMSCOPE_TEST_KILLS` says how often.
#[test]
fn killed_at_any_moment_it_harms_no_job_and_leaves_a_tape() -> Result<()> {
    let mut records = Vec::new();
    end_at_any_moment(Signal::KILL, "DMSCOPE_TEST_KILLS", &mut |ended: &EndedSession| {
        let EndedSession { session, tape, clean, .. } = ended;
        ensure!(*clean < patience(SOON), "gone after {clean:?}");
        ensure!(session.status.is_none(), "it ended by itself: {:?}: {:?}", session.status, session.stderr);
        records.push(records_of_an_unended_tape(tape)?);
        Ok(())
    })?;
    eprintln!("records on the tapes of killed sessions: {records:?}");
    ensure!(records.iter().any(|count| *count > 1000), "no tape has anything: {records:?}");
    Ok(())
}

/// `DMSCOPE_TEST_TERMINATIONS` says how often.
#[test]
fn terminated_at_any_moment_it_reports_what_it_saw_and_harms_no_job() -> Result<()> {
    end_at_any_moment(Signal::TERM, "DMSCOPE_TEST_TERMINATIONS", &mut |ended: &EndedSession| {
        let EndedSession { session, ended, .. } = ended;
        // It analyses what is in the rings, and writes its report.
        ensure!(*ended < patience(PATIENCE), "ended after {ended:?}");
        let report = session.report()?;
        ensure!(report["ended"] == "interrupted", "{}", report["ended"]);
        session.findings()?.check_no_warning()
    })
}

/// Nothing is traced without it, which must not go unnoticed.
#[test]
fn if_the_process_that_holds_its_probes_is_killed_it_says_so_and_reports_what_it_saw() -> Result<()> {
    let job = busy()?;
    let before = CodeBefore::of(&job, MpiImplementation::OpenMpi)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    dmscope.wait_for(|event| event["event"] == "status" && event["records"].as_u64() > Some(10_000))?;
    let holder = i32::try_from(dmscope.holder()?).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(holder.context("its PID")?, Signal::KILL)?;
    let session = dmscope.finish()?;
    before.check_again(deadline(SOON))?;
    stop_and_check(job)?;
    let why = "the process that holds the probes";
    ensure!(
        session.status == Some(2) && session.stderr.iter().any(|line| line.contains(why)),
        "{:?}",
        session.stderr
    );
    let report = session.report()?;
    ensure!(report["ended"].as_str().is_some_and(|ended| ended.contains(why)), "{}", report["ended"]);
    ensure!(report["statistics"]["lost_state"].as_u64() > Some(0), "{}", report["statistics"]);
    session.findings()?.check_no_warning()
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
    let deadline = deadline(TIMEOUT);
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
    let job = busy()?;
    let pids = job.rank_pids()?;
    job.go()?;
    for round in 0..times("DMSCOPE_TEST_ATTACHES")? {
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached().with_context(|| format!("round {round}"))?;
        dmscope.interrupt();
        let session = dmscope.finish()?;
        ensure!(session.report()?["ended"] == "interrupted", "{}", session.report()?["ended"]);
        code_is_as_it_was(&pids).with_context(|| format!("round {round}"))?;
    }
    stop_and_check(job)
}

/// `DMSCOPE_TEST_STORMS` says how often it is attached. Between signals, threads that come and go, children that run other
/// programs or are killed, and libraries that are loaded and unloaded, everything else goes on as it should.
#[test]
fn attached_and_detached_in_a_storm_it_harms_nothing() -> Result<()> {
    const ENDS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::KILL];
    let count = times("DMSCOPE_TEST_STORMS")?.div_ceil(2);
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "storm")?.ranks(3).held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let before = CodeBefore::of(&job, library)?;
        job.go()?;
        for ((round, moment), end) in
            (0_u32..).zip(moments(count, Duration::from_millis(600))).zip(ENDS.iter().cycle())
        {
            let what = || format!("{library:?}, round {round}, {end:?} after {moment:?}");
            let budget = if round.is_multiple_of(2) { &DEFAULT_BUDGET } else { &["--budget", "none"] };
            let mut dmscope = Dmscope::attach(job.launcher_pid()).args(*budget).spawn()?;
            dmscope.wait_until_attached().with_context(what)?;
            std::thread::sleep(moment);
            dmscope.end_by(*end);
            let session = dmscope.finish().with_context(what)?;
            before.check_again(deadline(SOON)).with_context(what)?;
            if *end != Signal::KILL {
                session.findings()?.check_no_warning().with_context(what)?;
            }
        }
        job.stop()?;
        let job = job.finish(TIMEOUT)?;
        job.check_verdict()?;
        let (events, signals) = (job.total("events")?, job.total("signals")?);
        eprintln!("{library:?}: {count} sessions in a storm of {events} events and {signals} signals");
        ensure!(events > 10 * u64::from(count) && signals > events, "no storm: {events} and {signals}");
    }
    Ok(())
}

#[test]
fn under_run_a_job_has_the_priority_the_processors_and_the_huge_pages_it_would_have_had() -> Result<()> {
    const QUESTION: &str = "nice; grep -e Cpus_allowed_list -e THP_enabled /proc/self/status";
    let output = std::process::Command::new("sh").args(["-c", QUESTION]).output()?;
    let expected: Vec<_> = String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect();
    let session = Dmscope::command("run", ["--", "sh", "-c", QUESTION]).finish()?;
    ensure!(session.stdout == expected, "{:?} instead of {expected:?}", session.stdout);
    Ok(())
}

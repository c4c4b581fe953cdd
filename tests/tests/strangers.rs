//! Processes outside the job that run the same libraries: probes are kept out of them, or what they cost them is told.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dmscope::kernel::{LoadSettings, Tracer};
use live::findings::{frame, missing_operation};
use live::processes::{ChangedCode, changed_code, descendants};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation, RunningJob, deadline};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Libraries that all programs share.
const SHARED: &str = "/usr/lib";
const ALWAYS: [&str; 2] = ["--only-job", "always"];
const NEVER: [&str; 2] = ["--only-job", "never"];
/// A killed session and its probes are gone by then, however many links it had.
const SOON: Duration = Duration::from_secs(2);

/// Another user's process that does nothing but take blocks of the C library's heap and give them back.
struct Stranger {
    shell: Child,
    before: ChangedCode,
}

impl Stranger {
    fn start() -> Result<Self> {
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c"]);
        shell.arg("echo ready; while :; do block=taken; done").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut shell = shell.spawn().context("a process of another user")?;
        // From then on it runs its own code, with all its libraries.
        let mut said = String::new();
        BufReader::new(shell.stdout.take().context("its output")?).read_line(&mut said)?;
        ensure!(said == "ready\n", "the other user's shell did not begin");
        let before = changed_code(shell.id(), Path::new(SHARED))?;
        Ok(Self { shell, before })
    }

    /// What is changed in its code since it began.
    fn changed(&self) -> Result<ChangedCode> {
        Ok(changed_code(self.shell.id(), Path::new(SHARED))?.since(&self.before))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn held(library: MpiImplementation, name: &str, ranks: usize) -> Result<RunningJob> {
    let job = JobSpec::own(library, name)?.ranks(ranks).held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

fn strangers(session: &FinishedSession) -> Result<Value> {
    Ok(session.report()?["statistics"]["strangers"].clone())
}

/// Hits of strangers at the C library's allocator.
fn heap_hits(cost: &Value) -> [u64; 2] {
    ["alloc", "free"].map(|class| cost["hits"][class].as_u64().unwrap_or(0))
}

/// Finds the fault of a job while another user's process runs: the place of the copy that one message lacks. `look`: at the
/// other process, when the fault was found.
fn find_beside_a_stranger(
    library: MpiImplementation,
    options: &[&str],
    look: impl FnOnce(&Stranger, &live::RunningSession) -> Result<()>,
) -> Result<(String, FinishedSession)> {
    let stranger = Stranger::start()?;
    let job = held(library, "figure2", 4)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(options.iter().copied()).spawn()?;
    dmscope.wait_until_attached()?;
    let ranks = job.rank_pids()?;
    ensure!(changed_code(ranks[0], Path::new(SHARED))?.check().is_err(), "the job itself has no probes");
    job.go()?;
    let alert = dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    look(&stranger, &dmscope)?;
    dmscope.interrupt();
    let session = dmscope.finish()?;
    stranger.changed()?.check().context("when the session was over")?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let missing = missing_operation(&alert)?;
    let fault = frame(&missing["place"]).context("a place without a line")?;
    Ok((format!("{fault:?}"), session))
}

#[test]
fn another_users_process_has_no_probes_and_the_fault_is_found_as_well() -> Result<()> {
    for library in MpiImplementation::ALL {
        let is_spared = |stranger: &Stranger, _: &live::RunningSession| stranger.changed()?.check();
        let (by_itself, session) = find_beside_a_stranger(library, &[], is_spared)?;
        let cost = strangers(&session)?;
        ensure!(cost["of_other_users"].as_u64() > Some(0), "{cost}");
        ensure!(heap_hits(&cost) == [0, 0], "{cost}");
        let (asked, session) = find_beside_a_stranger(library, &ALWAYS, is_spared)?;
        ensure!(strangers(&session)?["hits"] == serde_json::json!({}), "{}", strangers(&session)?);
        let pays = |stranger: &Stranger, dmscope: &live::RunningSession| {
            ensure!(stranger.changed()?.check().is_err(), "nobody was to keep probes out of it");
            dmscope.wait_for(|event| event["stranger_hits"].as_u64() > Some(10_000))?;
            Ok(())
        };
        let (for_everybody, session) = find_beside_a_stranger(library, &NEVER, pays)?;
        let cost = strangers(&session)?;
        eprintln!("{library:?}: {cost}");
        ensure!(heap_hits(&cost).into_iter().all(|hits| hits > 1000), "{cost}");
        let hits: u64 = heap_hits(&cost).iter().sum();
        let ns_per_hit = cost["cost_ns"].as_f64().context("a cost")? / hits as f64;
        ensure!((50.0..50_000.0).contains(&ns_per_hit), "{ns_per_hit} ns each: {cost}");
        ensure!(by_itself == asked && asked == for_everybody, "{by_itself}, {asked}, {for_everybody}");
    }
    Ok(())
}

#[test]
fn what_strangers_paid_is_a_line_of_the_report_and_on_the_tape() -> Result<()> {
    let directory = TempDir::new()?;
    let tape = directory.path().join("x.dmt");
    let _stranger = Stranger::start()?;
    let job = held(MpiImplementation::OpenMpi, "ring", 2)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(NEVER).record(&tape).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    dmscope.wait_for(|event| event["stranger_hits"].as_u64() > Some(50_000))?;
    dmscope.interrupt();
    let session = dmscope.finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let again = Dmscope::analyze(&tape).finish()?;
    ensure!(strangers(&again)? == strangers(&session)?, "{} on the tape", strangers(&again)?);
    let text = Dmscope::command("analyze", [&tape]).finish()?;
    let line = text.stdout.iter().find(|line| line.starts_with("Others: processes outside the job"));
    eprintln!("{line:?}");
    ensure!(line.is_some_and(|line| line.ends_with("see --only-job.")), "{:?}", text.stdout);
    Ok(())
}

#[test]
fn calls_of_threads_are_seen_all_with_links_for_single_processes() -> Result<()> {
    const CALLS: u64 = 2 * 3 * 4 * 25;
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "threads")?.ranks(2);
        let spec = spec.args(["--threads", "3", "--iterations", "4", "--messages", "25"]);
        let job = spec.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).args(ALWAYS).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        job.finish(TIMEOUT)?.check_verdict()?;
        let session = dmscope.finish()?;
        let calls = session.report()?["statistics"]["calls"].as_array().cloned().unwrap_or_default();
        let seen = calls.iter().find(|call| call["function"] == "MPI_Sendrecv");
        // The first thread of each rank makes none.
        ensure!(seen.is_some_and(|seen| seen["calls"] == CALLS), "{library:?}: {seen:?} instead of {CALLS}");
    }
    Ok(())
}

/// Movements and recorded allocations by rank.
fn seen_of_ranks(report: &Value) -> Vec<(u64, u64)> {
    let allocations = |process: &Value| -> u64 {
        let kinds = process["records"].as_array().into_iter().flatten();
        kinds.filter(|kind| kind["kind"] == "alloc").filter_map(|kind| kind["count"].as_u64()).sum()
    };
    let processes = report["statistics"]["processes"].as_array().into_iter().flatten();
    let ranks = processes.filter(|process| process["rank"].is_u64());
    ranks.map(|process| (process["movements"].as_u64().unwrap_or(0), allocations(process))).collect()
}

#[test]
fn ranks_that_begin_later_have_links_of_their_own() -> Result<()> {
    for options in [&[][..], &ALWAYS] {
        let library = MpiImplementation::OpenMpi;
        let directory = TempDir::new()?;
        let now = directory.path().join("now").display().to_string();
        let jobs = live::build::jobs_for(library)?;
        let [ring, execer] = ["ring", "execer"].map(|name| jobs.join(name).display().to_string());
        let others = [":", "-n", "2", &execer, "--exec-when", &now, &ring, "--iterations", "2000"];
        let job = JobSpec::own(library, "ring")?.args(["--iterations", "2000"]).args(others).spawn()?;
        job.wait_for_line(TIMEOUT, |line| line.contains("before_exec"))?;
        let deadline = deadline(TIMEOUT);
        let maps = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        while descendants(job.launcher_pid()).iter().filter(|pid| maps(pid).contains("/libmpi.so")).count()
            < 2
        {
            ensure!(Instant::now() < deadline, "the first two ranks did not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
        let attach = Dmscope::attach(job.launcher_pid()).args(["--statistics"]);
        let mut dmscope = attach.args(options.iter().copied()).spawn()?;
        dmscope.wait_until_attached()?;
        std::fs::write(&now, "")?;
        job.finish(TIMEOUT)?.check_verdict()?;
        let session = dmscope.finish()?;
        let seen = seen_of_ranks(session.report()?);
        eprintln!("{options:?}: movements and allocations by rank: {seen:?}");
        ensure!(seen.len() == 4 && seen.iter().all(|(moved, _)| *moved > 2000), "{seen:?}");
        // Ranks that begin allocate more than the others, which had begun when dmscope came.
        ensure!(seen[2..].iter().all(|(_, allocations)| *allocations > 100), "{seen:?}");
        // They had their links before they became what they are.
        let lost = &session.report()?["statistics"]["lost_movements"];
        ensure!(lost == 0, "{options:?}: {lost} lost");
        session.findings()?.check_no_warning()?;
    }
    Ok(())
}

#[test]
fn a_job_that_is_started_here_cannot_be_seen_whole_with_links_for_single_processes() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "ring")?;
    Dmscope::run(&spec).args(ALWAYS).finish()?.check_refusal(&["--only-job always", "attach"])
}

#[test]
fn a_budget_pauses_and_goes_on_with_links_for_single_processes() -> Result<()> {
    let stranger = Stranger::start()?;
    let job = held(MpiImplementation::OpenMpi, "figure2", 4)?;
    job.go()?;
    let options = ALWAYS.into_iter().chain(["--budget", "1%"]);
    let dmscope = Dmscope::attach(job.launcher_pid()).args(options).spawn()?;
    dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    // How soon it pauses again depends on what a burst costs on a busy machine.
    let mut said = 0;
    for wanted in [true, false, true] {
        dmscope.wait_for_since(said, |event| event["budget"]["paused"] == wanted)?;
        said = dmscope.said();
    }
    stranger.changed()?.check()?;
    dmscope.interrupt();
    let session = dmscope.finish()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let statistics = &session.report()?["statistics"];
    ensure!(statistics["pauses"].as_u64() > Some(1), "{}", statistics["pauses"]);
    ensure!(statistics["strangers"]["hits"] == serde_json::json!({}), "{}", statistics["strangers"]);
    Ok(())
}

#[test]
fn killed_with_links_for_each_of_many_ranks_its_probes_are_gone_at_once() -> Result<()> {
    /// What else runs on the machine may hold up one of them.
    const MOST_TRIES: usize = 3;
    for library in MpiImplementation::ALL {
        let took = (0..MOST_TRIES).map(|_| gone_after_a_kill(library)).find(|took| match took {
            Ok(took) => *took < SOON,
            Err(_) => true,
        });
        took.with_context(|| format!("{library:?}: never gone within {SOON:?}"))??;
    }
    Ok(())
}

/// How long it takes until a killed session with links for each of 8 ranks is gone; its probes must be gone with it.
fn gone_after_a_kill(library: MpiImplementation) -> Result<Duration> {
    let job = held(library, "halo2d", 8)?;
    let ranks = job.rank_pids()?;
    let changed =
        || ranks.iter().map(|rank| changed_code(*rank, Path::new(SHARED))).collect::<Result<Vec<_>>>();
    let before = changed()?;
    job.go()?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).args(ALWAYS).spawn()?;
    let attached = dmscope.wait_until_attached()?;
    let keepers = threads_named(dmscope.holder()?, "dms-link");
    let killed = Instant::now();
    dmscope.signal(Signal::KILL);
    dmscope.finish()?;
    let gone = killed.elapsed();
    eprintln!("{library:?}: attached in {} ms, {keepers} links gone after {gone:?}", attached["took_ms"]);
    for (now, before) in changed()?.into_iter().zip(&before) {
        now.since(before).check()?;
    }
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    ensure!(keepers > 50, "{keepers} links for 8 ranks");
    Ok(gone)
}

fn threads_named(pid: u32, wanted: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == wanted).count()
}

#[test]
fn a_link_for_one_process_sees_all_its_threads_and_is_in_no_other_process() -> Result<()> {
    let mut tracer = Tracer::load(LoadSettings::default())?;
    let check = tracer.check_filter()?;
    ensure!(check.sees_all_threads() && check.spares_others(), "{check:?}");
    ensure!(tracer.filter_sees_all_threads()?, "tried again");
    let doctor = Dmscope::command("doctor", ["--json"]).finish()?;
    let said: Value = serde_json::from_str(&doctor.stdout.join("\n"))?;
    let checks = said["checks"].as_array().context("checks")?;
    let filter = checks.iter().find(|check| check["what"] == "probes for the job's processes alone");
    ensure!(filter.is_some_and(|filter| filter["ok"] == true && filter["needed"] == false), "{filter:?}");
    Ok(())
}

#[test]
fn where_links_for_one_process_miss_threads_they_are_never_made_and_asking_for_them_is_refused() -> Result<()>
{
    const WITHOUT: [&str; 2] = ["--without", "process-filter"];
    let stranger = Stranger::start()?;
    let job = held(MpiImplementation::OpenMpi, "ring", 2)?;
    let attach = || Dmscope::attach(job.launcher_pid()).args(WITHOUT);
    attach().args(ALWAYS).finish()?.check_refusal(&["--only-job always", "other threads", "doctor"])?;
    stranger.changed()?.check()?;
    let mut dmscope = attach().spawn()?;
    dmscope.wait_until_attached()?;
    ensure!(stranger.changed()?.check().is_err(), "links for single processes were made all the same");
    dmscope.interrupt();
    dmscope.finish()?;
    job.go()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

#[test]
fn the_plan_says_who_else_runs_a_file_and_for_whom_its_probes_are() -> Result<()> {
    let _stranger = Stranger::start()?;
    let job = held(MpiImplementation::OpenMpi, "ring", 2)?;
    let pid = job.launcher_pid().to_string();
    let text = Dmscope::command("probes", [&pid]).finish()?;
    let mut kept = text.stdout.iter().filter(|line| line.contains("for processes of the job alone:"));
    ensure!(kept.any(|line| line.contains("other users'")), "{:?}", text.stdout);
    let json = Dmscope::command("probes", ["--json", &pid]).finish()?;
    let json: Value = serde_json::from_str(&json.stdout.join("\n"))?;
    let attach = json["attach"].as_array().context("how files are attached")?;
    let is_shared = |file: &&Value| file["strangers"]["of_other_users"].as_u64() > Some(0);
    ensure!(
        attach.iter().find(is_shared).is_some_and(|file| file["mode"] == "link_per_process"),
        "{attach:?}"
    );
    job.go()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

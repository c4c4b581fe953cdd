//! Without root: a user who has the capabilities that docs/security.md names watches jobs of their own and of others, and
//! whoever lacks one is told which, and what for.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dmscope::host::capabilities::SETCAP;
use live::catalogue::CASES;
use live::findings::{frame, missing_operation};
use live::made_up::MadeUpJob;
use live::users::{PublicProgram, as_user};
use live::{Dmscope, FinishedJob, FinishedSession, JobSpec, MpiImplementation, RunningJob, RunningSession};
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Who runs dmscope. Nobody has an account of this number.
const WATCHER: u32 = 64_123;
/// Another user.
const OTHER: u32 = 64_124;
/// Folders of jobs.
const PUBLIC: u32 = 0o755;
const PRIVATE: u32 = 0o700;
/// All that docs/security.md names.
const ALL: [&str; 6] = [
    "CAP_BPF",
    "CAP_PERFMON",
    "CAP_SYS_PTRACE",
    "CAP_DAC_READ_SEARCH",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_SYS_NICE",
];

/// What `setcap` gives a file by the line that dmscope tells.
fn of_file() -> Result<&'static str> {
    SETCAP.split(' ').find(|word| word.ends_with("=ep")).context("a line with capabilities")
}

/// A user who is not root, and a dmscope for this user.
struct Watcher {
    program: PublicProgram,
    /// Of the user's processes; those of the program's file come on top.
    capabilities: Vec<&'static str>,
}

impl Watcher {
    fn with(capabilities: impl IntoIterator<Item = &'static str>) -> Result<Self> {
        let program = PublicProgram::of(&live::binary()?)?;
        Ok(Self { program, capabilities: capabilities.into_iter().collect() })
    }

    fn without(capability: &str) -> Result<Self> {
        let left: Vec<_> = ALL.into_iter().filter(|name| *name != capability).collect();
        ensure!(left.len() + 1 == ALL.len(), "{capability} is none of those that are used");
        Self::with(left)
    }

    fn with_file_capabilities() -> Result<Self> {
        let watcher = Self::with([])?;
        watcher.program.set_capabilities(of_file()?)?;
        Ok(watcher)
    }

    fn spawn(&self, dmscope: Dmscope) -> Result<RunningSession> {
        dmscope.program(self.program.path()).spawn_through(as_user(WATCHER, &self.capabilities))
    }

    fn finish(&self, dmscope: Dmscope) -> Result<FinishedSession> {
        self.spawn(dmscope)?.finish()
    }

    /// A folder that the user may write to.
    fn folder() -> Result<TempDir> {
        let folder = TempDir::new()?;
        chown(folder.path(), Some(WATCHER), Some(WATCHER))?;
        Ok(folder)
    }
}

/// A job with a fault in a messaging library, which moves nothing yet.
fn faulty_job(library: MpiImplementation, owner: u32, folder_mode: u32) -> Result<RunningJob> {
    let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
    let job = JobSpec::own(library, "figure2")?.ranks(ranks).owned_by(owner, folder_mode);
    let job = job.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

fn stop(job: RunningJob) -> Result<FinishedJob> {
    job.stop()?;
    let job = job.finish(TIMEOUT)?;
    job.check_verdict()?;
    Ok(job)
}

/// Watches until a fault is found, then to the end of the job.
fn watch(watcher: &Watcher, job: RunningJob, args: &[&str]) -> Result<(FinishedSession, FinishedJob)> {
    let mut dmscope = watcher.spawn(Dmscope::attach(job.launcher_pid()).args(args.iter().copied()))?;
    dmscope.wait_until_attached()?;
    job.go()?;
    dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
    let job = stop(job)?;
    Ok((dmscope.finish()?, job))
}

/// The same where the fault cannot be found: until there are records of it.
fn watch_in_vain(watcher: &Watcher, job: RunningJob) -> Result<FinishedSession> {
    let mut dmscope = watcher.spawn(Dmscope::attach(job.launcher_pid()))?;
    dmscope.wait_until_attached()?;
    job.go()?;
    dmscope.wait_for(|event| event["event"] == "status" && event["records"].as_u64() > Some(10_000))?;
    stop(job)?;
    dmscope.finish()
}

/// The copy that staged the right data is missing, at the line that the job says.
fn check_fault(session: &FinishedSession, job: &FinishedJob) -> Result<()> {
    let findings = session.findings()?;
    let finding = findings.first_warning()?;
    let who = finding["who"].as_array().context("whose it is")?;
    ensure!(
        !who.is_empty() && who.iter().all(|who| who["rank"].is_u64()),
        "which ranks is not known: {who:?}"
    );
    let missing = missing_operation(finding)?;
    let found = frame(&missing["place"]).context("a place without a line")?;
    let site = job.sites()?.into_iter().find(|site| site.label == "stage").context("no staging copy")?;
    ensure!(found == (&site.function, &site.file, site.line.into()), "{found:?} instead of {site:?}");
    ensure!(session.status == Some(1), "status {:?}", session.status);
    Ok(())
}

/// Everything was seen, and nobody had to be told of anything.
fn check_complete(session: &FinishedSession) -> Result<()> {
    let notices = session.events_of("notice");
    ensure!(notices.is_empty(), "{notices:?}");
    let attached = session.events_of("attached");
    ensure!(attached[0]["failed"] == 0 && attached[0]["notes"] == Value::Array(vec![]), "{attached:?}");
    let report = session.report()?;
    let statistics = &report["statistics"];
    for count in ["lost_movements", "lost_calls", "lost_state", "bad_records"] {
        ensure!(statistics[count] == 0, "{count}: {}", statistics[count]);
    }
    Ok(())
}

/// People were told of a gap, of the capability that would close it, and how to get it; and it counts as one.
fn check_gap(session: &FinishedSession, capability: &str) -> Result<()> {
    let notices = session.events_of("notice");
    let is_told = notices.iter().any(|notice| {
        let message = notice["message"].as_str().unwrap_or_default();
        message.contains("is not seen")
            && message.contains(&missing(capability))
            && message.contains("setcap")
    });
    ensure!(is_told, "nobody was told of {capability}: {notices:?}");
    let lost = &session.report()?["statistics"]["lost_movements"];
    ensure!(lost.as_u64() > Some(0), "the gap does not count");
    ensure!(session.status == Some(3), "status {:?}", session.status);
    Ok(())
}

fn missing(capability: &str) -> String {
    format!("{capability} is missing")
}

fn is_watched_in_full(watcher: &Watcher, owner: u32, folder_mode: u32) -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = faulty_job(library, owner, folder_mode)?;
        let (session, job) = watch(watcher, job, &[])?;
        check_fault(&session, &job).with_context(|| format!("{library:?}"))?;
        check_complete(&session).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

/// A deadlock is told with its ranks and the line of the call that the first of them is in: that takes memory and stacks.
fn deadlock_is_told_in_full(watcher: &Watcher, owner: u32) -> Result<()> {
    let case = CASES.iter().find(|case| case.args.contains(&"pivot_from_below")).context("a deadlock")?;
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, case.job)?.ranks(case.ranks as usize).args(case.args.iter().copied());
        let job = job.owned_by(owner, PRIVATE).held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = watcher.spawn(Dmscope::attach(job.launcher_pid()))?;
        dmscope.wait_until_attached()?;
        job.go()?;
        let finding = dmscope.wait_for_alert(|finding| finding["evidence"]["kind"] == "hang")?;
        dmscope.interrupt();
        let session = dmscope.finish()?;
        ensure!(finding["evidence"]["fault"] == "deadlock", "{finding}");
        let ranks = finding["evidence"]["ranks"].as_array().context("ranks")?;
        let first = ranks.iter().find(|rank| rank["who"]["rank"] == case.at_fault[0]).context("a rank")?;
        let place = frame(&first["call"]["place"]).map(|(_, _, line)| line);
        ensure!(place == case.line()?.map(u64::from), "{first}");
        check_complete(&session).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn a_user_with_all_capabilities_watches_a_job_of_their_own_in_full() -> Result<()> {
    let watcher = Watcher::with(ALL)?;
    is_watched_in_full(&watcher, WATCHER, PRIVATE)?;
    deadlock_is_told_in_full(&watcher, WATCHER)
}

#[test]
fn a_user_with_all_capabilities_watches_another_users_private_job_in_full() -> Result<()> {
    let watcher = Watcher::with(ALL)?;
    is_watched_in_full(&watcher, OTHER, PRIVATE)?;
    deadlock_is_told_in_full(&watcher, OTHER)
}

#[test]
fn a_program_with_file_capabilities_watches_jobs_of_all_users_in_full() -> Result<()> {
    let watcher = Watcher::with_file_capabilities()?;
    is_watched_in_full(&watcher, WATCHER, PRIVATE)?;
    is_watched_in_full(&watcher, OTHER, PRIVATE)?;
    deadlock_is_told_in_full(&watcher, OTHER)?;
    let doctor = watcher.finish(Dmscope::command("doctor", [""; 0]))?;
    ensure!(doctor.status == Some(0), "{:?}", doctor.stdout);
    ensure!(doctor.stdout.iter().all(|line| !line.starts_with("without")), "{:?}", doctor.stdout);
    Ok(())
}

#[test]
fn for_jobs_of_their_own_two_capabilities_are_enough() -> Result<()> {
    let watcher = Watcher::with(["CAP_BPF", "CAP_PERFMON"])?;
    is_watched_in_full(&watcher, WATCHER, PRIVATE)?;
    deadlock_is_told_in_full(&watcher, WATCHER)
}

#[test]
fn with_a_budget_and_a_tape_it_is_the_same_and_the_tape_is_the_users() -> Result<()> {
    let watcher = Watcher::with_file_capabilities()?;
    let folder = Watcher::folder()?;
    let tape = folder.path().join("x.dmt");
    let job = faulty_job(MpiImplementation::OpenMpi, OTHER, PRIVATE)?;
    let args = ["--budget", "90%", "--record", tape.to_str().context("a path")?];
    let (session, job) = watch(&watcher, job, &args)?;
    check_fault(&session, &job)?;
    let metadata = fs::metadata(&tape)?;
    ensure!((metadata.uid(), metadata.mode() & 0o777) == (WATCHER, 0o600), "{metadata:?}");
    let again = watcher.finish(Dmscope::analyze(&tape))?;
    ensure!(again.report_line()? == session.report_line()?, "the tape says something else");
    Ok(())
}

#[test]
fn a_job_that_a_user_starts_is_watched_in_full_and_has_none_of_the_capabilities() -> Result<()> {
    let folder = Watcher::folder()?;
    let said = folder.path().join("said");
    let place = |word: &str| format!("{word}{}", folder.path().display());
    let around = |capabilities: &[&str]| {
        let home = ["env".to_owned(), "-C".to_owned(), place(""), place("HOME="), place("TMPDIR=")];
        [as_user(WATCHER, capabilities), home.into()].concat()
    };
    for watcher in [Watcher::with(ALL)?, Watcher::with_file_capabilities()?] {
        let run = |words: Vec<std::ffi::OsString>| {
            let operands = std::iter::once("--".into()).chain(words);
            let run = Dmscope::command("run", operands).args(["--json", "--budget", "none", "--output"]);
            run.args([&said]).program(watcher.program.path()).spawn_through(around(&watcher.capabilities))
        };
        let shell = ["sh", "-c", "grep ^Cap[PEA] /proc/self/status"].map(std::ffi::OsString::from);
        let session = run(shell.into())?.finish()?;
        let none = ["CapPrm", "CapEff", "CapAmb"].map(|set| format!("{set}:\t0000000000000000"));
        ensure!(session.stdout == none, "{:?}, {:?}", session.stdout, session.stderr);

        let program = live::build::jobs_for(MpiImplementation::OpenMpi)?.join("figure2");
        let program = PublicProgram::of(&program)?;
        let job = JobSpec::installed(MpiImplementation::OpenMpi, program.path()).ranks(4);
        let session = run(job.args(["--iterations", "2000"]).words())?.finish()?;
        ensure!(session.status == Some(1), "{:?}: {:?}", session.status, session.stderr);
        ensure!(session.stdout.iter().any(|line| line.starts_with("ok ")), "{:?}", session.stdout);
        let events = fs::read_to_string(&said)?;
        let report: Value = serde_json::from_str(events.lines().last().context("nothing was said")?)?;
        let first = &report["report"]["findings"][0];
        ensure!(missing_operation(first).is_ok() && first["verdict"] == "violated", "{first}");
    }
    Ok(())
}

#[test]
fn without_a_capability_to_load_programs_it_refuses_and_names_it() -> Result<()> {
    let job = faulty_job(MpiImplementation::OpenMpi, WATCHER, PUBLIC)?;
    for capability in ["CAP_BPF", "CAP_PERFMON"] {
        let watcher = Watcher::without(capability)?;
        let session = watcher.finish(Dmscope::attach(job.launcher_pid()))?;
        session.check_refusal(&[&missing(capability), "setcap"])?;
        let session = watcher.finish(Dmscope::command("run", ["--", "true"]))?;
        session.check_refusal(&[&missing(capability), "setcap"])?;
    }
    job.go()?;
    stop(job).map(drop)
}

#[test]
fn without_cap_sys_ptrace_own_jobs_are_watched_in_full_and_others_refused() -> Result<()> {
    let watcher = Watcher::without("CAP_SYS_PTRACE")?;
    is_watched_in_full(&watcher, WATCHER, PRIVATE)?;
    let job = faulty_job(MpiImplementation::OpenMpi, OTHER, PUBLIC)?;
    for pid in [job.launcher_pid(), job.rank_pids()?[0]] {
        let session = watcher.finish(Dmscope::attach(pid))?;
        session.check_refusal(&[&missing("CAP_SYS_PTRACE"), "another user", "setcap"])?;
    }
    let ps = watcher.finish(Dmscope::command("ps", [""; 0]))?;
    let said = ps.stderr.join("\n");
    ensure!(said.contains(&missing("CAP_SYS_PTRACE")) && said.contains("setcap"), "{said}");
    job.go()?;
    stop(job).map(drop)
}

#[test]
fn without_cap_dac_read_search_another_users_job_is_watched_in_full_if_its_files_are_public() -> Result<()> {
    let watcher = Watcher::without("CAP_DAC_READ_SEARCH")?;
    is_watched_in_full(&watcher, OTHER, PUBLIC)
}

#[test]
fn without_cap_dac_read_search_what_is_in_private_files_is_a_gap_that_is_told() -> Result<()> {
    let watcher = Watcher::without("CAP_DAC_READ_SEARCH")?;
    let session = watch_in_vain(&watcher, faulty_job(MpiImplementation::OpenMpi, OTHER, PRIVATE)?)?;
    check_gap(&session, "CAP_DAC_READ_SEARCH")
}

#[test]
fn without_cap_checkpoint_restore_what_is_in_deleted_files_is_a_gap_that_is_told() -> Result<()> {
    let without = Watcher::without("CAP_CHECKPOINT_RESTORE")?;
    is_watched_in_full(&without, OTHER, PRIVATE)?;
    let job_without_its_library = || -> Result<RunningJob> {
        let job = faulty_job(MpiImplementation::OpenMpi, OTHER, PRIVATE)?;
        fs::remove_file(job.directory().join("libmsg_figure2.so"))?;
        Ok(job)
    };
    let session = watch_in_vain(&without, job_without_its_library()?)?;
    check_gap(&session, "CAP_CHECKPOINT_RESTORE")?;
    let (session, job) = watch(&Watcher::with(ALL)?, job_without_its_library()?, &[])?;
    check_fault(&session, &job)
}

#[test]
fn without_cap_sys_nice_everything_is_seen() -> Result<()> {
    is_watched_in_full(&Watcher::without("CAP_SYS_NICE")?, OTHER, PRIVATE)
}

/// A child that goes on for ever.
struct EndedAtLast(Child);

impl Drop for EndedAtLast {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Root reads it from a file that the kernel refuses to wait for; whoever may not must read the process's memory.
#[test]
fn a_process_whose_environment_can_never_be_read_keeps_nobody_waiting() -> Result<()> {
    let mut hider = Command::new(live::build::jobs_for(MpiImplementation::OpenMpi)?.join("hider"));
    hider.env("FILLED", "x".repeat(64 << 10)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut hider = EndedAtLast(hider.spawn().context("the program that hides")?);
    let mut line = [0; 7];
    hider.0.stdout.take().context("its output")?.read_exact(&mut line).context("it did not hide")?;
    let watcher = Watcher::without("CAP_DAC_READ_SEARCH")?;
    let begin = Instant::now();
    let session = watcher.finish(Dmscope::command("ps", [""; 0]))?;
    ensure!(session.status == Some(0), "{:?}", session.stderr);
    ensure!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let job = faulty_job(MpiImplementation::OpenMpi, OTHER, PUBLIC)?;
    let begin = Instant::now();
    let (session, job) = watch(&watcher, job, &[])?;
    eprintln!(
        "watched for {:?}, attached in {} ms",
        begin.elapsed(),
        session.events_of("attached")[0]["took_ms"]
    );
    check_fault(&session, &job)
}

#[test]
fn doctor_names_the_capability_that_is_missing_and_no_other() -> Result<()> {
    for capability in ALL {
        let doctor = Watcher::without(capability)?.finish(Dmscope::command("doctor", ["--json"]))?;
        let said: Value = serde_json::from_str(&doctor.stdout.join("\n"))?;
        let checks = said["checks"].as_array().context("checks")?;
        let lacking: Vec<&Value> = checks.iter().filter(|check| check["ok"] == false).collect();
        let [what, way] = lacking[..] else { anyhow::bail!("{capability}: {lacking:#?}") };
        let says = |check: &Value, text: &str| check["says"].as_str().is_some_and(|says| says.contains(text));
        ensure!(says(what, &missing(capability)), "{capability}: {what}");
        ensure!(says(way, &missing(capability)) && says(way, "setcap"), "{capability}: {way}");
        let is_needed = ["CAP_BPF", "CAP_PERFMON"].contains(&capability);
        ensure!(what["needed"] == is_needed && way["needed"] == false, "{capability}: {lacking:#?}");
        ensure!(doctor.status == Some(if is_needed { 2 } else { 0 }), "{capability}: {:?}", doctor.status);
    }
    Ok(())
}

#[test]
fn the_documented_capabilities_are_those_that_dmscope_tells_of() -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = fs::read_to_string(page)?;
    let line = format!("\nsetcap {} ", of_file()?);
    ensure!(page.contains(&line), "docs/security.md has another line than {line}");
    for name in ALL {
        ensure!(of_file()?.contains(&name.to_lowercase()), "{name} is not given");
        ensure!(page.contains(&format!("`{name}`")), "docs/security.md says nothing of {name}");
    }
    Ok(())
}

/// A tape that root alone may read.
fn roots_tape(folder: &Path) -> Result<std::path::PathBuf> {
    let tape = folder.join("roots.dmt");
    MadeUpJob::healthy(2).record(&tape)?;
    fs::set_permissions(&tape, fs::Permissions::from_mode(0o600))?;
    Ok(tape)
}

#[test]
fn files_that_a_user_names_are_opened_with_the_users_own_rights() -> Result<()> {
    let folder = TempDir::new()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let tape = roots_tape(folder.path())?;
    let job = faulty_job(MpiImplementation::OpenMpi, WATCHER, PUBLIC)?;
    for watcher in [Watcher::with(ALL)?, Watcher::with_file_capabilities()?] {
        for dmscope in [
            Dmscope::analyze(&tape),
            Dmscope::command("calls", [&tape]),
            Dmscope::attach(job.launcher_pid()).args(["--reference".as_ref(), tape.as_os_str()]),
        ] {
            watcher.finish(dmscope)?.check_refusal(&["Permission denied"])?;
        }
    }
    chown(&tape, Some(WATCHER), Some(WATCHER))?;
    let session = Watcher::with(ALL)?.finish(Dmscope::analyze(&tape))?;
    session.findings()?.check_no_warning()?;
    job.go()?;
    stop(job).map(drop)
}

//! Wrong usage and wrong environments: exit status 2, a message that says what to do, and no panic.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::{Dmscope, JobSpec, MpiImplementation};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_process_that_is_not_there_is_named() -> Result<()> {
    // The largest number that Linux can be told to give, which it never gives by itself.
    Dmscope::attach(4_194_304).finish()?.check_refusal(&["there is no process 4194304"])
}

#[test]
fn a_process_without_mpi_is_said_to_be_one() -> Result<()> {
    let mut child = Command::new("sleep").arg("60").spawn()?;
    let session = Dmscope::attach(child.id()).finish();
    child.kill()?;
    child.wait()?;
    session?.check_refusal(&["not part of an MPI job", "sleep"])
}

#[test]
fn a_process_that_ended_is_not_there() -> Result<()> {
    let mut child = Command::new("true").spawn()?;
    child.wait()?;
    Dmscope::attach(child.id()).finish()?.check_refusal(&["there is no process"])
}

/// A zombie is there, and is nothing any more.
#[test]
fn a_process_that_only_waits_to_be_buried_is_no_job() -> Result<()> {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn()?;
    let stat = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&stat)?.contains(") Z ") {
        std::thread::yield_now();
    }
    let session = Dmscope::attach(child.id()).finish()?;
    child.wait()?;
    session.check_refusal(&[&child.id().to_string()])
}

#[test]
fn no_number_is_no_process() -> Result<()> {
    Dmscope::command("attach", ["job"]).finish()?.check_refusal(&["job", "--help"])?;
    Dmscope::command("attach", ["0"]).finish()?.check_refusal(&["0"])?;
    Dmscope::command("attach", ["-1"]).finish()?.check_refusal(&["-1"])?;
    Dmscope::command("attach", Vec::<String>::new()).finish()?.check_refusal(&["JOB|PID", "--help"])
}

#[test]
fn without_privileges_it_says_which_are_needed() -> Result<()> {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let readable = TempDir::new()?;
    let binary = readable.path().join("dmscope");
    fs::copy(live::binary()?, &binary)?;
    make_readable(readable.path())?;
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.endless().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let run = |arguments: &[&str]| -> Result<(Option<i32>, String)> {
        let mut command = Command::new(nobody[0]);
        command.args(&nobody[1..]).arg(&binary).args(arguments).current_dir("/");
        let output = command.output().context("cannot start setpriv")?;
        Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let pid = job.launcher_pid().to_string();
    for arguments in [&["attach", &*pid][..], &["probes", &pid], &["run", "--", "true"]] {
        let (status, said) = run(arguments)?;
        ensure!(status == Some(2) && said.contains("root"), "{arguments:?}: {status:?}: {said}");
        ensure!(!said.contains("panicked") && said.lines().count() <= 3, "{said}");
    }
    Ok(())
}

fn make_readable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

#[test]
fn a_launcher_without_ranks_says_so() -> Result<()> {
    let directory = TempDir::new()?;
    let launcher = directory.path().join("mpirun");
    fs::copy("/bin/sleep", &launcher)?;
    let mut child = Command::new(&launcher).arg("60").spawn()?;
    let session = Dmscope::attach(child.id()).finish();
    child.kill()?;
    child.wait()?;
    session?.check_refusal(&["no MPI processes"])
}

#[test]
fn a_command_that_does_not_exist_is_named() -> Result<()> {
    let session = Dmscope::command("run", ["--", "/nonexistent/mpirun", "-n", "2"]).finish()?;
    session.check_refusal(&["/nonexistent/mpirun", "No such file"])
}

#[test]
fn a_command_that_may_not_be_run_is_named() -> Result<()> {
    let session = Dmscope::command("run", ["--", "/etc/passwd"]).finish()?;
    session.check_refusal(&["/etc/passwd", "ermission denied"])
}

#[test]
fn a_tape_that_is_none_is_refused() -> Result<()> {
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name);
    fs::write(path("empty"), "")?;
    fs::write(path("foreign"), "#!/bin/sh\nexit 1\n".repeat(100))?;
    for name in ["empty", "foreign", "missing"] {
        Dmscope::analyze(&path(name)).finish()?.check_refusal(&[name])?;
    }
    Dmscope::analyze(directory.path()).finish()?.check_refusal(&["directory"])
}

/// A small tape of a faulty job.
fn tape(directory: &Path) -> Result<Vec<u8>> {
    let path = directory.join("whole.dmt");
    let job =
        JobSpec::own(MpiImplementation::OpenMpi, "figure2")?.args(["--iterations", "4000"]).held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).record(&path).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    dmscope.finish()?;
    Ok(fs::read(path)?)
}

#[test]
fn a_cut_or_damaged_tape_is_read_as_far_as_it_goes_and_said_to_be_one() -> Result<()> {
    let directory = TempDir::new()?;
    let whole = tape(directory.path())?;
    let path = directory.path().join("other.dmt");
    for cut in [whole.len() / 4, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut])?;
        let session = Dmscope::analyze(&path).finish()?;
        // The end is not the last thing on a tape: names follow it.
        let has_end = session.report()?["ended"] != "the tape ends before the session did";
        ensure!(!has_end || cut == whole.len() - 1, "the end of a tape that has none");
        ensure!([Some(0), Some(1), Some(3)].contains(&session.status), "{:?}", session.status);
    }
    for at in [whole.len() / 3, whole.len() / 2] {
        let mut damaged = whole.clone();
        damaged[at..at + 16].fill(0x55);
        fs::write(&path, &damaged)?;
        let session = Dmscope::analyze(&path).finish()?;
        let notices = session.events_of("notice");
        ensure!(!notices.is_empty(), "no word of the damage");
        session.report()?;
    }
    Ok(())
}

#[test]
fn options_that_cannot_be_are_refused_with_what_they_should_be() -> Result<()> {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--ring-size", "64G"], &["--ring-size"]),
        (&["--ring-size", "much"], &["--ring-size", "4M"]),
        (&["--duration", "soon"], &["--duration", "90s"]),
        (&["--ranks", "3-1"], &["--ranks"]),
        (&["--frequency", "150%"], &["--frequency", "10%"]),
        (&["--context-window", "0"], &["--context-window"]),
        (&["--no-such-option"], &["--no-such-option"]),
        (&["--reference", "/nonexistent/good.dmt"], &["/nonexistent/good.dmt"]),
        (&["--record", "/nonexistent/x.dmt"], &["/nonexistent/x.dmt"]),
        (&["--output", "/nonexistent/report"], &["/nonexistent/report"]),
        (&["--library", "["], &["["]),
    ];
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.endless().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    for (options, words) in cases {
        let dmscope = Dmscope::attach(job.launcher_pid()).args(options.iter().copied());
        let session =
            dmscope.args(["--duration", "1s"].iter().copied().filter(|_| !options.contains(&"--duration")));
        session.finish()?.check_refusal(words).with_context(|| format!("{options:?}"))?;
    }
    Ok(())
}

#[test]
fn a_tape_is_not_recorded_over_a_tape_that_is_its_reference() -> Result<()> {
    let directory = TempDir::new()?;
    let whole = tape(directory.path())?;
    let path = directory.path().join("whole.dmt");
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.endless().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let attach = Dmscope::attach(job.launcher_pid()).record(&path).args(["--duration", "1s", "--reference"]);
    attach.args([path.as_os_str()]).finish()?.check_refusal(&["whole.dmt"])?;
    ensure!(fs::read(&path)? == whole, "the reference was written over");
    Ok(())
}

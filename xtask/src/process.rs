//! Running other programs, with errors that name them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::family;

/// The workspace's root folder.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the workspace this was built from")
}

/// Cargo's target folder, as this run of cargo has it.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The cargo that started this program, without what it told this program about its own package: scripts that build crates
/// and look at that would be run again whenever somebody else calls cargo, and all that depends on them built again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if is_of_package(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

fn is_of_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs a command with our own input and output; an exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", describe(command));
    let status = command.status().with_context(|| format!("cannot start {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// Runs a command and returns what it wrote on its standard output, which must be UTF-8.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", describe(command)))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}: {}",
            describe(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("output of {}", describe(command)))
}

/// How a command that was watched came to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// With exit status 0.
    Well,
    /// With another one, or by a signal.
    Badly,
    /// It was ended, since it took too long.
    ForTime,
}

/// How long output may come after the command has ended: from processes that it left behind.
const LATE_OUTPUT: Duration = Duration::from_secs(2);
/// How often it is asked whether the command has ended.
const POLL: Duration = Duration::from_millis(100);

/// Runs a command, shows its standard output as it comes and gives each line to `see`. After `limit` it is ended, with all
/// that it has started; what these processes were at is shown.
pub fn watch(command: &mut Command, limit: Duration, mut see: impl FnMut(&str)) -> Result<Ended> {
    eprintln!("+ {}", describe(command));
    let deadline = Instant::now() + limit;
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    let lines = lines_of(child.stdout.take().context("the child's standard output")?);
    let mut show = |line: String| {
        println!("{line}");
        see(&line);
    };
    let status = loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => show(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
        }
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > deadline {
            eprintln!("xtask: this took more than {} s, and is ended:", limit.as_secs());
            // Parents first: whoever sees its child end may start another.
            family::end(&[&[child.id()], &*family::descendants(child.id())].concat());
            break None;
        }
    };
    while let Ok(line) = lines.recv_timeout(LATE_OUTPUT) {
        show(line);
    }
    Ok(match status {
        Some(status) if status.success() => Ended::Well,
        Some(_) => Ended::Badly,
        None => Ended::ForTime,
    })
}

/// Lines as a thread reads them. It is left alone with an output that is held open.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    fn seen(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let mut lines = Vec::new();
        let ended = watch(&mut shell(script), limit, |line| lines.push(line.to_owned())).unwrap();
        (ended, lines)
    }

    #[test]
    fn all_lines_of_a_command_are_seen_and_how_it_ended() {
        let long = Duration::from_secs(60);
        assert_eq!(seen("echo a; echo b", long), (Ended::Well, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(seen("printf a; exit 3", long), (Ended::Badly, vec!["a".to_owned()]));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
        let began = Instant::now();
        let (ended, lines) =
            seen("sleep 60 & echo $!; trap '' TERM; sleep 60; sleep 60", Duration::from_millis(500));
        assert_eq!(ended, Ended::ForTime);
        assert!(began.elapsed() < Duration::from_secs(20));
        let sleeps: u32 = lines[0].parse().unwrap();
        assert!(!family::is_running(sleeps));
    }

    #[test]
    fn output_that_is_held_open_by_what_a_command_left_behind_is_not_waited_for() {
        let began = Instant::now();
        let (ended, lines) = seen("sleep 30 & echo $!", Duration::from_secs(60));
        assert_eq!(ended, Ended::Well);
        assert!(began.elapsed() < Duration::from_secs(20));
        family::end(&[lines[0].parse().unwrap()]);
    }
}

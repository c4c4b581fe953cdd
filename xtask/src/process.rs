//! Running other programs, with errors that name them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

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

/// The cargo that started this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
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

/// Runs a command, shows its standard output as it comes and gives each line to `see`. True if it ended well.
pub fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    eprintln!("+ {}", describe(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", describe(command)))?;
    let stdout = child.stdout.take().context("the child's standard output")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("reading a child's output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    Ok(child.wait()?.success())
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

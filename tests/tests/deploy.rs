//! The files in `deploy/` are such as those for whom they are made take them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name)
}

/// Runs a command that looks at a file and says what is wrong with it.
fn check(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
    Ok(())
}

#[test]
fn systemd_takes_the_unit_of_the_agent() -> Result<()> {
    let folder = TempDir::new()?;
    let unit = std::fs::read_to_string(shipped("dmscope-agent.service"))?;
    // It need not be installed here.
    let installed = "/usr/local/bin/dmscope";
    ensure!(unit.contains(installed), "{unit}");
    let path = folder.path().join("dmscope-agent.service");
    std::fs::write(&path, unit.replace(installed, &live::binary()?.to_string_lossy()))?;
    let mut verify = Command::new("systemd-analyze");
    let output = verify.args(["--man=no", "verify"]).arg(&path).output().context("package systemd")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("dmscope")).collect();
    ensure!(output.status.success() && about_it.is_empty(), "{said}");
    Ok(())
}

#[test]
fn a_server_takes_the_set_up_of_the_bus() -> Result<()> {
    check(Command::new("nats-server").arg("-t").arg("-c").arg(shipped("nats-server.conf")))
}

#[test]
fn a_shell_takes_the_prolog() -> Result<()> {
    check(Command::new("sh").arg("-n").arg(shipped("slurm-prolog.sh")))
}

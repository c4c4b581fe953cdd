//! What `dmscope export` writes, as the tools read it that it is written for.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::session::binary;

/// Runs `dmscope export`, whatever comes of it.
///
/// # Errors
/// It cannot be started.
pub fn try_export(tapes: &[PathBuf], format: &str, output: &Path, options: &[&str]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(["export", "--to", format, "--output"]).arg(output).args(options).args(tapes);
    command.output().context("cannot start dmscope")
}

/// Exports tapes of a job into a folder.
///
/// # Errors
/// It failed.
pub fn export(tapes: &[PathBuf], format: &str, folder: &Path) -> Result<PathBuf> {
    export_with(tapes, format, folder, &[])
}

/// The same with more options.
///
/// # Errors
/// It failed.
pub fn export_with(tapes: &[PathBuf], format: &str, folder: &Path, options: &[&str]) -> Result<PathBuf> {
    let output = folder.join(format!("exported{}.{format}", options.concat()));
    let exported = try_export(tapes, format, &output, options)?;
    ensure!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    Ok(output)
}

fn python<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let interpreter = root.join("target/python/bin/python");
    ensure!(interpreter.exists(), "packages of Python are missing: run `cargo xtask setup`");
    let mut command = Command::new(interpreter);
    command.arg(root.join("tests/python/read_exports.py")).args(arguments);
    let output = command.output().context("cannot start Python")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("no JSON")
}

/// Answers of DuckDB to queries in which `{calls}` stands for the table of calls and so on: the rows of each.
///
/// # Errors
/// A query is wrong, or a table cannot be read.
pub fn query(folder: &Path, queries: &[&str]) -> Result<Value> {
    let folder = folder.to_string_lossy();
    python(["tables", folder.as_ref()].into_iter().chain(queries.iter().copied()))
}

/// What Perfetto's own classes find in a file.
///
/// # Errors
/// They find something that is not as it should be.
pub fn perfetto(path: &Path) -> Result<Value> {
    python([OsStr::new("perfetto"), path.as_os_str()])
}

/// How many events of each sort otf2-print finds in an archive; and what it complains about.
///
/// # Errors
/// It cannot read the archive.
pub fn archive_events(folder: &Path) -> Result<(BTreeMap<String, u64>, String)> {
    let output = Command::new("otf2-print").arg(folder.join("traces.otf2")).output();
    let output = output.context("cannot start otf2-print")?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "otf2-print: {complaints}");
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name: String = line.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        *events.entry(name).or_default() += 1;
    }
    Ok((events, complaints))
}

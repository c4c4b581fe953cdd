//! The `dmscope` that is tested.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

/// The binary under test: `$DMSCOPE`, or the release build of this workspace, built if that is needed.
pub fn binary() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("DMSCOPE") {
        return Ok(given.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let mut command = Command::new(cargo);
    // With the features that the whole workspace needs: else it would be built once more.
    command.args(["build", "--quiet", "--release", "--workspace", "--bin", "dmscope", "--manifest-path"]);
    command.arg(manifest);
    // What cargo tells a test about itself: scripts that build crates and look at these would be run again, and all that
    // depends on them built again, in each test and after it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    let output = command.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "dmscope cannot be built:\n{}", String::from_utf8_lossy(&output.stderr));
    // TARGET/release/deps/TEST, or TARGET/release/PROGRAM
    let own = std::env::current_exe().context("where is this program?")?;
    let folders = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    Ok(folders.context("a program outside of a target folder")?.with_file_name("release").join("dmscope"))
}

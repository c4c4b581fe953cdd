//! Where the project's own jobs are, and their building.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

use super::MpiImplementation;

/// Folder of the jobs' sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs")
}

/// Folder of the programs and libraries built for one MPI library; built if that is needed, once per process.
pub fn jobs_for(library: MpiImplementation) -> Result<PathBuf> {
    static BUILT: OnceLock<Result<(), String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    built.clone().map_err(|error| anyhow!(error))?;
    Ok(out_root().join(library.name()))
}

fn out_root() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    workspace.join(target).join("jobs")
}

fn make() -> Result<()> {
    let out_root = out_root();
    std::fs::create_dir_all(&out_root).with_context(|| format!("cannot make {}", out_root.display()))?;
    // Test programs may run side by side; make knows nothing of other makes.
    let lock = File::create(out_root.join("lock")).context("cannot make the lock of the jobs' build")?;
    lock.lock().context("cannot take the lock of the jobs' build")?;
    let mut command = Command::new("make");
    command.arg("-C").arg(sources()).arg(format!("OUT_ROOT={}", out_root.display()));
    let output = command.output().context("cannot start make; `cargo xtask setup` installs it")?;
    if !output.status.success() {
        bail!("building the test jobs failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

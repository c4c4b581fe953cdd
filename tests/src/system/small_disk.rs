//! A file system that is soon full.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A file system in memory, unmounted when dropped.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one of so many KiB. Needs root.
    pub fn mount(kib: u32) -> Result<Self> {
        let directory = TempDir::with_prefix("small-disk-").context("cannot make a place to mount at")?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "dmscope-test"]).arg(directory.path());
        let output = command.output().context("cannot start mount")?;
        ensure!(output.status.success(), "cannot mount: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self(directory))
    }

    /// The folder that it is mounted at.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a tracer that hangs with its tape open must not keep the mount.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

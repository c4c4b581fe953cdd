//! `cargo xtask jobs`: builds the test jobs for both MPI libraries.

use std::process::Command;

use anyhow::Result;

use crate::process::{root, run, target_dir};

/// Builds `tests/jobs` into `target/jobs/openmpi` and `target/jobs/mpich`.
pub fn build() -> Result<()> {
    let mut make = Command::new("make");
    make.arg("--no-print-directory").arg("-C").arg(root().join("tests/jobs"));
    make.arg(format!("OUT_ROOT={}", target_dir().join("jobs").display()));
    run(&mut make)
}

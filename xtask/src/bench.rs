//! `cargo xtask bench`: installs what is compared, builds everything, and measures.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::process::{cargo, run, target_dir};
use crate::{jobs, packages, setup};

/// Measures; `arguments` are those of `dmscope-bench`. Exit status 1: a gross regression.
pub fn measure(arguments: &[&str]) -> Result<ExitCode> {
    if setup::run()? != ExitCode::SUCCESS {
        return Ok(ExitCode::from(crate::USAGE_OR_ENVIRONMENT));
    }
    // A tool that is missing is missing in the tables, which say so. Quick runs use what is there.
    if !arguments.contains(&"--quick") {
        for tool in packages::PEERS.chunks(1) {
            if !matches!(setup::install(tool), Ok(ExitCode::SUCCESS)) {
                eprintln!("bench: going on without {}", tool[0].name);
            }
        }
    }
    run(cargo().args(["build", "--release", "--package", "dmscope", "--package", "dmscope-bench"]))?;
    jobs::build()?;
    let status = Command::new(target_dir().join("release/dmscope-bench"))
        .args(arguments)
        .env("DMSCOPE", target_dir().join("release/dmscope"))
        .status()
        .context("cannot start dmscope-bench")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

//! Packages of Python that tests read exports with: an environment of the project's own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{root, run};

/// Installs what `tests/python/requirements.txt` names into `target/python`, unless it is there.
pub fn install() -> Result<()> {
    let wanted_path = root().join("tests/python/requirements.txt");
    let wanted = std::fs::read_to_string(&wanted_path)
        .with_context(|| format!("cannot read {}", wanted_path.display()))?;
    let environment = root().join("target/python");
    let installed = environment.join("installed.txt");
    if is_installed(&installed, &wanted) {
        return Ok(());
    }
    eprintln!("setup: packages of Python for tests");
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let pip = ["install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(environment.join("bin/pip")).args(pip).arg(&wanted_path))?;
    std::fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
}

/// Written last: what is there is whole.
fn is_installed(installed: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(installed).is_ok_and(|text| text == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_installed_anew() {
        let installed = std::env::temp_dir().join(format!("dmscope-python-{}", std::process::id()));
        assert!(!is_installed(&installed, "duckdb==2.0.0"));
        std::fs::write(&installed, "duckdb==2.0.0").unwrap();
        assert!(is_installed(&installed, "duckdb==2.0.0") && !is_installed(&installed, "duckdb==2.0.1"));
        std::fs::remove_file(&installed).unwrap();
    }
}

//! Users without an account, and the capabilities that programs of theirs have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Words before a command that has it run as a user with these capabilities (`CAP_BPF`) and no others.
pub fn as_user(uid: u32, capabilities: &[&str]) -> Vec<String> {
    let named = capabilities.iter().map(|name| format!(",+{}", short_name(name)));
    let only = format!("-all{}", named.collect::<String>());
    vec![
        "setpriv".into(),
        format!("--reuid={uid}"),
        format!("--regid={uid}"),
        "--clear-groups".into(),
        format!("--inh-caps={only}"),
        format!("--ambient-caps={only}"),
    ]
}

fn short_name(capability: &str) -> String {
    capability.trim_start_matches("CAP_").to_lowercase()
}

/// Copies a program, and the libraries beside it.
pub(crate) fn copy_program(program: &Path, directory: &Path) -> Result<()> {
    let folder = program.parent().context("a program without a folder")?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path == program || path.extension().is_some_and(|extension| extension == "so") {
            let name = path.file_name().context("a file without a name")?;
            fs::copy(&path, directory.join(name)).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// A copy of a program, and of the libraries beside it, where everybody may run it.
pub struct PublicProgram {
    _folder: TempDir,
    path: PathBuf,
}

impl PublicProgram {
    /// Copies it.
    pub fn of(program: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix("public-").context("cannot make a folder for a program")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        copy_program(program, folder.path())?;
        let path = folder.path().join(program.file_name().context("a program without a name")?);
        Ok(Self { _folder: folder, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file capabilities (`cap_bpf,cap_perfmon=ep`).
    pub fn set_capabilities(&self, text: &str) -> Result<()> {
        let output = Command::new("setcap").arg(text).arg(&self.path).output();
        let output = output.context("cannot start setcap; `cargo xtask setup` installs it")?;
        ensure!(output.status.success(), "setcap {text}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

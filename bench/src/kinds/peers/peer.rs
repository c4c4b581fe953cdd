//! The tools, how each is put to work, and whether it is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::alongside::{FUNCTIONS, Tool, mount_tracefs};
use crate::options::BenchOptions;

/// How a tool is put to work.
pub(super) enum Way {
    /// dmscope attaches, with everything on.
    Dmscope,
    /// It attaches to the ranks.
    Alongside(Tool),
    /// It starts the ranks.
    Through(Vec<String>),
}

/// A tool that does something like dmscope.
pub(super) struct PeerTool {
    pub name: &'static str,
    /// What it records, in words.
    pub does: &'static str,
    /// A program without which it is not there.
    pub needs: &'static str,
    pub way: Way,
    /// So slow that only the smallest jobs are run.
    pub is_slow: bool,
}

/// Where tools that are told to may write.
pub(super) struct Folders {
    all: TempDir,
}

impl Folders {
    /// An empty folder for the folders of all tools.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { all: TempDir::with_prefix("bench-")? })
    }

    /// The folder of a tool, made if that is needed.
    pub(super) fn of(&self, name: &str) -> Result<PathBuf> {
        let folder = self.all.path().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Throws away what tools wrote there: a second trace beside the first is an error to some.
    pub(super) fn empty(&self, name: &str) -> Result<()> {
        fs::remove_dir_all(self.of(name)?)?;
        self.of(name).map(|_| ())
    }

    /// Path of a tool's folder, for command lines.
    pub(super) fn text(&self, name: &str) -> Result<String> {
        Ok(self.of(name)?.display().to_string())
    }
}

/// All tools, dmscope first.
pub(super) fn peers(folders: &Folders) -> Result<Vec<PeerTool>> {
    let through = |words: &[&str]| Way::Through(words.iter().map(|&word| word.to_owned()).collect());
    let logger = format!("LD_PRELOAD={}/logger.so", folders.text("logger")?);
    let logs = format!("PMPI_LOGGER_FOLDER={}", folders.text("logger")?);
    // Ranks must not share a folder; the program and its arguments come as the shell's own.
    let uftrace = format!(
        "exec uftrace record --force --no-pager -d {}/$OMPI_COMM_WORLD_RANK \"$@\"",
        folders.text("uftrace")?
    );
    let calls = FUNCTIONS.join("+");
    let peer = |name, does, needs, way| PeerTool { name, does, needs, way, is_slow: false };
    Ok(vec![
        peer("dmscope", "every copy, call and allocation, analysed and recorded", "true", Way::Dmscope),
        peer(
            "PMPI logger (ours, C, preloaded)",
            "a record for each of 12 MPI calls",
            "mpicc.openmpi",
            through(&["env", &logs, &logger]),
        ),
        peer(
            "EZTrace (preloaded, OTF2)",
            "all MPI calls, entry and return",
            "eztrace",
            through(&["eztrace", "-t", "openmpi", "-o", &folders.text("eztrace")?]),
        ),
        peer(
            "bpftrace",
            "a line for each of the same 12 MPI calls, at the entry",
            "bpftrace",
            Way::Alongside(Tool::Bpftrace),
        ),
        peer(
            "perf, uprobes",
            "an event for each of the same 12 MPI calls, at the entry",
            "perf",
            Way::Alongside(Tool::Perf),
        ),
        peer(
            "uftrace",
            "all functions of the program and its calls of libraries",
            "uftrace",
            through(&["sh", "-c", &uftrace, "sh"]),
        ),
        PeerTool {
            is_slow: true,
            ..peer(
                "ltrace",
                "counts the same 12 MPI calls",
                "ltrace",
                through(&["ltrace", "-c", "-o", "/dev/null", "-e", &calls]),
            )
        },
        PeerTool {
            is_slow: true,
            ..peer(
                "valgrind --tool=none",
                "nothing: dynamic translation alone, as Pin needs it",
                "valgrind",
                through(&["valgrind", "--tool=none", "-q"]),
            )
        },
    ])
}

/// Fails with the reason if a tool cannot be used here.
pub(super) fn why_not(peer: &PeerTool, options: BenchOptions, folders: &Folders) -> Result<(), String> {
    if options.quick && peer.is_slow {
        return Err("not in a quick run".into());
    }
    if !is_installed(peer.needs) {
        return Err(format!("{} is not installed", peer.needs));
    }
    let prepared = match &peer.way {
        Way::Alongside(_) => mount_tracefs(),
        Way::Through(_) if peer.needs == "mpicc.openmpi" => {
            folders.of("logger").and_then(|to| build_logger(&to))
        }
        _ => Ok(()),
    };
    prepared.map_err(|error| format!("{error:#}"))
}

/// Whether a program is in one of the folders of `$PATH`.
pub(super) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

fn build_logger(folder: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/c/pmpi_logger.c");
    let output = Command::new("mpicc.openmpi")
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&folder.join("logger.so"), &source])
        .output()?;
    ensure!(
        output.status.success(),
        "the logger cannot be built: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

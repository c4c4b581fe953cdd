//! A node that the job was not started on: its first process has dmscope share a folder there too.

use std::fs::{DirBuilder, read_to_string};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The variable that dmscope sets where ranks may be on other nodes: where it is reached, and behind `;` its program.
const VARIABLE: &str = "DMSCOPE_NODES";
/// dmscope's file that says that the folder is as it should be; or why it is not.
const READY: &str = "ready";
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(150);
const PERIOD: Duration = Duration::from_millis(2);

/// Sees to it that the folder is there, with what the head has put into it.
///
/// # Errors
/// Why this node cannot take part.
pub(crate) fn join(folder: &Path) -> Result<(), String> {
    let Ok(variable) = std::env::var(VARIABLE) else { return Ok(()) };
    let program = variable.split_once(';').map(|(_, program)| program).unwrap_or_default();
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => share(Path::new(program), folder).map_err(|error| format!("{program}: {error}"))?,
        // The head's own, or another process of this node was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("{}: {error}", folder.display())),
    }
    wait_until_ready(folder)
}

fn share(program: &Path, folder: &Path) -> io::Result<()> {
    let mut command = Command::new(program);
    command.arg("share-ranks").arg(folder).env_remove("LD_PRELOAD").env_remove("DMSCOPE_REPLAY");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // Whether it went well is in the folder. The program may have it that no child is waited for.
        Ok(mut child) => _ = child.wait(),
        Err(error) => {
            // For the other processes of this node.
            let _ = std::fs::write(folder.join(READY), format!("{}: {error}", program.display()));
            return Err(error);
        }
    }
    Ok(())
}

fn wait_until_ready(folder: &Path) -> Result<(), String> {
    // Clocks are not asked: readings may be recorded.
    let mut waited = Duration::ZERO;
    loop {
        match read_to_string(folder.join(READY)) {
            Ok(why) if why.is_empty() => return Ok(()),
            Ok(why) => return Err(why),
            Err(_) if waited < PATIENCE => sleep(PERIOD),
            Err(error) => return Err(format!("{}: {error}", folder.display())),
        }
        waited += PERIOD;
    }
}

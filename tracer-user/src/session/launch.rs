//! Starts a job so that it is watched from its first instruction: the child waits before it
//! runs the command until told to go.

use std::fs::File;
use std::io::{Error, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    clear_ambient_capability_set, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::host::own_settings::OwnSettings;
use crate::host::sudo::{Account, SUDO_VARIABLES};

/// A child that has not yet begun.
pub struct LaunchWait {
    /// Its process id; the command will keep it.
    pub pid: u32,
    go: File,
    spawning: JoinHandle<std::io::Result<Child>>,
}

/// Makes a child for the command and keeps it waiting. `account`: whose it is, if not ours; `before`: how this process was
/// itself.
///
/// # Errors
/// No process to be had. That the command cannot be run is known only after [`LaunchWait::go`].
pub fn launch(
    command: &[String],
    account: Option<&Account>,
    before: OwnSettings,
) -> std::io::Result<LaunchWait> {
    let (program, arguments) = command.split_first().ok_or_else(|| Error::other("no command"))?;
    let (mut pid_reader, pid_writer) = pipe()?;
    let (go_reader, go) = pipe()?;
    let mut child = Command::new(program);
    child.args(arguments);
    if let Some(account) = account {
        give_to(&mut child, account);
    }
    let is_root = rustix::process::geteuid().is_root();
    // SAFETY: between fork and exec the closure only makes the system calls getpid, write and
    // read on descriptors it owns, prctl, personality and setrlimit, all async-signal-safe, and allocates nothing.
    unsafe {
        child.pre_exec(move || {
            wait_for_go(&pid_writer, &go_reader)?;
            // Capabilities that were given to dmscope are not the job's. A kernel that refuses gave none on.
            let _ = if is_root { Ok(()) } else { clear_ambient_capability_set() };
            before.restore()
        });
    }
    // `spawn` returns only when the command runs, so it waits in a thread of its own.
    let spawning = std::thread::Builder::new().name("dms-launch".into()).spawn(move || child.spawn())?;
    let mut pid = [0; 4];
    if pid_reader.read_exact(&mut pid).is_err() {
        return Err(match spawning.join() {
            Ok(Err(error)) => error,
            _ => Error::other("the child ended before it began"),
        });
    }
    let pid = u32::from_ne_bytes(pid);
    before.restore_for_child(pid);
    Ok(LaunchWait { pid, go, spawning })
}

/// The command belongs to somebody else; done before it waits, so that nothing of ours is left when it runs.
fn give_to(child: &mut Command, account: &Account) {
    child.envs(account.variables.iter().map(|(name, value)| (name, value)));
    SUDO_VARIABLES.iter().for_each(|name| {
        child.env_remove(name);
    });
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    // SAFETY: between fork and exec the closure only makes the system calls setgroups, setresgid and setresuid, on values
    // that were made before, and allocates nothing. The child has but one thread.
    unsafe {
        child.pre_exec(move || {
            set_thread_groups(&groups)?;
            set_thread_res_gid(gid, gid, gid)?;
            set_thread_res_uid(uid, uid, uid)?;
            Ok(())
        });
    }
}

impl LaunchWait {
    /// Lets the command run.
    ///
    /// # Errors
    /// The command cannot be run.
    pub fn go(mut self) -> std::io::Result<Child> {
        self.go.write_all(&[1])?;
        self.spawning.join().map_err(|_| Error::other("the launching thread ended"))?
    }
}

fn pipe() -> std::io::Result<(File, File)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((File::from(reader), File::from(writer)))
}

fn wait_for_go(mut pid_writer: &File, mut go_reader: &File) -> std::io::Result<()> {
    pid_writer.write_all(&std::process::id().to_ne_bytes())?;
    let mut go = [0];
    // Without a word (the tracer died), nothing is run.
    go_reader.read_exact(&mut go)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(command: &[String], account: Option<&Account>) -> std::io::Result<LaunchWait> {
        super::launch(command, account, OwnSettings::change().expect("enough for tests"))
    }

    #[test]
    fn a_command_runs_only_after_go_and_keeps_its_pid() {
        let dir = std::env::temp_dir().join(format!("dmscope-launch-{}", std::process::id()));
        let mark = dir.to_str().expect("a path of ours").to_owned();
        let waiting = launch(&["sh".into(), "-c".into(), format!("echo $$ > {mark}")], None)
            .expect("a child can be made");
        let pid = waiting.pid;
        assert!(!dir.exists());
        let status = waiting.go().expect("sh runs").wait().expect("sh ends");
        assert!(status.success());
        assert_eq!(std::fs::read_to_string(&dir).expect("written").trim(), pid.to_string());
        std::fs::remove_file(&dir).expect("ours");
    }

    #[test]
    fn a_command_that_does_not_exist_is_an_error_at_go() {
        let waiting = launch(&["/nonexistent/command".into()], None).expect("a child can be made");
        let error = waiting.go().expect_err("it cannot run");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    #[ignore = "needs root"]
    fn a_command_of_another_user_has_nothing_of_ours() {
        let account =
            Account { uid: 65_534, gid: 65_533, groups: vec![7, 8], variables: vec![("USER", "x".into())] };
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("ours");
        let said = folder.path().join("said");
        let script =
            format!("(id -u; id -g; id -G; echo $USER; grep CapEff /proc/self/status) > {}", said.display());
        let waiting =
            launch(&["sh".into(), "-c".into(), script], Some(&account)).expect("a child can be made");
        assert!(waiting.go().expect("sh runs").wait().expect("sh ends").success());
        let said = std::fs::read_to_string(said).expect("written");
        assert_eq!(said, "65534\n65533\n65533 7 8\nx\nCapEff:\t0000000000000000\n");
    }
}

//! Looking at processes through `/proc`. A process that is gone while we look is simply not there.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::deadline;

/// Process ids of all descendants of a process, parents before children.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let parents = parents_of_all();
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Value of a variable in a process's environment, as it was at its start.
pub fn environment_variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables =
        environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    variables.find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Processes that have a variable in their environment.
pub fn with_variable(name: &str) -> Vec<u32> {
    parents_of_all().keys().copied().filter(|pid| environment_variable(*pid, name).is_some()).collect()
}

/// True if the process is there and has not ended.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The name of a process, as the kernel has it.
pub fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Open MPI's launcher among these processes, if all that it has started has ended and it has not asked how. Where a job aborts it waits for
/// itself now and then, in `PMIx_server_finalize`: in one of 30 to 60 runs with nothing around it.
pub fn stuck_launcher(of: &[u32]) -> Option<u32> {
    of.iter().copied().find(|launcher| {
        let mut children = of.iter().filter(|pid| parent(**pid) == Some(*launcher)).peekable();
        let is_launcher = name(*launcher).is_some_and(|name| name.starts_with("mpirun"));
        is_launcher && children.peek().is_some() && children.all(|pid| !is_alive(*pid))
    })
}

/// Sends a signal; a process that is gone already gets none.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // That it is gone already is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

/// Processes of a job that hangs: ended when this is dropped, whatever has become of the test.
pub struct HungJob(Vec<u32>);

impl HungJob {
    /// All that a process has started so far.
    pub fn started_by(pid: u32) -> Self {
        Self(descendants(pid))
    }
}

impl Drop for HungJob {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| signal(*pid, Signal::KILL));
    }
}

/// The kernel takes breakpoints out a little after their last user is gone.
const GRACE: Duration = Duration::from_secs(5);

/// Fails if the code of a process is not what is in the files it comes from: a breakpoint was left in it. Looks at files in
/// one folder only, since others may watch the libraries that all programs share.
pub fn check_code(pid: u32, folder: &Path) -> Result<()> {
    let deadline = deadline(GRACE);
    while let Err(error) = changed_code(pid, folder).and_then(|changed| changed.check()) {
        if Instant::now() > deadline {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Where the code of a process is not what is in the files it comes from. MPI libraries change code of the C library too.
#[derive(Debug, Default)]
pub struct ChangedCode {
    pid: u32,
    /// The bytes in memory, by file and place in it.
    bytes: BTreeMap<(PathBuf, u64), u8>,
}

impl ChangedCode {
    /// What was not so before.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.bytes.retain(|place, byte| before.bytes.get(place) != Some(byte));
        self
    }

    /// Fails if there is any.
    pub fn check(&self) -> Result<()> {
        let Some(((path, offset), byte)) = self.bytes.first_key_value() else { return Ok(()) };
        bail!("{}+{offset:#x} is changed in process {}: {byte:#x}", path.display(), self.pid)
    }
}

/// What is changed now in the code of a process that comes from files in a folder.
pub fn changed_code(pid: u32, folder: &Path) -> Result<ChangedCode> {
    let folder = &fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("reading a process's mappings")?;
    let memory = File::open(format!("/proc/{pid}/mem")).context("opening a process's memory")?;
    let code: Vec<_> = maps.lines().filter_map(code_mapping).collect();
    let code: Vec<_> = code.iter().filter(|(path, ..)| path.starts_with(folder)).collect();
    ensure!(!code.is_empty(), "process {pid} has no code in {}", folder.display());
    let mut changed = ChangedCode { pid, ..ChangedCode::default() };
    for &&(path, start, bytes, offset) in &code {
        let (mut mapped, mut filed) = (vec![0; bytes], vec![0; bytes]);
        memory.read_exact_at(&mut mapped, start).context("reading a process's memory")?;
        // The last page goes on behind the end of the file.
        let bytes =
            File::open(path).and_then(|file| file.read_at(&mut filed, offset)).context("reading a file")?;
        let pairs = (offset..).zip(mapped[..bytes].iter().zip(&filed));
        let differing = pairs.filter(|(_, (mapped, filed))| mapped != filed);
        changed.bytes.extend(differing.map(|(at, (byte, _))| ((path.to_owned(), at), *byte)));
    }
    Ok(changed)
}

/// Path, first address, length and offset in the file, of a line of `/proc/PID/maps` that is a file's code.
fn code_mapping(line: &str) -> Option<(&Path, u64, usize, u64)> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()?.contains('x');
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end, offset) = (number(start)?, number(end)?, number(fields.next()?)?);
    let path = fields.nth(2).filter(|path| path.starts_with('/') && is_code)?;
    Some((Path::new(path), start, usize::try_from(end - start).ok()?, offset))
}

fn parents_of_all() -> HashMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// State and parent from `/proc/PID/stat`, whose second field is a name that may hold anything.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_is_found_with_its_environment_until_it_has_ended() {
        let mut child = Command::new("cat")
            .env("LIVE_TEST", "here")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(descendants(std::process::id()).contains(&pid));
        // Right after the fork the child still has our environment.
        while environment_variable(pid, "LIVE_TEST").is_none() {
            std::thread::yield_now();
        }
        assert_eq!(environment_variable(pid, "LIVE_TEST").as_deref(), Some("here"));
        assert!(is_alive(pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }
}

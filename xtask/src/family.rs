//! Processes that tests have started: none may be left when they are over.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};

/// A killed process is gone by then, unless the kernel holds it.
const GRACE: Duration = Duration::from_secs(10);

/// From now on, processes whose parent has ended become children of this one, and can be found.
pub fn adopt() {
    // Refused by kernels before 3.4 only: what is left behind is not found there.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends what is left of all that this process has started, and says what it was. Nothing of it may run on purpose.
pub fn end_what_is_left() {
    reap();
    let left: Vec<u32> = descendants(std::process::id()).into_iter().filter(|pid| is_running(*pid)).collect();
    if left.is_empty() {
        return;
    }
    eprintln!("xtask: processes are left behind, and are ended:");
    end(&left);
    reap();
}

/// Takes the exit status of processes that were adopted.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Says what processes are at, and kills them.
pub fn end(pids: &[u32]) {
    for pid in pids {
        eprintln!("  {pid}: {}", describe(*pid));
    }
    for pid in pids.iter().filter_map(|pid| Pid::from_raw((*pid).try_into().ok()?)) {
        // That it is gone already is what was wanted.
        let _ = kill_process(pid, Signal::KILL);
    }
    let deadline = Instant::now() + GRACE;
    while pids.iter().any(|pid| is_running(*pid)) {
        if Instant::now() > deadline {
            eprintln!("xtask: some of them cannot be killed");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Process ids of all descendants of a process, parents before children.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: HashMap<u32, u32> = pids.filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// True if the process is there and has not ended.
pub fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// State, command line and where each thread waits in the kernel.
fn describe(pid: u32) -> String {
    let state = stat(pid).map_or('?', |(state, _)| state);
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let waits: Vec<String> =
        tasks.filter_map(|task| fs::read_to_string(task.path().join("wchan")).ok()).collect();
    format!("{state} {} [{}]", words.trim_end(), waits.join(" "))
}

/// State and parent from `/proc/PID/stat`, whose second field is a name that may hold anything.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

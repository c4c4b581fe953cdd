//! Looking at processes through `/proc`. A process that is gone while we look is simply not there.

use std::collections::HashMap;
use std::fs;

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

/// True if the process is there and has not ended.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
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

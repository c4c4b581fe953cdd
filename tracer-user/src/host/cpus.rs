//! Processors that a job leaves free.

use std::collections::BTreeSet;

/// Reads a list as the kernel writes it: `0-3,8,10-11`. Ranges that are none are left out.
pub fn parse_list(text: &str) -> BTreeSet<u32> {
    const MOST: u32 = 1 << 16;
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(MOST));
        }
    }
    cpus
}

/// Writes a list as the kernel does.
pub fn format_list(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let parts: Vec<String> = ranges
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    parts.join(",")
}

/// Processors that are on line, that the tracer may use (its own affinity, its cpuset), and
/// that no thread of the job may run on. Empty: there are none to spare.
pub fn spare(online: &BTreeSet<u32>, allowed: &BTreeSet<u32>, job: &BTreeSet<u32>) -> BTreeSet<u32> {
    online.iter().filter(|cpu| allowed.contains(cpu) && !job.contains(cpu)).copied().collect()
}

/// Processors that are on line now; empty if the kernel does not say.
pub fn online() -> BTreeSet<u32> {
    std::fs::read_to_string("/sys/devices/system/cpu/online").map(|t| parse_list(&t)).unwrap_or_default()
}

/// Processors that any thread of a process may run on.
pub fn of_process(pid: u32) -> BTreeSet<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return BTreeSet::new() };
    let mut cpus = BTreeSet::new();
    for task in tasks.flatten() {
        // The name of a thread may be no text.
        let status = std::fs::read(task.path().join("status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        cpus.extend(list.map(parse_list).unwrap_or_default());
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,5,7-8\n").into_iter().collect::<Vec<_>>(), [0, 1, 2, 5, 7, 8]);
        assert_eq!(format_list(&parse_list("0-2,5,7-8")), "0-2,5,7-8");
        assert!(parse_list("").is_empty());
        assert!(parse_list("x-3,4-").is_empty());
    }

    #[test]
    fn spare_processors_are_allowed_on_line_and_not_the_jobs() {
        let spare = spare(&parse_list("0-7"), &parse_list("2-9"), &parse_list("0-3,6"));
        assert_eq!(format_list(&spare), "4-5,7");
    }

    #[test]
    fn a_job_that_may_run_everywhere_spares_nothing() {
        assert!(spare(&parse_list("0-7"), &parse_list("0-7"), &parse_list("0-7")).is_empty());
    }
}

//! What a process holds in the kernel, and whether it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use libbpf_rs::libbpf_sys::{bpf_link_get_next_id, bpf_map_get_next_id, bpf_prog_get_next_id};

use super::deadline;

/// The kernel frees what it has after its last user is gone: maps that are in other maps only after all programs that may look have
/// ended, which another session that begins or ends holds up for seconds.
const GRACE: Duration = Duration::from_secs(30);

/// BPF programs, maps and links by the kernel's numbers for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldObjects {
    programs: BTreeSet<u32>,
    maps: BTreeSet<u32>,
    links: BTreeSet<u32>,
}

impl HeldObjects {
    /// Without programs and maps nothing is traced.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty() || self.maps.is_empty()
    }

    /// What another process holds besides.
    pub(crate) fn extend(&mut self, other: Self) {
        self.programs.extend(other.programs);
        self.maps.extend(other.maps);
        self.links.extend(other.links);
    }

    /// Fails if one of them is still there some time later: numbers are not used again.
    pub(crate) fn check_gone(&self) -> Result<()> {
        let deadline = deadline(GRACE);
        loop {
            let left = self.left();
            if [&left.programs, &left.maps, &left.links].iter().all(|left| left.is_empty()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("what a dmscope that has ended had in the kernel is still there: {left:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn left(&self) -> Self {
        let of = |held: &BTreeSet<u32>, next: NextId| -> BTreeSet<u32> {
            held.iter().copied().filter(|id| is_there(*id, next)).collect()
        };
        Self {
            programs: of(&self.programs, bpf_prog_get_next_id),
            maps: of(&self.maps, bpf_map_get_next_id),
            links: of(&self.links, bpf_link_get_next_id),
        }
    }
}

/// Gives the number that comes after another one.
type NextId = unsafe extern "C" fn(u32, *mut u32) -> i32;

/// Nothing is opened: a map of programs that somebody opens and closes while the kernel gives it up stays for ever (its clearing is
/// put off twice, and done once, so that one reference to it is left).
fn is_there(id: u32, next_id: NextId) -> bool {
    let mut next = 0;
    // SAFETY: a system call that writes one number to the place that it is given.
    let found = unsafe { next_id(id.saturating_sub(1), &mut next) } == 0;
    found && next == id
}

/// What a process has open: its threads may have descriptors of their own.
pub(crate) fn held_objects(pid: u32) -> HeldObjects {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let files =
        threads.filter_map(|thread| fs::read_dir(thread.path().join("fdinfo")).ok()).flatten().flatten();
    let mut held = HeldObjects::default();
    for text in files.filter_map(|file| fs::read_to_string(file.path()).ok()) {
        let number =
            |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u32>().ok());
        held.programs.extend(number("prog_id:"));
        held.maps.extend(number("map_id:"));
        held.links.extend(number("link_id:"));
    }
    held
}

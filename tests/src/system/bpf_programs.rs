//! What a process holds in the kernel, and whether it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use libbpf_rs::query::ProgInfoIter;

/// The kernel frees programs a little after their last user is gone.
const GRACE: Duration = Duration::from_secs(5);

/// BPF programs by the kernel's numbers for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldPrograms(BTreeSet<u32>);

impl HeldPrograms {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if one of them is still there some time later: numbers are not used again.
    pub(crate) fn check_gone(&self) -> Result<()> {
        let deadline = Instant::now() + GRACE;
        loop {
            let left: Vec<u32> =
                ProgInfoIter::default().map(|program| program.id).filter(|id| self.0.contains(id)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("BPF programs {left:?} of a dmscope that has ended are still loaded");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The programs that a process has open.
pub(crate) fn held_programs(pid: u32) -> HeldPrograms {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let number = |text: String| -> Option<u32> {
        text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    HeldPrograms(texts.filter_map(number).collect())
}

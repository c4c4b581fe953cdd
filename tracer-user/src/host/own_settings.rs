//! What this process changes of itself while it watches a job: what it starts for others must not inherit that.

use std::fs;
use std::sync::{Mutex, PoisonError};

use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Programs, maps, links, files with probes, and the rings of a few ranks.
const LEAST: u64 = 128;

/// If memory runs out, dmscope goes first and not a rank: what it recorded is on the tape.
const KILLED_FIRST: i16 = 1000;

/// How this process was before: as a job that is started here should be.
#[derive(Clone, Copy, Debug)]
pub struct OwnSettings {
    open_files: Rlimit,
    had_huge_pages: bool,
    /// None if it is as it was.
    oom_score_adjustment: Option<i16>,
    /// What is started is to lie at the same addresses in each run.
    fixes_addresses: bool,
}

/// The hard limit is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no more than {0} files may be open at once here, and dmscope needs {LEAST}: raise the hard limit (ulimit -Hn)"
)]
pub struct TooFewOpenFiles(u64);

impl OwnSettings {
    /// Once: whoever comes later hears how the process was before the first.
    ///
    /// Raises the limit of open files to the hard limit, asks to be killed before the job if memory runs out, and does without
    /// huge pages: the kernel clears one before it is used, for milliseconds on a busy machine, while the rings fill.
    ///
    /// # Errors
    /// The hard limit is too low.
    pub fn change() -> Result<Self, TooFewOpenFiles> {
        static BEFORE: Mutex<Option<OwnSettings>> = Mutex::new(None);
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = *before {
            return Ok(before);
        }
        let changed = Self::change_now()?;
        *before = Some(changed);
        Ok(changed)
    }

    fn change_now() -> Result<Self, TooFewOpenFiles> {
        let open_files = getrlimit(Resource::Nofile);
        // Refused: the limit stays as it is, and is told like any other.
        let raised = setrlimit(Resource::Nofile, Rlimit { current: open_files.maximum, ..open_files });
        let now = if raised.is_ok() { open_files.maximum } else { open_files.current };
        enough(now)?;
        let had_huge_pages = matches!(prctl::get_thp_disable(), Ok(false));
        // Refused: a burst of records may be too much.
        let _ = prctl::set_thp_disable(true);
        let oom_score_adjustment = oom_score_adjustment("self");
        // Refused: it is no more likely to be killed than anybody else.
        let adjusted = adjust_oom_score("self", KILLED_FIRST);
        Ok(Self {
            open_files,
            had_huge_pages,
            oom_score_adjustment: oom_score_adjustment.filter(|_| adjusted.is_ok()),
            fixes_addresses: false,
        })
    }

    /// The same for a program that is to lie at the same addresses in each run.
    pub fn with_fixed_addresses(self) -> Self {
        Self { fixes_addresses: true, ..self }
    }

    /// Takes that back, for a program that is about to be started: some cannot handle large descriptors, and some are
    /// slower without huge pages. Makes four system calls at most and allocates nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn restore(&self) -> std::io::Result<()> {
        if self.had_huge_pages {
            prctl::set_thp_disable(false)?;
        }
        if self.fixes_addresses
            && let Ok(now) = personality::get()
        {
            // Refused, in some containers: addresses are random as ever.
            let _ = personality::set(now | Persona::ADDR_NO_RANDOMIZE);
        }
        Ok(setrlimit(Resource::Nofile, self.open_files)?)
    }

    /// Takes back, for a child that has not begun yet, what it cannot as somebody else.
    pub fn restore_for_child(&self, pid: u32) {
        if let Some(adjustment) = self.oom_score_adjustment {
            // Refused: it is killed first, as dmscope is.
            let _ = adjust_oom_score(&pid.to_string(), adjustment);
        }
    }
}

fn oom_score_adjustment(process: &str) -> Option<i16> {
    fs::read_to_string(format!("/proc/{process}/oom_score_adj")).ok()?.trim().parse().ok()
}

fn adjust_oom_score(process: &str, adjustment: i16) -> std::io::Result<()> {
    fs::write(format!("/proc/{process}/oom_score_adj"), adjustment.to_string())
}

fn enough(limit: Option<u64>) -> Result<(), TooFewOpenFiles> {
    match limit {
        Some(limit) if limit < LEAST => Err(TooFewOpenFiles(limit)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_told_with_what_is_needed() {
        assert_eq!(enough(None), Ok(()));
        assert_eq!(enough(Some(1024)), Ok(()));
        let error = enough(Some(64)).unwrap_err().to_string();
        assert!(
            error.contains("64 files") && error.contains("128") && error.contains("ulimit -Hn"),
            "{error}"
        );
    }
}

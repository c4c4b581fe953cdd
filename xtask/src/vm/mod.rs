//! `cargo xtask vm KERNEL [TEST…]`: boots a stock Debian kernel in QEMU, with RDMA in software, and runs tests in it.
//!
//! The machine is emulated, so that it runs wherever QEMU does: counts and behaviour are exact there, times are not. Its
//! root is the root of the machine that it runs on, read-only; what is written goes into memory.

mod initramfs;
mod kernels;
mod plan;
mod script;

use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Result;

use crate::harness::{TestTally, tally_of};
use crate::packages::VM;
use crate::process::{Ended, root, watch};
use crate::{USAGE_OR_ENVIRONMENT, family, setup};
use kernels::{DebianKernel, KERNELS, UnpackedKernel};
use script::VmStep;

/// Starting takes half a minute on a slow machine.
const BOOT: Duration = Duration::from_secs(60);
const MEMORY: &str = "5G";
const PROCESSORS: &str = "2";

/// Boots a kernel and runs what is asked for, ending with a line `N passed, N failed`.
pub fn run(version: &str, wanted: &[&str]) -> Result<ExitCode> {
    let Some(kernel) = KERNELS.iter().find(|kernel| kernel.version == version) else {
        let known: Vec<_> = KERNELS.iter().map(|kernel| kernel.version).collect();
        eprintln!("xtask: no kernel {version}; there are {}", known.join(", "));
        return Ok(ExitCode::from(USAGE_OR_ENVIRONMENT));
    };
    family::adopt();
    if setup::install(VM)? != ExitCode::SUCCESS {
        return Ok(ExitCode::from(USAGE_OR_ENVIRONMENT));
    }
    let tally = boot(kernel, wanted)?;
    println!("{} passed, {} failed", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn boot(kernel: &DebianKernel, wanted: &[&str]) -> Result<TestTally> {
    let unpacked = kernels::fetch(kernel)?;
    let steps = plan::steps(kernel.version, wanted)?;
    let text = script::script(&root().join("tests"), &unpacked.folder, &steps);
    let archive = initramfs::build(&unpacked, &text)?;
    let limit = BOOT + Duration::from_secs(steps.iter().map(|step| step.limit_s + 5).sum());
    let mut outcome = VmOutcome::default();
    let ended =
        watch(&mut emulator(&unpacked, &archive), limit, |line| outcome.see(line.trim_end_matches('\r')))?;
    if ended != Ended::Well {
        eprintln!("xtask: the machine did not end by itself: {ended:?}");
    }
    Ok(outcome.tally(&steps))
}

/// All processors in one thread: with a thread for each, a kernel stopped at a breakpoint by which it patches its own code.
fn emulator(kernel: &UnpackedKernel, archive: &std::path::Path) -> Command {
    let mut command = Command::new("qemu-system-x86_64");
    command.args([
        "-M",
        "q35",
        "-accel",
        "tcg,thread=single",
        "-cpu",
        "max",
        "-smp",
        PROCESSORS,
        "-m",
        MEMORY,
    ]);
    command.args(["-nodefaults", "-nographic", "-serial", "stdio", "-no-reboot", "-net", "none"]);
    command
        .arg("-virtfs")
        .arg("local,path=/,mount_tag=root,security_model=passthrough,readonly=on,multidevs=remap");
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 quiet oops=panic panic=-1 mitigations=off"]);
    command.stdin(std::process::Stdio::null());
    command
}

/// What the machine has told.
#[derive(Default)]
struct VmOutcome {
    /// Of the test harnesses.
    tests: TestTally,
    /// Of the step that runs now.
    now: TestTally,
    steps: TestTally,
    /// Steps that came to an end.
    done: u64,
}

impl VmOutcome {
    fn see(&mut self, line: &str) {
        self.now = self.now + tally_of(line);
        let Some((status, _)) = script::status_of(line) else { return };
        let now = std::mem::take(&mut self.now);
        self.tests = self.tests + now;
        // A step without tests counts as one; one that fails without a failed test as well.
        let is_bad = status != 0 && now.failed == 0;
        let is_good = status == 0 && now == TestTally::default();
        self.steps = self.steps + TestTally { passed: is_good.into(), failed: is_bad.into() };
        self.done += 1;
    }

    /// What was not done has failed.
    fn tally(&self, steps: &[VmStep]) -> TestTally {
        let missing = (steps.len() as u64).saturating_sub(self.done);
        self.tests + self.steps + TestTally { passed: 0, failed: missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of_lines(lines: &[&str], steps: usize) -> TestTally {
        let mut outcome = VmOutcome::default();
        lines.iter().for_each(|line| outcome.see(line));
        outcome.tally(&vec![VmStep::shell("a", "b", 1); steps])
    }

    #[test]
    fn tests_count_one_by_one_and_commands_as_one() {
        let lines = [
            "vm: status 0 of doctor after 1 s",
            "test result: ok. 3 passed; 0 failed; x",
            "vm: status 0 of t after 2 s",
        ];
        assert_eq!(tally_of_lines(&lines, 2), TestTally { passed: 4, failed: 0 });
    }

    #[test]
    fn what_failed_outside_of_any_test_or_was_never_done_counts_as_failed() {
        let lines = [
            "vm: status 2 of doctor after 1 s",
            "test result: FAILED. 3 passed; 1 failed; x",
            "vm: status 101 of t after 2 s",
        ];
        assert_eq!(tally_of_lines(&lines, 4), TestTally { passed: 3, failed: 4 });
    }
}

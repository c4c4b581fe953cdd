//! Runs the fuzz targets one after the other, with limits of memory and time for each input.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// The targets, and the longest input of each: bombs hide in long ones.
const TARGETS: [(&str, u32); 16] = [
    ("tape_reader", 1 << 18),
    ("wire_decode", 1 << 12),
    ("sequencer", 1 << 16),
    ("pipeline", 1 << 16),
    ("messages", 1 << 16),
    ("page", 1 << 15),
    ("hang", 1 << 16),
    ("elf_scan", 1 << 18),
    ("plan", 1 << 18),
    ("unwind", 1 << 17),
    ("library_objects", 1 << 14),
    ("maps", 1 << 16),
    ("bus_messages", 1 << 16),
    ("races", 1 << 14),
    ("replays", 1 << 14),
    ("fast_rings", 1 << 12),
];
/// Memory that an input may take, MiB.
const MOST_MEMORY_MIB: u32 = 512;
/// Time that an input may take by the clock, which goes on while a run waits on a busy machine: the targets themselves allow
/// a second of processor time.
const MOST_SECONDS: u32 = 20;

/// Shares so many minutes among all targets.
pub fn run(minutes: &str) -> Result<ExitCode> {
    let minutes: u64 = minutes.parse().context("how many minutes?")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    ensure!(
        has_cargo_fuzz(),
        "cargo-fuzz is missing: cargo install cargo-fuzz, and rustup toolchain install nightly"
    );
    let mut failed = Vec::new();
    for (target, longest) in TARGETS {
        let corpus = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(root.join(&corpus)).with_context(|| format!("cannot make {corpus}"))?;
        let mut command = Command::new("cargo");
        let seeds = format!("fuzz/seeds/{target}");
        let seeds = root.join(&seeds).is_dir().then_some(seeds);
        command.current_dir(&root).args(arguments(target, seeds, longest, seconds_of_each(minutes)));
        // What was freed stays in memory for a while, to be found if it is used: it is no input's.
        command.env("ASAN_OPTIONS", "quarantine_size_mb=16");
        println!("fuzz: {target}");
        if !command.status().context("cannot start cargo")?.success() {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        println!("fuzz: nothing was found");
        return Ok(ExitCode::SUCCESS);
    }
    println!("fuzz: found something in {}: see fuzz/artifacts", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn has_cargo_fuzz() -> bool {
    Command::new("cargo")
        .args(["+nightly", "fuzz", "--version"])
        .output()
        .is_ok_and(|found| found.status.success())
}

fn seconds_of_each(minutes: u64) -> u64 {
    (minutes * 60 / TARGETS.len() as u64).max(1)
}

/// Of cargo.
fn arguments(target: &str, seeds: Option<String>, longest: u32, seconds: u64) -> Vec<String> {
    let words = ["+nightly", "fuzz", "run", "--fuzz-dir", "fuzz", target];
    let folders = std::iter::once(format!("fuzz/corpus/{target}")).chain(seeds);
    let limits = [
        "--".to_owned(),
        format!("-max_total_time={seconds}"),
        format!("-max_len={longest}"),
        format!("-timeout={MOST_SECONDS}"),
        format!("-rss_limit_mb={MOST_MEMORY_MIB}"),
    ];
    words.map(str::to_owned).into_iter().chain(folders).chain(limits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_fuzz_crate_is_run_and_shares_the_minutes() {
        let manifest = include_str!("../../fuzz/Cargo.toml");
        let targets =
            manifest.lines().filter_map(|line| line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\""));
        let mut targets: Vec<&str> = targets.collect();
        let mut run: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        targets.sort_unstable();
        run.sort_unstable();
        assert_eq!(targets, run);
        assert_eq!(seconds_of_each(60), 60 * 60 / TARGETS.len() as u64);
        assert_eq!(seconds_of_each(0), 1);
    }

    #[test]
    fn an_input_has_limits_of_memory_and_time() {
        let arguments = arguments("pipeline", Some("fuzz/seeds/pipeline".into()), 9, 7);
        for wanted in
            ["-rss_limit_mb=512", "-timeout=20", "-max_len=9", "-max_total_time=7", "fuzz/seeds/pipeline"]
        {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted}: {arguments:?}");
        }
    }
}

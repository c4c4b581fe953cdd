//! Times without watching, of jobs that time themselves.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use live::timed::{TimedJob, TimedRank};
use live::{Dmscope, JobSpec, MpiImplementation, binary};
use serde_json::Value;
use tempfile::TempDir;

/// With `$DMSCOPE_TEST_TIMED` all, else the first ones.
const PATTERNS: [&str; 7] = ["token", "master", "collectives", "halo", "shift", "waitany", "epochs"];
const FEW: usize = 2;
/// Pairs of which the medians are compared: the machine does other things as well.
const PAIRS: usize = 3;
/// How long jobs are: the next one if dmscope refuses times of the one before, as it does on a machine that is busy with others.
const ITERATIONS: [u64; 3] = [4_000, 16_000, 64_000];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// By how much watching seems to have slowed the job down, and what is left of that: medians of pairs.
fn slow_down(pairs: &[TimedRank]) -> (f64, f64, [f64; 2]) {
    let plain = median(pairs.iter().map(|pair| pair.plain_ns).collect());
    let of = |ns: &dyn Fn(&TimedRank) -> f64| median(pairs.iter().map(ns).collect()) / plain;
    let bounds = [of(&|pair| pair.corrected_ns[0]), of(&|pair| pair.corrected_ns[2])];
    (of(&|pair| pair.measured_ns), of(&|pair| pair.corrected_ns[1]), bounds)
}

/// A bound that holds on a machine that does other things as well: what is taken out is most of what watching cost, and never
/// much more.
#[test]
fn most_of_what_watching_cost_is_taken_out_of_the_times_of_a_job() -> Result<()> {
    for library in MpiImplementation::ALL {
        let all = std::env::var_os("DMSCOPE_TEST_TIMED").is_some();
        for pattern in PATTERNS.iter().take(if all { PATTERNS.len() } else { FEW }) {
            let folder = TempDir::new()?;
            let mut pairs = Vec::new();
            for iterations in ITERATIONS {
                let job = TimedJob::new(library, pattern, 2, iterations, 20_000)?;
                pairs = (0..PAIRS).map(|_| job.pair(folder.path())).collect::<Result<Vec<_>>>()?;
                // Else a rank was held up for longer than the job takes.
                if pairs.iter().all(Option::is_some) {
                    break;
                }
            }
            let pairs: Vec<TimedRank> = pairs.into_iter().flatten().map(|ranks| ranks[0]).collect();
            if pairs.is_empty() {
                eprintln!("{library:?} {pattern}: refused, watching takes longer than the job");
                ensure!(all, "{library:?} {pattern}: no times");
                continue;
            }
            for pair in &pairs {
                // The tape has the times that the program has.
                let off = (pair.measured_ns / pair.watched_ns - 1.0).abs();
                ensure!(off < 0.02, "{library:?} {pattern}: {pair:?}");
                let [least, likely, most] = pair.corrected_ns;
                ensure!(0.0 < least && least <= likely && likely <= most, "{library:?} {pattern}: {pair:?}");
                ensure!(most <= 1.001 * pair.measured_ns, "{library:?} {pattern}: {pair:?}");
            }
            let (measured, corrected, bounds) = slow_down(&pairs);
            eprintln!("{library:?} {pattern}: {measured:.3} corrected {corrected:.3} {bounds:.3?}");
            ensure!(corrected < measured, "{library:?} {pattern}: {measured} {corrected}");
            ensure!(corrected > 0.5, "{library:?} {pattern}: {measured} {corrected} {bounds:?}");
        }
    }
    Ok(())
}

#[test]
fn what_dmscope_itself_takes_from_ranks_that_share_their_cores_with_it_is_on_the_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        let folder = TempDir::new()?;
        TimedJob::new(library, "token", 2, 400, 20_000)?.record(folder.path())?;
        let tape = folder.path().join("timed.dmt");
        let output = Command::new(binary()?).args(["times", "--json"]).arg(&tape).output()?;
        let times = &serde_json::from_slice::<Value>(&output.stdout)?["times"];
        ensure!(times["limits"]["own_time"] == "recorded", "{library:?}: {times}");
        ensure!(times["held_up"]["hits"].as_u64() > Some(0), "{library:?}: {times}");
    }
    Ok(())
}

#[test]
fn calls_for_an_epoch_of_a_window_wait_for_those_of_the_other_side() -> Result<()> {
    const ITERATIONS: u64 = 200;
    for library in MpiImplementation::ALL {
        let folder = TempDir::new()?;
        TimedJob::new(library, "epochs", 2, ITERATIONS, 20_000)?.record(folder.path())?;
        let tape = folder.path().join("timed.dmt");
        let output = Command::new(binary()?).args(["times", "--json"]).arg(&tape).output()?;
        let times = &serde_json::from_slice::<Value>(&output.stdout)?["times"];
        let functions = times["functions"].as_array().context("functions")?;
        let calls =
            |name: &str| functions.iter().find(|row| row["function"] == name).map(|row| &row["calls"]);
        for name in ["MPI_Win_post", "MPI_Win_start", "MPI_Win_complete", "MPI_Win_wait"] {
            ensure!(
                calls(name).and_then(Value::as_u64) == Some(2 * ITERATIONS),
                "{library:?} {name}: {times}"
            );
        }
        ensure!(times["limits"]["open_calls"] == 0, "{library:?}: {}", times["limits"]);
    }
    Ok(())
}

#[test]
fn receives_whose_order_is_open_are_listed_with_their_place() -> Result<()> {
    for library in MpiImplementation::ALL {
        let folder = TempDir::new()?;
        TimedJob::new(library, "master", 3, 100, 20_000)?.record(folder.path())?;
        let tape = folder.path().join("timed.dmt");
        let output =
            Command::new(binary()?).args(["times", "--races", "--most-cost", "1000%"]).arg(&tape).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(text.contains("receives from whoever comes first could have got another message"), "{text}");
        if text.contains(" got rank ") {
            ensure!(text.contains("MPI_Recv at ") && text.contains("timed.c:"), "{text}");
            let named = text.lines().filter(|line| line.starts_with("    0:")).collect::<Vec<_>>();
            ensure!(text.contains("dmscope replay --swap 0:") && !named.is_empty(), "{text}");
        }
    }
    Ok(())
}

#[test]
fn a_tape_without_ends_of_calls_gives_no_times_and_says_why() -> Result<()> {
    let folder = TempDir::new()?;
    let tape = folder.path().join("x.dmt");
    let job = JobSpec::own(MpiImplementation::OpenMpi, "timed")?.ranks(2).args(["halo", "50", "1000"]);
    Dmscope::run(&job).record(&tape).finish()?;
    let output = Command::new(binary()?).arg("times").arg(&tape).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(3), "{text}");
    ensure!(text.contains("--returns all"), "{text}");
    let output =
        Command::new(binary()?).args(["report", "--corrected", "-o", "/dev/null"]).arg(&tape).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said.contains("--returns all"), "{said}");
    Ok(())
}

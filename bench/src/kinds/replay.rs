//! `replay`: what it costs to record a job for replay, to replay it, and to run it deterministically.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation::{Mpich, OpenMpi};
use live::{JobSpec, MpiImplementation, binary};

use crate::harness::Workload;
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Samples, Section};

const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;
/// Slower than this while it is recorded is a gross regression.
const GROSS: f64 = 3.0;

/// A job, and the published slow-down of programs of its kind: while recorded, and replayed.
struct ReplayedJob {
    name: String,
    spec: JobSpec,
    published: Option<[f64; 2]>,
}

/// Runs jobs alone, recorded, replayed and deterministically, in turn.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("replay", "Recording for replay, and replaying");
    section.note(
        "Wall time of `dmscope record`, `dmscope replay`, both with the order of all ranks' calls (`--order`, `--identical`), and `dmscope deterministic` with the job / of the job alone, rounds \
         in turn. By probes: `dmscope run --replayable --calls-only`, and all that `run --replayable` watches, of the job's own time, from when its launcher starts. Published: M. Elwakil, Z. Yang, 2011, receiver-based order replay (sender-based: 3.0 and 4.7 on average), of messages between threads of one process; `tree`, `graph` (complete graph, and with ten nodes) and `bully` are its benchmarks, here without delays; \
         of deterministic runs 1.14 on average of NPB and two stress programs (X. Zhou and others, 2013). \
         Start and end of MPI are a part of all times, and a large one of short jobs.",
    );
    let mut table = ResultTable::new(&[
        "job",
        "alone, s",
        "recorded / alone",
        "by probes, calls / alone",
        "by probes, all / alone",
        "published",
        "replayed / alone",
        "published",
        "ordered / alone",
        "identical / alone",
        "deterministic / alone",
        "answers",
        "bytes an answer",
    ]);
    let rounds = options.runs(ROUNDS, QUICK_ROUNDS);
    for job in jobs(options)? {
        let folder = tempfile::tempdir()?;
        let tape = folder.path().join("job.dmt");
        let [mut alone, mut recorded, mut replayed]: [Samples; 3] = Default::default();
        let [mut calls, mut probed]: [ProbedRuns; 2] = Default::default();
        let [mut ordered, mut identical, mut deterministic]: [Samples; 3] = Default::default();
        let mut counts = [0.0; 2];
        for _ in 0..rounds {
            alone.push(run(&job.spec, None, folder.path())?.0);
            let (seconds, said) = run(&job.spec, Some((&["record"], Some(&tape))), folder.path())?;
            recorded.push(seconds);
            counts = counts_of(&said)?;
            let seconds_under = |words: &[&str], tape| run(&job.spec, Some((words, tape)), folder.path());
            replayed.push(seconds_under(&["replay"], Some(&tape))?.0);
            let of_session = folder.path().join("session.dmt");
            for (options, samples) in [(&["--calls-only"][..], &mut calls), (&[], &mut probed)] {
                samples.add(seconds_under_probes(&job.spec, options, &of_session, folder.path())?);
            }
            ordered.push(seconds_under(&["record", "--order"], Some(&tape))?.0);
            identical.push(seconds_under(&["replay", "--identical"], Some(&tape))?.0);
            deterministic.push(seconds_under(&["deterministic"], None)?.0);
        }
        let [answers, bytes] = counts;
        let published = |at: usize| {
            job.published.map_or_else(|| Cell::text("none"), |published| Cell::value(published[at], 1))
        };
        table.row(
            job.name.clone(),
            vec![
                Cell::runs(&alone, 2),
                Cell::runs(&recorded.over(&alone), 3),
                calls.cell(&alone),
                probed.cell(&alone),
                published(0),
                Cell::runs(&replayed.over(&alone), 3),
                published(1),
                Cell::runs(&ordered.over(&alone), 3),
                Cell::runs(&identical.over(&alone), 3),
                Cell::runs(&deterministic.over(&alone), 3),
                Cell::value(answers, 0),
                if answers > 0.0 { Cell::value(bytes / answers, 3) } else { Cell::text("none") },
            ],
        );
        table.show_progress();
        section.checks.push(RegressionBound {
            what: format!("{}: recorded / alone", job.name),
            value: recorded.min() / alone.min(),
            at_most: GROSS,
        });
    }
    section.tables.push(table);
    Ok(section)
}

fn jobs(options: BenchOptions) -> Result<Vec<ReplayedJob>> {
    let hpcc = Workload::hpcc(if options.quick { 600 } else { 2000 });
    let lammps = Workload::lammps(10, if options.quick { 1000 } else { 5000 });
    let whole = |job: Workload| ReplayedJob { name: job.name, spec: job.spec, published: None };
    let mut jobs: Vec<_> = [hpcc, lammps].map(whole).into();
    for (library, of_bully) in [(OpenMpi, 100_000), (Mpich, 200)] {
        for (name, program, rounds, messages, published) in [
            ("tree", "tree", 200_000, "10", [1.5, 2.3]),
            ("complete graph", "graph", 100_000, "10", [1.3, 1.9]),
            // Three ranks on two cores: one of MPICH that waits for a core waits long.
            ("bully", "bully", of_bully, "1", [1.4, 1.6]),
        ] {
            let rounds: u32 = if options.quick { rounds.min(20_000) } else { rounds };
            let rounds = &rounds.to_string();
            let arguments =
                [program, "--quiet", "--delay-us", "0", "--rounds", rounds, "--messages", messages];
            jobs.push(own(library, name, &arguments, published)?);
        }
    }
    jobs.retain(|job| options.job.is_none_or(|text| job.name.contains(text)));
    Ok(jobs)
}

/// Of two cores, each has one rank; an election has three at least.
fn own(
    library: MpiImplementation,
    name: &str,
    arguments: &[&str],
    published: [f64; 2],
) -> Result<ReplayedJob> {
    let ranks = if name == "bully" { 3 } else { 2 };
    Ok(ReplayedJob {
        name: format!("{name}, {ranks} ranks, {}", library.name()),
        spec: JobSpec::own(library, "published")?.ranks(ranks).args(arguments.iter().copied()),
        published: Some(published),
    })
}

/// Seconds that a job took, alone or under a command of dmscope with a tape; and what was said.
fn run(spec: &JobSpec, under: Option<(&[&str], Option<&Path>)>, folder: &Path) -> Result<(f64, String)> {
    spec.put_files(folder)?;
    let mut words = Vec::new();
    if let Some((command, tape)) = under {
        if let Some(tape) = tape.filter(|_| command[0] == "record") {
            let _ = std::fs::remove_file(tape);
        }
        words.push(binary()?.into_os_string());
        words.extend(command.iter().map(Into::into));
        words.extend(tape.map(Into::into));
        words.push("--".into());
    }
    words.extend(spec.words());
    let begun = Instant::now();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    let output = command.output().context("cannot start the job")?;
    let seconds = begun.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{words:?}: {}\n{said}", output.status);
    Ok((seconds, said))
}

/// Runs of a job under probes.
#[derive(Default)]
struct ProbedRuns {
    seconds: Samples,
    /// Of any of them records were lost: such a tape is not replayed.
    has_losses: bool,
}

impl ProbedRuns {
    fn add(&mut self, seconds: Option<f64>) {
        match seconds {
            Some(seconds) => self.seconds.push(seconds),
            None => self.has_losses = true,
        }
    }

    fn cell(&self, alone: &Samples) -> Cell {
        if self.has_losses { Cell::text("records lost") } else { Cell::runs(&self.seconds.over(alone), 3) }
    }
}

/// Seconds that a job took by its own clock, while probes recorded it: dmscope has its probes in place when it starts. None: records were lost.
fn seconds_under_probes(spec: &JobSpec, options: &[&str], tape: &Path, folder: &Path) -> Result<Option<f64>> {
    const INCONCLUSIVE: i32 = 3;
    spec.put_files(folder)?;
    let timed = "begun=$(date +%s%N); \"$@\"; status=$?; echo \"took $(($(date +%s%N) - begun)) ns\" >&2; exit $status";
    let mut command = Command::new(binary()?);
    command.args(["run", "--quiet", "--replayable", "--record"]).arg(tape).args(options);
    command.args(["--", "sh", "-c", timed, "sh"]).args(spec.words());
    let output = command.current_dir(folder).stdin(Stdio::null()).output().context("cannot start dmscope")?;
    if output.status.code() == Some(INCONCLUSIVE) {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let took =
        || said.lines().find_map(|line| line.strip_prefix("took ")?.strip_suffix(" ns")?.parse::<f64>().ok());
    let took_ns = took().filter(|_| output.status.success()).with_context(|| format!("it failed: {said}"))?;
    Ok(Some(took_ns / 1e9))
}

/// Answers and bytes, as `dmscope record` says them.
fn counts_of(said: &str) -> Result<[f64; 2]> {
    let before = |word: &str| -> Option<f64> {
        said.split(&format!(" {word}")).next()?.rsplit([' ', ',']).next()?.parse().ok()
    };
    let counts = before("answers").zip(before("bytes")).with_context(|| format!("no counts in {said:?}"))?;
    Ok([counts.0, counts.1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_is_said() {
        let said = "dmscope: 2 ranks, 400000 answers, 480123 bytes: dmscope replay x.dmt -- COMMAND\n";
        assert_eq!(counts_of(said).expect("they are there"), [400_000.0, 480_123.0]);
        assert!(counts_of("dmscope: no rank was recorded").is_err());
    }
}

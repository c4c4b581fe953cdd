//! A job that times itself, without dmscope and with it, and what `dmscope times` makes of the second.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::job::{JobSpec, MpiImplementation};
use crate::session::binary;

/// Runs of one pattern of `timed`.
pub struct TimedJob {
    spec: JobSpec,
}

/// A rank between the two barriers, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimedRank {
    /// As it timed itself, unwatched.
    pub plain_ns: f64,
    /// The same, watched.
    pub watched_ns: f64,
    /// By the tape.
    pub measured_ns: f64,
    /// Without watching, as it is worked out: at least, probably, at most.
    pub corrected_ns: [f64; 3],
}

impl TimedJob {
    /// `pattern`: `token`, `halo`, `shift`, `collectives`, `waitany`, `master` or `epochs`; `work`: counted between messages.
    ///
    /// # Errors
    /// The job was not built.
    pub fn new(
        library: MpiImplementation,
        pattern: &str,
        ranks: usize,
        iterations: u64,
        work: u64,
    ) -> Result<Self> {
        let spec = JobSpec::own(library, "timed")?.ranks(ranks).args([
            pattern.to_owned(),
            iterations.to_string(),
            work.to_string(),
        ]);
        Ok(Self { spec })
    }

    /// Once without, once with; `folder`: for the tape. None: no times are given, since watching took longer than the job.
    ///
    /// # Errors
    /// The job or dmscope failed; the tape gives no times for another reason.
    pub fn pair(&self, folder: &Path) -> Result<Option<Vec<TimedRank>>> {
        let words = self.spec.words();
        let plain = run(Command::new(&words[0]).args(&words[1..]))?;
        let watched = self.record(folder)?;
        let Some(calls) = corrected(&folder.join("timed.dmt"))? else { return Ok(None) };
        let mut ranks = Vec::new();
        for (rank, plain_ns) in elapsed(&plain)? {
            let (measured_ns, corrected_ns) =
                between_barriers(calls.get(&rank).map_or(&[][..], Vec::as_slice))?;
            let watched_ns = *elapsed(&watched)?.get(&rank).context("a rank that did not end")?;
            ranks.push(TimedRank { plain_ns, watched_ns, measured_ns, corrected_ns });
        }
        ensure!(!ranks.is_empty(), "the job says no times: {plain}");
        Ok(Some(ranks))
    }

    /// Watched, to `timed.dmt`; what it printed.
    ///
    /// # Errors
    /// The job or dmscope failed.
    pub fn record(&self, folder: &Path) -> Result<String> {
        let mut command = Command::new(binary()?);
        command.args(["run", "--budget", "none", "--returns", "all", "--record"]);
        command.arg(folder.join("timed.dmt")).arg("--output").arg(folder.join("said.txt")).arg("--");
        run(command.args(self.spec.words()))
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("cannot start a job")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(text.contains("ok\n"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// By rank.
fn elapsed(text: &str) -> Result<BTreeMap<u64, f64>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            let line: Value = serde_json::from_str(line)?;
            let rank = line["rank"].as_u64().context("a line without a rank")?;
            Ok((rank, line["elapsed_ns"].as_f64().context("a line without a time")?))
        })
        .collect()
}

/// Calls of each rank, as `dmscope times --calls` has them. None: watching took longer than the job.
fn corrected(tape: &Path) -> Result<Option<BTreeMap<u64, Vec<Value>>>> {
    let output = Command::new(binary()?).args(["times", "--calls"]).arg(tape).output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() && text.lines().next_back().is_some_and(|last| last.contains("\"dilated\"")) {
        return Ok(None);
    }
    ensure!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stderr));
    let mut calls: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)?;
        if let Some(rank) = line["rank"].as_u64() {
            calls.entry(rank).or_default().push(line);
        }
    }
    Ok(Some(calls))
}

fn between_barriers(calls: &[Value]) -> Result<(f64, [f64; 3])> {
    let mut barriers = calls.iter().filter(|call| call["function"] == "MPI_Barrier");
    let (first, last) = barriers.next().zip(barriers.next()).context("no two barriers on the tape")?;
    let number = |value: &Value| value.as_f64().context("a number is missing");
    let measured_ns = number(&last["begin_ns"])? - number(&first["end_ns"])?;
    let shifted = |name: &str| {
        Ok::<f64, anyhow::Error>(
            measured_ns + number(&last["begin_shift"][name])? - number(&first["end_shift"][name])?,
        )
    };
    let [least, likely, most] = [shifted("least_ns")?, shifted("likely_ns")?, shifted("most_ns")?];
    Ok((measured_ns, [least.min(most), likely, most.max(least)]))
}

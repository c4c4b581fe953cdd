//! `looks`: what it costs that quiet ranks are looked at.

use std::fs::File;
use std::path::PathBuf;

use analyzer::input::Input;
use analyzer::tape::{Item, Reader};
use anyhow::{Context, Result};
use live::MpiImplementation::{Mpich, OpenMpi};
use live::{Dmscope, RunningJob, RunningSession};
use tempfile::TempDir;

use crate::harness::{Nobody, Onlooker, ThreadTimeReader, ThreadTimes, Workload};
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Samples, Section};

/// The thread that looks, as it calls itself.
const LOOKING_THREAD: &str = "dms-sample";
/// Slower than this by being looked at is a gross regression.
const GROSS: f64 = 1.5;

/// Runs a job most of whose ranks wait, with dmscope and without it, in turn.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let rounds = options.runs(7, 2);
    let steps = if options.quick { "1000000000" } else { "4000000000" };
    let mut section = Section::new("looks", "What looking at quiet ranks costs");
    section.note(format!(
        "`slow --work {steps}`: one rank computes, so much work however long it takes, the others wait for it in MPI calls; hardly a \
         record is made. Job: time with dmscope attached (`--budget none`) / without, {rounds} rounds in turn. Processor time of the \
         thread that looks, and of all of dmscope, as a share of one processor while the job ran; a look at a rank is a look at all of \
         its threads."
    ));
    let mut table = ResultTable::new(&[
        "job",
        "plain, s",
        "attached / plain",
        "looking, % of a processor",
        "all of dmscope, % of a processor",
        "looks at a rank",
        "ms a look at a rank",
    ]);
    for (library, ranks) in [(OpenMpi, 2), (Mpich, 2), (OpenMpi, 8), (OpenMpi, 32)] {
        let workload = Workload::own("slow", library, "slow", ranks, &["--work", steps])?;
        let measured = measure_one(&workload, rounds)?;
        let ratio = measured.attached.over(&measured.plain);
        section.checks.push(RegressionBound {
            what: format!("{}: attached / plain", workload.name),
            // The fastest of each: what else the machine did slowed down the others.
            value: measured.attached.min() / measured.plain.min(),
            at_most: GROSS,
        });
        let cells = vec![
            Cell::runs(&measured.plain, 2),
            Cell::runs(&ratio, 3),
            Cell::runs(&measured.looking_percent, 2),
            Cell::runs(&measured.all_percent, 2),
            Cell::runs(&measured.looks, 0),
            Cell::runs(&measured.look_ms, 2),
        ];
        table.row(workload.name.clone(), cells);
        table.show_progress();
    }
    section.tables.push(table);
    Ok(section)
}

/// Of one job, a value a round.
#[derive(Default)]
struct Measured {
    plain: Samples,
    attached: Samples,
    looking_percent: Samples,
    all_percent: Samples,
    looks: Samples,
    look_ms: Samples,
}

fn measure_one(workload: &Workload, rounds: usize) -> Result<Measured> {
    let mut measured = Measured::default();
    for _ in 0..rounds {
        measured.plain.push(workload.seconds(&mut Nobody)?);
        let mut looked = LookedAt::new()?;
        let seconds = workload.seconds(&mut looked)?;
        let cost = looked.cost.context("nobody looked on")?;
        measured.attached.push(seconds);
        measured.looking_percent.push(cost.looking_s / cost.watched_s * 100.0);
        measured.all_percent.push(cost.all_s / cost.watched_s * 100.0);
        measured.looks.push(cost.looks as f64);
        if cost.looks > 0 {
            measured.look_ms.push(cost.looking_s * 1000.0 / cost.looks as f64);
        }
    }
    Ok(measured)
}

/// What one session took.
#[derive(Clone, Copy)]
struct Cost {
    /// From the time at which it was in place to its end.
    watched_s: f64,
    /// Processor time of the thread that looks in that time …
    looking_s: f64,
    /// … and of all threads.
    all_s: f64,
    /// Times that some rank was looked at.
    looks: usize,
}

/// dmscope, attached to a job, with somebody who reads its processor time.
struct LookedAt {
    directory: TempDir,
    running: Option<(RunningSession, ThreadTimeReader)>,
    cost: Option<Cost>,
}

impl LookedAt {
    fn new() -> Result<Self> {
        Ok(Self { directory: TempDir::with_prefix("bench-")?, running: None, cost: None })
    }

    fn tape(&self) -> PathBuf {
        self.directory.path().join("tape.dmt")
    }
}

impl Onlooker for LookedAt {
    fn begin(&mut self, job: &RunningJob) -> Result<()> {
        let mut watching = Dmscope::attach(job.launcher_pid()).record(&self.tape()).spawn()?;
        watching.wait_until_attached()?;
        let reading = ThreadTimeReader::start(watching.pid());
        self.running = Some((watching, reading));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let (watching, reading) = self.running.take().context("dmscope was not started")?;
        watching.finish()?;
        let read = reading.finish()?;
        let used = used(&read.before, &read.last);
        let looks = looks_in(&self.tape())?;
        self.cost = Some(Cost {
            watched_s: read.watched.as_secs_f64(),
            looking_s: used.looking_s,
            all_s: used.all_s,
            looks,
        });
        Ok(())
    }
}

/// Times that a rank was looked at, by a tape.
fn looks_in(tape: &std::path::Path) -> Result<usize> {
    let mut looks = 0;
    for item in Reader::new(File::open(tape).context("opening a tape")?)? {
        if let Item::Input(Input::Threads(looked)) = item? {
            let mut pids: Vec<u32> = looked.threads.iter().map(|thread| thread.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            looks += pids.len();
        }
    }
    Ok(looks)
}

/// Processor time of a process.
#[derive(Clone, Copy, Default)]
struct Used {
    looking_s: f64,
    all_s: f64,
}

/// What was used between two readings.
fn used(before: &ThreadTimes, after: &ThreadTimes) -> Used {
    let mut used = Used::default();
    for (tid, (name, ns)) in after {
        let earlier = before.get(tid).map_or(0, |thread| thread.1);
        let seconds = ns.saturating_sub(earlier) as f64 / 1e9;
        used.all_s += seconds;
        if name == LOOKING_THREAD {
            used.looking_s += seconds;
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_told_apart_by_thread_and_only_since_the_first_reading() {
        let before =
            ThreadTimes::from([(1, ("dmscope".into(), 5_000_000_000)), (2, (LOOKING_THREAD.into(), 0))]);
        let after = ThreadTimes::from([
            (1, ("dmscope".into(), 6_000_000_000)),
            (2, (LOOKING_THREAD.into(), 500_000_000)),
            (3, ("dms-ring".into(), 250_000_000)),
        ]);
        let used = used(&before, &after);
        assert_eq!((used.looking_s, used.all_s), (0.5, 1.75));
    }
}

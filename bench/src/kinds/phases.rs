//! `phases`: whether a budget holds when the job changes its ways.

use std::time::Duration;

use anyhow::{Context, Result};
use live::{Dmscope, FinishedSession, JobSpec, MpiImplementation};

use crate::harness::PATIENCE;
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Samples, Section};

const BUDGET: &str = "1%";
/// By its own accounting, over the whole run.
const GROSS: f64 = 0.02;
/// A tenth of a second each, as the job counts.
const WINDOWS_PER_ROW: usize = 5;
const BAR: usize = 40;

/// Runs a job whose load changes, with a budget and without dmscope, in turn.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let phase_seconds = if options.quick { 3 } else { 8 };
    let rounds = options.runs(5, 1);
    let mut section = Section::new("phases", "A budget while the job changes its ways");
    section.note(format!(
        "Two ranks (`phases`, Open MPI): {phase_seconds} s of a message every two milliseconds, {phase_seconds} s of messages as fast as \
         they go, {phase_seconds} s as before; `--budget {BUDGET}`. Each row is half a second: what watching cost by dmscope's accounting \
         (each # a fortieth of the budget, at most twice of it shown), and the part of the time in which movements were watched. \
         The last column is the job's own count of messages, {rounds} runs with dmscope / without in turn."
    ));
    let mut plain = vec![Samples::default(); rows(phase_seconds)];
    let mut watched = plain.clone();
    let mut session = None;
    for _ in 0..rounds {
        add(&mut plain, &messages(phase_seconds, None)?);
        add(&mut watched, &messages(phase_seconds, Some(&mut session))?);
    }
    let session = session.context("nothing was watched")?;
    section.tables.push(table(&session, &plain, &watched));
    let storm = rows(phase_seconds) / 3..2 * rows(phase_seconds) / 3;
    let sum = |all: &[Samples]| all[storm.clone()].iter().map(Samples::median).sum::<f64>();
    section.note(format!(
        "In the storm the job got through {:.2}% fewer messages than without dmscope (sums of the medians).",
        (1.0 - sum(&watched) / sum(&plain)) * 100.0
    ));
    let what = format!("phases: spent by its own accounting under --budget {BUDGET}");
    section.checks.push(RegressionBound { what, value: mean_spent(&session), at_most: GROSS });
    Ok(section)
}

fn rows(phase_seconds: usize) -> usize {
    3 * phase_seconds * 10 / WINDOWS_PER_ROW
}

fn add(rows: &mut [Samples], messages: &[f64]) {
    for (row, messages) in rows.iter_mut().zip(messages) {
        row.push(*messages);
    }
}

/// Messages in each row's time. `watch`: where the session goes.
fn messages(phase_seconds: usize, watch: Option<&mut Option<FinishedSession>>) -> Result<Vec<f64>> {
    let arguments = ["--phase-seconds".to_owned(), phase_seconds.to_string()];
    let job = JobSpec::own(MpiImplementation::OpenMpi, "phases")?.args(arguments).held().spawn()?;
    job.wait_until_ready(PATIENCE)?;
    let mut attached = None;
    if watch.is_some() {
        let mut watching = Dmscope::attach(job.launcher_pid()).args(["--budget", BUDGET]).spawn()?;
        watching.wait_until_attached()?;
        // What attaching costs is not the budget's.
        std::thread::sleep(Duration::from_secs(1));
        attached = Some(watching);
    }
    job.go()?;
    let job = job.finish(PATIENCE)?;
    job.check_verdict()?;
    if let (Some(place), Some(watching)) = (watch, attached) {
        *place = Some(watching.finish()?);
    }
    let windows = job.lines_of_type("window")?;
    let counts: Vec<f64> = windows.iter().filter_map(|line| line["messages"].as_f64()).collect();
    Ok(counts.chunks(WINDOWS_PER_ROW).map(|row| row.iter().sum()).collect())
}

/// Budget numbers of the statuses that came while the job moved: half a second each, after the second of waiting.
fn statuses(session: &FinishedSession) -> Vec<(f64, f64)> {
    let number = |event: &serde_json::Value, name: &str| event["budget"][name].as_f64().unwrap_or(0.0);
    let all = session.events_of("status");
    all.iter().skip(3).map(|event| (number(event, "spent_share"), number(event, "watched_share"))).collect()
}

fn mean_spent(session: &FinishedSession) -> f64 {
    let statuses = statuses(session);
    statuses.iter().map(|s| s.0).sum::<f64>() / statuses.len().max(1) as f64
}

fn table(session: &FinishedSession, plain: &[Samples], watched: &[Samples]) -> ResultTable {
    let mut table =
        ResultTable::new(&["s", "cost, % of the job's time", "", "watched, %", "messages, with / without"]);
    let rows = statuses(session).into_iter().zip(plain.iter().zip(watched)).enumerate();
    for (row, ((spent, share), (plain, watched))) in rows {
        let bar = "#".repeat(((spent * 100.0 * BAR as f64).round() as usize).min(2 * BAR));
        let cells = vec![
            Cell::value(spent * 100.0, 2),
            Cell::text(bar),
            Cell::value(share * 100.0, 0),
            Cell::runs(&watched.over(plain), 3),
        ];
        table.row(format!("{:.1}", row as f64 * WINDOWS_PER_ROW as f64 / 10.0), cells);
    }
    table
}

//! `jobs`: how much slower jobs are when they are watched.

mod own_jobs;

use anyhow::{Result, ensure};
use live::MpiImplementation::{Mpich, OpenMpi};

use crate::harness::{AttachedDmscope, Nobody, SessionRecords, Workload, measured_and_others};
use crate::kernel_time::longer_by;
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Samples, Section};

use own_jobs::OWN;

/// Ways in which jobs are watched, by name, with options of `dmscope attach`; first everything on, whatever it costs.
const WAYS: [(&str, &[&str]); 5] = [
    ("everything on", &["--budget", "none"]),
    ("`--budget 1%`", &["--budget", "1%"]),
    ("`--budget 3%`", &["--budget", "3%"]),
    ("everything on, `--probes fast`", &["--budget", "none", "--probes", "fast"]),
    ("`--budget 1% --probes fast`", &["--budget", "1%", "--probes", "fast"]),
];
/// Slower than this by everything on is a gross regression, for jobs that do more than send small messages.
const GROSS: f64 = 3.0;

/// So many CPUs beside the first are enough for any of the jobs and for dmscope.
const PLENTY: usize = 5;

const ROUNDS: usize = 3;
/// For jobs that compute: fewer than nine do not tell a few percent from chance.
const BOUNDED_ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 2;

/// A job, and whether it computes enough for its ratio to be bounded on every machine.
struct JobCase {
    workload: Workload,
    bounded: bool,
}

/// Runs each job without dmscope and with it, everything on and under each budget, in turn.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("jobs", "What watching costs a job");
    section.note(
        "Wall time with dmscope / without, everything on (`--budget none`) or under a budget, with probes of the kernel or fast probes, always recording; rounds in turn, more of jobs that compute; dmscope is attached before the \
         time begins. OwnJob jobs wait for it and take their own time; hpcc and LAMMPS are stopped when their ranks have \
         loaded MPI, until dmscope is attached, and their time from start to end without that is taken; fast probes are not put into stopped ranks, and come just after. By the time in the kernel: how much \
         longer the ranks took if all that they did there more is dmscope's (hits of probes are, scheduling may be), and what \
         they did outside of it stayed the same; it hardly depends on how fast the machine is at the moment.",
    );
    let (_, others) = measured_and_others()?;
    if others.len() >= PLENTY {
        let tables = measure_all(&cases(options)?, "cores to spare", options, &mut section.checks)?;
        section.tables.extend(tables);
        return Ok(section);
    }
    if !options.quick && !others.is_empty() {
        section.note(
            "In the first table the job is kept on CPU 0 (`taskset`), all its ranks together, and dmscope finds the others \
             spare.",
        );
        let pinned: Vec<_> = cases(options)?
            .into_iter()
            .filter(|case| case.workload.yields())
            .map(|case| JobCase { workload: case.workload.on_cpus("0"), ..case })
            .collect();
        section.tables.extend(measure_all(&pinned, "dmscope on a spare core", options, &mut section.checks)?);
    }
    let sharing = measure_all(&cases(options)?, "sharing the cores", options, &mut section.checks)?;
    section.tables.extend(sharing);
    Ok(section)
}

fn cases(options: BenchOptions) -> Result<Vec<JobCase>> {
    let mut cases = vec![
        JobCase { workload: Workload::hpcc(if options.quick { 600 } else { 1200 }), bounded: true },
        JobCase { workload: Workload::lammps(10, if options.quick { 1000 } else { 3000 }), bounded: true },
    ];
    if !options.quick {
        cases.push(JobCase { workload: Workload::lammps(20, 400), bounded: true });
    }
    for (library, ranks) in [(OpenMpi, 4), (Mpich, 2)] {
        for own in &OWN {
            let iterations = if options.quick { own.quick_iterations } else { Some(own.iterations) };
            let Some(iterations) = iterations else { continue };
            let arguments = [own.arguments, &["--iterations", iterations]].concat();
            let ranks = if own.pair { 2 } else { ranks };
            let workload = Workload::own(own.name, library, own.job, ranks, &arguments)?;
            cases.push(JobCase { workload, bounded: own.bounded });
        }
    }
    // What a message costs whose connection is followed. MPICH over TCP may hang when it ends.
    let messages = if options.quick { "20000" } else { "200000" };
    let tcp = Workload::own("ping-pong, 8 B, TCP", OpenMpi, "pingpong", 2, &["--iterations", messages])?;
    cases.push(JobCase { workload: tcp.over_tcp(), bounded: false });
    let is_wanted = |case: &JobCase| options.job.is_none_or(|text| case.workload.name.contains(text));
    cases.retain(is_wanted);
    ensure!(!cases.is_empty(), "no job has `{}` in its name", options.job.unwrap_or_default());
    Ok(cases)
}

/// One way of watching, and what it made of a job.
struct WatchedRuns {
    attached: AttachedDmscope,
    seconds: Samples,
    /// How much longer the job took by its time in the kernel.
    by_kernel: Samples,
    /// Percent of the time in which movements were watched.
    watched: Samples,
    seen: SessionRecords,
}

/// All the time, whatever it costs.
fn watches_everything((_, options): &(&str, &[&str])) -> bool {
    options.contains(&"none")
}

/// By the clock, and by the time in the kernel.
fn measure_all(
    cases: &[JobCase],
    placement: &str,
    options: BenchOptions,
    checks: &mut Vec<RegressionBound>,
) -> Result<[ResultTable; 2]> {
    let heading = format!("job, {placement}");
    let mut columns = vec![heading.clone(), "plain, s".to_owned()];
    columns.extend(WAYS.map(|(way, _)| format!("{way} / plain")));
    for (way, _) in WAYS.into_iter().filter(watches_everything) {
        columns.extend(["records a second", "lost, %"].map(|what| format!("{what}, {way}")));
    }
    columns.push("bytes a record on tape".to_owned());
    let mut table = ResultTable::of(columns);
    let mut columns = vec![
        format!("{heading}: by the time in the kernel, and the part of the time watched"),
        "plain, % of its time in the kernel".to_owned(),
    ];
    columns.extend(WAYS.map(|(way, _)| format!("{way} / plain")));
    columns.extend(WAYS[1..].iter().map(|(way, _)| format!("{way}: watched, %")));
    let mut kernel = ResultTable::of(columns);
    for case in cases {
        let (plain, in_kernel, watches) = measure_case(case, options)?;
        let everything = &watches[0];
        let ratio = everything.seconds.over(&plain);
        if case.bounded {
            let what = format!("{}, {placement}: everything on / plain", case.workload.name);
            // The fastest of each: what else the machine did slowed down the others.
            checks.push(RegressionBound {
                what,
                value: everything.seconds.min() / plain.min(),
                at_most: GROSS,
            });
        }
        let mut cells = vec![Cell::runs(&plain, 2), Cell::runs(&ratio, 3)];
        cells.extend(watches[1..].iter().map(|watch| Cell::runs(&watch.seconds.over(&plain), 3)));
        for (_, watch) in WAYS.iter().zip(&watches).filter(|(way, _)| watches_everything(way)) {
            let SessionRecords { records, lost, .. } = watch.seen;
            cells.push(Cell::value(records as f64 / watch.seconds.median(), 0));
            cells.push(Cell::value(100.0 * lost as f64 / (records + lost).max(1) as f64, 1));
        }
        let seen = everything.seen;
        cells.push(Cell::value(seen.tape_bytes as f64 / seen.records.max(1) as f64, 2));
        table.row(case.workload.name.clone(), cells);
        table.show_progress();
        let mut cells = vec![Cell::runs(&in_kernel, 1)];
        cells.extend(watches.iter().map(|watch| Cell::runs(&watch.by_kernel, 3)));
        cells.extend(watches[1..].iter().map(|watch| Cell::runs(&watch.watched, 0)));
        kernel.row(case.workload.name.clone(), cells);
        kernel.show_progress();
    }
    Ok([table, kernel])
}

/// Seconds and percent of the time in the kernel without dmscope, and what it is with.
fn measure_case(case: &JobCase, options: BenchOptions) -> Result<(Samples, Samples, Vec<WatchedRuns>)> {
    let watch = |(_, options): &(&str, &[&str])| {
        Ok(WatchedRuns {
            attached: AttachedDmscope::new(options)?,
            seconds: Samples::default(),
            by_kernel: Samples::default(),
            watched: Samples::default(),
            seen: SessionRecords::default(),
        })
    };
    let mut watches: Vec<WatchedRuns> = WAYS.iter().map(watch).collect::<Result<_>>()?;
    let (mut plain, mut in_kernel) = (Samples::default(), Samples::default());
    for _ in 0..options.runs(if case.bounded { BOUNDED_ROUNDS } else { ROUNDS }, QUICK_ROUNDS) {
        let alone = case.workload.run(&mut Nobody)?;
        plain.push(alone.seconds);
        in_kernel.push(100.0 * alone.in_kernel);
        for watch in &mut watches {
            let watched = case.workload.run(&mut watch.attached)?;
            watch.seconds.push(watched.seconds);
            watch.by_kernel.push(longer_by(alone.in_kernel, watched.in_kernel));
            watch.seen = watch.attached.seen;
            watch.watched.push(100.0 * watch.seen.watched);
        }
    }
    Ok((plain, in_kernel, watches))
}

//! `detection`: how long faults take to be found under a budget.

use std::time::{Duration, Instant};

use anyhow::Result;
use live::{Dmscope, JobSpec, MpiImplementation};

use crate::harness::PATIENCE;
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

const BUDGETS: [&str; 2] = ["none", "1%"];
const WAIT_AT_MOST: Duration = Duration::from_secs(60);

struct SoughtFault {
    name: &'static str,
    job: &'static str,
    ranks: usize,
}

const FAULTS: [SoughtFault; 3] = [
    SoughtFault { name: "wrong buffer (`figure2`), Open MPI, 4 ranks", job: "figure2", ranks: 4 },
    SoughtFault { name: "stale slot (`headercache`), Open MPI, 4 ranks", job: "headercache", ranks: 4 },
    SoughtFault {
        name: "one rank repeats itself (`retrystorm`), Open MPI, 16 ranks",
        job: "retrystorm",
        ranks: 16,
    },
];

/// Takes the time until each fault is found, with each budget.
///
/// # Errors
/// A job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let runs = options.runs(5, 1);
    let mut section = Section::new("detection", "How long faults take to be found under a budget");
    section.note(format!(
        "From the job's first message, as fast as messages go, to the first warning that names the fault's call or rank; {runs} \
         runs each. Given up after {} s.",
        WAIT_AT_MOST.as_secs()
    ));
    let mut table = ResultTable::new(&[
        "fault",
        "`--budget none`: found, s",
        "of runs",
        "`--budget 1%`: found, s",
        "of runs",
    ]);
    for fault in &FAULTS {
        let mut cells = Vec::new();
        for budget in BUDGETS {
            let mut seconds = Samples::default();
            for _ in 0..runs {
                if let Some(found) = seconds_to_find(fault, budget)? {
                    seconds.push(found);
                }
            }
            let found = if seconds.is_empty() { Cell::text("never") } else { Cell::runs(&seconds, 2) };
            cells.extend([found, Cell::text(format!("{} of {runs}", seconds.len()))]);
        }
        eprintln!("bench: {} done", fault.job);
        table.row(fault.name, cells);
    }
    section.tables.push(table);
    Ok(section)
}

fn seconds_to_find(fault: &SoughtFault, budget: &str) -> Result<Option<f64>> {
    let job =
        JobSpec::own(MpiImplementation::OpenMpi, fault.job)?.ranks(fault.ranks).held().endless().spawn()?;
    job.wait_until_ready(PATIENCE)?;
    let limit = format!("{}s", WAIT_AT_MOST.as_secs());
    let mut dmscope =
        Dmscope::attach(job.launcher_pid()).args(["--budget", budget, "--duration", &limit]).spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let begin = Instant::now();
    let found = dmscope.wait_for_alert(|finding| finding["severity"] == "warning").is_ok();
    let seconds = begin.elapsed().as_secs_f64();
    dmscope.interrupt();
    dmscope.finish()?;
    job.stop()?;
    job.finish(PATIENCE)?;
    Ok(found.then_some(seconds))
}

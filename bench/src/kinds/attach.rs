//! `attach`: how long it takes to put the probes in place and to take them out.

use std::time::Instant;

use anyhow::{Context, Result};
use live::{Dmscope, JobSpec, MpiImplementation};

use crate::harness::PATIENCE;
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

/// So that many ranks leave the machine some time.
const PAUSE_US: &str = "20000";

/// Attaches to jobs of more and more ranks again and again, and detaches.
///
/// # Errors
/// The job or dmscope failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let rounds = options.runs(5, 2);
    let mut section = Section::new("attach", "Attaching and detaching");
    section.note(format!(
        "`ring` (Open MPI) with a pause of {PAUSE_US} µs between messages; {rounds} sessions. Attached: as dmscope says itself, all \
         probes in place. Started: from the command's start until then. Ended: from ctrl-c to the command's end, the \
         report included."
    ));
    let mut table = ResultTable::new(&["ranks", "probes", "attached, ms", "started, ms", "ended, ms"]);
    for ranks in if options.quick { &[4][..] } else { &[4, 16, 64] } {
        let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.ranks(*ranks).endless();
        let job = job.args(["--pause-us", PAUSE_US]).spawn()?;
        job.wait_until_ready(PATIENCE)?;
        let mut probes = 0;
        let (mut attached_ms, mut started_ms, mut ended_ms) = <(Samples, Samples, Samples)>::default();
        for _ in 0..rounds {
            let begin = Instant::now();
            let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
            let attached = dmscope.wait_for_event("attached")?;
            started_ms.push(begin.elapsed().as_secs_f64() * 1e3);
            attached_ms.push(attached["took_ms"].as_f64().context("no took_ms")?);
            probes = attached["probes"].as_u64().context("no probes")?;
            dmscope.wait_until_attached()?;
            let begin = Instant::now();
            dmscope.interrupt();
            dmscope.finish()?;
            ended_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        job.stop()?;
        job.finish(PATIENCE)?.check_verdict()?;
        let cells = [&attached_ms, &started_ms, &ended_ms].map(|samples| Cell::runs(samples, 0));
        table.row(ranks.to_string(), [Cell::value(probes as f64, 0)].into_iter().chain(cells).collect());
    }
    section.tables.push(table);
    Ok(section)
}

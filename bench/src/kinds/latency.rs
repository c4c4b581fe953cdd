//! `latency`: from a wrong movement to its alert.

use anyhow::Result;
use live::{Cluster, JobSpec, MpiImplementation, RunningJob, latency};

use crate::harness::PATIENCE;
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

/// How long each job moves right data first.
const SECONDS_BEFORE: &str = "0.5";

/// Makes jobs move wrong data, and takes the time until the alert.
///
/// # Errors
/// A job or dmscope failed, or an alert did not come.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let alerts = options.runs(100, 5);
    let mut section = Section::new("latency", "From a wrong movement to its alert");
    section.note(format!(
        "A job of 4 ranks (`figure2`, Open MPI) moves right data for {SECONDS_BEFORE} s, then wrong data for the first time and \
         notes when; the alert's arrival on dmscope's output is what counts. A new job and a new attach for each of the \
         {alerts} alerts; without other load and with another job of 4 busy ranks, not watched, in turn. Then the same with a rank          on each of two nodes (network namespaces of this machine, TCP between them, messages 200 µs apart), to the alert of the session over both."
    ));
    let (mut alone_ms, mut loaded_ms) = (Samples::default(), Samples::default());
    for _ in 0..alerts {
        alone_ms.push(latency::of_one_alert(SECONDS_BEFORE)?.as_secs_f64() * 1e3);
        let load = busy_job()?;
        loaded_ms.push(latency::of_one_alert(SECONDS_BEFORE)?.as_secs_f64() * 1e3);
        load.stop()?;
        load.finish(PATIENCE)?.check_verdict()?;
    }
    let cluster = Cluster::start(2)?;
    let mut nodes_ms = Samples::default();
    for _ in 0..alerts {
        nodes_ms.push(latency::of_one_alert_over_nodes(&cluster, SECONDS_BEFORE)?.as_secs_f64() * 1e3);
    }
    let mut table =
        ResultTable::new(&["", "alerts", "median, ms", "99th percentile, ms", "smallest, ms", "largest, ms"]);
    for (name, samples) in
        [("the job alone", &alone_ms), ("beside another job", &loaded_ms), ("over two nodes", &nodes_ms)]
    {
        table.row(
            name,
            vec![
                Cell::value(samples.len() as f64, 0),
                Cell::value(samples.median(), 1),
                Cell::value(samples.percentile(99.0), 1),
                Cell::value(samples.min(), 1),
                Cell::value(samples.max(), 1),
            ],
        );
    }
    section.tables.push(table);
    Ok(section)
}

fn busy_job() -> Result<RunningJob> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "ring")?.ranks(4).endless().spawn()?;
    job.wait_until_ready(PATIENCE)?;
    Ok(job)
}

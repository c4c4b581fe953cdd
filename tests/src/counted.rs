//! Counts of copies: what a job says that it made, and what a session says that it saw.

use std::fs::File;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::findings::frame;
use crate::{CountedSite, Dmscope, FinishedJob, FinishedSession, JobSpec};

/// `counts` has a library that has nothing to do with MPI: it is watched on demand.
pub const LIBRARY: [&str; 2] = ["--library", "libcounts*"];

/// Numbers of a session.
pub fn statistics(session: &FinishedSession) -> Result<&Value> {
    Ok(&session.report()?["statistics"])
}

/// Runs `counts` with two ranks under dmscope, which stands still from when it knows them until they have made all their copies.
pub fn run_unread(job: JobSpec, options: &[&str]) -> Result<FinishedSession> {
    let folder = TempDir::new()?;
    let go = folder.path().join("go");
    let job = job.args(["--wait-for".to_owned(), go.to_string_lossy().into_owned()]);
    let run =
        Dmscope::run(&job).args(LIBRARY).args(["--budget", "none"]).args(options.iter().copied()).spawn()?;
    let knows_both =
        |event: &Value| event["event"] == "status" && event["ranks"].as_array().map(Vec::len) == Some(2);
    run.wait_for(knows_both)?;
    run.signal(Signal::STOP);
    File::create(&go)?;
    run.wait_for_line("ok counts")?;
    run.signal(Signal::CONT);
    run.finish()
}

/// Hits of one rank at the copies of a place of the source.
fn hits(statistics: &Value, site: &CountedSite) -> u64 {
    let probes = statistics["probes"].as_array().into_iter().flatten();
    let at_site = probes.filter(|probe| {
        let module = probe["place"]["module"].as_str().unwrap_or_default();
        probe["class"] == "copy"
            && module.rsplit('/').next() == Some(&site.module)
            && frame(&probe["place"]) == Some((&site.function, &site.file, site.line.into()))
    });
    let by_who = at_site.flat_map(|probe| probe["by_who"].as_array().into_iter().flatten());
    let of_rank = by_who.filter(|count| count["who"]["rank"] == site.rank);
    of_rank.filter_map(|count| count["count"].as_u64()).sum()
}

/// The places where a job copied, with how often.
pub fn copies(job: &FinishedJob) -> Result<Vec<CountedSite>> {
    let mut sites = job.sites()?;
    sites.retain(|site| site.kind == "copy");
    ensure!(!sites.is_empty(), "the job counted no copies");
    Ok(sites)
}

/// Fails unless each copy of a job was seen once, where it was made and of the rank that made it.
pub fn check_exact(session: &FinishedSession, job: &FinishedJob) -> Result<()> {
    let statistics = statistics(session)?;
    for loss in ["lost_movements", "lost_calls", "lost_state", "bad_records", "unplanned_records"] {
        ensure!(statistics[loss] == 0, "{loss}: {}", statistics[loss]);
    }
    for site in copies(job)? {
        let found = hits(statistics, &site);
        ensure!(found == site.calls, "{found} hits instead of {site:?}");
    }
    Ok(())
}

//! Counts of copies: what a job says that it made, and what a session says that it saw.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::findings::frame;
use crate::{CountedSite, FinishedJob, FinishedSession};

/// `counts` has a library that has nothing to do with MPI: it is watched on demand.
pub const LIBRARY: [&str; 2] = ["--library", "libcounts*"];

/// Numbers of a session.
pub fn statistics(session: &FinishedSession) -> Result<&Value> {
    Ok(&session.report()?["statistics"])
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

//! Every copy at a watched call site is counted, once, where it was made and for the rank that made it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::counted::{LIBRARY, check_exact, copies, run_unread, statistics};
use live::{Dmscope, FinishedJob, FinishedSession, JobSpec, MpiImplementation};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

fn watch(spec: JobSpec, options: &[&str]) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let attach = Dmscope::attach(job.launcher_pid()).args(LIBRARY).args(options.iter().copied());
    let mut dmscope = attach.spawn()?;
    dmscope.wait_until_attached()?;
    job.go()?;
    let job = job.finish(TIMEOUT)?;
    job.check_verdict()?;
    Ok((dmscope.finish()?, job))
}

#[test]
fn all_forms_of_copies_are_counted_exactly_by_place_and_rank() -> Result<()> {
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "counts")?.args(["--iterations", "6000"]);
        let (session, job) = watch(spec, &[])?;
        check_exact(&session, &job).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn under_run_all_copies_are_counted_from_the_first() -> Result<()> {
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "counts")?.args(["--iterations", "6000"]);
        let session = Dmscope::run(&spec).args(LIBRARY).finish()?;
        check_exact(&session, session.job()?).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn the_staging_copies_of_messages_are_counted_exactly() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in ["figure2", "figure2_static"] {
            let (session, job) = watch(JobSpec::own(library, name)?.args(["--iterations", "5000"]), &[])?;
            check_exact(&session, &job).with_context(|| format!("{name}, {library:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn without_symbols_the_same_numbers_are_at_offsets() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "stripped/counts")?.args(["--iterations", "6000"]);
    let (session, job) = watch(spec, &[])?;
    let statistics = statistics(&session)?;
    for module in ["counts", "libcounts.so"] {
        let probes = statistics["probes"].as_array().into_iter().flatten().filter(|probe| {
            let path = probe["place"]["module"].as_str().unwrap_or_default();
            probe["class"] == "copy" && path.rsplit('/').next() == Some(module)
        });
        let by_who = probes.flat_map(|probe| probe["by_who"].as_array().into_iter().flatten());
        let mut found: Vec<_> = by_who
            .filter_map(|count| Some((count["who"]["rank"].as_u64()?, count["count"].as_u64()?)))
            .collect();
        let sites = copies(&job)?.into_iter().filter(|site| site.module == module);
        let mut expected: Vec<_> = sites.map(|site| (u64::from(site.rank), site.calls)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        ensure!(found == expected, "{module}: {found:?} instead of {expected:?}");
    }
    Ok(())
}

/// While dmscope stands still the job makes more copies than any look at a smaller ring would find.
#[test]
fn large_rings_that_nobody_has_read_for_long_are_read_whole_and_in_order() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "counts")?.args(["--iterations", "100000"]);
    let session = run_unread(spec, &["--ring-size", "128M"])?;
    check_exact(&session, session.job()?)?;
    let statistics = statistics(&session)?;
    ensure!(
        statistics["movements"].as_u64() > Some(1_000_000),
        "too little to be sure: {}",
        statistics["movements"]
    );
    ensure!(statistics["late_records"] == 0, "{} late records", statistics["late_records"]);
    Ok(())
}

/// Rings that are far too small lose much, and say how much: what was seen and what was lost is what there was.
#[test]
fn what_was_seen_and_what_was_lost_is_what_there_was() -> Result<()> {
    const ITERATIONS: &str = "60000";
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "counts")?.args(["--iterations", ITERATIONS]);
    let (session, job) = watch(spec, &["--ring-size", "4096"])?;
    let processes = statistics(&session)?["processes"].as_array().context("no processes")?;
    for rank in 0..2 {
        let process =
            processes.iter().find(|process| process["rank"] == rank).context("a rank is missing")?;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let seen: u64 =
            process["records"].as_array().into_iter().flatten().map(|kind| number(&kind["count"])).sum();
        let lost: u64 =
            ["lost_movements", "lost_calls", "lost_state"].iter().map(|lost| number(&process[lost])).sum();
        let known: u64 =
            copies(&job)?.iter().filter(|site| u64::from(site.rank) == rank).map(|site| site.calls).sum();
        eprintln!("rank {rank}: {seen} seen + {lost} lost, {known} made by the job");
        ensure!(lost > 0, "nothing was lost: the test does not test");
        // The MPI library's own calls and copies, and memory, come on top: few in this job.
        let beside = seen + lost - known.min(seen + lost);
        ensure!(seen + lost >= known && beside < known / 20, "{seen} seen + {lost} lost, but {known} made");
    }
    ensure!(session.status != Some(1), "a finding out of losses");
    Ok(())
}

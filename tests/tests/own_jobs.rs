//! The project's own jobs do what the other tests rely on: without a tracer, with both MPI libraries.

use std::time::Duration;

use anyhow::Result;
use live::{FinishedJob, JobSpec, MpiImplementation, Transport};

const TIMEOUT: Duration = Duration::from_secs(60);

/// MPICH burns a core per rank: two ranks, or few iterations.
fn usual_ranks(library: MpiImplementation) -> usize {
    match library {
        MpiImplementation::OpenMpi => 4,
        MpiImplementation::Mpich => 2,
    }
}

fn run(spec: JobSpec) -> Result<FinishedJob> {
    spec.spawn()?.finish(TIMEOUT)
}

fn own(library: MpiImplementation, name: &str, args: &[&str]) -> Result<FinishedJob> {
    run(JobSpec::own(library, name)?.ranks(usual_ranks(library)).args(args.iter().copied()))
}

#[test]
fn clean_jobs_find_their_data_right() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in
            ["ring", "halo2d", "alltoall", "masterworker", "onesided", "anysource", "pingpong", "testany"]
        {
            own(library, name, &["--iterations", "200"])?.check_verdict()?;
        }
        for name in ["threads", "large"] {
            own(library, name, &["--iterations", "2"])?.check_verdict()?;
        }
    }
    Ok(())
}

#[test]
fn jobs_run_for_the_time_that_is_asked_for() -> Result<()> {
    let job = own(MpiImplementation::OpenMpi, "ring", &["--seconds", "2"])?;
    job.check_verdict()?;
    assert!(job.elapsed >= Duration::from_secs(2) && job.elapsed < Duration::from_secs(20));
    Ok(())
}

#[test]
fn messages_of_all_sizes_arrive_over_every_transport() -> Result<()> {
    let transports = [Transport::SharedMemory, Transport::SharedMemoryWithoutSingleCopy, Transport::Tcp];
    for library in MpiImplementation::ALL {
        for transport in transports {
            for size in ["8", "65536", "1000000"] {
                let ring = JobSpec::own(library, "ring")?.args(["--iterations", "20", "--size", size]);
                let job = ring.transport(transport).spawn()?;
                let verdict =
                    job.wait_for_line(TIMEOUT, |line| line.starts_with("ok ") || line.starts_with("wrong "))?;
                assert!(verdict.starts_with("ok "), "{library:?}, {transport:?}, {size} bytes: {verdict}");
                if (library, transport) != (MpiImplementation::Mpich, Transport::Tcp) {
                    job.finish(TIMEOUT)?.check_status()?; // see Transport::Tcp
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_halo_of_64_kib_is_exchanged_as_columns_and_as_rows() -> Result<()> {
    for shape in [&["--halo-bytes", "65536"][..], &["--halo-bytes", "65536", "--wide"]] {
        let job = own(MpiImplementation::OpenMpi, "halo2d", &[shape, &["--iterations", "20"]].concat())?;
        job.check_verdict()?;
        assert!(job.total("iteration_ns")? > 0);
    }
    Ok(())
}

#[test]
fn figure2_corrupts_exactly_what_it_sends_wrong_and_ends_well() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in ["figure2", "figure2_static", "stripped/figure2", "headercache"] {
            let job = own(library, name, &["--iterations", "1000"])?;
            job.check_verdict()?;
            assert!(job.total("wrong_sends")? > 0, "{name}");
            assert_eq!(job.total("corrupted_received")?, job.total("wrong_sends")?, "{name}");
        }
    }
    Ok(())
}

#[test]
fn without_their_faults_the_same_jobs_are_clean_and_still_take_the_rare_path() -> Result<()> {
    for name in ["figure2", "headercache"] {
        let job = own(MpiImplementation::OpenMpi, name, &["--iterations", "1000", "--no-bug"])?;
        job.check_verdict()?;
        assert!(job.total("rare_sends")? > 0, "{name}");
        assert_eq!((job.total("wrong_sends")?, job.total("corrupted_received")?), (0, 0), "{name}");
    }
    Ok(())
}

#[test]
fn a_fault_can_be_made_to_begin_later() -> Result<()> {
    let args = ["--seconds", "0.6", "--start-after", "0.3", "--rare", "0.1"];
    for result in own(MpiImplementation::OpenMpi, "figure2", &args)?.lines_of_type("result")? {
        let nanoseconds = |field: &str| result[field].as_u64().unwrap_or(0);
        let delay_ns = nanoseconds("first_wrong_movement_monotonic_ns") - nanoseconds("go_monotonic_ns");
        assert!((300_000_000..600_000_000).contains(&delay_ns), "{delay_ns}");
    }
    Ok(())
}

#[test]
fn the_sites_of_figure2_count_one_staging_copy_and_one_send_per_message() -> Result<()> {
    let job = own(MpiImplementation::OpenMpi, "figure2", &["--iterations", "500"])?;
    for rank in 0..4 {
        let mut sites = job.sites()?;
        sites.retain(|site| site.rank == rank);
        sites.sort_by(|a, b| a.label.cmp(&b.label));
        let counts: Vec<_> = sites.iter().map(|site| (&*site.kind, &*site.label, site.calls)).collect();
        let receive = ("receive", "low level receive", 1000);
        let send = ("send", "low level send", 1000);
        assert_eq!(counts, [receive, send, ("copy", "stage", 1000), ("copy", "unstage", 1000)]);
    }
    assert!(job.sites()?.iter().all(|site| site.module == "libmsg_figure2.so"));
    Ok(())
}

#[test]
fn the_sites_of_the_program_with_its_library_linked_in_are_in_the_program() -> Result<()> {
    let job = own(MpiImplementation::OpenMpi, "figure2_static", &["--iterations", "10"])?;
    assert!(job.sites()?.iter().all(|site| site.module == "figure2_static"));
    Ok(())
}

#[test]
fn every_rank_of_the_header_cache_fails_alike() -> Result<()> {
    let results =
        own(MpiImplementation::OpenMpi, "headercache", &["--iterations", "1000"])?.lines_of_type("result")?;
    assert_eq!(results.len(), 4);
    // Two connections of 1000 messages, one corner in 100 messages.
    assert!(results.iter().all(|result| result["wrong_sends"] == 20), "{results:?}");
    Ok(())
}

fn repetitions_by_rank(job: &FinishedJob) -> Result<Vec<u64>> {
    let results = job.lines_of_type("result")?;
    Ok(results.iter().map(|result| result["repetitions"].as_u64().unwrap()).collect())
}

#[test]
fn one_rank_of_the_retry_storm_repeats_its_request_and_its_neighbour_drops_the_repetitions() -> Result<()> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "retrystorm")?.ranks(8).args(["--iterations", "200"]);
    let job = run(spec.clone())?;
    job.check_verdict()?;
    assert_eq!(repetitions_by_rank(&job)?, [0, 0, 0, 0, 0, 200 * 32, 0, 0]);
    assert_eq!(job.total("duplicates")?, 200 * 32);
    assert_eq!(job.lines_of_type("result")?[2]["requests"], 2);

    let late = run(spec.clone().args(["--late", "--bad-rank", "2"]))?;
    let late_repetitions = repetitions_by_rank(&late)?;
    assert!((20 * 32..=21 * 32).contains(&late_repetitions[2]), "{late_repetitions:?}");
    assert_eq!(run(spec.args(["--no-bug"]))?.total("repetitions")?, 0);
    Ok(())
}

#[test]
fn the_retry_storm_of_eight_ranks_runs_with_mpich_as_well() -> Result<()> {
    let job =
        run(JobSpec::own(MpiImplementation::Mpich, "retrystorm")?.ranks(8).args(["--iterations", "50"]))?;
    job.check_verdict()?;
    assert_eq!(repetitions_by_rank(&job)?[5], 50 * 32);
    Ok(())
}

#[test]
fn each_site_of_counts_has_its_own_known_number_of_calls() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = run(JobSpec::own(library, "counts")?.args(["--iterations", "600"]))?;
        job.check_verdict()?;
        let sites = job.sites()?;
        for rank in 0..2u32 {
            let iterations = 600 * u64::from(rank + 1);
            let expected = [
                ("program_memcpy", "memcpy", 1),
                ("program_memmove", "memmove", 2),
                ("library_memcpy", "memcpy", 1),
                ("library_memmove", "memmove", 3),
                ("library_mempcpy", "mempcpy", 4),
                ("library_tail_memcpy", "memcpy in tail position", 5),
                ("library_two_copies", "first of two", 6),
                ("library_two_copies", "second of two", 6),
            ];
            for (function, label, every) in expected {
                let site = sites
                    .iter()
                    .find(|site| (site.rank, &*site.function, &*site.label) == (rank, function, label));
                assert_eq!(site.unwrap().calls, iterations / every, "{function}, {label}, rank {rank}");
            }
            assert_eq!(sites.iter().filter(|site| site.rank == rank).count(), expected.len());
        }
    }
    Ok(())
}

#[test]
fn a_wrong_option_is_an_error_with_its_name() -> Result<()> {
    let job = own(MpiImplementation::OpenMpi, "ring", &["--sizes", "3"])?;
    assert!(!job.status.success());
    assert!(job.stderr.iter().any(|line| line.contains("unknown option --sizes")));
    Ok(())
}

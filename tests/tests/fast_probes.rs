//! Probes without the kernel: the same counts and findings, jobs that end right whatever happens, and kernel probes where they are
//! not possible.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::counted::{check_exact, statistics};
use live::{
    Dmscope, FinishedJob, FinishedSession, JobSpec, MpiImplementation, RunningJob, RunningSession, build,
    number_from_environment,
};
use rustix::process::Signal;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);
const FAST: [&str; 2] = ["--probes", "fast"];
const LIBRARY: [&str; 2] = ["--library", "libcounts*"];

fn attach(job: &RunningJob, options: &[&str]) -> Result<RunningSession> {
    Dmscope::attach(job.launcher_pid()).args(FAST).args(options.iter().copied()).spawn()
}

/// How many probes are code in the job.
fn fast_probes(attached: &Value) -> u64 {
    attached["fast"].as_u64().unwrap_or(0)
}

/// Fails if all is done by the kernel, and says what dmscope says of that.
fn check_fast(dmscope: &RunningSession, attached: &Value) -> Result<()> {
    if fast_probes(attached) == 0 {
        let why = dmscope.wait_for_event("notice")?;
        anyhow::bail!("all by the kernel: {why}");
    }
    Ok(())
}

/// Watches a held job from its first message to its end.
fn watch(spec: JobSpec, options: &[&str]) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = attach(&job, options)?;
    let attached = dmscope.wait_until_attached()?;
    check_fast(&dmscope, &attached)?;
    job.go()?;
    let job = job.finish(TIMEOUT)?;
    job.check_verdict()?;
    Ok((dmscope.finish()?, job))
}

/// A job that checks its data all the time, until it is stopped.
fn busy(library: MpiImplementation) -> Result<RunningJob> {
    let job = JobSpec::own(library, "figure2")?.ranks(4).args(["--no-bug"]).endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    Ok(job)
}

fn stop_and_check(job: RunningJob) -> Result<()> {
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

fn records(session: &FinishedSession) -> Result<u64> {
    Ok(statistics(session)?["records"].as_u64().unwrap_or(0))
}

#[test]
fn all_forms_of_copies_are_counted_exactly_without_the_kernel_by_place_and_rank() -> Result<()> {
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "counts")?.args(["--iterations", "6000"]);
        let (session, job) = watch(spec, &LIBRARY)?;
        check_exact(&session, &job).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn the_staging_copies_of_messages_are_counted_exactly_without_the_kernel() -> Result<()> {
    for library in MpiImplementation::ALL {
        for name in ["figure2", "figure2_static"] {
            let (session, job) = watch(JobSpec::own(library, name)?.args(["--iterations", "5000"]), &[])?;
            check_exact(&session, &job).with_context(|| format!("{name}, {library:?}"))?;
        }
    }
    Ok(())
}

/// What a job that gives out blocks has to have recorded of it in each iteration, by function: all of it, and what goes through slots.
const BLOCKS: [(&str, u64, u64); 6] = [
    ("malloc", 5, 4),
    ("calloc", 1, 1),
    ("realloc", 2, 1),
    // What the C library begins these with cannot be done in their place.
    ("posix_memalign", 1, 0),
    ("memalign", 1, 0),
    ("free", 9, 8),
];

/// How many blocks were recorded of the functions of the allocator, by all probes and by those that are code in the job.
fn blocks(session: &FinishedSession, slots: &BTreeSet<u64>) -> Result<BTreeMap<String, (u64, u64)>> {
    let rows = statistics(session)?["probes"].as_array().context("no probes")?;
    let mut blocks = BTreeMap::new();
    for row in rows.iter().filter(|row| row["class"] == "alloc" || row["class"] == "free") {
        let (name, hits) = (row["function"].as_str().unwrap_or_default(), row["hits"].as_u64().unwrap_or(0));
        let known: &mut (u64, u64) = blocks.entry(name.to_owned()).or_default();
        known.0 += hits;
        if row["probe"].as_u64().is_some_and(|probe| slots.contains(&probe)) {
            known.1 += hits;
        }
    }
    Ok(blocks)
}

/// Ids of probes of the allocator that are code in the job.
fn slots_of_blocks(job: &RunningJob) -> Result<BTreeSet<u64>> {
    let probes =
        Dmscope::command("probes", [job.launcher_pid().to_string()]).args(FAST).args(["--all"]).finish()?;
    let is_of_heap = |line: &&String| line.contains(" allocation ") || line.contains(" free ");
    let slots = probes.stdout.iter().filter(is_of_heap).filter(|line| line.contains(" slot "));
    Ok(slots.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect())
}

#[test]
fn heap_blocks_are_counted_as_by_the_kernel_whichever_way_they_are_asked_for() -> Result<()> {
    const ITERATIONS: u64 = 5000;
    // What the library, its plugins and the C library allocate at the end.
    const OTHERS: u64 = 2000;
    for library in MpiImplementation::ALL {
        let iterations = ITERATIONS.to_string();
        let spec =
            || JobSpec::own(library, "blocks").map(|spec| spec.ranks(2).args(["--iterations", &iterations]));
        let held = spec()?.held().spawn()?;
        held.wait_until_ready(TIMEOUT)?;
        let slots = slots_of_blocks(&held)?;
        ensure!(slots.len() == 4, "{library:?}: {slots:?} through slots");
        held.go()?;
        held.finish(TIMEOUT)?.check_verdict()?;
        let fast = blocks(&watch(spec()?, &[])?.0, &slots)?;
        let kernel = blocks(&watch_by_kernel(spec()?)?, &BTreeSet::new())?;
        eprintln!("{library:?}: {fast:?}, by the kernel alone {kernel:?}");
        for (name, all, through_slots) in BLOCKS {
            let expected = |each: u64| 2 * ITERATIONS * each..2 * ITERATIONS * each + OTHERS;
            let (found, found_in_slots) = fast.get(name).copied().unwrap_or_default();
            ensure!(
                expected(all).contains(&found),
                "{library:?}, {name}: {found} instead of {all} each time"
            );
            ensure!(
                expected(through_slots).contains(&found_in_slots),
                "{library:?}, {name}: {found_in_slots} through slots"
            );
            let of_kernel = kernel.get(name).map_or(0, |(all, _)| *all);
            ensure!(expected(all).contains(&of_kernel), "{library:?}, {name}: {of_kernel} by the kernel");
        }
    }
    Ok(())
}

/// Movements by the MPI call that they were made in.
fn movements_by_call(session: &FinishedSession) -> Result<Vec<(String, u64)>> {
    let calls = statistics(session)?["calls"].as_array().context("no calls")?;
    let row = |call: &Value| Some((call["function"].as_str()?.to_owned(), call["movements"].as_u64()?));
    let mut rows: Vec<_> = calls.iter().filter_map(row).filter(|(_, movements)| *movements > 0).collect();
    rows.sort();
    ensure!(!rows.is_empty(), "no call moves anything: {calls:?}");
    Ok(rows)
}

fn watch_by_kernel(spec: JobSpec) -> Result<FinishedSession> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    Ok(dmscope.see_through(job, TIMEOUT)?.0)
}

/// How often each MPI call was made, but for those that wait for something by asking.
fn calls_made(session: &FinishedSession) -> Result<BTreeMap<String, u64>> {
    let rows = statistics(session)?["calls"].as_array().context("no calls")?;
    let row = |call: &Value| Some((call["function"].as_str()?.to_owned(), call["calls"].as_u64()?));
    let mut calls: BTreeMap<_, _> = rows.iter().filter_map(row).collect();
    let asks =
        |name: &str| ["MPI_Test", "MPI_Iprobe", "MPI_Improbe"].iter().any(|call| name.starts_with(call));
    calls.retain(|name, _| !name.is_empty() && !asks(name));
    Ok(calls)
}

/// Blocking, nonblocking and collective calls, those with arguments on the stack, datatypes, windows.
const OF_ALL_KINDS: [&str; 3] = ["halo2d", "alltoall", "onesided"];

/// MPI calls that these programs make are to be recorded through slots: else one engine is held against itself.
fn check_slots(spec: &JobSpec) -> Result<()> {
    let job = spec.clone().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let probes =
        Dmscope::command("probes", [job.launcher_pid().to_string()]).args(FAST).args(["--all"]).finish()?;
    let is_slot =
        |line: &&String| line.contains(" call ") && line.contains(" MPI_") && line.contains(" slot ");
    let of_calls = probes.stdout.iter().filter(is_slot).count();
    ensure!(of_calls >= 3, "{of_calls} MPI calls through slots:\n{}", probes.stdout.join("\n"));
    job.go()?;
    job.finish(TIMEOUT)?.check_verdict()
}

/// A job is watched by both engines, and the same calls are counted. `options`: of the session with fast probes.
fn check_counted_alike(spec: JobSpec, options: &[&str]) -> Result<FinishedSession> {
    let (session, _) = watch(spec.clone(), options)?;
    let (fast, kernel) = (calls_made(&session)?, calls_made(&watch_by_kernel(spec)?)?);
    ensure!(fast == kernel && !fast.is_empty(), "{fast:?} instead of {kernel:?}");
    eprintln!("{fast:?}");
    Ok(session)
}

#[test]
fn mpi_calls_are_counted_as_by_the_kernel() -> Result<()> {
    for (library, name) in MpiImplementation::ALL.into_iter().flat_map(|l| OF_ALL_KINDS.map(|name| (l, name)))
    {
        let what = || format!("{name}, {library:?}");
        let spec = JobSpec::own(library, name)?.args(["--iterations", "200"]);
        check_slots(&spec).with_context(what)?;
        check_counted_alike(spec, &[]).with_context(what)?;
    }
    Ok(())
}

#[test]
fn calls_alone_are_counted_as_by_the_kernel() -> Result<()> {
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "halo2d")?.args(["--iterations", "200"]);
        let fast = check_counted_alike(spec, &["--calls-only"]).with_context(|| format!("{library:?}"))?;
        // No copies, which are thousands. What ranks and launcher tell each other at the end goes over TCP.
        let movements = statistics(&fast)?["movements"].as_u64();
        ensure!(movements < Some(100), "{library:?}: {movements:?} movements");
    }
    Ok(())
}

/// Half of the messages are sent by a library that is loaded in the middle of the run.
#[test]
fn mpi_calls_of_a_library_that_is_loaded_later_are_seen_within_a_second_and_what_was_missed_is_a_loss()
-> Result<()> {
    const ITERATIONS: u64 = 3000;
    for library in MpiImplementation::ALL {
        let spec = JobSpec::own(library, "dlopener")?;
        let iterations = ITERATIONS.to_string();
        let spec = spec.args(["--iterations", iterations.as_str(), "--pause-us", "1000"]);
        let (session, _) = watch(spec, &[])?;
        let sent = calls_made(&session)?.get("MPI_Send").copied().context("no MPI_Send")?;
        let (all, missed) = (2 * ITERATIONS, 2 * 1000);
        eprintln!("{library:?}: {sent} of {all}");
        ensure!(sent > all - missed && sent <= all + 2, "{library:?}: {sent} of {all} calls");
        ensure!(statistics(&session)?["lost_calls"].as_u64() > Some(0), "nothing is said of what was missed");
    }
    Ok(())
}

#[test]
fn copies_are_in_the_same_mpi_calls_as_the_kernel_says() -> Result<()> {
    for library in MpiImplementation::ALL {
        let own = JobSpec::own(library, "figure2")?.args(["--iterations", "3000", "--no-bug"]);
        let (fast, _) = watch(own.clone(), &[])?;
        let kernel = watch_by_kernel(own)?;
        let (fast, kernel) = (movements_by_call(&fast)?, movements_by_call(&kernel)?);
        eprintln!("{library:?}: {fast:?}");
        let in_call = |rows: &[(String, u64)], name: &String| {
            rows.iter().find(|(of, _)| of == name).map_or(0, |(_, count)| *count)
        };
        for (name, _) in fast.iter().chain(&kernel) {
            // How a message goes, and which call gets a barrier's or the end's on its way, depends on who comes first.
            let (fast, kernel) = (in_call(&fast, name), in_call(&kernel, name));
            ensure!(
                fast.abs_diff(kernel) <= kernel / 4 + 50,
                "{library:?}, {name}: {fast} instead of {kernel}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_fault_is_found_without_the_kernel_in_the_middle_of_a_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        let ranks = if library == MpiImplementation::OpenMpi { 4 } else { 2 };
        let job = JobSpec::own(library, "figure2")?.ranks(ranks).endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = attach(&job, &[])?;
        let attached = dmscope.wait_until_attached()?;
        check_fast(&dmscope, &attached)?;
        dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
        job.stop()?;
        job.finish(TIMEOUT)?.check_verdict()?;
        let session = dmscope.finish()?;
        session.findings()?.first_warning()?;
        ensure!(session.status == Some(1), "{library:?}: status {:?}", session.status);
    }
    Ok(())
}

#[test]
fn in_and_out_again_and_again_a_busy_job_stays_right() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = busy(library)?;
        for round in 0..number_from_environment("DMSCOPE_TEST_ATTACHES", 3)? {
            let mut dmscope = attach(&job, &["--duration", "300ms"])?;
            let attached = dmscope.wait_until_attached()?;
            check_fast(&dmscope, &attached).with_context(|| format!("{library:?}, round {round}"))?;
            let session = dmscope.finish()?;
            ensure!(records(&session)? > 100, "{library:?}, round {round}: nothing was seen");
        }
        stop_and_check(job)?;
    }
    Ok(())
}

#[test]
fn killed_at_any_moment_it_leaves_a_job_that_ends_right_and_the_next_session_works() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = busy(library)?;
        for round in 0..number_from_environment("DMSCOPE_TEST_KILLS", 2)? {
            let mut dmscope = attach(&job, &[])?;
            if round.is_multiple_of(2) {
                dmscope.wait_for_event("placed")?;
            } else {
                dmscope.wait_until_attached()?;
            }
            std::thread::sleep(Duration::from_millis(round as u64 * 7919 % 700));
            dmscope.end_by(Signal::KILL);
            dmscope.finish()?;
        }
        // Nobody else may be reading: so long it looks as if somebody did.
        std::thread::sleep(Duration::from_millis(2500));
        let mut dmscope = attach(&job, &["--duration", "500ms"])?;
        let attached = dmscope.wait_until_attached()?;
        check_fast(&dmscope, &attached)?;
        ensure!(records(&dmscope.finish()?)? > 100, "{library:?}: nothing was seen");
        stop_and_check(job)?;
    }
    Ok(())
}

#[test]
fn ranks_that_fork_and_their_children_run_on_under_fast_probes() -> Result<()> {
    for library in MpiImplementation::ALL {
        let begin = Instant::now();
        let spec = JobSpec::own(library, "forker")?.args(["--iterations", "2000", "--every", "20"]);
        let (session, _) = watch(spec, &[])?;
        eprintln!("{library:?}: {:?}, {} records", begin.elapsed(), records(&session)?);
    }
    Ok(())
}

#[test]
fn a_call_that_a_profiler_takes_in_between_is_counted_once_as_by_the_kernel() -> Result<()> {
    for (library, name) in
        MpiImplementation::ALL.into_iter().flat_map(|l| ["halo2d", "alltoall"].map(|n| (l, n)))
    {
        let what = || format!("{name}, {library:?}");
        let tool = build::jobs_for(library)?.join("libpmpi_tool.so");
        let spec = JobSpec::own(library, name)?.args(["--iterations", "200"]);
        let spec = spec.through(["env".to_owned(), format!("LD_PRELOAD={}", tool.display())]);
        check_counted_alike(spec, &[]).with_context(what)?;
    }
    Ok(())
}

/// Ranks record by themselves from some moment on, and this says so.
const MOVED: &str = "are fast probes from now on";

fn says_moved(event: &Value) -> bool {
    event["event"] == "notice" && event["message"].as_str().is_some_and(|text| text.contains(MOVED))
}

fn check_moved(session: &FinishedSession) -> Result<()> {
    let has_moved = session.events.iter().any(says_moved);
    ensure!(has_moved, "ranks have not moved: {:?}", session.events_of("notice"));
    Ok(())
}

/// Long enough that ranks begin to record by themselves in the middle, and with pauses, so that nothing is lost.
fn in_the_middle(library: MpiImplementation, name: &str, iterations: u64, pause_us: u64) -> Result<JobSpec> {
    let (iterations, pause_us) = (iterations.to_string(), pause_us.to_string());
    Ok(JobSpec::own(library, name)?.args(["--iterations", &iterations, "--pause-us", &pause_us]))
}

#[test]
fn under_run_every_copy_is_counted_once_though_ranks_begin_to_record_by_themselves_in_the_middle()
-> Result<()> {
    for library in MpiImplementation::ALL {
        for _ in 0..number_from_environment("DMSCOPE_TEST_MOVES", 1)? {
            let spec = in_the_middle(library, "counts", 15_000, 100)?;
            let session = Dmscope::run(&spec).args(FAST).args(LIBRARY).args(["--budget", "none"]).finish()?;
            check_moved(&session).with_context(|| format!("{library:?}"))?;
            check_exact(&session, session.job()?).with_context(|| format!("{library:?}"))?;
        }
    }
    Ok(())
}

/// A rank that does nothing but copy stands still where a probe of the kernel has just been hit, more often than not.
#[test]
fn under_run_every_copy_of_a_rank_that_does_nothing_else_is_counted_once() -> Result<()> {
    for library in MpiImplementation::ALL {
        for _ in 0..number_from_environment("DMSCOPE_TEST_MOVES", 2)? {
            let spec = in_the_middle(library, "counts", 500_000, 0)?.ranks(1);
            let options = ["--budget", "none", "--ring-size", "64M"];
            let session = Dmscope::run(&spec).args(FAST).args(LIBRARY).args(options).finish()?;
            check_moved(&session).with_context(|| format!("{library:?}"))?;
            check_exact(&session, session.job()?).with_context(|| format!("{library:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn under_run_every_mpi_call_is_counted_once_though_ranks_begin_to_record_by_themselves_in_the_middle()
-> Result<()> {
    for (library, name) in MpiImplementation::ALL.into_iter().flat_map(|l| OF_ALL_KINDS.map(|name| (l, name)))
    {
        let run = |engine: [&str; 2], pause_us| -> Result<FinishedSession> {
            let spec = in_the_middle(library, name, 4000, pause_us)?.ranks(2);
            Dmscope::run(&spec).args(engine).args(["--budget", "none"]).finish()
        };
        let fast = run(FAST, 500)?;
        check_moved(&fast).with_context(|| format!("{name}, {library:?}"))?;
        let (fast, kernel) = (calls_made(&fast)?, calls_made(&run(["--probes", "kernel"], 0)?)?);
        ensure!(fast == kernel && !fast.is_empty(), "{name}, {library:?}: {fast:?} instead of {kernel:?}");
    }
    Ok(())
}

/// One rank sleeps, and the other is in a receive for long before and after it begins to record by itself.
#[test]
fn under_run_a_rank_that_waits_in_a_call_while_it_begins_to_record_by_itself_is_still_in_that_call()
-> Result<()> {
    for library in MpiImplementation::ALL {
        // Nothing more follows: where a message waits for its receive, there are other copies as well.
        let spec = JobSpec::own(library, "slow")?.ranks(2).args(["--iterations", "3", "--sleep", "4"]);
        let session = Dmscope::run(&spec).args(FAST).args(["--budget", "none"]).finish()?;
        check_moved(&session).with_context(|| format!("{library:?}"))?;
        let of = |rows: Vec<(String, u64)>| rows.into_iter().find(|(name, _)| name == "MPI_Recv");
        let (_, movements) = of(movements_by_call(&session)?).context("no movements in MPI_Recv")?;
        let calls = calls_made(&session)?.get("MPI_Recv").copied().unwrap_or(0);
        ensure!(calls > 4 && movements >= calls, "{library:?}: {movements} movements in {calls} receives");
    }
    Ok(())
}

#[test]
fn killed_under_run_around_the_moment_when_ranks_begin_to_record_it_leaves_a_job_that_ends_right()
-> Result<()> {
    for library in MpiImplementation::ALL {
        for round in 0..number_from_environment("DMSCOPE_TEST_KILLS", 2)? {
            let spec = in_the_middle(library, "figure2", 20_000, 50)?.ranks(2).args(["--no-bug"]);
            let mut dmscope = Dmscope::run(&spec).args(FAST).args(["--budget", "none"]).spawn()?;
            let attached = Instant::now();
            dmscope.wait_until_attached()?;
            match round.is_multiple_of(2) {
                true => _ = dmscope.wait_for(says_moved)?,
                // From a second after they have loaded everything on.
                false => std::thread::sleep(Duration::from_millis(1200).saturating_sub(attached.elapsed())),
            }
            std::thread::sleep(Duration::from_millis(round as u64 * 7919 % 400));
            dmscope.end_by(Signal::KILL);
            let session = dmscope.finish()?;
            let is_right = |line: &String| line.starts_with("ok figure2: ");
            ensure!(session.stdout.iter().any(is_right), "{library:?}, round {round}: {:?}", session.stdout);
        }
    }
    Ok(())
}

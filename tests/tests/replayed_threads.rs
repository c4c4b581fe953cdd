//! Jobs whose threads call at the same time, recorded and replayed under other conditions.

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::{ReplayCase, every_other_cpu, first_difference, kill_job, wait_for_bytes};

fn anythread(library: MpiImplementation, case: &str, rounds: &str) -> Result<ReplayCase> {
    ReplayCase::own(library, "anythread", &[case, "--log", "LOG", "--rounds", rounds])
}

#[test]
fn threads_that_receive_from_anybody_get_the_same_messages_each() -> Result<()> {
    for library in MpiImplementation::ALL {
        let others = anythread(library, "all", "10")?.record_and_replay();
        let others = others.with_context(|| format!("{library:?}"))?;
        ensure!(others > 0, "{library:?}: all runs are alike, so that nothing was tested");
    }
    Ok(())
}

#[test]
fn threads_of_c11_are_known_too() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["waitall", "--log", "LOG", "--rounds", "10", "--c11", "1"];
        let case = ReplayCase::own(library, "anythread", &arguments)?;
        case.record_and_replay().with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn threads_that_call_one_at_a_time_go_the_way_of_one_whichever_calls() -> Result<()> {
    for library in MpiImplementation::ALL {
        anythread(library, "serialized", "30")?
            .record_and_replay()
            .with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

/// How often they poll is chance.
#[test]
fn threads_that_poll_until_another_one_tells_them_to_stop_are_replayed() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = anythread(library, "told", "20")?;
        case.record_and_replay().with_context(|| format!("{library:?}"))?;
        case.run("record", &["--order"], "ordered", None)?.check(0, &["ranks, "])?;
        for number in 0..3 {
            let replayed = case.run("replay", &["--identical"], "ordered", every_other_cpu(number))?;
            replayed.check(0, &["replayed to the end"]).with_context(|| format!("{library:?}"))?;
        }
    }
    Ok(())
}

/// How often the thread that calls polls, and reads clocks, until others have computed is chance.
#[test]
fn ranks_that_poll_while_threads_of_theirs_compute_are_replayed() -> Result<()> {
    for library in MpiImplementation::ALL {
        let single = ["--level", "single", "--early", "1", "--clocks", "20000"];
        for level in [&["--level", "funneled"][..], &single] {
            let arguments = [&["--log", "LOG", "--rounds", "10"], level].concat();
            let case = ReplayCase::own(library, "hybrid", &arguments)?;
            case.record_and_replay().with_context(|| format!("{library:?}, {level:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_crash_of_a_thread_happens_in_every_replay() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = anythread(library, "crash", "2000")?;
        let recorded = case.run("record", &[], "x", None)?;
        let death = recorded.output.lines().find(|line| line.starts_with("rank 0 dies")).unwrap_or_default();
        ensure!(!death.is_empty(), "{library:?}: it did not crash: {}", recorded.said);
        ensure!(recorded.said.contains("the job uses MPI from several threads"), "{}", recorded.said);
        for number in 0..2 {
            let replayed = case.run("replay", &[], "x", every_other_cpu(number))?;
            ensure!(replayed.output.contains(death), "{library:?}: {}{}", replayed.output, replayed.said);
        }
    }
    Ok(())
}

#[test]
fn what_the_threads_of_a_killed_job_got_they_get_again() -> Result<()> {
    for (library, name) in MpiImplementation::ALL.into_iter().zip(["recv", "improbe"]) {
        let mut case = anythread(library, name, "1000000")?;
        case.record_and("x", |dmscope, log| {
            for thread in 0..3 {
                wait_for_bytes(&log.with_file_name(format!("rank0.thread{thread}")), 20_000)?;
            }
            kill_job(dmscope);
            Ok(())
        })?;
        // It goes on behind the end of the record.
        case.other(library, "anythread", &[name, "--log", "LOG", "--rounds", "5000", "--delay-us", "0"]);
        let replayed = case.run("replay", &[], "x", None)?;
        replayed.check(0, &["it runs free from there"]).with_context(|| format!("{library:?}"))?;
        for (rank, thread) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 2)] {
            let name = format!("rank{rank}.thread{thread}");
            let (own, other) = (case.file("replay", "x", &name)?, case.file("record", "x", &name)?);
            // What a killed rank had not yet written is not in its log.
            let len = other.rfind('\n').with_context(|| format!("{library:?}: nothing is in {name}"))?;
            ensure!(len < own.len(), "{library:?}: the replay is shorter in {name}");
            let line = first_difference(&own.as_bytes()[..len], &other.as_bytes()[..len]);
            ensure!(line.is_none(), "{library:?}: {name} differs from line {line:?}");
        }
    }
    Ok(())
}

/// The order in which threads get locks of the program is not recorded.
#[test]
fn threads_that_take_turns_by_their_own_lock_are_told_to_go_another_way() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = anythread(library, "locked", "200")?;
        case.run("record", &[], "x", None)?.check(0, &["ranks, "])?;
        let replayed = case.run("replay", &["--patience", "2s"], "x", None)?;
        replayed
            .check(1, &["the job cannot go on as it was recorded", "for others that posted before them"])
            .with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn what_is_recorded_of_one_thread_alone_is_said_and_refused() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = anythread(library, "recv", "10")?;
        case.run("record", &["--messages"], "x", None)?.check(0, &["its calls come from several threads"])?;
        case.run("replay", &[], "x", None)?.check(2, &["was not recorded to its end: its calls come"])?;
    }
    Ok(())
}

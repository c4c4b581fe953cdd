//! Runs by logical time: the same messages in every run, without a record.

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::{ReplayCase, ReplayRun};

/// `$DMSCOPE_TEST_DETERMINISTIC_RUNS`: how often each program is run.
fn runs() -> Result<usize> {
    std::env::var("DMSCOPE_TEST_DETERMINISTIC_RUNS")
        .map_or(Ok(3), |text| text.parse().context("DMSCOPE_TEST_DETERMINISTIC_RUNS is a number"))
}

/// Runs it, every other time on one core; gives the first run if all are the same.
fn all_the_same(case: &ReplayCase) -> Result<ReplayRun> {
    let run = |cpus| {
        let run = case.run_deterministic(cpus)?;
        run.check(0, &["ranks ran by logical time"])?;
        Ok::<_, anyhow::Error>(run)
    };
    let first = run(None)?;
    for number in 1..runs()? {
        let again = run((number % 2 == 1).then_some("0"))?;
        again.check_same(&first).with_context(|| format!("run {number}"))?;
        ensure!(broken(&again) == broken(&first), "{} {}", again.said, first.said);
    }
    Ok(first)
}

/// How many waits were broken.
fn broken(run: &ReplayRun) -> Option<u64> {
    run.said.split_once(" waits were broken")?.0.rsplit(' ').next()?.parse().ok()
}

#[test]
fn every_call_that_is_not_deterministic_answers_the_same_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case =
            ReplayCase::own(library, "anyorder", &["all", "--log", "LOG", "--rounds", "3", "--timed", "0"])?;
        let by_itself: Vec<_> =
            (0..2).map(|_| Ok(case.run("record", &[], "x", None)?.logs)).collect::<Result<_>>()?;
        ensure!(
            by_itself[0] != by_itself[1],
            "{library:?}: it is the same by itself, so that nothing was tested"
        );
        all_the_same(&case).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

/// Some programs go another way where something lies elsewhere: tables of pointers, or what was never written.
#[test]
fn what_a_program_consists_of_is_at_the_same_addresses_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "addresses", &["LOG"])?;
        all_the_same(&case).with_context(|| format!("{library:?}"))?;
        let by_itself: Vec<_> =
            (0..2).map(|_| Ok(case.run("record", &[], "x", None)?.logs)).collect::<Result<_>>()?;
        ensure!(by_itself[0] != by_itself[1], "{library:?}: addresses are not random here at all");
    }
    Ok(())
}

/// By MPICH alone: Open MPI 4 has no such call.
#[test]
fn sends_and_receives_by_one_request_answer_the_same_in_each_run() -> Result<()> {
    let arguments = ["isendrecv", "--log", "LOG", "--rounds", "10", "--delay-us", "200", "--timed", "0"];
    all_the_same(&ReplayCase::own(MpiImplementation::Mpich, "anyorder", &arguments)?)?;
    Ok(())
}

#[test]
fn programs_in_fortran_go_the_same_way_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        for program in ["fortran_mpifh", "fortran_f08"] {
            let case = ReplayCase::own(library, program, &["LOG", "no clocks"])?;
            all_the_same(&case).with_context(|| format!("{library:?}: {program}"))?;
        }
    }
    Ok(())
}

#[test]
fn ranks_meet_at_fences_and_get_the_same_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = ReplayCase::own(library, "fences", &["--log", "LOG"])?;
        let run = all_the_same(&case).with_context(|| format!("{library:?}"))?;
        ensure!(!run.said.contains("not deterministic"), "{library:?}: {}", run.said);
        case.other(library, "fences", &["--log", "LOG", "--locks", "1"]);
        case.run_deterministic(None)?.check(0, &["not deterministic: the job uses windows by locks"])?;
    }
    Ok(())
}

#[test]
fn ranks_meet_at_collective_calls_on_files_and_get_the_same_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case =
            ReplayCase::own(library, "files", &["--log", "LOG", "--rounds", "5", "--shared", "0"])?;
        all_the_same(&case).with_context(|| format!("{library:?}"))?;
        case.other(library, "files", &["--log", "LOG"]);
        let shared = case.run_deterministic(None)?;
        shared.check(2, &["file pointers that ranks share"])?;
    }
    Ok(())
}

#[test]
fn random_programs_go_the_same_way_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        for seed in ["77", "101"] {
            let arguments = ["--threads", "0", "--seed", seed, "--programs", "5", "--log", "LOG"];
            let case = ReplayCase::own(library, "random", &arguments)?;
            all_the_same(&case).with_context(|| format!("{library:?}: random {arguments:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn the_published_benchmarks_go_the_same_way_in_each_run() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (program, ranks) in [("tree", 3), ("graph", 3), ("bully", 4)] {
            let case = ReplayCase::own(library, "published", &[program, "--log", "LOG"])?.ranks(ranks);
            all_the_same(&case).with_context(|| format!("{library:?}: {program}"))?;
        }
    }
    Ok(())
}

#[test]
fn waits_that_determinism_added_are_broken_in_the_same_way() -> Result<()> {
    for library in MpiImplementation::ALL {
        for program in ["mapping", "test"] {
            let case = ReplayCase::own(library, "standstill", &[program, "--log", "LOG"])?;
            let run = all_the_same(&case).with_context(|| format!("{library:?}: {program}"))?;
            ensure!(broken(&run) > Some(0), "{library:?}: {program}: {}", run.said);
        }
    }
    Ok(())
}

#[test]
fn a_deadlock_of_the_program_is_told_with_ranks_and_lines_and_ended() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "standstill", &["deadlock", "--log", "LOG"])?;
        let words = [
            "the job is deadlocked",
            "rank 0 (process ",
            "rank 2 (process ",
            "MPI_Recv(source=1, tag=1, count=1) at standstill.c:",
            "MPI_Recv(source=0, tag=1, count=1) at standstill.c:",
        ];
        case.run_deterministic(None)?.check(1, &words)?;
    }
    Ok(())
}

#[test]
fn what_cannot_be_deterministic_is_refused() -> Result<()> {
    for library in MpiImplementation::ALL {
        let locks = ReplayCase::own(library, "fences", &["--log", "LOG", "--locks", "2"])?;
        locks.run_deterministic(None)?.check(2, &["windows by exclusive locks", "no deterministic runs"])?;
    }
    Ok(())
}

#[test]
fn reductions_are_done_in_the_order_of_ranks_if_that_is_wished() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "reductions", &["--log", "LOG"])?.ranks(5);
        let by_library = case.run_deterministic_with(&[], None)?;
        by_library.check(0, &["ranks ran by logical time"])?;
        let is_ordered = |output: &str| output.contains("\n0 results are not");
        ensure!(
            !is_ordered(&by_library.output),
            "{library:?} goes in this order by itself, so that nothing was tested"
        );
        for cpus in [None, Some("0")] {
            let by_ranks = case.run_deterministic_with(&["--reductions", "ranks"], cpus)?;
            by_ranks.check(0, &["ranks ran by logical time"])?;
            let logs: Vec<_> = by_ranks.logs.iter().map(|log| String::from_utf8_lossy(log)).collect();
            ensure!(is_ordered(&by_ranks.output), "{library:?}: {} {logs:?}", by_ranks.output);
        }
    }
    Ok(())
}

//! Jobs that probes have recorded, with nothing loaded into them, and that are replayed under other conditions.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation::OpenMpi;
use live::replayed::{
    ReplayCase, ReplayRun, every_other_cpu, first_difference, kill_job, times, wait_for_bytes,
};
use live::{MpiImplementation, binary};

const BY_PROBES: [&str; 3] = ["--quiet", "--replayable", "--record"];

fn record_and_replay(case: &ReplayCase) -> Result<()> {
    let (records, replays) = times(1)?;
    for _ in 0..records {
        let recorded = case.run("run", &BY_PROBES, "x", None)?;
        recorded.check(0, &[])?;
        for number in 0..replays {
            let replayed = case.run("replay", &[], "x", every_other_cpu(number))?;
            replayed.check(0, &["recorded by probes", "replayed to the end of the record"])?;
            ensure!(!replayed.said.contains("it is not known whose"), "{}", replayed.said);
            replayed.check_same(&recorded)?;
        }
    }
    Ok(())
}

#[test]
fn every_call_that_is_not_deterministic_answers_as_probes_saw_it() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["all", "--log", "LOG", "--rounds", "5", "--timed", "0", "--told", "1"];
        let case = ReplayCase::own(library, "anyorder", &arguments)?;
        record_and_replay(&case).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

/// Nobody asks for a status: copies, and who can have sent anything, tell whose messages were received, or nothing does, which is said.
#[test]
fn senders_that_no_status_tells_are_found_or_said_to_be_unknown() -> Result<()> {
    for library in MpiImplementation::ALL {
        for waits in ["untold", "waitall-untold"] {
            let arguments = [waits, "--log", "LOG", "--rounds", "5", "--timed", "0"];
            let case = ReplayCase::own(library, "anyorder", &arguments)?;
            let recorded = case.run("run", &BY_PROBES, "x", None)?;
            recorded.check(0, &[])?;
            let replayed = case.run("replay", &[], "x", None)?;
            replayed.check(0, &["replayed to the end of the record"])?;
            if !replayed.said.contains("it is not known whose") {
                replayed.check_same(&recorded).with_context(|| format!("{library:?}, {waits}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn programs_in_fortran_are_recorded_by_probes_too() -> Result<()> {
    for library in MpiImplementation::ALL {
        for program in ["fortran_mpifh", "fortran_mpi", "fortran_f08"] {
            let case = ReplayCase::own(library, program, &["LOG", "untimed"])?;
            record_and_replay(&case).with_context(|| format!("{library:?}, {program}"))?;
        }
    }
    Ok(())
}

#[test]
fn random_programs_that_probes_recorded_get_the_same_messages() -> Result<()> {
    let programs = std::env::var("DMSCOPE_TEST_REPLAYED_PROGRAMS").unwrap_or("10".into());
    for library in MpiImplementation::ALL {
        // Its threads compete for messages: which gets which is likely, not certain.
        let arguments = ["--threads", "0", "--seed", "1", "--programs", &programs, "--log", "LOG"];
        let case = ReplayCase::own(library, "random", &arguments)?;
        record_and_replay(&case).with_context(|| format!("{library:?}: random {arguments:?}"))?;
    }
    Ok(())
}

/// What rank 0 says when it dies.
fn last_words(run: &ReplayRun) -> &str {
    run.output.lines().find(|line| line.starts_with("rank 0 dies")).unwrap_or_default()
}

#[test]
fn a_crash_that_probes_saw_happens_in_every_replay() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["crash", "--log", "LOG", "--rounds", "2000", "--timed", "0"];
        let case = ReplayCase::own(library, "anyorder", &arguments)?;
        let recorded = case.run("run", &BY_PROBES, "x", None)?;
        let death = last_words(&recorded).to_owned();
        ensure!(!death.is_empty(), "{library:?}: it did not crash: {}", recorded.said);
        for number in 0..2 {
            let replayed = case.run("replay", &[], "x", every_other_cpu(number))?;
            ensure!(last_words(&replayed) == death, "{library:?}: {}{}", replayed.output, replayed.said);
            ensure!(replayed.logs[0] == recorded.logs[0], "{library:?}: rank 0 dies of something else");
        }
    }
    Ok(())
}

/// By MPICH alone: Open MPI 4 has no such call.
#[test]
fn a_record_that_lacks_the_sources_of_sends_and_receives_by_one_request_says_so() -> Result<()> {
    let arguments = ["isendrecv", "--log", "LOG", "--rounds", "5", "--timed", "0"];
    let case = ReplayCase::own(MpiImplementation::Mpich, "anyorder", &arguments)?;
    for (command, options) in [("record", &[][..]), ("run", &BY_PROBES)] {
        let recorded = case.run(command, options, "x", None)?;
        let replayed = case.run("replay", &["--patience", "2s"], "x", None)?;
        let said = [recorded.said, replayed.said].concat();
        ensure!(said.contains("the job uses MPI_Isendrecv: MPICH 4.0 does not say"), "{command}: {said}");
    }
    Ok(())
}

#[test]
fn a_job_that_hung_under_probes_hangs_at_the_same_call() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["hang", "--log", "LOG", "--rounds", "2000", "--timed", "0"];
        let case = ReplayCase::own(library, "anyorder", &arguments)?;
        let recorded = case.run_and("run", &BY_PROBES, "x", |dmscope, log| {
            // It is flushed when rank 0 hangs.
            wait_for_bytes(log, 1)?;
            kill_job(dmscope);
            Ok(())
        })?;
        ensure!(recorded.output.contains("rank 0 hangs"), "{library:?}: {recorded:?}");
        let replayed = case.run("replay", &["--patience", "2s"], "x", Some("0"))?;
        replayed.check(0, &["the job hangs where its record ends", "MPI_Recv(source=1, tag=4711"])?;
        ensure!(replayed.logs[0] == recorded.logs[0], "{library:?}: {}", replayed.said);
    }
    Ok(())
}

#[test]
fn a_job_that_was_killed_under_probes_is_replayed_up_to_there() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = |rounds| ["source", "--log", "LOG", "--rounds", rounds, "--timed", "0"];
        let mut case = ReplayCase::own(library, "anyorder", &arguments("1000000"))?;
        let recorded = case.run_and("run", &BY_PROBES, "x", |dmscope, log| {
            wait_for_bytes(log, 20_000)?;
            kill_job(dmscope);
            Ok(())
        })?;
        // It goes on behind the end of the record.
        case.other(library, "anyorder", &arguments("3000"));
        let replayed = case.run("replay", &[], "x", None)?;
        replayed.check(0, &["it runs free from there"])?;
        for (own, other) in replayed.logs.iter().zip(&recorded.logs) {
            // What a killed rank had not yet written is not in its log.
            let len = other.iter().rposition(|byte| *byte == b'\n').context("nothing was logged")?;
            ensure!(len < own.len(), "{library:?}: the replay is shorter");
            let line = first_difference(&own[..len], &other[..len]);
            ensure!(line.is_none(), "{library:?}: from line {line:?}");
        }
    }
    Ok(())
}

#[test]
fn another_program_diverges_from_what_probes_recorded() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = |case| [case, "--log", "LOG", "--rounds", "10", "--timed", "0"];
        let mut case = ReplayCase::own(library, "anyorder", &arguments("source"))?;
        case.run("run", &BY_PROBES, "x", None)?.check(0, &[])?;
        case.other(library, "anyorder", &arguments("waitany"));
        case.run("replay", &[], "x", None)?
            .check(1, &["diverges at its call", "MPI_Waitany", " at anyorder.c:"])?;
        // The same kind of call, with a tag: other arguments.
        case.other(library, "anyorder", &arguments("sendrecv"));
        case.run("replay", &[], "x", None)?.check(1, &["diverges at its call"])?;
    }
    Ok(())
}

#[test]
fn tapes_that_lack_what_a_replay_needs_are_refused_with_what_to_do() -> Result<()> {
    let case = ReplayCase::own(OpenMpi, "anyorder", &["source", "--log", "LOG", "--rounds", "10"])?;
    case.run("run", &["--quiet", "--budget", "none", "--record"], "entries", None)?.check(0, &[])?;
    let refused = case.run("replay", &[], "entries", None)?;
    refused.check(2, &["answered is not on the tape", "dmscope run --replayable"])?;

    let budget = ["--quiet", "--returns", "all", "--budget", "0.1%", "--record"];
    let long = ["source", "--log", "LOG", "--rounds", "20000", "--delay-us", "0", "--timed", "0"];
    let long = ReplayCase::own(OpenMpi, "anyorder", &long)?;
    let paused = long.run("run", &budget, "paused", None)?;
    // Other records may be lost as well where the job takes all processors, which is said.
    if paused.said.contains("Losses:") {
        paused.check(3, &["records were lost"])?;
    } else {
        paused.check(0, &[])?;
    }
    let refused = long.run("replay", &[], "paused", None)?;
    refused.check(2, &["to keep", "budget", "dmscope run --replayable"])?;

    let both = Command::new(binary()?)
        .args(["run", "--replayable", "--record", "/dev/null", "--budget", "1%", "--", "true"])
        .output()?;
    let said = String::from_utf8_lossy(&both.stderr);
    ensure!(both.status.code() == Some(2) && said.contains("--replayable"), "{said}");
    let without = Command::new(binary()?).args(["run", "--replayable", "--", "true"]).output()?;
    let said = String::from_utf8_lossy(&without.stderr);
    ensure!(without.status.code() == Some(2) && said.contains("--record"), "{said}");
    Ok(())
}

#[test]
fn threads_that_call_one_at_a_time_are_recorded_by_probes_too() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anythread", &["serialized", "--log", "LOG", "--rounds", "20"])?;
        record_and_replay(&case).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn ranks_that_poll_while_threads_of_theirs_compute_are_recorded_by_probes_too() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "hybrid", &["--log", "LOG", "--rounds", "10"])?;
        record_and_replay(&case).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn threads_with_tags_of_their_own_are_recorded_by_probes_for_certain() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anythread", &["tagged", "--log", "LOG", "--rounds", "20"])?;
        record_and_replay(&case).with_context(|| format!("{library:?}"))?;
        let replayed = case.run("replay", &[], "x", None)?;
        ensure!(!replayed.said.contains("is not certain"), "{library:?}: {}", replayed.said);
    }
    Ok(())
}

/// All threads want the same messages, which no probe tells apart for certain. That is said. What is likely can be replayed, unless it was
/// otherwise and the job cannot go that way.
#[test]
fn threads_that_compete_for_messages_are_replayed_as_is_likely_and_that_is_said() -> Result<()> {
    for library in MpiImplementation::ALL {
        for way in ["waitall", "recv"] {
            let case = ReplayCase::own(library, "anythread", &[way, "--log", "LOG", "--rounds", "20"])?;
            let recorded = case.run("run", &BY_PROBES, "x", None)?;
            recorded.check(0, &[])?;
            let replayed = case.run("replay", &["--patience", "2s"], "x", None)?;
            let name = format!("{library:?}, {way}");
            if replayed.status == Some(1) {
                let told = ["is not certain", "the job cannot go on as it was recorded"];
                replayed.check(1, &told).context(name)?;
                continue;
            }
            replayed.check(0, &["replayed to the end of the record"]).context(name.clone())?;
            if !replayed.said.contains("is not certain") {
                replayed.check_same(&recorded).context(name)?;
            }
        }
    }
    Ok(())
}

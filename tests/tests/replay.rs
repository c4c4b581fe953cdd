//! Jobs that are recorded, and replayed under other conditions: pinned to one core, with other delays.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation::{Mpich, OpenMpi};
use live::processes::{descendants, environment_variable};
use live::replayed::{ReplayCase, ReplayRun, every_other_cpu, first_difference, kill_job, wait_for_bytes};
use live::{MpiImplementation, binary, packaged};

#[test]
fn every_call_that_is_not_deterministic_answers_as_it_did() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anyorder", &["all", "--log", "LOG", "--rounds", "5"])?;
        let others = case.record_and_replay()?;
        ensure!(others > 0, "{library:?}: all runs are alike, so that nothing was tested");
    }
    Ok(())
}

#[test]
fn programs_in_fortran_get_the_same_messages() -> Result<()> {
    for library in MpiImplementation::ALL {
        for program in ["fortran_mpifh", "fortran_mpi", "fortran_f08"] {
            let case = ReplayCase::own(library, program, &["LOG"])?;
            case.record_and_replay().with_context(|| format!("{library:?}, {program}"))?;
        }
    }
    Ok(())
}

/// The four benchmarks of the paper on deterministic replay of 2011; with `DMSCOPE_TEST_REPLAYS` in the sizes that were published.
#[test]
fn the_published_benchmarks_get_the_same_messages() -> Result<()> {
    let in_all_sizes = std::env::var_os("DMSCOPE_TEST_REPLAYS").is_some();
    let pick = |few: &'static [usize], all: &'static [usize]| if in_all_sizes { all } else { few };
    for library in MpiImplementation::ALL {
        for (program, sizes, messages) in [
            ("tree", pick(&[3], &[3, 7, 13, 21]), "10"),
            ("graph", pick(&[3], &[2, 5, 8, 11]), "10"),
            ("graph", pick(&[4], &[10]), "4"),
            ("bully", pick(&[4], &[3, 6, 9, 12]), "1"),
        ] {
            for &ranks in sizes {
                let arguments = [program, "--log", "LOG", "--rounds", "3", "--messages", messages];
                let case = ReplayCase::own(library, "published", &arguments)?.ranks(ranks);
                case.record_and_replay()
                    .with_context(|| format!("{library:?}, {ranks} ranks: {arguments:?}"))?;
            }
        }
    }
    Ok(())
}

/// They measure and print times, and decide by them: replayed, all that they print is the same.
#[test]
fn programs_that_nobody_here_wrote_print_the_same_times() -> Result<()> {
    // Two ranks for two cores.
    let grid = include_str!("../inputs/hpccinf.txt").replace("2            Ps", "1            Ps");
    let hpcc = packaged::hpcc().ranks(2).file("hpccinf.txt", grid);
    for (spec, result) in [
        (hpcc, Some("hpccoutf.txt")),
        (packaged::lammps().ranks(2), None),
        (packaged::python().args(["200"]), None),
    ] {
        let case = ReplayCase::installed(spec)?;
        let recorded = case.run("record", &[], "x", None)?;
        recorded.check(0, &["ranks, "])?;
        let replayed = case.run("replay", &[], "x", None)?;
        replayed.check(0, &["replayed to the end of the record"])?;
        replayed.check_same(&recorded)?;
        ensure!(!recorded.output.is_empty() || result.is_some(), "nothing was printed");
        if let Some(name) = result {
            let [first, second] = ["record", "replay"].map(|verb| case.file(verb, "x", name));
            let (first, second) = (first?, second?);
            let line = first_difference(second.as_bytes(), first.as_bytes());
            ensure!(first.len() > 1000 && line.is_none(), "{name} differs from line {line:?}");
        }
    }
    Ok(())
}

#[test]
fn random_programs_get_the_same_messages() -> Result<()> {
    let programs = std::env::var("DMSCOPE_TEST_REPLAYED_PROGRAMS").unwrap_or("10".into());
    for library in MpiImplementation::ALL {
        let arguments = ["--numbered", "1", "--seed", "1", "--programs", &programs, "--log", "LOG"];
        let case = ReplayCase::own(library, "random", &arguments)?;
        case.record_and_replay().with_context(|| format!("{library:?}: random {arguments:?}"))?;
    }
    Ok(())
}

/// What rank 0 says when it dies. MPICH's launcher may add words of its own, or not.
fn last_words(run: &ReplayRun) -> &str {
    run.output.lines().find(|line| line.starts_with("rank 0 dies")).unwrap_or_default()
}

#[test]
fn a_crash_happens_in_every_replay() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anyorder", &["crash", "--log", "LOG", "--rounds", "2000"])?;
        let recorded = case.run("record", &[], "x", None)?;
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

#[test]
fn a_job_that_hung_hangs_at_the_same_call_and_is_ended() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anyorder", &["hang", "--log", "LOG", "--rounds", "2000"])?;
        let recorded = case.record_and("x", |dmscope, log| {
            // It is flushed when rank 0 hangs.
            wait_for_bytes(log, 1)?;
            kill_job(dmscope);
            Ok(())
        })?;
        ensure!(recorded.output.contains("rank 0 hangs"), "{library:?}: {recorded:?}");
        let replayed = case.run("replay", &["--patience", "2s"], "x", Some("0"))?;
        replayed.check(
            0,
            &["the job hangs where its record ends", "MPI_Recv(source=1, tag=4711", " at anyorder.c:"],
        )?;
        ensure!(replayed.logs[0] == recorded.logs[0], "{library:?}: {}", replayed.said);
    }
    Ok(())
}

/// The wrapper has the names of MPI's functions, first and second ones.
#[test]
fn a_job_that_is_recorded_has_its_probes_in_its_mpi_library_alone() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["source", "--log", "LOG", "--rounds", "1000000"];
        let case = ReplayCase::own(library, "anyorder", &arguments)?;
        case.record_with(&["--payloads"], "x", |dmscope, log| {
            wait_for_bytes(log, 1000)?;
            let is_rank = |pid: &u32| environment_variable(*pid, "DMSCOPE_REPLAY").is_some();
            let rank = descendants(dmscope).into_iter().rfind(is_rank).context("no rank")?;
            let probes = Command::new(binary()?).args(["probes", "--all", &rank.to_string()]).output()?;
            kill_job(dmscope);
            let said = String::from_utf8_lossy(&probes.stdout);
            let of_wrapper =
                said.lines().find(|line| line.contains("dmscope-wrapper") && line.contains("MPI library"));
            ensure!(said.contains("libmpi") && of_wrapper.is_none(), "{library:?}: {of_wrapper:?} of {said}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_job_that_was_killed_is_replayed_up_to_there() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case =
            ReplayCase::own(library, "anyorder", &["source", "--log", "LOG", "--rounds", "1000000"])?;
        let recorded = case.record_and("x", |dmscope, log| {
            wait_for_bytes(log, 20_000)?;
            kill_job(dmscope);
            Ok(())
        })?;
        // It goes on behind the end of the record.
        case.other(library, "anyorder", &["source", "--log", "LOG", "--rounds", "3000"]);
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

/// Ranks share a folder with dmscope, which may be root's; the user of the job can put anything there.
#[test]
fn what_a_job_plants_among_its_records_ends_no_record() -> Result<()> {
    let case = ReplayCase::own(OpenMpi, "anyorder", &["source", "--log", "LOG", "--rounds", "1000000"])?;
    let victim = case.tape("victim");
    fs::write(&victim, [7; 8192])?;
    let options = ["--messages", "--payloads"];
    let recorded = case.record_with(&options, "x", |dmscope, log| {
        wait_for_bytes(log, 20_000)?;
        let wish =
            descendants(dmscope).into_iter().find_map(|pid| environment_variable(pid, "DMSCOPE_REPLAY"));
        let wish = wish.context("no rank has the wrapper")?;
        let folder = Path::new(wish.strip_prefix("record:").context("another wish")?);
        for name in ["rank-7", "messages-7", "contents-7"] {
            symlink(&victim, folder.join(name))?;
        }
        let fifos = ["rank-8", "messages-8", "contents-8"].map(|name| folder.join(name));
        ensure!(Command::new("mkfifo").args(fifos).status()?.success(), "mkfifo");
        let bytes = fs::metadata(log)?.len();
        wait_for_bytes(log, bytes + 100_000)?;
        kill_job(dmscope);
        Ok(())
    })?;
    for planted in [
        "the file of rank 7",
        "the file of rank 8",
        "the contents of rank 7",
        "the contents of rank 8",
        "3 ranks, ",
    ] {
        ensure!(recorded.said.contains(planted), "nothing is said of {planted}: {}", recorded.said);
    }
    ensure!(fs::read(&victim)? == [7; 8192], "what a link leads to was written to");
    Ok(())
}

#[test]
fn what_cannot_be_replayed_is_refused_or_diverges() -> Result<()> {
    for (library, other) in [(OpenMpi, Mpich), (Mpich, OpenMpi)] {
        let arguments = ["source", "--log", "LOG", "--rounds", "10"];
        let mut case = ReplayCase::own(library, "anyorder", &arguments)?;
        case.run("record", &[], "x", None)?.check(0, &[])?;
        let tape = fs::read(case.tape("x"))?;

        fs::write(case.tape("cut"), &tape[..tape.len() / 2])?;
        let cut = case.run("replay", &[], "cut", None)?;
        ensure!(
            [Some(1), Some(2), Some(0)].contains(&cut.status) && cut.said.contains("cut"),
            "{}",
            cut.said
        );
        fs::write(case.tape("none"), b"not a tape")?;
        case.run("replay", &[], "none", None)?.check(2, &["not a dmscope tape"])?;

        case.other(library, "anyorder", &["waitany", "--log", "LOG", "--rounds", "10"]);
        case.run("replay", &[], "x", None)?
            .check(1, &["diverges at its call", "MPI_Waitany", " at anyorder.c:"])?;
        case.other(library, "anyorder", &["source", "--log", "LOG", "--rounds", "5"]);
        // A rank that got a message of a later round first waits for it in vain.
        let shorter = case.run("replay", &[], "x", None)?;
        let waits = shorter.check(1, &["the job cannot go on as it was recorded", "that it got then"]);
        waits.or_else(|_| shorter.check(1, &["diverges at its call", "the record it goes on"]))?;
        case.other(other, "anyorder", &arguments);
        case.run("replay", &[], "x", None)?.check(2, &["the job was recorded with", "and runs with"])?;
        case.other(library, "anyorder", &arguments);
        let fewer = case.ranks(2);
        fewer.run("replay", &[], "x", None)?.check(2, &["recorded with 3 ranks and has 2"])?;
    }
    Ok(())
}

#[test]
fn nothing_can_be_preloaded_into_static_and_setuid_programs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("x.c");
    fs::write(&source, "int main(void) { return 0; }")?;
    for (name, flag, mode, word) in
        [("static", "-static", 0o755, "statically linked"), ("setuid", "-pie", 0o4755, "setuid or setgid")]
    {
        let program = folder.path().join(name);
        let built =
            Command::new("cc").arg(flag).arg("-fPIE").arg(&source).arg("-o").arg(&program).status()?;
        ensure!(built.success());
        fs::set_permissions(&program, fs::Permissions::from_mode(mode))?;
        let tape = folder.path().join("x.dmt");
        let refused = Command::new(binary()?).arg("record").arg(tape).arg("--").arg(program).output()?;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(refused.status.code() == Some(2) && said.contains(word), "{name}: {said}");
    }
    Ok(())
}

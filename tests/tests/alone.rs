//! One rank of a recorded job, run alone and fed from the tape.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::ReplayCase;

fn recorded(
    library: MpiImplementation,
    program: &str,
    arguments: &[&str],
    ranks: usize,
) -> Result<(ReplayCase, Vec<Vec<u8>>)> {
    let case = ReplayCase::own(library, program, arguments)?.ranks(ranks);
    let run = case.run("record", &["--payloads"], "x", None)?;
    run.check(0, &["contents of ", "dmscope replay --rank RANK"])?;
    Ok((case, run.logs))
}

#[test]
fn a_rank_alone_gets_what_it_got() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (program, arguments) in [
            ("exchange_all", &["--log", "LOG"][..]),
            ("anyorder", &["all", "--log", "LOG", "--rounds", "3"]),
            ("random", &["--threads", "0", "--seed", "3", "--programs", "5", "--log", "LOG"]),
            ("fortran_mpifh", &["LOG", "no clocks"]),
            ("fortran_f08", &["LOG", "no clocks"]),
        ] {
            let (case, logs) = recorded(library, program, arguments, 3)?;
            for rank in 0..3_u32 {
                let alone = case.run_alone(rank, &[], "x", &[])?;
                alone.check(0, &["ran alone to its end: exit status: 0"])?;
                let log = &logs[rank as usize];
                ensure!(
                    !log.is_empty() && alone.logs[rank as usize] == *log,
                    "{library:?}: {program}, rank {rank}"
                );
            }
            let asks =
                "echo rank $OMPI_COMM_WORLD_RANK$PMI_RANK of $OMPI_COMM_WORLD_SIZE$PMI_SIZE; exec \"$@\"";
            let told = case.run_alone(1, &[], "x", &["sh", "-c", asks, "sh"])?;
            ensure!(told.output.contains("rank 1 of 3\n"), "{library:?}: {}", told.output);
            let both = case.run_alone("0,2", &[], "x", &[])?;
            both.check(0, &["rank 0 ran alone to its end", "rank 2 ran alone to its end"])?;
            let are_same = [0, 2].iter().all(|rank: &usize| both.logs[*rank] == logs[*rank]);
            ensure!(are_same && both.logs[1].is_empty(), "{library:?}: {program}, ranks 0 and 2");
        }
    }
    Ok(())
}

#[test]
fn what_a_rank_read_from_parallel_files_comes_from_the_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (mut case, logs) = recorded(library, "files", &["--log", "LOG"], 3)?;
        for rank in 0..3_u32 {
            // The files are not there any more, and are not made.
            let alone = case.run_alone(rank, &[], "x", &[])?;
            alone.check(0, &["ran alone to its end: exit status: 0"])?;
            let log = &logs[rank as usize];
            ensure!(!log.is_empty() && alone.logs[rank as usize] == *log, "{library:?}: rank {rank}");
            ensure!(!case.folder_of("alone", "x").join("shared.bin").exists(), "{library:?}: it was written");
        }
        case.other(library, "files", &["--log", "LOG", "--other", "1"]);
        case.run_alone(1, &[], "x", &[])?.check(
            1,
            &["rank 1 diverges at its call ", "MPI_File_write", "sends other data", "--ignore-data"],
        )?;
    }
    Ok(())
}

#[test]
fn threads_that_call_one_at_a_time_get_what_they_got() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["serialized", "--log", "LOG", "--rounds", "20"];
        let (case, logs) = recorded(library, "anythread", &arguments, 3)?;
        for rank in 0..3_u32 {
            let alone = case.run_alone(rank, &[], "x", &[])?;
            alone.check(0, &["ran alone to its end: exit status: 0"])?;
            let log = &logs[rank as usize];
            ensure!(!log.is_empty() && alone.logs[rank as usize] == *log, "{library:?}: rank {rank}");
        }
    }
    Ok(())
}

#[test]
fn threads_that_call_at_the_same_time_get_what_they_got() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (program, arguments) in [
            ("anythread", &["all", "--log", "LOG", "--rounds", "3"][..]),
            // What a thread does is decided by a variable that another one sets, and by locks.
            ("anythread", &["told", "--log", "LOG", "--rounds", "20"]),
            ("anythread", &["locked", "--log", "LOG", "--rounds", "20"]),
            ("anythread", &["hand", "--log", "LOG", "--rounds", "10", "--c11", "1"]),
            // The others only compute.
            ("hybrid", &["--log", "LOG", "--rounds", "10"]),
            ("random", &["--numbered", "1", "--seed", "4", "--programs", "5", "--log", "LOG"]),
        ] {
            let (case, logs) = recorded(library, program, arguments, 3)?;
            for rank in 0..3_u32 {
                let alone = case.run_alone(rank, &[], "x", &[])?;
                alone
                    .check(0, &["ran alone to its end: exit status: 0"])
                    .with_context(|| format!("{library:?}: {program} {}, rank {rank}", arguments[0]))?;
                let log = &logs[rank as usize];
                ensure!(
                    !log.is_empty() && alone.logs[rank as usize] == *log,
                    "{library:?}: {program} {}, rank {rank}",
                    arguments[0]
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_crash_of_one_of_several_threads_happens_again_and_other_calls_of_one_are_told() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = ReplayCase::own(library, "anythread", &["crash", "--log", "LOG", "--rounds", "2000"])?;
        let run = case.run("record", &["--payloads"], "x", None)?;
        let death = run.output.lines().find(|line| line.starts_with("rank 0 dies")).unwrap_or_default();
        ensure!(!death.is_empty(), "{library:?}: it did not crash: {}", run.said);
        let again = case.run_alone(0, &[], "x", &[])?;
        ensure!(again.output.contains(death), "{library:?}: {}{}", again.output, again.said);
        case.run_alone(1, &[], "x", &[])?.check(0, &["rank 1: the record ends"])?;
        case.other(library, "anythread", &["named", "--log", "LOG", "--rounds", "2000"]);
        case.run_alone(1, &[], "x", &[])?.check(1, &["rank 1 diverges at its call "])?;
    }
    Ok(())
}

#[test]
fn one_of_sixteen_ranks_alone_is_faster_than_the_job_and_stops_in_gdb_at_the_same_call() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "exchange_all", &["--log", "LOG", "--steps", "2"])?.ranks(16);
        let begin = Instant::now();
        let run = case.run("record", &["--payloads", "--rank", "11"], "x", None)?;
        let job = begin.elapsed();
        run.check(0, &["contents of 1 ranks"])?;
        let begin = Instant::now();
        let alone = case.run_alone(11, &[], "x", &[])?;
        let took = begin.elapsed();
        alone.check(0, &["rank 11 ran alone to its end: exit status: 0"])?;
        ensure!(alone.logs[11] == run.logs[11], "{library:?}: another log");
        ensure!(took < job, "{library:?}: alone {took:?}, the job {job:?}");
        // The third time that it comes there.
        let gdb = [
            "gdb",
            "-batch",
            "-nx",
            "-ex",
            "break collectives",
            "-ex",
            "run",
            "-ex",
            "continue 2",
            "-ex",
            "info args",
        ];
        let stopped = case.run_alone(11, &[], "x", &[&gdb[..], &["--args"]].concat())?;
        ensure!(stopped.output.matches("Breakpoint 1, ").count() == 2, "{library:?}: {}", stopped.output);
        ensure!(stopped.output.contains("name = 0x"), "{library:?}: {}", stopped.output);
    }
    Ok(())
}

#[test]
fn other_data_and_other_calls_end_it_where_they_are() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (mut case, _) = recorded(library, "exchange_all", &["--log", "LOG"], 3)?;
        case.other(library, "exchange_all", &["--log", "LOG", "--other", "1"]);
        case.run_alone(1, &[], "x", &[])?.check(1, &["rank 1 diverges at its call "])?;
        case.run_alone(1, &["--ignore-data"], "x", &[])?
            .check(0, &["calls sent other data than they did"])?;
        case.other(library, "exchange_all", &["--log", "LOG", "--window", "1"]);
        case.run_alone(1, &[], "x", &[])?.check(1, &["rank 1 diverges at its call "])?;
        case.other(library, "anyorder", &["source", "--log", "LOG"]);
        case.run_alone(1, &[], "x", &[])?
            .check(1, &["the program is not the one that was recorded", "diverges"])?;
    }
    Ok(())
}

#[test]
fn a_record_that_ends_early_is_played_up_to_there() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "exchange_all", &["--log", "LOG", "--window", "1"])?;
        let run = case.run("record", &["--payloads"], "x", None)?;
        run.check(0, &["does what the contents of its messages do not cover"])?;
        let alone = case.run_alone(2, &[], "x", &[])?;
        alone.check(0, &["rank 2: the record ends"])?;
        let (own, all) = (&alone.logs[2], &run.logs[2]);
        // What had not been written yet is not in its log.
        let whole = own.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        ensure!(all.starts_with(&own[..whole]), "{library:?}: another log");

        let died = ReplayCase::own(library, "exchange_all", &["--log", "LOG", "--die", "2"])?;
        died.run("record", &["--payloads"], "x", None)?;
        let again = died.run_alone(2, &[], "x", &[])?;
        ensure!(again.said.contains("signal"), "{library:?}: it did not die again: {}", again.said);
    }
    Ok(())
}

#[test]
fn what_cannot_run_alone_is_refused() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (case, _) = recorded(library, "anyorder", &["source", "--log", "LOG", "--rounds", "5"], 3)?;
        case.run_alone(7, &[], "x", &[])?.check(2, &["rank 7 is not on this tape"])?;
        let tape = fs::read(case.tape("x")).context("a tape")?;
        fs::write(case.tape("cut"), &tape[..tape.len() * 2 / 3])?;
        let cut = case.run_alone(1, &[], "cut", &[])?;
        ensure!(cut.status == Some(0) || cut.status == Some(2), "{library:?}: {:?} {}", cut.status, cut.said);
        ensure!(!cut.said.contains("panicked"), "{}", cut.said);
        case.run("record", &[], "plain", None)?.check(0, &[])?;
        case.run_alone(1, &[], "plain", &[])?.check(2, &["dmscope record --payloads"])?;
    }
    Ok(())
}

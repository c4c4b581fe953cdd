//! Jobs with ranks on two nodes that are recorded and replayed from a third: this machine, where their launcher runs.
//!
//! Nothing is shared between nodes but files of programs: each has shared memory of its own, and what starts ranks there passes
//! on no environment, as ssh.

use anyhow::{Context, Result, ensure};
use live::MpiImplementation::{Mpich, OpenMpi};
use live::replayed::{ReplayCase, kill_job, times, wait_for_bytes};
use live::{MpiImplementation, processes};
use rustix::process::Signal;

const NODES: &[&str] = &["--nodes"];

fn on_two_nodes(library: MpiImplementation, program: &str, arguments: &[&str]) -> Result<ReplayCase> {
    // MPICH over UCX may wait in MPI_Finalize for ever if there are more ranks, unwatched too.
    let ranks = match library {
        OpenMpi => 4,
        Mpich => 2,
    };
    ReplayCase::own(library, program, arguments)?.ranks(ranks).on_nodes(2)
}

fn any_order(library: MpiImplementation, arguments: &[&str]) -> Result<ReplayCase> {
    on_two_nodes(library, "anyorder", arguments)
}

#[test]
fn ranks_on_other_nodes_answer_as_they_did_there_and_on_one_node() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = any_order(library, &["all", "--log", "LOG", "--rounds", "5"])?;
        let recorded = case.run("record", NODES, "x", None)?;
        recorded.check(0, &[" ranks, "])?;
        ensure!(!recorded.said.contains("cannot be replayed"), "{}", recorded.said);
        let there = case.run("replay", NODES, "x", None)?;
        there.check(0, &["replayed to the end of the record"])?;
        there.check_same(&recorded)?;
        case.on_this_node();
        let here = case.run("replay", &[], "x", Some("0"))?;
        here.check(0, &["replayed to the end of the record"])?;
        here.check_same(&recorded)?;
    }
    Ok(())
}

const PROGRAMS: [(&str, &[&str]); 4] = [
    ("published", &["tree", "--log", "LOG", "--rounds", "3", "--messages", "10"]),
    ("published", &["graph", "--log", "LOG", "--rounds", "3", "--messages", "10"]),
    ("random", &["--threads", "0", "--seed", "2", "--programs", "5", "--log", "LOG"]),
    ("fortran_f08", &["LOG"]),
];

/// Three ranks at least: with MPICH there are fewer.
const ELECTION: (&str, &[&str]) =
    ("published", &["bully", "--log", "LOG", "--rounds", "3", "--messages", "1"]);

#[test]
fn programs_over_nodes_get_the_same_messages() -> Result<()> {
    let (records, replays) = times(1)?;
    let of_both = PROGRAMS.map(|program| [OpenMpi, Mpich].map(|library| (library, program))).concat();
    for (library, (program, arguments)) in of_both.into_iter().chain([(OpenMpi, ELECTION)]) {
        let case = on_two_nodes(library, program, arguments)?;
        for _ in 0..records {
            let recorded = case.run("record", NODES, "x", None)?;
            recorded.check(0, &[" ranks, "])?;
            for _ in 0..replays {
                let replayed = case.run("replay", NODES, "x", None)?;
                replayed.check(0, &["replayed to the end of the record"])?;
                replayed
                    .check_same(&recorded)
                    .with_context(|| format!("{library:?}: {program} {arguments:?}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_hang_over_nodes_is_recorded_up_to_there_and_its_replay_names_node_and_line() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = any_order(library, &["hang", "--log", "LOG", "--rounds", "500"])?;
        let recorded = case.record_with(NODES, "x", |dmscope, log| {
            // It is flushed when rank 0 hangs.
            wait_for_bytes(log, 1)?;
            kill_job(dmscope);
            Ok(())
        })?;
        ensure!(recorded.output.contains("rank 0 hangs"), "{library:?}: {recorded:?}");
        let replayed = case.run("replay", &["--nodes", "--patience", "2s"], "x", None)?;
        replayed.check(
            0,
            &[
                "the job hangs where its record ends",
                "MPI_Recv(source=1, tag=4711",
                " at anyorder.c:",
                " on dms",
            ],
        )?;
        ensure!(replayed.logs[0] == recorded.logs[0], "{library:?}: {}", replayed.said);
    }
    Ok(())
}

#[test]
fn a_divergence_on_another_node_says_the_line_and_ends_the_job() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = any_order(library, &["source", "--log", "LOG", "--rounds", "20"])?;
        case.run("record", NODES, "x", None)?.check(0, &[" ranks, "])?;
        case.other(library, "anyorder", &["waitany", "--log", "LOG", "--rounds", "20"]);
        case.run("replay", NODES, "x", None)?
            .check(1, &["diverges at its call", "MPI_Waitany", " at anyorder.c:"])?;
        let left = processes::with_variable("DMSCOPE_NODES");
        ensure!(left.is_empty(), "{library:?}: left: {left:?}");
    }
    Ok(())
}

/// Of the processes that dmscope has on both nodes, one.
fn kill_a_share() -> Result<()> {
    let shares = processes::with_variable("DMSCOPE_NODE_STAYS");
    ensure!(shares.len() == 2, "{shares:?}");
    processes::signal(shares[0], Signal::KILL);
    Ok(())
}

#[test]
fn a_node_whose_share_is_killed_is_told_and_its_ranks_go_on() -> Result<()> {
    let library = OpenMpi;
    let case = any_order(library, &["source", "--log", "LOG", "--rounds", "3000"])?;
    let recorded = case.record_with(NODES, "x", |_, log| {
        wait_for_bytes(log, 10_000)?;
        kill_a_share()
    })?;
    recorded.check(0, &["is no longer connected"])?;
    ensure!(recorded.logs.iter().all(|log| !log.is_empty()));
    Ok(())
}

#[test]
fn each_rank_of_a_job_over_two_nodes_runs_alone_on_this_one() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (program, arguments) in [
            // In each step more than fits into a ring.
            ("exchange_all", &["--log", "LOG", "--steps", "2", "--large", "10000000"][..]),
            ("anyorder", &["all", "--log", "LOG", "--rounds", "3"]),
        ] {
            let mut case = on_two_nodes(library, program, arguments)?;
            let recorded = case.run("record", &["--nodes", "--payloads"], "x", None)?;
            let ranks = recorded.logs.len();
            recorded.check(0, &[&format!("contents of {ranks} ranks")])?;
            case.on_this_node();
            for rank in 0..ranks {
                let alone = case.run_alone(rank, &[], "x", &[])?;
                alone.check(0, &["ran alone to its end: exit status: 0"])?;
                let log = &recorded.logs[rank];
                ensure!(!log.is_empty() && alone.logs[rank] == *log, "{library:?}: {program}, rank {rank}");
            }
        }
    }
    Ok(())
}

#[test]
fn contents_of_a_node_whose_share_is_killed_end_there_and_its_ranks_go_on() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["--log", "LOG", "--steps", "4", "--large", "10000000"];
        let case = on_two_nodes(library, "exchange_all", &arguments)?;
        let recorded = case.record_with(&["--nodes", "--payloads"], "x", |_, log| {
            // It is written after each step.
            wait_for_bytes(log, 1)?;
            kill_a_share()
        })?;
        recorded.check(0, &["is no longer connected"])?;
        ensure!(recorded.logs.iter().all(|log| !log.is_empty()));
        // Rank 0 is on the one node or on the other: its contents are on the tape to the end, or end where its share did.
        let alone = case.run_alone(0, &[], "x", &[])?;
        ensure!(alone.status == Some(0), "{library:?}: {}", alone.said);
        ensure!(recorded.logs[0].starts_with(&alone.logs[0]), "{library:?}: another log");
    }
    Ok(())
}

#[test]
fn ranks_on_other_nodes_whose_contents_nobody_takes_any_more_go_on() -> Result<()> {
    for library in MpiImplementation::ALL {
        let arguments = ["--log", "LOG", "--steps", "4", "--large", "10000000"];
        let case = on_two_nodes(library, "exchange_all", &arguments)?;
        case.record_with(&["--nodes", "--payloads"], "x", |dmscope, log| {
            wait_for_bytes(log, 1)?;
            let of_a_step = log.metadata()?.len();
            processes::signal(dmscope, Signal::KILL);
            wait_for_bytes(log, 3 * of_a_step)
        })?;
    }
    Ok(())
}

/// By a session over the bus: nothing is loaded into the job.
const BY_PROBES: [&str; 3] = ["--quiet", "--replayable", "--record"];

fn watched_on_two_nodes(library: MpiImplementation, arguments: &[&str]) -> Result<ReplayCase> {
    let arguments = [arguments, &["--log", "LOG", "--timed", "0", "--told", "1"]].concat();
    let ranks = if library == OpenMpi { 4 } else { 2 };
    ReplayCase::own(library, "anyorder", &arguments)?.ranks(ranks).on_watched_nodes(2)
}

#[test]
fn what_probes_recorded_on_all_nodes_is_replayed_there_and_on_one_node() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = watched_on_two_nodes(library, &["all", "--rounds", "20"])?;
        let recorded = case.run("run", &BY_PROBES, "x", None)?;
        recorded.check(0, &[])?;
        let said = ["recorded by probes", "replayed to the end of the record"];
        let there = case.run("replay", NODES, "x", None)?;
        there.check(0, &said)?;
        there.check_same(&recorded).with_context(|| format!("{library:?}, there"))?;
        case.on_this_node();
        let here = case.run("replay", &[], "x", Some("0"))?;
        here.check(0, &said)?;
        here.check_same(&recorded).with_context(|| format!("{library:?}, here"))?;
    }
    Ok(())
}

#[test]
fn a_hang_that_probes_recorded_over_nodes_comes_again_on_one() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = watched_on_two_nodes(library, &["hang", "--rounds", "500"])?;
        let recorded = case.run_and("run", &BY_PROBES, "x", |dmscope, log| {
            wait_for_bytes(log, 1)?;
            kill_job(dmscope);
            Ok(())
        })?;
        ensure!(recorded.output.contains("rank 0 hangs"), "{library:?}: {recorded:?}");
        case.on_this_node();
        let replayed = case.run("replay", &["--patience", "2s"], "x", Some("0"))?;
        replayed.check(0, &["the job hangs where its record ends", "MPI_Recv(source=1, tag=4711"])?;
        ensure!(replayed.logs[0] == recorded.logs[0], "{library:?}: {}", replayed.said);
    }
    Ok(())
}

//! Races of recorded jobs: found, turned round, explored.

use std::fs;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::{ReplayCase, kill_job};

/// A master that fails in one of the six orders in which the results of three workers can come.
fn orders(library: MpiImplementation, how: &str, fault: &str) -> Result<ReplayCase> {
    Ok(ReplayCase::own(library, "orders", &[how, fault])?.ranks(4))
}

/// `0:4=3`: how a race is named, at a call of the master.
fn swap_to(listed: &str, rank: u32) -> Option<&str> {
    let name = |line: &&str| line.starts_with("    0:") && line.contains(&format!("={rank}  "));
    listed.lines().find(name)?.split_whitespace().next()
}

#[test]
fn exploring_a_good_run_finds_the_order_in_which_it_crashes() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = orders(library, "recv", "crash")?;
        case.run("record", &["--messages", "--quiet"], "x", None)?.check(0, &[])?;
        let explored = case.run("explore", &["--patience", "2s"], "x", None)?;
        explored.check(1, &["ends otherwise", "5 runs: 1 fail; nothing is left to be tried"])?;
        let tape = explored
            .said
            .lines()
            .find_map(|line| line.split_once("dmscope replay ")?.1.split_once(" -- "))
            .with_context(|| explored.said.clone())?
            .0
            .to_owned();
        let kept = case.tape("kept");
        fs::copy(&tape, &kept).with_context(|| tape.clone())?;
        for cpus in [None, Some("0")] {
            let replayed = case.run("replay", &[], "kept", cpus)?;
            ensure!(!replayed.output.contains("right"), "{library:?}: {}", replayed.output);
            ensure!(replayed.said.contains("the job ended: exit status"), "{library:?}: {}", replayed.said);
            ensure!(!replayed.said.contains("the job ended: exit status: 0"), "{}", replayed.said);
        }
        // All was tried: nothing is done again, and what did not fail is not kept.
        case.run("explore", &[], "x", None)?.check(1, &["0 runs, 5 before: 1 fail"])?;
        let folder = case.tape("x").with_extension("dmt.explore");
        ensure!(!folder.join("1.dmt").exists() || tape.ends_with("/1.dmt"), "tapes are left behind");
    }
    Ok(())
}

#[test]
fn races_are_drawn_on_a_page() -> Result<()> {
    let library = MpiImplementation::OpenMpi;
    let case = orders(library, "irecv", "none")?;
    case.run("record", &["--messages", "--quiet"], "x", None)?.check(0, &[])?;
    let page = case.tape("page").with_extension("html");
    let said = case.list("races", &["--page", page.to_str().context("a path")?], "x")?;
    said.check(0, &["could have gone otherwise", "the page is"])?;
    let html = fs::read_to_string(&page)?;
    for part in ["MPI_Irecv at orders.c:", "class=\"message possible\"", "dmscope replay --swap 0:"] {
        ensure!(html.contains(part), "there is no {part} on the page");
    }
    Ok(())
}

#[test]
fn each_kind_of_receive_can_go_the_other_way() -> Result<()> {
    for library in MpiImplementation::ALL {
        for how in ["recv", "probe", "iprobe", "irecv", "start"] {
            let case = orders(library, how, "none")?;
            case.run("record", &["--messages", "--quiet"], "x", None)?.check(0, &[])?;
            let races = case.list("races", &[], "x")?;
            races.check(0, &["could have gone otherwise"])?;
            ensure!(races.output.contains("orders.c:"), "{library:?} {how}: {}", races.output);
            let swap = swap_to(&races.output, 3).with_context(|| format!("{how}: {}", races.output))?;
            let replayed =
                case.run("replay", &["--swap", swap, "--messages", "--record", "other.dmt"], "x", Some("0"))?;
            replayed.check(0, &["replayed up to", "exit status: 0"])?;
            let other = case.tape("other");
            fs::copy(case.folder_of("replay", "x").join("other.dmt"), &other)?;
            // What came there is recorded, and replayed again.
            let again = case.list("races", &[], "other")?;
            let point = swap.split('=').next().unwrap_or_default();
            let line = again.output.lines().find(|line| line.starts_with(&format!("{point} ")));
            ensure!(
                line.is_some_and(|line| line.contains(" rank 3, ")),
                "{library:?} {how}: {}",
                again.output
            );
            case.run("replay", &[], "other", None)?.check(0, &["replayed to the end of the record"])?;
        }
    }
    Ok(())
}

#[test]
fn hangs_and_other_output_are_found_where_requests_are_chosen() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = orders(library, "waitany", "hang")?;
        // Messages are added by the first replay.
        case.run("record", &["--quiet"], "x", None)?.check(0, &[])?;
        case.list("races", &[], "x")?.check(2, &["dmscope record --messages"])?;
        let explored = case.run("explore", &["--patience", "1s"], "x", None)?;
        explored.check(1, &["hangs: ", "the job hangs on its new way: rank 0", "1 fail"])?;

        let case = orders(library, "irecv", "print")?;
        case.run("record", &["--quiet"], "x", None)?.check(0, &[])?;
        let first = case.run("explore", &["--most", "1"], "x", None)?;
        ensure!(first.said.contains("the same command goes on"), "{}", first.said);
        case.run("explore", &["--patience", "2s"], "x", None)?
            .check(1, &["prints something else", "1 fail"])?;
    }
    Ok(())
}

#[test]
fn a_barrier_between_messages_leaves_no_race() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = orders(library, "barriers", "crash")?;
        case.run("record", &["--messages"], "x", None)?.check(0, &[])?;
        let races = case.list("races", &["--json"], "x")?;
        ensure!(races.output.contains("\"places\":3,\"races\":0"), "{library:?}: {}", races.output);
        let nothing = case.run("replay", &["--swap", "0:4=3"], "x", None)?;
        nothing.check(2, &["nothing else can come at 0:4"])?;
    }
    Ok(())
}

#[test]
fn messages_of_a_job_that_was_killed_are_on_the_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "anyorder", &["source", "--log", "LOG", "--rounds", "1000000"])?;
        case.record_with(&["--messages"], "x", |dmscope, log| {
            live::replayed::wait_for_bytes(log, 20_000)?;
            kill_job(dmscope);
            Ok(())
        })?;
        let races = case.list("races", &["--most", "3"], "x")?;
        races.check(0, &["could have gone otherwise", "more are not shown"])?;
    }
    Ok(())
}

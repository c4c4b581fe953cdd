//! Races of jobs that probes have recorded, and the order of their calls: as in what a wrapper records.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::{ReplayCase, order_on};

const BY_PROBES: [&str; 3] = ["--quiet", "--replayable", "--record"];

/// Lines of JSON, one for each race and one for all.
fn races(case: &ReplayCase, tape: &str) -> Result<BTreeSet<String>> {
    let listed = case.list("races", &["--json", "--most", "100000"], tape)?;
    listed.check(0, &[])?;
    Ok(listed.output.lines().map(str::to_owned).collect())
}

/// A replay is the same run once more: its wrapper writes down what probes saw.
#[test]
fn races_are_those_that_a_wrapper_finds_in_the_same_run() -> Result<()> {
    let programs: [(&str, &[&str]); 3] = [
        ("anyorder", &["all", "--log", "LOG", "--rounds", "3", "--timed", "0", "--told", "1"]),
        ("random", &["--threads", "0", "--seed", "1", "--programs", "10", "--log", "LOG"]),
        ("orders", &["waitany", "none"]),
    ];
    for library in MpiImplementation::ALL {
        for (program, arguments) in programs {
            let name = format!("{library:?}, {program} {arguments:?}");
            let case = ReplayCase::own(library, program, arguments)?.ranks(4);
            case.run("run", &BY_PROBES, "x", None)?.check(0, &[])?;
            let full = case.tape("full");
            let options = ["--messages", "--record", full.to_str().context("a path")?];
            case.run("replay", &options, "x", None)?
                .check(0, &["replayed to the end of the record"])
                .context(name.clone())?;
            let (probed, wrapped) = (races(&case, "x")?, races(&case, "full")?);
            let differ: Vec<_> = probed.symmetric_difference(&wrapped).take(6).collect();
            ensure!(differ.is_empty(), "{name}: {differ:#?}");
            ensure!(probed.len() > 1, "{name}: {probed:?}: nothing was tested");
        }
    }
    Ok(())
}

#[test]
fn each_of_them_can_go_the_other_way() -> Result<()> {
    for library in MpiImplementation::ALL {
        for how in ["probe", "iprobe", "irecv", "start"] {
            let case = ReplayCase::own(library, "orders", &[how, "none"])?.ranks(4);
            case.run("run", &BY_PROBES, "x", None)?.check(0, &[])?;
            let listed = case.list("races", &[], "x")?;
            listed.check(0, &["could have gone otherwise"])?;
            ensure!(listed.output.contains("orders.c:"), "{library:?} {how}: {}", listed.output);
            // Some ask for no status: either all is known, or it is said that it is not.
            let is_whole = listed.said.contains("2 of 3 receives");
            let is_told = listed.said.contains("it is not known whose");
            ensure!(is_whole != is_told, "{library:?} {how}: {}", listed.said);
            let swaps = listed.output.lines().filter(|line| line.starts_with("    0:"));
            let swap = swaps.filter_map(|line| line.split_whitespace().next()).next();
            let swap = swap.with_context(|| format!("{library:?} {how}: {}", listed.output))?;
            let replayed = case.run("replay", &["--swap", swap], "x", Some("0"))?;
            replayed
                .check(0, &["replayed up to", "exit status: 0"])
                .with_context(|| format!("{library:?} {how}"))?;
        }
    }
    Ok(())
}

#[test]
fn exploring_finds_the_order_in_which_the_job_crashes() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "orders", &["recv", "crash"])?.ranks(4);
        case.run("run", &BY_PROBES, "x", None)?.check(0, &[])?;
        let explored = case.run("explore", &["--patience", "2s"], "x", None)?;
        explored.check(1, &["ends otherwise", "1 fail; nothing is left to be tried"])?;
    }
    Ok(())
}

#[test]
fn calls_end_in_the_order_that_probes_saw() -> Result<()> {
    let programs: [(&str, &[&str]); 3] = [
        ("apart", &["--log", "LOG"]),
        ("anyorder", &["all", "--log", "LOG", "--rounds", "3", "--timed", "0", "--told", "1"]),
        ("anythread", &["tagged", "--log", "LOG", "--rounds", "5"]),
    ];
    for library in MpiImplementation::ALL {
        for (program, arguments) in programs {
            let name = format!("{library:?}, {program}");
            let case = ReplayCase::own(library, program, arguments)?;
            let recorded = case.run("run", &BY_PROBES, "x", None)?;
            recorded.check(0, &[])?;
            let mut orders = Vec::new();
            for (tape, cpus) in [("first", None), ("second", Some("0"))] {
                let path = case.tape(tape);
                let options = ["--identical", "--order", "--record", path.to_str().context("a path")?];
                let replayed = case.run("replay", &options, "x", cpus)?;
                replayed.check(0, &["in the order of all ranks' calls"]).context(name.clone())?;
                replayed.check_same(&recorded).context(name.clone())?;
                orders.push(order_on(&path)?);
            }
            ensure!(orders[0] == orders[1], "{name}: calls ended in another order");
        }
    }
    Ok(())
}

//! Replays in which the calls of all ranks end in the recorded order.

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::replayed::{ReplayCase, kill_job, order_on, wait_for_bytes};

/// Records a case, and replays it in its order, on all cores and on one; and once by the order of each rank alone, whose order
/// of all calls it gives, after the recorded one.
fn replay_identically(case: &ReplayCase) -> Result<[Vec<Vec<u64>>; 2]> {
    let recorded = case.run("record", &["--order"], "x", None)?;
    recorded.check(0, &["ranks, "])?;
    let order = order_on(&case.tape("x"))?;
    let again = case.tape("again");
    let again_option = ["--order", "--record", again.to_str().context("a path")?];
    for cpus in [None, Some("0")] {
        let options = [&["--identical"], &again_option[..]].concat();
        let replayed = case.run("replay", &options, "x", cpus)?;
        replayed.check(0, &["in the order of all ranks' calls"])?;
        replayed.check_same(&recorded)?;
        ensure!(order_on(&again)? == order, "calls ended in another order\n{}", replayed.said);
    }
    let replayed = case.run("replay", &again_option, "x", Some("0"))?;
    replayed.check(0, &["replayed to the end of the record"])?;
    replayed.check_same(&recorded)?;
    Ok([order, order_on(&again)?])
}

#[test]
fn calls_of_ranks_that_have_nothing_to_do_with_each_other_end_in_the_recorded_order() -> Result<()> {
    for library in MpiImplementation::ALL {
        let case = ReplayCase::own(library, "apart", &["--log", "LOG"])?.ranks(4);
        let [order, by_rank] = replay_identically(&case)?;
        let of_each = order.iter().map(Vec::len);
        // Each of 20 rounds has three calls of senders and two of receivers.
        ensure!(of_each.clone().min() >= Some(40), "{library:?}: {:?}", of_each.collect::<Vec<_>>());
        ensure!(order != by_rank, "{library:?}: both kinds of replay are alike, so that nothing was tested");
    }
    Ok(())
}

#[test]
fn all_calls_and_random_programs_are_replayed_in_the_order_of_all_ranks() -> Result<()> {
    for library in MpiImplementation::ALL {
        let all = ["all", "--log", "LOG", "--rounds", "3"];
        let random = ["--threads", "0", "--seed", "3", "--programs", "10", "--log", "LOG"];
        let threaded = ["--numbered", "1", "--seed", "4", "--programs", "10", "--log", "LOG"];
        for (program, arguments) in [("anyorder", &all[..]), ("random", &random), ("random", &threaded)] {
            let case = ReplayCase::own(library, program, arguments)?;
            replay_identically(&case).with_context(|| format!("{library:?}, {program}"))?;
        }
    }
    Ok(())
}

#[test]
fn calls_of_threads_end_in_the_recorded_order_too() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (way, rounds) in [("all", "5"), ("serialized", "20")] {
            let case = ReplayCase::own(library, "anythread", &[way, "--log", "LOG", "--rounds", rounds])?;
            replay_identically(&case).with_context(|| format!("{library:?}, {way}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_job_that_was_killed_is_replayed_as_far_as_its_order_is_whole() -> Result<()> {
    for library in MpiImplementation::ALL {
        let mut case = ReplayCase::own(library, "apart", &["--log", "LOG", "--rounds", "100000"])?.ranks(4);
        let recorded = case.record_with(&["--order"], "x", |dmscope, log| {
            let other = log.with_file_name("rank1.log");
            wait_for_bytes(&other, 4096)?;
            kill_job(dmscope);
            Ok(())
        })?;
        ensure!(recorded.status != Some(0), "{library:?}: it was not killed\n{}", recorded.said);
        // It would run on for long where the record ends.
        case.other(library, "apart", &["--log", "LOG", "--rounds", "1500"]);
        let replayed = case.run("replay", &["--identical"], "x", None)?;
        replayed.check(0, &["the job ended: exit status: 0"]).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn a_tape_without_the_order_is_refused_with_what_to_do() -> Result<()> {
    let library = MpiImplementation::Mpich;
    let case = ReplayCase::own(library, "apart", &["--log", "LOG", "--rounds", "2"])?.ranks(2);
    case.run("record", &[], "x", None)?.check(0, &[])?;
    case.run("replay", &["--identical"], "x", None)?.check(2, &["dmscope record --order"])
}

//! Collective calls that do not match, and messages that are received as something else, watched from the start of the job: told
//! when they are made, whether or not the library survives them; of right programs nothing is told.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::catalogue::{CASES, FROM_THE_START};
use live::fault_case::{Ends, FaultCase, FaultClass};
use live::processes::HungJob;
use live::{Dmscope, JobSpec, MpiImplementation, RunningSession};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is told of a case, by library: the kind of finding.
const WATCHED: [(&str, &str); 8] = [
    ("survived_root", "collective_mismatch"),
    ("in_place_on_one", "collective_mismatch"),
    ("other_operation", "collective_mismatch"),
    ("other_datatype", "collective_mismatch"),
    ("barrier_or_ibarrier", "collective_mismatch"),
    ("skips_collective", "collective_mismatch"),
    ("overlapping_communicators", "hang"),
    ("waitall_collective", "hang"),
];

fn cases() -> Vec<(&'static FaultCase, &'static str)> {
    let case = |name: &str| CASES.iter().find(|case| case.args.contains(&name));
    let of_catalogue = WATCHED.iter().filter_map(|(name, kind)| Some((case(name)?, *kind)));
    of_catalogue.chain(FROM_THE_START.iter().map(|case| (case, "collective_mismatch"))).collect()
}

/// Runs a job under dmscope. It goes on when dmscope knows all its ranks.
fn run(
    library: MpiImplementation,
    case: &FaultCase,
    arguments: &[&str],
    options: &[&str],
    folder: &TempDir,
) -> Result<RunningSession> {
    let go = folder.path().join("go");
    let job = JobSpec::own(library, case.job)?.ranks(case.ranks as usize).args(arguments.iter().copied());
    let job = job.args(["--wait-for".to_owned(), go.to_string_lossy().into_owned()]);
    let mut run = Dmscope::run(&job).args(["--duration", "40s"]).args(options.iter().copied()).spawn()?;
    run.set_patience(PATIENCE);
    let all = u64::from(case.ranks);
    let knows_all = |event: &Value| {
        event["event"] == "status" && event["ranks"].as_array().is_some_and(|ranks| ranks.len() as u64 == all)
    };
    run.wait_for(knows_all)?;
    File::create(&go).context("cannot let the job go")?;
    Ok(run)
}

fn check(library: MpiImplementation, case: &FaultCase, kind: &str) -> Result<()> {
    let name = format!("{} {:?}", library.name(), case.args);
    let folder = TempDir::new()?;
    let run = run(library, case, case.args, &[], &folder)?;
    let job = HungJob::started_by(run.pid());
    let wanted = |finding: &Value| finding["evidence"]["kind"] == kind;
    let finding = run.wait_for_alert(wanted).with_context(|| name.clone())?;
    let who = finding["who"].as_array().into_iter().flatten();
    let who: BTreeSet<u64> = who.filter_map(|who| who["rank"].as_u64()).collect();
    ensure!(who == case.at_fault.iter().map(|rank| u64::from(*rank)).collect(), "{name}: {finding:#}");
    let ranks = finding["evidence"]["ranks"].as_array().into_iter().flatten();
    let at_fault: Vec<&Value> = ranks.filter(|rank| rank["at_fault"] == true).collect();
    ensure!(
        at_fault.iter().any(|rank| rank["call"]["function"] == case.function),
        "{name}: not in {}: {finding:#}",
        case.function
    );
    eprintln!("{name}: {}", finding["summary"]);
    if case.ends == Ends::Hangs {
        // With its job the session ends too.
        drop(job);
    }
    let session = run.finish()?;
    // Also of a hang whose ranks were killed in it.
    let findings = session.report()?["findings"].as_array().context("findings")?.clone();
    ensure!(findings.iter().any(|told| told["id"] == finding["id"]), "{name}: {findings:#?}");
    Ok(())
}

#[test]
fn collective_calls_that_do_not_match_are_told_with_ranks_and_call() -> Result<()> {
    let mut checked = 0;
    for library in MpiImplementation::ALL {
        for (case, kind) in cases() {
            check(library, case, kind)?;
            checked += 1;
        }
    }
    ensure!(checked == 2 * (WATCHED.len() + FROM_THE_START.len()), "only {checked} cases");
    Ok(())
}

#[test]
fn nothing_is_said_of_the_same_calls_done_right() -> Result<()> {
    for library in MpiImplementation::ALL {
        for (case, _) in cases() {
            let right = case.twin.context("a right twin")?;
            let session = run(library, case, right, &[], &TempDir::new()?)?.finish()?;
            let findings = session.report()?["findings"].as_array().context("findings")?.clone();
            let kinds = ["hang", "collective_mismatch"];
            let told: Vec<&Value> = findings
                .iter()
                .filter(|finding| kinds.iter().any(|kind| finding["evidence"]["kind"] == *kind))
                .collect();
            ensure!(told.is_empty(), "{} {right:?}: {told:#?}", library.name());
        }
    }
    Ok(())
}

#[test]
fn numbers_that_are_received_as_others_are_told_with_both_calls() -> Result<()> {
    let case = CASES.iter().find(|case| case.class == FaultClass::MismatchedDatatype).context("a case")?;
    for library in MpiImplementation::ALL {
        let told = |arguments| {
            let session = run(library, case, arguments, &["--returns", "all"], &TempDir::new()?)?.finish()?;
            let findings = session.report()?["findings"].as_array().context("findings")?.clone();
            let is_wanted = |finding: &Value| finding["evidence"]["kind"] == "datatype_mismatch";
            Ok::<Vec<Value>, anyhow::Error>(findings.into_iter().filter(is_wanted).collect())
        };
        let wrong = told(case.args)?;
        ensure!(wrong.len() == 1, "{}: {wrong:#?}", library.name());
        let evidence = &wrong[0]["evidence"];
        let both = [&evidence["send"], &evidence["receive"]].map(|call| call["function"].clone());
        ensure!(
            both == ["MPI_Send", case.function] && evidence["count"] == 1,
            "{}: {wrong:#?}",
            library.name()
        );
        let frame = live::findings::frame(&evidence["receive"]["place"]);
        let expected = case.line()?.map(u64::from);
        ensure!(frame.is_some_and(|(_, _, line)| Some(line) == expected), "{}: {wrong:#?}", library.name());
        eprintln!("{}: {}", library.name(), wrong[0]["summary"]);
        let right = told(case.twin.context("a right twin")?)?;
        ensure!(right.is_empty(), "{}: {right:#?}", library.name());
    }
    Ok(())
}

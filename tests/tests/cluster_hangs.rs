//! Jobs that hang or die with their ranks on two nodes, in one session over both: told by class, ranks, line and node within
//! fifteen seconds of the fault, or twenty of coming to a job that hangs.
//!
//! The usual run takes a case of each class that matters most, watched from before with one library and after it hangs with the
//! other; `DMSCOPE_TEST_CATALOGUE` chooses as it does for one node.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::catalogue::CASES;
use live::fault_case::{Ends, FaultCase, FaultClass};
use live::findings::summary;
use live::processes::HungJob;
use live::watched_cases::{Comes, Ranks, check, chosen, is_in_memory};
use live::{Cluster, Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;
use tempfile::TempDir;

/// Nobody waits longer to be told why a job does not go on.
const WITHIN: Duration = Duration::from_secs(15);

/// The same with attaching, where the job hangs before that: nothing is known of how long ranks have been where they are.
const WITHIN_OF_ATTACHING: Duration = Duration::from_secs(20);

/// Classes of the usual run. MPICH keeps in memory what tells those at even places after they hang.
const USUAL: [FaultClass; 5] = [
    FaultClass::Deadlock,
    FaultClass::MissingMessage,
    FaultClass::BlockedOutside,
    FaultClass::MismatchedCollective,
    FaultClass::Crash,
];

/// Windows need a network that reaches into memory: MPICH's do not work between the nodes that are made here.
fn works_on_nodes(case: &FaultCase) -> bool {
    !case.function.starts_with("MPI_Win")
}

fn is_usual_run() -> bool {
    std::env::var_os("DMSCOPE_TEST_CATALOGUE").is_none()
}

/// The chosen cases; without a choice one of each usual class, with libraries in turn.
fn cases(comes: Comes) -> Vec<(&'static FaultCase, MpiImplementation)> {
    let mut cases = chosen();
    cases.retain(|(case, library)| {
        works_on_nodes(case)
            && (comes == Comes::BeforeTheFault || case.ends == Ends::Hangs && is_in_memory(case, *library))
    });
    if is_usual_run() {
        let library_of = |class: FaultClass| {
            let turn = USUAL.iter().position(|usual| *usual == class)?;
            MpiImplementation::ALL.get((turn + usize::from(comes == Comes::AfterIt)) % 2).copied()
        };
        cases.retain(|(case, library)| library_of(case.class) == Some(*library));
    }
    cases
}

#[test]
fn each_fault_across_nodes_is_told_by_class_ranks_line_and_node() -> Result<()> {
    let comes = Comes::BeforeTheFault;
    check(comes, &cases(comes), Ranks::On(&Cluster::start(2)?), WITHIN)
}

#[test]
fn a_job_on_several_nodes_that_hangs_already_is_told_of_just_so() -> Result<()> {
    let comes = Comes::AfterIt;
    check(comes, &cases(comes), Ranks::On(&Cluster::start(2)?), WITHIN_OF_ATTACHING)
}

#[test]
fn the_usual_run_has_each_class_with_both_libraries() {
    if !is_usual_run() {
        return;
    }
    let classes = |comes| cases(comes).iter().map(|(case, _)| case.class).collect::<Vec<_>>();
    assert_eq!(classes(Comes::BeforeTheFault).len(), USUAL.len());
    // Who has crashed does not hang.
    assert_eq!(classes(Comes::AfterIt).len(), USUAL.len() - 1);
    for (case, library) in cases(Comes::AfterIt) {
        let before = cases(Comes::BeforeTheFault).into_iter().find(|(other, _)| other.class == case.class);
        assert!(before.is_some_and(|(_, other)| other != library), "{:?}", case.class);
    }
}

/// Ranks that a finding names.
fn ranks_of(finding: &Value) -> BTreeSet<u64> {
    let who = finding["who"].as_array().into_iter().flatten();
    who.filter_map(|who| who["rank"].as_u64()).collect()
}

/// Runs a job under dmscope. It goes on when all ranks are known.
fn tell_of_job_run_under_dmscope(
    cluster: &Cluster,
    library: MpiImplementation,
    case: &FaultCase,
) -> Result<()> {
    let folder = TempDir::new()?;
    let go = folder.path().join("go");
    let job = JobSpec::own(library, case.job)?.ranks(case.ranks as usize).args(case.args.iter().copied());
    let job = job.args(["--wait-for".to_owned(), go.to_string_lossy().into_owned()]);
    let run = Dmscope::run(&job.on_nodes(&cluster.nodes)?).args(cluster.bus.options("root"));
    let run = run.args(["--duration", "60s"]).spawn()?;
    let all = case.ranks as usize;
    let knows_all = |event: &Value| {
        event["event"] == "status" && event["ranks"].as_array().is_some_and(|ranks| ranks.len() == all)
    };
    run.wait_for(knows_all)?;
    let job = HungJob::started_by(run.pid());
    File::create(&go).context("cannot let the job go")?;
    let finding = run.wait_for_alert(|finding| finding["evidence"]["kind"] == "hang")?;
    ensure!(finding["evidence"]["fault"] == "deadlock", "{}", summary(&finding));
    let at_fault: BTreeSet<u64> = case.at_fault.iter().map(|&rank| rank.into()).collect();
    ensure!(ranks_of(&finding) == at_fault, "{}", summary(&finding));
    // With its job the session ends too.
    drop(job);
    run.finish().map(|_| ())
}

#[test]
fn a_job_that_is_started_on_several_nodes_is_watched_from_its_start() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let case = CASES.iter().find(|case| case.args.contains(&"recv_cycle")).context("no such case")?;
    let libraries = MpiImplementation::ALL.into_iter().take(if is_usual_run() { 1 } else { 2 });
    for library in libraries {
        tell_of_job_run_under_dmscope(&cluster, library, case).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

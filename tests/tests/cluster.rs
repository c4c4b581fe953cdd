//! Sessions over several nodes: agents on them, a bus between them, and one that looks at all.
//!
//! The usual run takes jobs with one library each, in turn; `DMSCOPE_TEST_CLUSTER_PROGRAMS=all` takes both.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::findings::{frame, missing_operation, summary};
use live::{Cluster, Dmscope, FinishedSession, JobSpec, MpiImplementation, RunningJob, RunningSession};
use serde_json::{Value, json};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);
/// What UCX sends first on a new connection.
const WIRE_UP_BYTES: u64 = 42;

fn takes_all() -> bool {
    std::env::var("DMSCOPE_TEST_CLUSTER_PROGRAMS").is_ok_and(|wanted| wanted == "all")
}

/// Jobs, each with the libraries that it is to be run with.
fn with_libraries<T: Copy>(jobs: &[T]) -> Vec<(T, MpiImplementation)> {
    let all = takes_all();
    let libraries = |turn: usize| {
        let is_its_turn = move |at: usize| all || at == turn % MpiImplementation::ALL.len();
        MpiImplementation::ALL.into_iter().enumerate().filter(move |(at, _)| is_its_turn(*at))
    };
    let jobs = jobs.iter().enumerate();
    jobs.flat_map(|(turn, job)| libraries(turn).map(move |(_, library)| (*job, library))).collect()
}

/// Not faster than what two cores can follow that the ranks use themselves.
fn on(cluster: &Cluster, library: MpiImplementation, name: &str, ranks: usize) -> Result<JobSpec> {
    JobSpec::own(library, name)?.ranks(ranks).args(["--pause-us", "200"]).on_nodes(&cluster.nodes)
}

/// A session over all nodes of the only job, when it is attached.
fn attach(cluster: &Cluster, ranks: usize) -> Result<RunningSession> {
    let session = cluster.attach(&cluster.job(ranks)?).spawn()?;
    session.wait_for_event("attached")?;
    Ok(session)
}

fn wait_for_verdict(job: &RunningJob) -> Result<()> {
    let is_verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = job.wait_for_line(TIMEOUT, is_verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    Ok(())
}

/// Nodes that a finding names.
fn nodes_of(finding: &Value) -> Vec<&str> {
    let places = finding["nodes"].as_array().into_iter().flatten();
    places.filter_map(|place| place["node"].as_str()).collect()
}

/// The staged copy was not sent, and the chain that was usual goes through the network.
fn check_pointer_fault(finding: &Value) -> Result<()> {
    let missing = missing_operation(finding)?;
    let function = frame(&missing["place"]).context("a place without a line")?.0;
    ensure!(function == "msg_send", "{function} is missing: {}", summary(finding));
    let ops = finding["evidence"]["frequent"]["ops"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = ops.filter_map(|op| op["kind"].as_str()).collect();
    let sent = kinds.iter().position(|kind| *kind == "stream_write").context("nothing is sent")?;
    ensure!(sent > 0 && kinds.get(sent + 1) == Some(&"stream_read"), "{kinds:?}");
    Ok(())
}

/// From the first message on, until there is a warning. Its tape says the same again.
fn watch_until_warning(cluster: &Cluster, spec: JobSpec, ranks: usize) -> Result<(Value, FinishedSession)> {
    let folder = TempDir::new()?;
    let tape = folder.path().join("all.dmt");
    let job = spec.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let session = cluster.attach(&cluster.job(ranks)?).record(&tape).spawn()?;
    session.wait_for_event("attached")?;
    job.go()?;
    let finding = session.wait_for_alert(|finding| finding["severity"] == "warning")?;
    job.stop()?;
    wait_for_verdict(&job)?;
    session.interrupt();
    let session = session.finish()?;
    let again = Dmscope::analyze(&tape).finish()?;
    ensure!(again.report_line()? == session.report_line()?, "the tape says something else");
    Ok((finding, session))
}

#[test]
fn pointer_faults_are_found_across_nodes_with_their_chains_and_again_in_the_tape() -> Result<()> {
    let cluster = Cluster::start(2)?;
    for ((name, options), library) in
        with_libraries(&[("figure2", &[][..]), ("headercache", &["--rare", "0.01"])])
    {
        let what = || format!("{name}, {library:?}");
        let spec = on(&cluster, library, name, 2)?.args(options.iter().copied());
        let (finding, session) = watch_until_warning(&cluster, spec, 2).with_context(what)?;
        check_pointer_fault(&finding).with_context(what)?;
        ensure!(session.status == Some(1), "{}: status {:?}", what(), session.status);
        let named = nodes_of(&finding);
        ensure!(named == [cluster.nodes.name(0), cluster.nodes.name(1)], "{}: {named:?}", what());
        let tcp = &session.report()?["statistics"]["tcp"];
        ensure!(tcp["unseen_bytes"] == 0 && tcp["missed_bytes"] == 0, "{}: {tcp}", what());
    }
    Ok(())
}

#[test]
fn a_pointer_fault_is_found_across_nodes_without_the_kernel() -> Result<()> {
    let cluster = Cluster::start(2)?;
    for library in MpiImplementation::ALL {
        let job = on(&cluster, library, "figure2", 2)?.held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let session = cluster.attach(&cluster.job(2)?).args(["--probes", "fast"]).spawn()?;
        let attached = session.wait_for_event("attached")?;
        ensure!(attached["fast"].as_u64() > Some(0), "all by the kernel: {attached}");
        job.go()?;
        let finding = session.wait_for_alert(|finding| finding["severity"] == "warning")?;
        check_pointer_fault(&finding).with_context(|| format!("{library:?}"))?;
        job.stop()?;
        wait_for_verdict(&job)?;
        session.interrupt();
        let tcp = session.finish()?.report()?["statistics"]["tcp"].clone();
        ensure!(tcp["unseen_bytes"] == 0 && tcp["missed_bytes"] == 0, "{library:?}: {tcp}");
    }
    Ok(())
}

#[test]
fn calls_alone_are_watched_on_all_nodes() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let job = on(&cluster, MpiImplementation::OpenMpi, "ring", 2)?.endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let name = cluster.job(2)?;
    let watch = |options: &[&str]| -> Result<(u64, FinishedSession)> {
        let session = cluster.attach(&name).args(options.iter().copied()).spawn()?;
        let probes = session.wait_for_event("attached")?["probes"].as_u64().context("no probes")?;
        session.wait_for(|event| event["event"] == "status" && event["records"].as_u64() > Some(1000))?;
        session.interrupt();
        Ok((probes, session.finish()?))
    };
    let ((calls, session), (all, _)) = (watch(&["--calls-only"])?, watch(&[])?);
    ensure!(calls > 0 && 3 * calls < 2 * all, "{calls} probes of {all}");
    let seen = session.report()?["statistics"]["calls"].to_string();
    ensure!(seen.contains("MPI_Isend") && seen.contains("MPI_Waitall"), "{seen}");
    job.stop()?;
    wait_for_verdict(&job)
}

#[test]
fn a_pointer_fault_is_found_among_the_ranks_of_four_nodes() -> Result<()> {
    let cluster = Cluster::start(4)?;
    for (name, library) in with_libraries(&["figure2"]) {
        let spec = on(&cluster, library, name, 4)?.args(["--yield"]);
        let (finding, _) = watch_until_warning(&cluster, spec, 4).with_context(|| format!("{library:?}"))?;
        check_pointer_fault(&finding).with_context(|| format!("{library:?}"))?;
        let named = nodes_of(&finding);
        ensure!(
            named.len() >= 2 && named.iter().all(|node| cluster.nodes.names().contains(&(*node).to_owned())),
            "{named:?}"
        );
    }
    Ok(())
}

#[test]
fn the_rank_that_repeats_its_requests_is_found_among_the_ranks_of_two_nodes() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let spec = on(&cluster, MpiImplementation::OpenMpi, "retrystorm", 16)?;
    let (finding, _) = watch_until_warning(&cluster, spec, 16)?;
    ensure!(finding["evidence"]["kind"] == "odd_rank", "{}", summary(&finding));
    ensure!(finding["who"] == json!([{ "rank": 5 }]), "{}", summary(&finding));
    ensure!(nodes_of(&finding) == [cluster.nodes.name(1)], "{:?}", nodes_of(&finding));
    Ok(())
}

/// Watched from its first message to its last: nothing is called wrong, and nothing was lost or seen at one end alone.
fn check_right(cluster: &Cluster, spec: JobSpec, ranks: usize) -> Result<()> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let session = attach(cluster, ranks)?;
    job.go()?;
    wait_for_verdict(&job)?;
    session.interrupt();
    let session = session.finish()?;
    session.findings()?.check_no_warning()?;
    let statistics = &session.report()?["statistics"];
    for loss in ["lost_movements", "lost_calls", "lost_state", "bad_records", "late_records"] {
        ensure!(statistics[loss] == 0, "{loss}: {}", statistics[loss]);
    }
    let tcp = &statistics["tcp"];
    // UCX connects each rank to itself in MPI_Init: what it sent before the attach it may read after it.
    let unseen = tcp["unseen_bytes"].as_u64().context("unseen bytes")?;
    ensure!(unseen <= ranks as u64 * WIRE_UP_BYTES && tcp["missed_bytes"] == 0, "{tcp}");
    // What was sent unseen makes chains inconclusive, also where nothing more came on its connection.
    let with_others = tcp["with_others_bytes"].as_u64().unwrap_or(0);
    // So does what is on its way when the session ends.
    let unread = tcp["unread_bytes"].as_u64().unwrap_or(0);
    let is_clean =
        session.status == Some(0) || (unseen + with_others + unread > 0 && session.status == Some(3));
    ensure!(is_clean, "status {:?}, {tcp}", session.status);
    Ok(())
}

/// One rank on each node.
fn check_right_jobs(cluster: &Cluster, names: &[&'static str], ranks: usize) -> Result<()> {
    // More ranks than cores do not burn these where they wait.
    let options = ["--seconds", "1", "--yield"].into_iter().take(if ranks > 2 { 3 } else { 2 });
    for (name, library) in with_libraries(names) {
        let spec = on(cluster, library, name, ranks)?.args(options.clone());
        check_right(cluster, spec, ranks).with_context(|| format!("{name}, {library:?}"))?;
    }
    Ok(())
}

#[test]
fn right_jobs_on_several_nodes_are_silent() -> Result<()> {
    let names = ["ring", "halo2d", "masterworker", "testany", "alltoall", "anysource"];
    // In the usual run the last two are on four nodes.
    let count = if takes_all() { names.len() } else { 4 };
    check_right_jobs(&Cluster::start(2)?, &names[..count], 2)
}

#[test]
fn right_jobs_on_four_nodes_are_silent() -> Result<()> {
    check_right_jobs(&Cluster::start(4)?, &["alltoall", "anysource"], 4)
}

#[test]
fn jobs_of_all_nodes_are_listed_with_their_ranks_by_node() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let job = on(&cluster, MpiImplementation::OpenMpi, "ring", 3)?.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let name = cluster.job(3)?;
    let list = cluster.command("root", "ps", &[]).finish()?;
    let line = list.stdout.iter().find(|line| line.contains(&name)).context("the job is not listed")?;
    let nodes = format!("{}(2),{}(1)", cluster.nodes.name(0), cluster.nodes.name(1));
    ensure!(line.contains(&nodes) && line.contains("Open MPI") && line.contains("ring"), "{line}");
    // Any of its processes names it as well.
    let pid = job.rank_pids()?[1];
    let by_process = format!("{}:{pid}", cluster.nodes.name(1));
    let session = cluster.attach(&by_process).args(["--duration", "1s"]).finish()?;
    ensure!(session.status == Some(0), "{:?}: {:?}", session.status, session.stderr);
    Ok(())
}

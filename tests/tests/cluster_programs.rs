//! Real programs, and much data, with ranks on two nodes in one session over both.
//!
//! The usual run takes the shorter of the programs; `DMSCOPE_TEST_CLUSTER_PROGRAMS=all` takes all of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::{Cluster, Dmscope, FinishedJob, JobSpec, MpiImplementation, RunningJob, TcpBytes, packaged};

const TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes that the ranks send each other where they are counted; DMSCOPE_TEST_TCP_BYTES asks for more.
const COUNTED_BYTES: u64 = 200 << 20;
const MESSAGE_BYTES: u64 = 4 << 20;

/// Runs it on all nodes from its start, under dmscope: nothing is told, nothing lost, and its results are right.
fn check_silent(cluster: &Cluster, spec: JobSpec, check: impl Fn(&FinishedJob) -> Result<()>) -> Result<()> {
    let run = Dmscope::run(&spec.on_nodes(&cluster.nodes)?).args(cluster.bus.options("root"));
    let mut run = run.args(["--statistics", "--budget", "none"]).spawn()?;
    run.set_patience(TIMEOUT);
    let session = run.finish()?;
    check(session.job()?).with_context(|| format!("{:?}", session.stderr))?;
    session.findings()?.check_no_warning()?;
    let tcp = session.tcp()?;
    eprintln!("{:.1} s, {tcp:?}", session.elapsed.as_secs_f64());
    ensure!(tcp.received > 0, "{tcp:?}");
    tcp.check_both_ends()?;
    ensure!(session.status == Some(0), "status {:?}", session.status);
    Ok(())
}

#[test]
fn molecular_dynamics_on_two_nodes_come_to_their_results_in_silence() -> Result<()> {
    let cluster = Cluster::start(2)?;
    // On one node it is faster, and its results are the same.
    let unwatched = packaged::lammps().spawn()?.finish(TIMEOUT)?;
    check_silent(&cluster, packaged::lammps(), |job| packaged::check_lammps(job, &unwatched))
}

#[test]
fn hpc_challenge_on_two_nodes_comes_to_its_results_in_silence() -> Result<()> {
    if std::env::var("DMSCOPE_TEST_CLUSTER_PROGRAMS").as_deref() != Ok("all") {
        eprintln!("not run: it takes minutes; see DMSCOPE_TEST_CLUSTER_PROGRAMS");
        return Ok(());
    }
    check_silent(&Cluster::start(2)?, packaged::hpcc(), packaged::check_hpcc)
}

fn wait_for_verdict(job: &RunningJob) -> Result<()> {
    let is_verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = job.wait_for_line(TIMEOUT, is_verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    Ok(())
}

#[test]
fn what_is_sent_on_one_node_is_received_on_the_other_to_the_byte() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let wanted = TcpBytes::wanted(COUNTED_BYTES);
    for library in MpiImplementation::ALL {
        let what = || format!("{library:?}");
        let (size, iterations) = (MESSAGE_BYTES.to_string(), wanted.div_ceil(MESSAGE_BYTES * 2).to_string());
        let spec = JobSpec::own(library, "large")?.args(["--size", &size, "--iterations", &iterations]);
        let job = spec.on_nodes(&cluster.nodes)?.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let session = cluster.attach(&cluster.job(2)?).args(["--statistics"]).spawn()?;
        session.wait_for_event("attached")?;
        job.go()?;
        wait_for_verdict(&job).with_context(what)?;
        session.interrupt();
        let session = session.finish()?;
        let tcp = session.tcp().with_context(what)?;
        eprintln!("{library:?}: {tcp:?} in {:.1} s", session.elapsed.as_secs_f64());
        tcp.check_all_received(wanted).with_context(what)?;
        session.findings()?.check_no_warning().with_context(what)?;
    }
    Ok(())
}

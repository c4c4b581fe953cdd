//! RDMA devices: MPI over UCX's reliable connections, and queue pairs between nodes. `cargo xtask vm 7.2 rdma_devices` runs
//! these where there are devices, in software.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::findings::{frame, missing_operation, summary};
use live::{Cluster, Dmscope, FinishedJob, FinishedSession, JobSpec, MpiImplementation, Nodes, Transport};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

/// MPI over UCX over the device.
fn over_verbs(library: MpiImplementation, name: &str) -> Result<JobSpec> {
    let device = std::env::var("DMSCOPE_TEST_RDMA").context("DMSCOPE_TEST_RDMA names no device")?;
    let device = format!("UCX_NET_DEVICES={device}:1");
    Ok(JobSpec::own(library, name)?.transport(Transport::Verbs).through(["env".to_owned(), device]))
}

fn rdma(session: &FinishedSession) -> Result<&Value> {
    let statistics = &session.report()?["statistics"];
    for loss in ["lost_movements", "lost_calls", "lost_state", "bad_records", "unplanned_records"] {
        ensure!(statistics[loss] == 0, "{loss}: {}: {:?}", statistics[loss], session.events_of("notice"));
    }
    statistics.get("rdma").context("nothing was seen of verbs")
}

/// The copy that staged the data is missing before what was sent.
fn check_found(session: &FinishedSession, job: &FinishedJob) -> Result<()> {
    let finding = session.findings()?;
    let finding = finding.first_warning()?;
    let site = job.sites()?.into_iter().find(|site| site.label == "stage").context("no staging copy")?;
    let missing = missing_operation(finding)?;
    let found = frame(&missing["place"]).context("a place without a line")?;
    ensure!(found == (&site.function, &site.file, site.line.into()), "{found:?}: {}", summary(finding));
    Ok(())
}

/// UCX has connected all ranks by then.
fn watch_connected(spec: &JobSpec) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.clone().held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    dmscope.see_through(job, TIMEOUT)
}

/// What is sent is received, but for a few words that are under way when the probes come and go. It is linked from a moment on at
/// which nothing was under way, if one is seen: UCX asks for the completion of each 64th request alone.
fn check_both_ends(session: &FinishedSession, least_bytes: u64) -> Result<()> {
    let rdma = rdma(session)?;
    eprintln!("{rdma}");
    let count = |name: &str| rdma[name].as_u64().context("no number");
    let (sent, linked, one_end) = (count("sent_bytes")?, count("linked_bytes")?, count("unlinked_bytes")?);
    let unlinked = sent.checked_sub(linked).with_context(|| format!("{rdma}"))?;
    let received = one_end.checked_sub(unlinked).with_context(|| format!("{rdma}"))?;
    ensure!(sent >= least_bytes && unlinked.abs_diff(received) < 1024, "{received} received: {rdma}");
    ensure!(count("failed")? == 0, "{rdma}");
    Ok(())
}

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm 7.2 rdma_devices"]
fn the_pointer_fault_is_found_over_reliable_connections_of_ucx_and_its_right_twin_is_clean() -> Result<()> {
    for library in MpiImplementation::ALL {
        let what = || format!("{library:?}");
        let spec = over_verbs(library, "figure2")?.args(["--iterations", "1500"]);
        let (session, job) = watch_connected(&spec).with_context(what)?;
        check_both_ends(&session, 1500 * SENT_IN_AN_ITERATION).with_context(what)?;
        check_found(&session, &job).with_context(what)?;
        let (session, _) = watch_connected(&spec.args(["--no-bug"])).with_context(what)?;
        check_both_ends(&session, 1500 * SENT_IN_AN_ITERATION).with_context(what)?;
        session.findings()?.check_no_warning().with_context(what)?;
    }
    Ok(())
}

/// By which UCX connects: so many at most, of so many bytes together, each of which is received with a header.
const DATAGRAMS: u64 = 64;
const DATAGRAM_BYTES: u64 = 4096;
const DATAGRAM_HEADER_BYTES: u64 = 40;

/// All bytes are linked but those of datagrams. The last of these may be received by nobody.
fn check_linked(rdma: &Value, least_bytes: u64) -> Result<()> {
    eprintln!("{rdma}");
    let count = |name: &str| rdma[name].as_u64().context("no number");
    let (sent, linked, one_end) = (count("sent_bytes")?, count("linked_bytes")?, count("unlinked_bytes")?);
    ensure!(linked >= least_bytes && count("failed")? == 0, "{rdma}");
    let datagrams = sent.checked_sub(linked).with_context(|| format!("more linked than sent: {rdma}"))?;
    let received = one_end.checked_sub(datagrams).with_context(|| format!("{rdma}"))?;
    ensure!(datagrams <= DATAGRAM_BYTES, "{rdma}");
    ensure!(received <= datagrams + DATAGRAMS * DATAGRAM_HEADER_BYTES, "{rdma}");
    Ok(())
}

/// Each rank sends to both sides.
const SENT_IN_AN_ITERATION: u64 = 4 * MESSAGE_BYTES;

#[test]
#[ignore = "needs an RDMA device: cargo xtask vm 7.2 rdma_devices"]
fn what_ucx_sends_over_reliable_connections_is_linked_in_a_job_that_dmscope_starts() -> Result<()> {
    for library in MpiImplementation::ALL {
        let what = || format!("{library:?}");
        let spec = over_verbs(library, "figure2")?.args(["--iterations", "1000"]);
        let session = Dmscope::run(&spec).finish().with_context(what)?;
        rdma(&session).and_then(|rdma| check_linked(rdma, 1000 * SENT_IN_AN_ITERATION)).with_context(what)?;
        check_found(&session, session.job()?).with_context(what)?;
        let session = Dmscope::run(&spec.args(["--no-bug"])).finish().with_context(what)?;
        rdma(&session).and_then(|rdma| check_linked(rdma, 1000 * SENT_IN_AN_ITERATION)).with_context(what)?;
        session.findings()?.check_no_warning().with_context(what)?;
    }
    Ok(())
}

#[test]
#[ignore = "needs RDMA devices in namespaces: cargo xtask vm 7.2 rdma_devices"]
fn what_ucx_sends_between_nodes_is_linked_in_a_job_that_dmscope_starts() -> Result<()> {
    let cluster = Cluster::with_rdma(2)?;
    for library in MpiImplementation::ALL {
        let what = || format!("{library:?}");
        let spec = JobSpec::own(library, "figure2")?.on_nodes(&cluster.nodes)?.transport(Transport::Verbs);
        let spec = spec.through(Nodes::with_ucx_over_own_device()).args(["--iterations", "300", "--no-bug"]);
        let session = Dmscope::run(&spec)
            .args(cluster.bus.options("root"))
            .args(Cluster::patience())
            .finish()
            .with_context(what)?;
        rdma(&session).and_then(|rdma| check_linked(rdma, 300 * SENT_IN_AN_ITERATION)).with_context(what)?;
        session.findings()?.check_no_warning().with_context(what)?;
    }
    Ok(())
}

/// A way to move messages between nodes, and how many work requests each takes: sends, writes, reads, atomic operations.
struct Way {
    how: &'static str,
    requests: [u64; 4],
    /// Of each message.
    linked_bytes: u64,
}

const ITERATIONS: u64 = 100;
const MESSAGE_BYTES: u64 = 128;

const TWO_SIDED: [Way; 3] = [
    Way { how: "send", requests: [1, 0, 0, 0], linked_bytes: MESSAGE_BYTES },
    Way { how: "inline", requests: [1, 0, 0, 0], linked_bytes: MESSAGE_BYTES },
    Way { how: "srq", requests: [1, 0, 0, 0], linked_bytes: MESSAGE_BYTES },
];

/// A send tells of a write without immediate data, of a read and of an atomic operation.
const ONE_SIDED: [Way; 4] = [
    Way { how: "read", requests: [2, 0, 1, 0], linked_bytes: MESSAGE_BYTES + 16 },
    Way { how: "atomic", requests: [2, 0, 0, 1], linked_bytes: MESSAGE_BYTES + 8 },
    Way { how: "write", requests: [2, 1, 0, 0], linked_bytes: MESSAGE_BYTES },
    Way { how: "write_imm", requests: [1, 1, 0, 0], linked_bytes: MESSAGE_BYTES },
];

/// Two ranks on two nodes, watched by agents from before the first queue pair on. Open MPI: MPICH 4.0.2 hangs in MPI_Finalize
/// between nodes, also where nobody watches.
fn between_nodes(cluster: &Cluster, how: &str) -> Result<JobSpec> {
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "rdma")?.on_nodes(&cluster.nodes)?;
    let spec = spec.through(Nodes::with_own_device()).args(["--how", how]);
    // Agents need processors as well.
    Ok(spec.args(["--pause-us", "10000"]))
}

fn watch(cluster: &Cluster, spec: JobSpec) -> Result<(FinishedSession, FinishedJob)> {
    let job = spec.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let name = cluster.job(2)?;
    let mut session = cluster.attach(&name).spawn()?;
    if session.wait_for_event("attached").is_err() {
        // The first time an emulated machine reads all files, which may take longer than a coordinator waits.
        session = cluster.attach(&name).spawn()?;
        session.wait_for_event("attached")?;
    }
    session.see_through(job, TIMEOUT)
}

/// All requests, completions and bytes of these ways are counted, and all bytes linked.
fn check_counts(ways: &[Way]) -> Result<()> {
    let cluster = Cluster::with_rdma(2)?;
    let iterations = ITERATIONS.to_string();
    for way in ways {
        let args = ["--iterations", &iterations, "--rare", "0"];
        let spec = between_nodes(&cluster, way.how)?.args(args);
        let (session, _) = watch(&cluster, spec).with_context(|| way.how)?;
        let rdma = rdma(&session).with_context(|| way.how)?;
        eprintln!("{}: {rdma}", way.how);
        let messages = 2 * 2 * ITERATIONS;
        let names = ["sends", "writes", "reads", "atomics"];
        let requests = names.into_iter().zip(way.requests.map(|each| each * messages));
        let bytes = [("linked_bytes", way.linked_bytes), ("unlinked_bytes", 0)];
        for (name, count) in requests.chain(bytes.map(|(name, each)| (name, each * messages))) {
            let told = || session.events_of("notice");
            ensure!(rdma[name] == count, "{}: {name} is not {count}: {rdma} {:?}", way.how, told());
        }
        session.findings()?.check_no_warning().with_context(|| way.how)?;
    }
    Ok(())
}

#[test]
#[ignore = "needs RDMA devices in namespaces: cargo xtask vm 7.2 rdma_devices"]
fn what_queue_pairs_send_between_nodes_is_counted_exactly_and_linked_by_agents() -> Result<()> {
    check_counts(&TWO_SIDED)
}

#[test]
#[ignore = "needs RDMA devices in namespaces: cargo xtask vm 7.2 rdma_devices"]
fn what_queue_pairs_write_and_read_between_nodes_is_counted_exactly_and_linked_by_agents() -> Result<()> {
    check_counts(&ONE_SIDED)
}

#[test]
#[ignore = "needs RDMA devices in namespaces: cargo xtask vm 7.2 rdma_devices"]
fn the_pointer_fault_is_found_between_nodes_and_its_right_twin_is_clean() -> Result<()> {
    let cluster = Cluster::with_rdma(2)?;
    let spec = between_nodes(&cluster, "send")?.args(["--iterations", "800", "--rare", "0.01"]);
    let (session, job) = watch(&cluster, spec.clone())?;
    eprintln!("{}", rdma(&session)?);
    let told = || format!("{:?}", session.events_of("notice"));
    check_found(&session, &job).with_context(told)?;
    let (session, _) = watch(&cluster, spec.args(["--no-bug"]))?;
    eprintln!("right twin: {}", rdma(&session)?);
    session.findings()?.check_no_warning()
}

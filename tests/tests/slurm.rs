//! Jobs that Slurm starts: real daemons on made-up nodes, and the agent that the shipped prolog starts on each.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::findings::summary;
use live::{BusServer, Dmscope, JobSpec, MpiImplementation, Nodes, Slurm};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

/// The shipped prolog, with the paths and the server of this test.
fn prolog(bus: &BusServer, folder: &Path) -> Result<String> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/slurm-prolog.sh");
    let mut text = fs::read_to_string(shipped)?;
    // All nodes have the same files here.
    let on_node = |name: &str| folder.join(format!("$(hostname)-{name}")).to_string_lossy().into_owned();
    for (shipped, own) in [
        ("/usr/local/bin/dmscope", live::binary()?.to_string_lossy().into_owned()),
        ("nats://service:4222", bus.url()),
        ("/etc/dmscope/agent-credentials", bus.credentials("agent").to_string_lossy().into_owned()),
        ("/run/dmscope-agent.lock", on_node("lock")),
        ("/var/log/dmscope-agent.log", on_node("log")),
    ] {
        ensure!(text.contains(shipped), "{shipped} is not in the prolog:\n{text}");
        text = text.replace(shipped, &own);
    }
    Ok(text)
}

/// The jobs that agents show, once there is one with so many ranks on so many nodes.
fn job(bus: &BusServer, ranks: usize, nodes: usize) -> Result<Value> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let list =
            Dmscope::command::<String>("ps", []).args(bus.options("root")).args(["--json"]).finish()?;
        let jobs: Value = serde_json::from_str(&list.stdout.join("\n")).unwrap_or_default();
        for job in jobs["jobs"].as_array().into_iter().flatten() {
            let parts = job["parts"].as_array().context("a job without parts")?;
            let seen: usize =
                parts.iter().map(|part| part["job"]["ranks"].as_array().map_or(0, Vec::len)).sum();
            if (seen, parts.len()) == (ranks, nodes) {
                return Ok(job.clone());
            }
        }
        ensure!(
            Instant::now() < deadline,
            "no job of {ranks} ranks on {nodes} nodes: {jobs}\n{:?}",
            list.stderr
        );
    }
}

/// Starts a job with a fault, and watches it by this name until that is found.
fn watch(spec: JobSpec, bus: &BusServer, name: impl Fn(&Value) -> Result<String>) -> Result<Value> {
    let spec = spec.args(["--pause-us", "200", "--yield"]).held().endless();
    let running = spec.spawn()?;
    let seen = job(bus, 2, 2).with_context(|| format!("{:?}", spec.words()))?;
    running.wait_until_ready(TIMEOUT)?;
    let attach = Dmscope::command("attach", [name(&seen)?]).args(bus.options("root"));
    let session = attach.json().args(["--budget", "none"]).spawn()?;
    session.wait_for_event("attached")?;
    running.go()?;
    let finding = session.wait_for_alert(|finding| finding["severity"] == "warning")?;
    running.stop()?;
    let verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = running.wait_for_line(TIMEOUT, verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    session.interrupt();
    session.finish()?;
    Ok(finding)
}

#[test]
fn jobs_of_slurm_are_watched_under_its_numbers_by_agents_that_the_prolog_started() -> Result<()> {
    let nodes = Nodes::new(2)?;
    let bus = BusServer::start(&nodes)?;
    let folder = tempfile::TempDir::new()?;
    let slurm = Slurm::start(&nodes, &prolog(&bus, folder.path())?)?;
    let is_across = |finding: &Value| {
        let places = finding["nodes"].as_array().into_iter().flatten();
        let named: Vec<&str> = places.filter_map(|place| place["node"].as_str()).collect();
        ensure!(named == nodes.names(), "{}: on {named:?}", summary(finding));
        Ok(())
    };
    let spec = |library| JobSpec::own(library, "figure2");
    let is_all = std::env::var_os("DMSCOPE_TEST_SLURM").is_some();
    let libraries = if is_all { &MpiImplementation::ALL[..] } else { &MpiImplementation::ALL[..1] };
    for (number, library) in (1..).zip(libraries) {
        let step = format!("{number}.0");
        let named = |job: &Value| {
            ensure!(job["name"] == step.as_str(), "{job}");
            Ok(step.clone())
        };
        let spec = spec(*library)?.by_slurm(&slurm, &nodes);
        let finding = watch(spec, &bus, named);
        is_across(&finding.with_context(|| format!("{library:?}\n{}", slurm.logs()))?)?;
    }
    if is_all {
        // The launcher has a name of its own; the number of the allocation does as well.
        let spec = spec(MpiImplementation::OpenMpi)?.in_allocation(&slurm, &nodes);
        let finding = watch(spec, &bus, |_| Ok("3".to_owned()));
        is_across(&finding.with_context(|| slurm.logs())?)?;
    }
    Ok(())
}

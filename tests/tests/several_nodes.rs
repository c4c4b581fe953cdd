//! Jobs on several nodes, which are network namespaces here: chains and verdicts across their network.

use std::path::PathBuf;
use std::time::Duration;

use analyzer::page::Page;
use anyhow::{Context, Result, ensure};
use live::exported;
use live::findings::{frame, missing_operation, summary};
use live::{
    Browser, Dmscope, FinishedSession, JobSpec, MpiImplementation, Nodes, RunningJob, RunningSession,
    processes,
};
use serde_json::Value;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(120);

/// A job of two ranks, one on each node.
fn across(nodes: &Nodes, library: MpiImplementation, name: &str) -> Result<JobSpec> {
    JobSpec::own(library, name)?.ranks(nodes.names().len()).on_nodes(nodes)
}

/// One session on each node, with a tape.
struct Sessions {
    folder: TempDir,
    running: Vec<RunningSession>,
}

impl Sessions {
    fn tape(folder: &TempDir, node: usize) -> PathBuf {
        folder.path().join(format!("node{node}.dmt"))
    }

    /// Attached to the rank of each node: what runs on others is not theirs.
    fn attach(nodes: &Nodes, job: &RunningJob) -> Result<Self> {
        Self::attach_with(nodes, job, &[])
    }

    /// The same with more options.
    fn attach_with(nodes: &Nodes, job: &RunningJob, options: &[&str]) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut running = Vec::new();
        for (node, pid) in job.rank_pids()?.into_iter().enumerate() {
            let attach =
                Dmscope::attach(pid).args(options.iter().copied()).record(&Self::tape(&folder, node));
            running.push(attach.spawn_through(nodes.on(node))?);
        }
        running.iter_mut().try_for_each(|session| session.wait_until_attached().map(|_| ()))?;
        Ok(Self { folder, running })
    }

    fn interrupt(&self) {
        self.running.iter().for_each(RunningSession::interrupt);
    }

    /// Their tapes, when all of them have ended.
    fn finish(self) -> Result<Tapes> {
        let count = self.running.len();
        for session in self.running {
            session.finish()?;
        }
        let paths = (0..count).map(|node| Self::tape(&self.folder, node)).collect();
        Ok(Tapes { paths, folder: self.folder })
    }
}

/// What sessions on the nodes of a job have recorded, each its own.
struct Tapes {
    folder: TempDir,
    paths: Vec<PathBuf>,
}

impl Tapes {
    /// What all of them have seen together.
    fn analyze(&self) -> Result<FinishedSession> {
        Dmscope::command("analyze", &self.paths).json().finish()
    }

    /// Other tools find both nodes and the finding in what is exported of all of them.
    fn check_exports(&self, nodes: &Nodes) -> Result<()> {
        let export = |format| exported::export(&self.paths, format, self.folder.path());
        let trace = exported::perfetto(&export("perfetto")?)?;
        let processes = trace["processes"].to_string();
        for (rank, name) in nodes.names().iter().enumerate() {
            ensure!(processes.contains(&format!("\"rank {rank} on {name} (pid ")), "{processes}");
        }
        let answers = exported::query(
            &export("parquet")?,
            &[
                "SELECT DISTINCT rank, node FROM {calls} ORDER BY rank",
                "SELECT severity, kind, ranks FROM {findings} WHERE severity = 'warning'",
                // What one node sent, the other one received: a step of a chain.
                "SELECT count(*) > 0 FROM {movements} s JOIN {movements} r ON r.written_by = s.operation \
                 WHERE s.kind = 'send over TCP' AND r.kind = 'receive over TCP' AND s.node <> r.node",
            ],
        )?;
        ensure!(answers[0] == serde_json::json!([[0, nodes.name(0)], [1, nodes.name(1)]]), "{answers}");
        let odd = serde_json::json!(["warning", "odd_chain", [0, 1]]);
        let found =
            answers[1].as_array().filter(|found| !found.is_empty() && found.iter().all(|one| *one == odd));
        ensure!(found.is_some(), "{answers}");
        ensure!(answers[2] == serde_json::json!([[true]]), "{answers}");
        let (events, complaints) = exported::archive_events(&export("otf2")?)?;
        ensure!(complaints.is_empty() && events.get("ENTER") > Some(&0), "{complaints} {events:?}");
        Ok(())
    }

    /// The page about all of them, and its data.
    fn report(&self) -> Result<(PathBuf, Page)> {
        let (html, json) = (self.folder.path().join("report.html"), self.folder.path().join("report.json"));
        let files = ["-o".as_ref(), html.as_os_str(), "--json".as_ref(), json.as_os_str()];
        let session = Dmscope::command("report", &self.paths).args(files).finish()?;
        ensure!(session.status == Some(1), "status {:?}: {:?}", session.status, session.stderr);
        Ok((html, serde_json::from_slice(&std::fs::read(&json)?)?))
    }
}

/// The nodes that a page says its ranks are on, in order of the ranks.
fn nodes_of_ranks(page: &Page) -> Vec<Option<&str>> {
    page.timeline.rows.iter().map(|row| row.node.as_deref()).collect()
}

fn wait_for_verdict(job: &RunningJob) -> Result<()> {
    let is_verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = job.wait_for_line(TIMEOUT, is_verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    Ok(())
}

fn kinds(finding: &Value) -> Vec<&str> {
    let ops = finding["evidence"]["frequent"]["ops"].as_array().into_iter().flatten();
    ops.filter_map(|op| op["kind"].as_str()).collect()
}

/// The staged copy was not sent, and the chain that was usual goes through the network.
fn check_pointer_fault(finding: &Value) -> Result<()> {
    let missing = missing_operation(finding)?;
    let function = frame(&missing["place"]).context("a place without a line")?.0;
    ensure!(function == "msg_send", "{function} is missing: {}", summary(finding));
    let kinds = kinds(finding);
    let sent = kinds.iter().position(|kind| *kind == "stream_write").context("nothing is sent")?;
    ensure!(sent > 0 && kinds.get(sent + 1) == Some(&"stream_read"), "{kinds:?}");
    Ok(())
}

#[test]
fn a_fault_is_found_across_nodes_while_the_job_runs() -> Result<()> {
    for library in MpiImplementation::ALL {
        let nodes = Nodes::new(2)?;
        let job = across(&nodes, library, "figure2")?.held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        // From outside all of them, the machine sees all of them.
        let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        let finding = dmscope.wait_for_alert(|finding| finding["severity"] == "warning")?;
        job.stop()?;
        wait_for_verdict(&job)?;
        dmscope.interrupt();
        dmscope.finish()?;
        check_pointer_fault(&finding).with_context(|| format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn tapes_of_the_nodes_of_a_job_tell_its_fault_together() -> Result<()> {
    for library in MpiImplementation::ALL {
        let what = || format!("{library:?}");
        let nodes = Nodes::new(2)?;
        let spec = across(&nodes, library, "figure2")?.args(["--iterations", "3000"]);
        let job = spec.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let sessions = Sessions::attach(&nodes, &job)?;
        job.go()?;
        wait_for_verdict(&job)?;
        sessions.interrupt();
        let tapes = sessions.finish()?;
        let session = tapes.analyze().with_context(what)?;
        let findings = session.findings()?;
        let finding = findings.first_warning().with_context(what)?;
        check_pointer_fault(finding).with_context(what)?;
        let places = finding["nodes"].as_array().with_context(what)?;
        let named: Vec<&str> = places.iter().filter_map(|place| place["node"].as_str()).collect();
        ensure!(named == [nodes.name(0), nodes.name(1)], "{}: {named:?}", what());
        let tcp = &session.report()?["statistics"]["tcp"];
        ensure!(tcp["unseen_bytes"] == 0 && tcp["missed_bytes"] == 0, "{}: {tcp}", what());
        ensure!(tcp["received_bytes"].as_u64() > Some(500_000), "{}: {tcp}", what());
        let (_, page) = tapes.report().with_context(what)?;
        ensure!(nodes_of_ranks(&page) == [Some(nodes.name(0).as_str()), Some(&nodes.name(1))], "{}", what());
        tapes.check_exports(&nodes).with_context(what)?;
    }
    Ok(())
}

#[test]
fn tapes_of_the_nodes_of_a_job_that_hangs_make_one_page() -> Result<()> {
    let nodes = Nodes::new(3)?;
    let spec = JobSpec::own(MpiImplementation::OpenMpi, "errors")?.args(["--fault", "recv_cycle"]);
    let job = spec.ranks(3).on_nodes(&nodes)?.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    // Each sees its own rank wait, and has nothing to say of the others.
    let sessions = Sessions::attach_with(&nodes, &job, &["--duration", "8s"])?;
    job.go()?;
    let tapes = sessions.finish()?;
    let (html, page) = tapes.report()?;
    let names = nodes.names();
    let wanted: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    ensure!(nodes_of_ranks(&page) == wanted, "{:?}", nodes_of_ranks(&page));
    let browser = Browser::start(false)?;
    browser.open(&html)?;
    let shown = browser.text("return document.body.innerText")?;
    for text in ["Deadlock", "MPI_Recv"].into_iter().chain(names.iter().map(String::as_str)) {
        ensure!(shown.contains(text), "{text} is not on the page:\n{shown}");
    }
    // Only together do they show why these places matter. One without a line is `function (file+offset)`.
    let is_named = |(at, _): (usize, &str)| shown[..at].ends_with('(');
    ensure!(shown.match_indices("errors+0x").all(is_named), "a place without a name:\n{shown}");
    browser.end()
}

#[test]
fn a_session_in_a_namespace_of_its_own_sees_the_processes_of_that_one_only() -> Result<()> {
    let nodes = Nodes::new(2)?;
    let job = across(&nodes, MpiImplementation::OpenMpi, "figure2")?.held().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let pids = job.rank_pids()?;
    let sessions = Sessions::attach(&nodes, &job)?;
    let refused = Dmscope::attach(pids[1]).spawn_through(nodes.on(0))?.finish()?;
    refused.check_refusal(&[&format!("process {}", pids[1]), "another network namespace"])?;
    ensure!(pids.iter().all(|pid| processes::is_alive(*pid)));
    sessions.interrupt();
    for (node, session) in sessions.running.into_iter().enumerate() {
        let session = session.finish()?;
        let processes =
            session.report()?["statistics"]["processes"].as_array().context("no processes")?.clone();
        let ranks: Vec<u64> = processes.iter().filter_map(|process| process["rank"].as_u64()).collect();
        ensure!(ranks == [node as u64], "node {node}: {ranks:?}");
    }
    Ok(())
}

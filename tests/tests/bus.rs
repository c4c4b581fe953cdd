//! The bus between nodes: who may do what, and what happens when parts of it fail.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dmscope::cluster::protocol::PROTOCOL;
use live::{
    BusServer, Cluster, Dmscope, JobSpec, MpiImplementation, Nodes, RawClient, RunningJob, RunningSession,
    SOME_UID, SOME_USER, deadline, patience, processes,
};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

/// Not faster than what two cores can follow that the ranks use themselves.
fn on(cluster: &Cluster, name: &str) -> Result<JobSpec> {
    JobSpec::own(MpiImplementation::OpenMpi, name)?
        .ranks(2)
        .args(["--pause-us", "200"])
        .on_nodes(&cluster.nodes)
}

fn attach(cluster: &Cluster) -> Result<RunningSession> {
    attach_with(cluster, &[])
}

/// Who is not heard of is given up as soon as it can be.
const IMPATIENT: [&str; 2] = ["--bus-patience", "6s"];

fn attach_with(cluster: &Cluster, options: &[&str]) -> Result<RunningSession> {
    let session = cluster.attach(&cluster.job(2)?).args(options.iter().copied()).spawn()?;
    session.wait_for_event("attached")?;
    Ok(session)
}

fn wait_for_notice(session: &RunningSession, text: &str) -> Result<Value> {
    let says = |event: &Value| {
        event["event"] == "notice" && event["message"].as_str().is_some_and(|message| message.contains(text))
    };
    session.wait_for(says).with_context(|| format!("no notice with {text:?}"))
}

/// Waits until it has seen so many records more, of both ranks.
fn wait_for_records(session: &RunningSession, more: u64) -> Result<()> {
    let records = |event: &Value| event["records"].as_u64().filter(|_| event["event"] == "status");
    let next = session.wait_for_since(session.said(), |event| records(event).is_some())?;
    let wanted = records(&next).unwrap_or(0) + more;
    session.wait_for_since(session.said(), |event| records(event) >= Some(wanted)).map(|_| ())
}

/// A job that was not disturbed.
fn check_unharmed(job: &RunningJob) -> Result<()> {
    job.stop()?;
    let is_verdict = |line: &str| line.starts_with("ok ") || line.starts_with("wrong ");
    let verdict = job.wait_for_line(TIMEOUT, is_verdict)?;
    ensure!(verdict.starts_with("ok "), "{verdict}");
    Ok(())
}

/// Nothing was called wrong.
fn check_silent(session: RunningSession) -> Result<()> {
    session.interrupt();
    session.finish()?.findings()?.check_no_warning()
}

#[test]
fn where_there_is_no_server_or_it_lets_nobody_in_it_is_said_what_to_do() -> Result<()> {
    let nowhere = Dmscope::command::<String>("ps", []).args(["--bus", "nats://127.0.0.1:1"]).finish()?;
    nowhere.check_refusal(&[
        "cannot connect to the bus at nats://127.0.0.1:1",
        "is a NATS server running there?",
    ])?;
    let no_host =
        Dmscope::command::<String>("ps", []).args(["--bus", "nats://no-such-host.invalid:4222"]).finish()?;
    no_host.check_refusal(&["cannot connect to the bus"])?;
    let nodes = Nodes::new(1)?;
    let bus = BusServer::start(&nodes)?;
    let wrong = tempfile::NamedTempFile::new()?;
    std::fs::write(wrong.path(), "root:wrong\n")?;
    let path = wrong.path().to_string_lossy().into_owned();
    let refused = Dmscope::command::<String>("ps", [])
        .args(["--bus", &bus.url(), "--bus-credentials", &path])
        .finish()?;
    refused.check_refusal(&["does not know these credentials", "--bus-credentials"])?;
    let without = Dmscope::command::<String>("ps", []).args(["--bus", &bus.url()]).finish()?;
    without.check_refusal(&["does not know these credentials"])?;
    let nobody = Dmscope::command::<String>("ps", []).args(bus.options("root")).finish()?;
    nobody.check_refusal(&["no agent answers", "dmscope agent"])?;
    let other = Dmscope::command::<String>("ps", [])
        .args(bus.options(SOME_USER))
        .args(["--bus-user", "root"])
        .finish()?;
    other.check_refusal(&["does not let root ask", "--bus-user"])
}

#[test]
fn connections_are_encrypted_where_the_server_is_known_by_who_signed_for_it() -> Result<()> {
    let nodes = Nodes::new(1)?;
    let mut bus = BusServer::start(&nodes)?;
    bus.encrypt()?;
    let ca = bus.authority().to_string_lossy().into_owned();
    let agent = Dmscope::command::<String>("agent", []).args(bus.options("agent")).args(["--bus-ca", &ca]);
    let agent = agent.spawn_through(nodes.on(0))?;
    agent.wait_for_complaint("ready")?;
    let ps = || Dmscope::command::<String>("ps", []).args(bus.options("root"));
    let list = ps().args(["--bus-ca", &ca]).finish()?;
    ensure!(list.status == Some(0), "{:?}", list.stderr);
    // Nothing is said to a server that anybody may have set up.
    ps().finish()?.check_refusal(&["no encrypted connection could be made", "--bus-ca"])?;
    agent.interrupt();
    ensure!(agent.finish()?.status == Some(0));
    Ok(())
}

#[test]
fn a_token_that_users_share_lets_them_in() -> Result<()> {
    let nodes = Nodes::new(1)?;
    let mut bus = BusServer::start(&nodes)?;
    let token = bus.share_token()?.to_string_lossy().into_owned();
    let options = ["--bus".to_owned(), bus.url(), "--bus-credentials".to_owned(), token];
    let agent = Dmscope::command::<String>("agent", []).args(options.clone()).spawn_through(nodes.on(0))?;
    agent.wait_for_complaint("ready")?;
    let list = Dmscope::command::<String>("ps", []).args(options.clone()).finish()?;
    ensure!(list.status == Some(0), "{:?}", list.stderr);
    let without = Dmscope::command::<String>("ps", []).args(["--bus", &bus.url()]).finish()?;
    without.check_refusal(&["does not know these credentials"])?;
    agent.interrupt();
    ensure!(agent.finish()?.status == Some(0));
    let begun = Instant::now();
    let alone = Dmscope::command::<String>("ps", []).args(options).finish()?;
    alone.check_refusal(&["no agent answers"])?;
    // Agents that are there may take ten seconds.
    ensure!(begun.elapsed() < patience(Duration::from_secs(5)), "after {:?}", begun.elapsed());
    Ok(())
}

#[test]
fn an_agent_waits_for_its_server_and_answers_nobody_where_users_are_not_asked_who_they_are() -> Result<()> {
    let nodes = Nodes::new(1)?;
    let mut bus = BusServer::without_users(&nodes)?;
    let refused = Dmscope::command::<String>("agent", [])
        .args(["--bus", &bus.url()])
        .spawn_through(nodes.on(0))?
        .finish()?;
    refused.check_refusal(&["does not ask who connects", "--trust-everybody"])?;
    bus.end();
    let agent = Dmscope::command::<String>("agent", []).args(["--bus", &bus.url(), "--trust-everybody"]);
    let agent = agent.spawn_through(nodes.on(0))?;
    agent.wait_for_complaint("it is tried again")?;
    bus.begin()?;
    agent.wait_for_complaint("ready")?;
    let list = Dmscope::command::<String>("ps", []).args(["--bus", &bus.url()]).finish()?;
    ensure!(list.status == Some(0), "{:?}", list.stderr);
    agent.interrupt();
    ensure!(agent.finish()?.status == Some(0));
    Ok(())
}

#[test]
fn users_see_and_watch_their_own_jobs_alone() -> Result<()> {
    let cluster = Cluster::start(1)?;
    let of = |spec: JobSpec| spec.on_node(&cluster.nodes, 0).held().spawn();
    let ring = || JobSpec::own(MpiImplementation::OpenMpi, "ring");
    let (roots, theirs) = (of(ring()?)?, of(ring()?.owned_by(SOME_UID, 0o700))?);
    roots.wait_until_ready(TIMEOUT)?;
    theirs.wait_until_ready(TIMEOUT)?;
    let pid = |job: &RunningJob| job.rank_pids().map(|pids| format!("{}:{}", cluster.nodes.name(0), pids[0]));
    ensure!(cluster.jobs_of("root")?.len() == 2);
    let seen = cluster.jobs_of(SOME_USER)?;
    ensure!(seen.len() == 1 && seen[0]["user"] == SOME_USER, "{seen:?}");
    let other = cluster.command(SOME_USER, "attach", &[&pid(&roots)?]).finish()?;
    other.check_refusal(&["no job"])?;
    let own =
        cluster.command(SOME_USER, "attach", &[&pid(&theirs)?]).json().args(["--duration", "1s"]).finish()?;
    ensure!(own.status == Some(0), "{:?} {:?}", own.status, own.stderr);
    // Who knows what an agent asks for gets no further.
    let ranks = &cluster
        .jobs_of("root")?
        .into_iter()
        .find(|job| job["user"] == "root")
        .context("root's job")?["parts"][0];
    let (agent, rank) = (&ranks["node"]["agent"], &ranks["job"]["ranks"][0]);
    let request = serde_json::json!({
        "protocol": PROTOCOL, "session": "0".repeat(32), "number": 0,
        "job": { "running": { "pid": ranks["job"]["pid"], "rank_pid": rank["pid"], "rank_start_ticks": rank["start_ticks"] } },
        "wishes": {
            "budget": null, "returns": "None", "libraries": [], "calls_only": false, "engine": "Kernel",
            "only_job": "Auto", "ring_bytes": 4096,
            "alloc_min_bytes": 4096, "whole": false, "patience_ms": 30_000,
            "counting": { "context_window": 3, "max_age_ops": 1000, "pack_uniqueness_max": 4 },
        },
    });
    let mut stranger = RawClient::connect(&cluster.bus, SOME_USER)?;
    let subject = |user: &str| format!("dmscope.agent.{user}.{}", agent.as_str().unwrap_or_default());
    stranger.publish(&subject(SOME_USER), request.to_string().as_bytes())?;
    cluster.agent(0)?.wait_for_complaint(&format!("refused to {SOME_USER}: no such job"))?;
    stranger.publish(&subject("root"), request.to_string().as_bytes())?;
    let said = stranger.listen(Duration::from_millis(300))?;
    ensure!(said.contains("Permissions Violation for Publish"), "{said}");
    // Nor do they hear anything of another's sessions, or answers to another.
    for subject in ["dmscope.up.>", "dmscope.up.root.>", "dmscope.down.>", "dmscope.peer.>", "_INBOX.>", ">"]
    {
        stranger.subscribe(subject)?;
        let said = stranger.listen(Duration::from_millis(300))?;
        ensure!(said.contains("Permissions Violation for Subscription"), "{subject}: {said}");
    }
    Ok(())
}

#[test]
fn a_job_is_watched_by_one_session_at_a_time_and_within_the_budget_that_its_nodes_allow() -> Result<()> {
    let cluster = Cluster::with_agents(2, &["--most-budget", "5%"])?;
    let job = on(&cluster, "ring")?.endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let name = cluster.job(2)?;
    let too_much = cluster.attach(&name).finish()?;
    too_much.check_refusal(&["no node of the job is watched"])?;
    let told = too_much.events_of("notice");
    ensure!(
        told.iter().any(|notice| notice["message"].as_str().is_some_and(|text| text.contains("--budget 5%"))),
        "{told:?}"
    );
    let first = cluster.attach(&name).args(["--budget", "5%"]).spawn()?;
    first.wait_for_event("attached")?;
    let second = cluster.attach(&name).args(["--budget", "5%"]).finish()?;
    second.check_refusal(&["no node of the job is watched"])?;
    let told = second.events_of("notice");
    let is_told =
        |notice: &&Value| notice["message"].as_str().is_some_and(|text| text.contains("is watched already"));
    ensure!(told.iter().any(is_told), "{told:?}");
    check_silent(first)?;
    check_unharmed(&job)
}

#[test]
fn garbage_on_the_bus_is_left_aside_and_told() -> Result<()> {
    let cluster = Cluster::start(2)?;
    let job = on(&cluster, "ring")?.endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let session = attach(&cluster)?;
    let mut stranger = RawClient::connect(&cluster.bus, "agent")?;
    stranger.subscribe("dmscope.down.>")?;
    let said = stranger.listen(Duration::from_secs(3))?;
    let subject =
        said.split(' ').find(|word| word.starts_with("dmscope.down.root.")).context("no word to nodes")?;
    let words: Vec<&str> = subject.split('.').collect();
    let jobs = cluster.jobs_of("root")?;
    let agent = jobs[0]["parts"][0]["node"]["agent"].as_str().context("an agent")?;
    let up = format!("dmscope.up.root.{}.{agent}", words[3]);
    let half = 1 << 19;
    for garbage in [
        &b""[..],
        b"{}",
        &[1, 0, 1, 0, 255, 255, 255, 0, 9],
        &[1, 1, 0, 0, 0, 0, 0, 0, b'x'],
        &vec![7; half],
        &vec![1; half],
    ] {
        stranger.publish(&up, garbage)?;
        stranger.publish(&format!("dmscope.up.root.{}.nobody", words[3]), garbage)?;
    }
    let mut root = RawClient::connect(&cluster.bus, "root")?;
    for subject in [
        "dmscope.find.root".to_owned(),
        format!("dmscope.agent.root.{agent}"),
        format!("dmscope.down.root.{}.all", words[3]),
    ] {
        for garbage in [&b""[..], b"{}", b"[[[[[[", b"\"stop", &vec![b'['; half], &vec![0; half]] {
            root.publish(&subject, garbage)?;
        }
    }
    wait_for_notice(&session, "it is left aside")?;
    wait_for_records(&session, 1000)?;
    ensure!(cluster.jobs_of("root")?.len() == 1, "agents still answer");
    check_silent(session)?;
    check_unharmed(&job)
}

/// Nothing crosses the network for a while: TCP of the job itself survives that.
fn cut_off_and_join_again(cluster: &Cluster, session: &RunningSession, node: usize) -> Result<()> {
    let host = cluster.nodes.name(node);
    cluster.nodes.set_reachable(node, false)?;
    wait_for_notice(session, &format!("nothing is heard of {host}"))?;
    cluster.nodes.set_reachable(node, true)?;
    wait_for_notice(session, &format!("{host} is heard of again"))?;
    Ok(())
}

fn kill_server_and_start_it_again(cluster: &mut Cluster, session: &RunningSession) -> Result<()> {
    cluster.bus.end();
    wait_for_notice(session, "the bus is gone")?;
    std::thread::sleep(Duration::from_secs(1));
    cluster.bus.begin()
}

fn kill_agent_and_start_it_again(cluster: &mut Cluster, session: &RunningSession, node: usize) -> Result<()> {
    cluster.kill_agent(node)?;
    wait_for_notice(session, &format!("{} is not watched", cluster.nodes.name(node)))?;
    wait_for_records(session, 100)?;
    cluster.start_agent(node, &[])?;
    cluster.agent(node)?.wait_for_complaint("root watches")?;
    let both = |event: &Value| event["event"] == "status" && event["ranks"] == serde_json::json!([0, 1]);
    session.wait_for_since(session.said(), both).map(|_| ())
}

#[test]
fn a_session_goes_on_when_a_node_is_cut_off_the_server_is_killed_and_an_agent_is_killed() -> Result<()> {
    let mut cluster = Cluster::start(2)?;
    let job = on(&cluster, "ring")?.args(["--pause-us", "1000"]).endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let session = attach(&cluster)?;
    wait_for_records(&session, 100)?;
    cut_off_and_join_again(&cluster, &session, 1)?;
    wait_for_records(&session, 100)?;
    kill_server_and_start_it_again(&mut cluster, &session)?;
    wait_for_records(&session, 100)?;
    kill_agent_and_start_it_again(&mut cluster, &session, 1)?;
    wait_for_records(&session, 100)?;
    session.interrupt();
    let session = session.finish()?;
    session.findings()?.check_no_warning()?;
    let lost = session.report()?["statistics"]["lost_state"].as_u64();
    ensure!(lost > Some(0), "what the node did meanwhile is missing: {lost:?}");
    check_unharmed(&job)
}

#[test]
fn a_session_whose_server_never_comes_back_ends_and_says_why() -> Result<()> {
    let mut cluster = Cluster::start(1)?;
    let job =
        JobSpec::own(MpiImplementation::OpenMpi, "ring")?.on_node(&cluster.nodes, 0).endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let session = attach_with(&cluster, &IMPATIENT)?;
    wait_for_records(&session, 100)?;
    cluster.bus.end();
    wait_for_notice(&session, "the bus is gone")?;
    wait_for_notice(&session, "is given up, as nothing was heard of it for long")?;
    // Without being told to.
    let session = session.finish()?;
    session.findings()?.check_no_warning()?;
    ensure!(session.report()?["ended"] == "no node is watched any more", "{}", session.report()?["ended"]);
    ensure!(session.status == Some(3), "status {:?}: what was missed is not told", session.status);
    check_unharmed(&job)?;
    cluster.bus.begin()
}

#[test]
fn a_coordinator_that_is_killed_leaves_no_session_and_no_probe() -> Result<()> {
    let cluster = Cluster::start(1)?;
    let job =
        JobSpec::own(MpiImplementation::OpenMpi, "ring")?.on_node(&cluster.nodes, 0).endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut session = attach_with(&cluster, &IMPATIENT)?;
    wait_for_records(&session, 100)?;
    let sessions = || -> Result<usize> {
        let children = processes::descendants(cluster.agent(0)?.pid());
        let is_session = |pid: &&u32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.ends_with(b"\0node-session\0"))
        };
        Ok(children.iter().filter(is_session).count())
    };
    ensure!(sessions()? == 1);
    session.end_by(rustix::process::Signal::KILL);
    session.finish()?;
    let deadline = deadline(Duration::from_secs(60));
    while sessions()? > 0 {
        ensure!(std::time::Instant::now() < deadline, "its sessions go on");
        std::thread::sleep(Duration::from_millis(100));
    }
    for pid in job.rank_pids()? {
        processes::check_code(pid, &live::build::jobs_for(MpiImplementation::OpenMpi)?)?;
    }
    check_unharmed(&job)
}

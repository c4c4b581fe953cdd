//! Nodes with a bus between them, and an agent on each.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Dmscope, RunningSession};
use crate::system::{BusServer, Nodes, deadline, patience};

/// How long agents may take to see a job.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the [module](self).
pub struct Cluster {
    /// Ended first: they say so to the bus.
    agents: Vec<Option<RunningSession>>,
    /// The bus.
    pub bus: BusServer,
    /// The nodes.
    pub nodes: Nodes,
}

impl Cluster {
    /// So many nodes.
    pub fn start(count: usize) -> Result<Self> {
        Self::with_agents(count, &[])
    }

    /// The same, with more options for agents.
    pub fn with_agents(count: usize, options: &[&str]) -> Result<Self> {
        Self::of(Nodes::new(count)?, options)
    }

    /// The same, with an RDMA device on each.
    pub fn with_rdma(count: usize) -> Result<Self> {
        Self::of(Nodes::with_rdma(count)?, &[])
    }

    fn of(nodes: Nodes, options: &[&str]) -> Result<Self> {
        let count = nodes.names().len();
        let bus = BusServer::start(&nodes)?;
        let mut cluster = Self { agents: (0..count).map(|_| None).collect(), bus, nodes };
        for node in 0..count {
            cluster.start_agent(node, options)?;
        }
        Ok(cluster)
    }

    /// Starts the agent of a node, and waits until it is ready.
    pub fn start_agent(&mut self, node: usize, options: &[&str]) -> Result<()> {
        let agent = Dmscope::command::<String>("agent", []).args(self.bus.options("agent"));
        let agent = agent.args(options.iter().copied()).spawn_through(self.nodes.on(node))?;
        agent.wait_for_complaint("ready")?;
        self.agents[node] = Some(agent);
        Ok(())
    }

    /// The agent of a node.
    pub fn agent(&self, node: usize) -> Result<&RunningSession> {
        self.agents[node].as_ref().context("the node has no agent")
    }

    /// Kills the agent of a node, with a signal that it cannot catch.
    pub fn kill_agent(&mut self, node: usize) -> Result<()> {
        let mut agent = self.agents[node].take().context("the node has no agent")?;
        agent.end_by(rustix::process::Signal::KILL);
        agent.finish().map(|_| ())
    }

    /// A command of a user of the bus.
    pub fn command(&self, user: &str, name: &str, operands: &[&str]) -> Dmscope {
        Dmscope::command(name, operands.iter().copied()).args(self.bus.options(user))
    }

    /// `dmscope attach` over all nodes, as root, without a budget.
    pub fn attach(&self, job: &str) -> Dmscope {
        Dmscope::attach_to(job).args(self.bus.options("root")).args(Self::patience())
    }

    /// How long a session waits for nodes: on a slow machine longer than it would by itself.
    pub fn patience() -> Vec<String> {
        let usual = Duration::from_secs(30);
        let limit = patience(usual);
        if limit == usual {
            Vec::new()
        } else {
            vec!["--bus-patience".into(), format!("{}s", limit.as_secs())]
        }
    }

    /// The jobs that a user sees.
    pub fn jobs_of(&self, user: &str) -> Result<Vec<Value>> {
        let list = self.command(user, "ps", &[]).args(["--json"]).finish()?;
        ensure!(list.status == Some(0), "ps: {:?}\n{}", list.status, list.stderr.join("\n"));
        let document: Value = serde_json::from_str(&list.stdout.join("\n"))?;
        Ok(document["jobs"].as_array().context("no list of jobs")?.clone())
    }

    /// The name of the only job, when all of its ranks are seen.
    pub fn job(&self, ranks: usize) -> Result<String> {
        let deadline = deadline(PATIENCE);
        loop {
            let jobs = self.jobs_of("root");
            // Agents that have much to do may not answer in time.
            if let Ok([job]) = jobs.as_deref() {
                let parts = job["parts"].as_array().into_iter().flatten();
                let seen: usize = parts.map(|part| part["job"]["ranks"].as_array().map_or(0, Vec::len)).sum();
                if seen == ranks {
                    return Ok(job["name"].as_str().context("a job without a name")?.to_owned());
                }
            }
            if Instant::now() > deadline {
                bail!("no job of {ranks} ranks: {jobs:?}");
            }
        }
    }
}

impl Drop for Cluster {
    /// Agents end in good order, with their sessions.
    fn drop(&mut self) {
        for agent in self.agents.iter_mut().filter_map(Option::take) {
            agent.interrupt();
            let ended = agent.finish();
            if !std::thread::panicking() {
                ended.expect("an agent that was told to end does so");
            }
        }
    }
}

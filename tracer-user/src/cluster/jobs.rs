//! Jobs of a whole cluster, from what the agents of its nodes say.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::protocol::{JobOnNode, JobsOfNode, NodeIdentity};
use crate::host::{NodeJob, RankProcess, job_name};

/// A job, with all of its nodes that have an agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterJob {
    /// What it is called: see [`job_name`]; where nothing names it, the node and the process of its launcher.
    pub name: String,
    /// Its user.
    pub user: String,
    /// The launcher's command line, where a node tells it; else that of a rank.
    pub command: String,
    /// Ranks of the whole job, if a rank says.
    pub size: Option<u32>,
    /// Its parts, by the lowest rank of each.
    pub parts: Vec<JobPart>,
}

/// The ranks of a job on one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobPart {
    /// The node.
    pub node: NodeIdentity,
    /// What is there.
    pub job: NodeJob,
}

impl JobPart {
    /// How to ask the node's agent for it.
    pub fn on_node(&self) -> Option<JobOnNode> {
        let rank = self.job.ranks.first()?;
        Some(JobOnNode { pid: self.job.pid, rank_pid: rank.pid, rank_start_ticks: rank.start_ticks })
    }
}

impl ClusterJob {
    /// All ranks that agents see.
    pub fn ranks(&self) -> impl Iterator<Item = &RankProcess> {
        self.parts.iter().flat_map(|part| &part.job.ranks)
    }

    /// For how long the oldest part of it runs.
    pub fn age_s(&self) -> u64 {
        self.parts.iter().map(|part| part.job.age_s).max().unwrap_or(0)
    }

    /// Ranks that no agent sees.
    pub fn unseen_ranks(&self) -> Vec<u32> {
        let seen: BTreeSet<u32> = self.ranks().filter_map(|rank| rank.rank).collect();
        // A rank may say any size.
        let size = self.size.unwrap_or(0).min(1 << 20);
        (0..size).filter(|rank| !seen.contains(rank)).collect()
    }

    /// Whether this is what people mean: its name, the number that a name begins with, the scheduler's number, or a process on a
    /// node (`node:pid`).
    fn is_meant_by(&self, text: &str) -> bool {
        let on_node = text.rsplit_once(':').and_then(|(host, pid)| Some((host, pid.parse::<u32>().ok()?)));
        let has_process = |part: &JobPart| {
            on_node.is_some_and(|(host, pid)| {
                part.node.host == host
                    && (part.job.pid == pid || part.job.ranks.iter().any(|rank| rank.pid == pid))
            })
        };
        self.name == text
            || self.name.split_once('.').is_some_and(|(number, _)| number == text)
            || self.parts.iter().any(|part| part.job.allocation.as_deref() == Some(text) || has_process(part))
    }
}

/// Puts the parts of each job together. Of several agents of one node the first counts.
pub fn jobs_of(answers: &[JobsOfNode]) -> Vec<ClusterJob> {
    let mut jobs: BTreeMap<(String, u32), ClusterJob> = BTreeMap::new();
    for (at, answer) in answers.iter().enumerate() {
        if answers[..at].iter().any(|earlier| earlier.node.is_same_node(&answer.node)) {
            continue;
        }
        for job in &answer.jobs {
            let name = job.name.clone().unwrap_or_else(|| format!("{}:{}", answer.node.host, job.pid));
            let uid = job.ranks.first().map_or(0, |rank| rank.uid);
            let part = JobPart { node: answer.node.clone(), job: job.clone() };
            jobs.entry((name.clone(), uid)).or_insert_with(|| nothing_of(name, job)).parts.push(part);
        }
    }
    let mut jobs: Vec<ClusterJob> = jobs.into_values().collect();
    for job in &mut jobs {
        let lowest = |part: &JobPart| part.job.ranks.iter().filter_map(|rank| rank.rank).min();
        job.parts.sort_by_key(|part| (lowest(part), part.node.host.clone()));
        job.command = command(&job.parts);
        job.size = job.ranks().filter_map(|rank| rank.size).max();
    }
    jobs
}

fn nothing_of(name: String, job: &NodeJob) -> ClusterJob {
    ClusterJob { name, user: job.user.clone(), command: String::new(), size: None, parts: Vec::new() }
}

/// A launcher's daemons say nothing to people.
fn command(parts: &[JobPart]) -> String {
    let is_daemon =
        |command: &str| command.starts_with("slurmstepd") || job_name::of_daemon(command).is_some();
    let is_for_people = |command: &&String| !command.is_empty() && !is_daemon(command);
    let commands = parts.iter().map(|part| &part.job.command).filter(is_for_people);
    let of_ranks = parts.iter().flat_map(|part| &part.job.ranks).map(|rank| &rank.command);
    commands.chain(of_ranks).next().cloned().unwrap_or_default()
}

/// The one job that people mean.
///
/// # Errors
/// None, or several: what there is.
pub fn job_meant<'j>(text: &str, jobs: &'j [ClusterJob]) -> Result<&'j ClusterJob, String> {
    let meant: Vec<&ClusterJob> = jobs.iter().filter(|job| job.is_meant_by(text)).collect();
    match meant.as_slice() {
        [job] => Ok(job),
        [] if jobs.is_empty() => {
            Err(format!("no job {text}: the agents see no MPI job that you may look at (dmscope ps --bus …)"))
        }
        [] => Err(format!("no job {text}; there are {} (dmscope ps --bus …)", names(jobs.iter()))),
        several => Err(format!("{text} may be any of {}", names(several.iter().copied()))),
    }
}

fn names<'j>(jobs: impl Iterator<Item = &'j ClusterJob>) -> String {
    const MOST: usize = 8;
    let names: Vec<&str> = jobs.map(|job| job.name.as_str()).collect();
    let more = if names.len() > MOST { format!(" and {} more", names.len() - MOST) } else { String::new() };
    format!("{}{more}", names[..names.len().min(MOST)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MpiLibrary;

    fn rank(pid: u32, rank: u32, uid: u32) -> RankProcess {
        RankProcess {
            pid,
            namespace_pid: pid,
            pid_namespace: 1,
            mount_namespace: 1,
            rank: Some(rank),
            size: Some(4),
            local_size: Some(2),
            exe: "/a.out".into(),
            command: "./a.out -n 3".into(),
            uid,
            start_ticks: 7,
            library: MpiLibrary { kind: "MPICH".into(), path: "/lib/libmpich.so".into(), is_static: false },
        }
    }

    fn on_node(host: &str, name: Option<&str>, command: &str, ranks: [u32; 2]) -> JobsOfNode {
        let pid = 100 + ranks[0];
        let job = NodeJob {
            pid,
            name: name.map(str::to_owned),
            allocation: (host == "e").then(|| "99".into()),
            command: command.into(),
            user: "alice".into(),
            age_s: u64::from(ranks[0]),
            ranks: ranks.map(|number| rank(1000 + number, number, 1000)).into(),
        };
        let node = NodeIdentity {
            host: host.into(),
            agent: format!("{host}-1"),
            boot: host.into(),
            network_namespace: None,
        };
        JobsOfNode { node, jobs: vec![job], ..JobsOfNode::default() }
    }

    #[test]
    fn parts_of_the_same_name_are_one_job_in_the_order_of_their_ranks() {
        let orted = "orted -mca ess_base_jobid 77 -mca x";
        let answers = [
            on_node("b", Some("77"), orted, [2, 3]),
            on_node("a", Some("77"), "mpirun -n 4 ./a.out", [0, 1]),
            on_node("c", Some("78"), orted, [0, 1]),
        ];
        let jobs = jobs_of(&answers);
        assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["77", "78"]);
        let nodes: Vec<&str> = jobs[0].parts.iter().map(|part| part.node.host.as_str()).collect();
        assert_eq!((nodes, jobs[0].command.as_str()), (vec!["a", "b"], "mpirun -n 4 ./a.out"));
        assert_eq!((jobs[0].unseen_ranks(), jobs[1].unseen_ranks()), (vec![], vec![2, 3]));
        assert_eq!(jobs[1].command, "./a.out -n 3", "what a daemon is called says nothing");
        assert_eq!(jobs[0].age_s(), 2);
    }

    #[test]
    fn jobs_of_several_users_are_never_one() {
        let mut other = on_node("b", Some("77"), "", [2, 3]);
        other.jobs[0].ranks.iter_mut().for_each(|rank| rank.uid = 1001);
        assert_eq!(jobs_of(&[on_node("a", Some("77"), "", [0, 1]), other]).len(), 2);
    }

    #[test]
    fn two_agents_of_one_node_count_once() {
        let one = on_node("a", Some("77"), "", [0, 1]);
        let mut again = one.clone();
        again.node.agent = "a-2".into();
        assert_eq!(jobs_of(&[one, again])[0].parts.len(), 1);
    }

    #[test]
    fn people_name_a_job_by_its_name_its_number_or_a_process() {
        let jobs = jobs_of(&[
            on_node("a", Some("12.0"), "", [0, 1]),
            on_node("b", Some("12.1"), "", [0, 1]),
            on_node("c", Some("13.0"), "", [2, 3]),
            on_node("d", None, "mpirun ./a.out", [0, 1]),
            on_node("e", Some("77"), "mpirun ./a.out", [0, 1]),
        ]);
        let meant = |text: &str| job_meant(text, &jobs).map(|job| job.name.clone());
        assert_eq!(meant("12.0"), Ok("12.0".into()));
        assert_eq!(meant("13"), Ok("13.0".into()));
        assert_eq!(meant("d:100"), Ok("d:100".into()));
        assert_eq!(meant("c:1002"), Ok("13.0".into()));
        assert_eq!(meant("99"), Ok("77".into()));
        assert_eq!(meant("12"), Err("12 may be any of 12.0, 12.1".into()));
        assert!(meant("14").is_err_and(|why| why.contains("there are 12.0, 12.1, 13.0, 77, d:100")));
        assert!(job_meant("14", &[]).is_err_and(|why| why.contains("no MPI job")));
    }
}

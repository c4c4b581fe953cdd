//! Asks all agents which jobs are on their nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::bus::{Bus, BusEvent};
use super::protocol::{self, FindJobs, JobsOfNode, PROTOCOL, UserSubjects, version_trouble};
use crate::host::unique_word::unique_word;

/// How many agents there are nobody knows: after so long without a further answer there is none.
const QUIET: Duration = Duration::from_millis(400);
/// How long nodes may take, where nothing else is said: as `--bus-patience`.
pub const USUAL_PATIENCE: Duration = Duration::from_secs(30);
/// While ranks of a job are missing, those of other nodes may take longer, in proportion to the patience: a node may be busy.
const MISSING: Duration = Duration::from_millis(1500);
/// Where somebody listens but nobody has answered, the wait is as long as it is at most, in proportion too.
const MOST: Duration = Duration::from_secs(10);
/// Agents that are listened to.
const MOST_AGENTS: usize = 1 << 14;

/// What the agents said, and what of it cannot be used.
#[derive(Debug, Default)]
pub struct FoundJobs {
    /// By the names of nodes.
    pub answers: Vec<JobsOfNode>,
    /// For people.
    pub notices: Vec<String>,
    /// Ranks that were seen of each job, and of how many, by its name.
    ranks: BTreeMap<String, (usize, usize)>,
}

/// Asks as a user. With less patience than usual, nodes take as long to answer.
///
/// # Errors
/// The bus refuses it, or no agent answers.
pub fn find(bus: &dyn Bus, user: &str, patience: Duration) -> Result<FoundJobs> {
    let in_proportion = |usual: Duration, part| usual.max(patience / part);
    let [quiet, missing, most] =
        [(QUIET, 75), (MISSING, 20), (MOST, 3)].map(|(time, part)| in_proportion(time, part));
    let subjects = UserSubjects::of(user);
    let reply = subjects.inbox(&unique_word().context("the kernel has no random bits")?);
    let inbox = bus.subscribe(&reply)?;
    bus.publish(&subjects.find(), Some(&reply), protocol::bytes(&FindJobs { protocol: PROTOCOL }))?;
    let mut found = FoundJobs::default();
    let begun = Instant::now();
    let mut until = begun + most;
    while let Some(left) = until.min(begun + most).checked_duration_since(Instant::now())
        && let Some(message) = inbox.next(left)?
        && !message.is_unheard
    {
        if found.answers.len() < MOST_AGENTS {
            found.take(&message.payload);
        }
        until = Instant::now() + if found.lacks_ranks() { missing } else { quiet };
    }
    if found.answers.is_empty() && found.notices.is_empty() {
        bail!("{}", nobody(bus, user));
    }
    found.answers.sort_by(|a, b| (&a.node.host, &a.node.agent).cmp(&(&b.node.host, &b.node.agent)));
    found.tell_doubles();
    Ok(found)
}

impl FoundJobs {
    fn take(&mut self, payload: &[u8]) {
        match protocol::parse::<JobsOfNode>(payload) {
            Ok(answer) => {
                let who = format!("the agent of {}", answer.node.host);
                match version_trouble(&who, answer.protocol, &answer.version) {
                    Some(trouble) => self.notices.push(trouble),
                    None => {
                        self.count(&answer);
                        self.answers.push(answer);
                    }
                }
            }
            Err(why) => self.notices.push(format!("an agent answers with {why}")),
        }
    }

    fn count(&mut self, answer: &JobsOfNode) {
        for job in &answer.jobs {
            let Some(name) = &job.name else { continue };
            let (seen, of) = self.ranks.entry(name.clone()).or_default();
            *seen += job.ranks.len();
            *of = job.ranks.iter().filter_map(|rank| rank.size).fold(*of, |of, size| of.max(size as usize));
        }
    }

    /// Whether there are ranks that no agent has told of yet.
    fn lacks_ranks(&self) -> bool {
        self.ranks.values().any(|(seen, of)| seen < of)
    }

    fn tell_doubles(&mut self) {
        for pair in self.answers.windows(2) {
            if pair[0].node.is_same_node(&pair[1].node) {
                let host = &pair[0].node.host;
                self.notices.push(format!("{host} has two agents: one is enough, and only one is asked"));
            }
        }
    }
}

fn nobody(bus: &dyn Bus, user: &str) -> String {
    let refusal = bus.events().try_iter().find_map(|event| match event {
        BusEvent::Refused(why) => Some(why),
        _ => None,
    });
    match refusal {
        Some(why) => format!(
            "the bus does not let {user} ask for jobs ({why}): --bus-user must be the user that the bus knows"
        ),
        None => "no agent answers: start `dmscope agent --bus …` on the nodes (docs/nodes.md)".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::bus::LocalBus;
    use super::super::protocol::{ANY_FIND, NodeIdentity};
    use super::*;
    use crate::host::{MpiLibrary, NodeJob, RankProcess};

    /// Agents that answer so.
    fn answering(answers: Vec<Vec<u8>>) -> Arc<LocalBus> {
        let bus = Arc::new(LocalBus::default());
        let inbox = bus.subscribe(ANY_FIND).expect("a bus");
        let of_agents = Arc::clone(&bus);
        std::thread::spawn(move || {
            let message = inbox.next(Duration::from_secs(5)).expect("a bus").expect("a question");
            assert_eq!(protocol::user_of(&message.subject), Some("alice"));
            for answer in answers {
                of_agents.publish(message.reply.as_deref().expect("a reply"), None, answer).expect("a bus");
            }
        });
        bus
    }

    fn answer(host: &str, protocol: u32) -> JobsOfNode {
        let node = NodeIdentity { host: host.into(), boot: host.into(), ..NodeIdentity::default() };
        JobsOfNode { protocol, version: "0.0.1".into(), node, ..JobsOfNode::default() }
    }

    #[test]
    fn all_answers_are_taken_and_those_of_other_versions_and_strangers_told() {
        let answers = [answer("b", PROTOCOL), answer("a", PROTOCOL), answer("c", 99), answer("a", PROTOCOL)];
        let mut answers: Vec<Vec<u8>> = answers.iter().map(protocol::bytes).collect();
        answers.push(b"{]".to_vec());
        let found = find(&*answering(answers), "alice", USUAL_PATIENCE).expect("answers");
        let hosts: Vec<&str> = found.answers.iter().map(|answer| answer.node.host.as_str()).collect();
        assert_eq!(hosts, ["a", "a", "b"]);
        let told = |text: &str| found.notices.iter().filter(|notice| notice.contains(text)).count();
        assert_eq!((told("speaks version 99"), told("not understood"), told("two agents")), (1, 1, 1));
    }

    #[test]
    fn while_ranks_of_a_job_are_missing_further_answers_are_waited_for() {
        let bus = Arc::new(LocalBus::default());
        let inbox = bus.subscribe(ANY_FIND).expect("a bus");
        let of_agents = Arc::clone(&bus);
        let rank = |rank: u32| RankProcess {
            pid: 100 + rank,
            namespace_pid: 100 + rank,
            pid_namespace: 1,
            mount_namespace: 1,
            rank: Some(rank),
            size: Some(2),
            local_size: Some(1),
            exe: "/a.out".into(),
            command: "./a.out".into(),
            uid: 0,
            start_ticks: 7,
            library: MpiLibrary { kind: "MPICH".into(), path: "/lib/libmpich.so".into(), is_static: false },
        };
        let job = move |number: u32| NodeJob {
            pid: 9,
            name: Some("7".into()),
            allocation: None,
            command: "mpirun ./a.out".into(),
            user: "alice".into(),
            age_s: 1,
            ranks: vec![rank(number)],
        };
        let part = move |host: &str, number| JobsOfNode { jobs: vec![job(number)], ..answer(host, PROTOCOL) };
        std::thread::spawn(move || {
            let message = inbox.next(Duration::from_secs(5)).expect("a bus").expect("a question");
            for (host, rank) in [("a", 0), ("b", 1)] {
                let answer = protocol::bytes(&part(host, rank));
                of_agents.publish(message.reply.as_deref().expect("a reply"), None, answer).expect("a bus");
                std::thread::sleep(QUIET * 2);
            }
        });
        assert_eq!(find(&*bus, "alice", USUAL_PATIENCE).expect("answers").answers.len(), 2);
    }

    #[test]
    fn an_agent_that_has_much_to_do_is_waited_for() {
        let bus = Arc::new(LocalBus::default());
        let inbox = bus.subscribe(ANY_FIND).expect("a bus");
        let of_agent = Arc::clone(&bus);
        std::thread::spawn(move || {
            let message = inbox.next(Duration::from_secs(5)).expect("a bus").expect("a question");
            std::thread::sleep(2 * MISSING);
            let answer = protocol::bytes(&answer("a", PROTOCOL));
            of_agent.publish(message.reply.as_deref().expect("a reply"), None, answer).expect("a bus");
        });
        assert_eq!(find(&*bus, "alice", USUAL_PATIENCE).expect("an answer").answers.len(), 1);
    }

    #[test]
    fn where_nobody_listens_it_is_said_at_once_what_to_do() {
        let begun = Instant::now();
        let error =
            find(&LocalBus::default(), "alice", USUAL_PATIENCE).expect_err("nobody is there").to_string();
        assert!(error.contains("dmscope agent") && begun.elapsed() < MISSING, "{error}");
    }
}

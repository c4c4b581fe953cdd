//! One node: its agent, which answers coordinators, and its part of a session.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Result;
use dmscope::cluster::bus::{Bus, BusMessage, Inbox};
use dmscope::cluster::protocol::{
    self, ANY_FIND, JobsOfNode, NodeIdentity, OpenAnswer, OpenSession, PROTOCOL, any_agent, user_of,
};
use dmscope::host::{MpiLibrary, NodeJob, RankProcess};

use super::node_part::SimulatedPart;
use super::state::FleetState;
use crate::generate::FIRST_PID;

/// Name of the job.
pub(super) const JOB: &str = "made-up";

/// See the [module](self).
pub(super) struct SimulatedNode {
    number: u32,
    identity: NodeIdentity,
    bus: Arc<dyn Bus>,
    find: Inbox,
    requests: Inbox,
    part: Option<SimulatedPart>,
}

impl SimulatedNode {
    /// Listens.
    pub(super) fn start(number: u32, bus: Arc<dyn Bus>) -> Result<Self> {
        let agent = format!("node{number:04}");
        let identity =
            NodeIdentity { host: agent.clone(), boot: agent.clone(), network_namespace: None, agent };
        let (find, requests) = (bus.subscribe(ANY_FIND)?, bus.subscribe(&any_agent(&identity.agent))?);
        Ok(Self { number, identity, bus, find, requests, part: None })
    }

    /// Does what is due.
    pub(super) fn step(&mut self, now_ns: u64, state: &FleetState) -> Result<()> {
        while let Some(message) = self.find.try_next() {
            self.answer(&message, &self.jobs(state));
        }
        while let Some(message) = self.requests.try_next() {
            let answer = self.open(&message, state)?;
            self.answer(&message, &answer);
        }
        if let Some(part) = &mut self.part {
            part.step(now_ns, state);
        }
        if self.part.as_ref().is_some_and(|part| part.is_over) {
            self.part = None;
            state.open.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn answer(&self, message: &BusMessage, answer: &impl serde::Serialize) {
        if let Some(reply) = &message.reply {
            let _ = self.bus.publish(reply, None, protocol::bytes(answer));
        }
    }

    fn open(&mut self, message: &BusMessage, state: &FleetState) -> Result<OpenAnswer> {
        let request = match protocol::parse::<OpenSession>(&message.payload) {
            Ok(request) => request,
            Err(why) => return Ok(OpenAnswer::Refused(why)),
        };
        let user = user_of(&message.subject).unwrap_or_default();
        let part = SimulatedPart::open(state, self.number, &self.identity.agent, &self.bus, user, &request)?;
        self.part = Some(part);
        state.open.fetch_add(1, Ordering::Relaxed);
        Ok(OpenAnswer::Opened)
    }

    fn jobs(&self, state: &FleetState) -> JobsOfNode {
        let job = state.job.generated;
        let size = job.ranks_per_node();
        let rank = |rank: u32| RankProcess {
            pid: FIRST_PID + rank,
            namespace_pid: FIRST_PID + rank,
            pid_namespace: 1,
            mount_namespace: 1,
            rank: Some(rank),
            size: Some(job.ranks),
            local_size: Some(size),
            exe: "/bin/made-up".to_owned(),
            command: "./made-up".to_owned(),
            uid: 0,
            start_ticks: 7,
            library: MpiLibrary {
                kind: "MPICH".to_owned(),
                path: "/lib/libmpich.so".to_owned(),
                is_static: false,
            },
        };
        let first = self.number * size;
        let job = NodeJob {
            pid: 900,
            name: Some(JOB.to_owned()),
            allocation: None,
            command: "mpirun ./made-up".to_owned(),
            user: "root".to_owned(),
            age_s: 60,
            ranks: (first..first + size).map(rank).collect(),
        };
        JobsOfNode {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.identity.clone(),
            jobs: vec![job],
            hidden: 0,
        }
    }
}

//! The messages of all ranks, put together: which send each receive got, in which communicator.

use std::collections::HashMap;

use crate::messages::{CallSite, CollectiveOrder, MessageEnvelope, MessageRow, Pattern};

/// Why messages of ranks cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRun(pub String);

impl std::fmt::Display for BadRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRun {}

/// A send.
#[derive(Clone, Debug)]
pub(super) struct RunSend {
    pub rank: usize,
    /// The call in which it began: a place in [`Run::calls`].
    pub begun: u32,
    /// Where the rank waits for it, if it does.
    pub completed: Option<u32>,
    pub tag: u32,
    pub channel: usize,
    pub is_synchronous: bool,
    /// Who got it.
    pub receive: Option<usize>,
}

/// A receive.
#[derive(Clone, Debug)]
pub(super) struct RunReceive {
    pub rank: usize,
    pub posted: u32,
    pub completed: Option<u32>,
    pub comm: usize,
    /// In MPI_COMM_WORLD.
    pub source: Option<u32>,
    pub tag: Option<u32>,
    /// The send whose message it got.
    pub message: Option<usize>,
    /// It was cancelled, or failed, or got a message of which nobody has heard: it takes nothing from others.
    pub is_aside: bool,
    pub site: u32,
    /// Among the rank's posted receives from anybody.
    pub wild_post: Option<u64>,
}

impl RunReceive {
    pub(super) fn is_posted_receive(&self) -> bool {
        self.completed != Some(self.posted)
    }
}

/// A probe that has found a message.
#[derive(Clone, Debug)]
pub(super) struct RunProbe {
    /// As if it were a receive; it takes nothing.
    pub asks: RunReceive,
    /// How many receives of the rank were posted before.
    pub receives_before: usize,
    /// Channel and tag of what it has found.
    found: (usize, u32),
}

/// A call that took some of several requests.
#[derive(Clone, Debug)]
pub(super) struct RunChoice {
    pub rank: usize,
    pub call: u32,
    pub site: u32,
    pub offered: Vec<(u32, RequestOperation)>,
    pub taken: Vec<u32>,
}

/// What a request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOperation {
    Send(usize),
    Receive(usize),
    /// In a communicator of which nothing is known.
    Unknown,
}

/// Messages from one rank to another in one communicator, as they were sent.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub source: usize,
    pub sends: Vec<usize>,
    /// Of each send: the last call of the receiver that has completed it or one before it; never, if one is not complete.
    completed: Vec<u32>,
}

impl Channel {
    /// How many of the first sends were received before a call.
    pub(super) fn old(&self, call: u32) -> usize {
        self.completed.partition_point(|completed| *completed < call)
    }
}

/// One collective call of all members.
#[derive(Clone, Debug)]
pub(super) struct RunCollective {
    pub order: CollectiveOrder,
    /// Ranks of the group, in its order, with their calls.
    pub calls: Vec<(usize, u32)>,
    pub root: Option<usize>,
    pub members: usize,
}

/// A communicator, the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CommKey {
    group: Vec<u32>,
    remote: Vec<u32>,
    nth: u32,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Of each rank, the numbers of the calls that are known.
    pub calls: Vec<Vec<u64>>,
    pub sites: Vec<Vec<CallSite>>,
    pub sends: Vec<RunSend>,
    pub receives: Vec<RunReceive>,
    pub probes: Vec<RunProbe>,
    pub choices: Vec<RunChoice>,
    pub channels: Vec<Channel>,
    pub collectives: Vec<RunCollective>,
    /// Channels to a rank in a communicator.
    pub inbound: HashMap<(usize, usize), Vec<usize>>,
    /// Receives of each rank, in the order in which they were posted.
    pub posts: Vec<Vec<usize>>,
    /// Of each communicator, the ranks that messages come from as each rank sees them: in MPI_COMM_WORLD.
    peers: HashMap<(usize, usize), Vec<u32>>,
    /// Entries in communicators of which nothing is known.
    pub unknown: u64,
    /// Messages that came, of which nobody has seen the send.
    pub unsent: u64,
}

impl Run {
    /// Puts together what all ranks have written down.
    ///
    /// # Errors
    /// The ranks' records contradict themselves or each other.
    pub(super) fn of(journals: &[&[u8]]) -> Result<Self, BadRun> {
        let mut building = Building::default();
        let size = journals.len();
        building.run.sites = vec![Vec::new(); size];
        building.run.posts = vec![Vec::new(); size];
        for (rank, bytes) in journals.iter().enumerate() {
            let calls = building.rank(rank, size, bytes)?;
            building.run.calls.push(calls);
        }
        let mut run = building.run;
        run.match_all(&building.got, &building.of_tag);
        Ok(run)
    }

    /// The rank of a communicator that a rank of MPI_COMM_WORLD is, as another one sees it.
    pub(super) fn rank_in(&self, comm: usize, seen_by: usize, world: usize) -> Option<u32> {
        let peers = self.peers.get(&(comm, seen_by))?;
        peers.iter().position(|rank| *rank as usize == world).map(|at| at as u32)
    }

    /// Gives each receive its message: of those from one rank with one tag, the first that was sent and is not yet taken.
    fn match_all(&mut self, got: &HashMap<usize, (usize, u32)>, of_tag: &HashMap<(usize, u32), Vec<usize>>) {
        let mut next: HashMap<(usize, u32), usize> = HashMap::new();
        let mut probes = self.probes.iter_mut().peekable();
        for (rank, posts) in self.posts.iter().enumerate() {
            for at in 0..=posts.len() {
                while let Some(probe) =
                    probes.next_if(|probe| probe.asks.rank == rank && probe.receives_before <= at)
                {
                    let taken = next.get(&probe.found).copied().unwrap_or(0);
                    let send = of_tag.get(&probe.found).and_then(|sends| sends.get(taken));
                    probe.asks.message = send.copied();
                }
                let Some(&receive) = posts.get(at) else { break };
                let Some(from) = got.get(&receive) else { continue };
                let at = next.entry(*from).or_default();
                let send = of_tag.get(from).and_then(|sends| sends.get(*at)).copied();
                *at += 1;
                self.receives[receive].message = send;
                if let Some(send) = send {
                    self.sends[send].receive = Some(receive);
                } else {
                    self.receives[receive].is_aside = true;
                    self.unsent += 1;
                }
            }
        }
        self.put_unknown_aside();
        for channel in &mut self.channels {
            let mut last = 0;
            for send in &channel.sends {
                let receive = self.sends[*send].receive.map(|receive| &self.receives[receive]);
                last = receive.and_then(|receive| receive.completed).unwrap_or(u32::MAX).max(last);
                channel.completed.push(last);
            }
        }
    }

    /// A receive that would have taken the message of a later one has got another before, of which nobody has heard.
    fn put_unknown_aside(&mut self) {
        for posts in &self.posts {
            let mut pending: Vec<usize> = Vec::new();
            for &at in posts {
                let Some(message) = self.receives[at].message else {
                    if !self.receives[at].is_aside {
                        pending.push(at);
                    }
                    continue;
                };
                let comm = self.receives[at].comm;
                let is_aside = |other: &usize| {
                    self.receives[*other].comm == comm && self.takes(&self.receives[*other], message)
                };
                let aside: Vec<usize> = pending.extract_if(.., |other| is_aside(other)).collect();
                aside.into_iter().for_each(|other| self.receives[other].is_aside = true);
            }
        }
    }

    /// Whether a receive may take what was sent in its communicator.
    pub(super) fn takes(&self, receive: &RunReceive, send: usize) -> bool {
        let send = &self.sends[send];
        receive.source.is_none_or(|wanted| wanted as usize == send.rank)
            && receive.tag.is_none_or(|wanted| wanted == send.tag)
    }
}

#[derive(Default)]
struct Building {
    run: Run,
    comms: HashMap<CommKey, usize>,
    channels: HashMap<(usize, usize, usize), usize>,
    /// Of receives: the channel and tag of what they got.
    got: HashMap<usize, (usize, u32)>,
    of_tag: HashMap<(usize, u32), Vec<usize>>,
    /// Of a communicator: how many collective calls each rank has made, and the places of the calls in the run.
    collectives: HashMap<(usize, usize), usize>,
    made: HashMap<(usize, usize), usize>,
}

/// A communicator as one rank has it.
#[derive(Clone)]
struct LocalComm {
    /// None: nothing is known of it.
    id: Option<usize>,
    group: Vec<u32>,
    /// Those to whom messages go.
    peers: Vec<u32>,
}

/// What a rank has said so far.
#[derive(Default)]
struct RunReading {
    calls: Vec<u64>,
    number: u64,
    comms: Vec<LocalComm>,
    counts: HashMap<(Vec<u32>, Vec<u32>), u32>,
    operations: Vec<RequestOperation>,
    wild_posts: u64,
}

impl RunReading {
    fn here(&self) -> u32 {
        (self.calls.len() - 1) as u32
    }
}

impl Building {
    fn rank(&mut self, rank: usize, size: usize, bytes: &[u8]) -> Result<Vec<u64>, BadRun> {
        let bad = |what: &str| BadRun(format!("the messages of rank {rank} contradict themselves: {what}"));
        let mut reading = RunReading::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (calls, row) = MessageRow::take(&mut rest).map_err(|_| bad("an entry cannot be read"))?;
            reading.number = reading.number.saturating_add(calls);
            if reading.calls.last() != Some(&reading.number) {
                reading.calls.push(reading.number);
            }
            if reading.calls.len() > u32::MAX as usize / 4 {
                return Err(bad("too many calls"));
            }
            self.row(rank, size, &mut reading, row).ok_or_else(|| bad("an entry names what is not there"))?;
        }
        Ok(reading.calls)
    }

    fn row(&mut self, rank: usize, size: usize, reading: &mut RunReading, row: MessageRow) -> Option<()> {
        let call = reading.here();
        match row {
            MessageRow::Comm { group, remote } => self.comm(rank, size, reading, group, remote)?,
            MessageRow::Site(site) => self.run.sites[rank].push(site),
            MessageRow::Send { comm, dest, tag, is_synchronous, has_request } => {
                let comm = reading.comms.get(comm as usize)?;
                let Some(id) = comm.id else {
                    self.run.unknown += 1;
                    if has_request {
                        reading.operations.push(RequestOperation::Unknown);
                    }
                    return Some(());
                };
                let dest = *comm.peers.get(dest as usize)? as usize;
                let channel = self.channel(id, rank, dest);
                let send = self.run.sends.len();
                let completed = (!has_request).then_some(call);
                self.run.sends.push(RunSend {
                    rank,
                    begun: call,
                    completed,
                    tag,
                    channel,
                    is_synchronous,
                    receive: None,
                });
                self.run.channels[channel].sends.push(send);
                self.of_tag.entry((channel, tag)).or_default().push(send);
                if has_request {
                    reading.operations.push(RequestOperation::Send(send));
                }
            }
            MessageRow::Receive { site, pattern, is_probe, got } => {
                let Some(mut receive) = self.receive(rank, reading, site, pattern)? else { return Some(()) };
                receive.completed = Some(call);
                receive.wild_post = None;
                let from = self.got(rank, reading, pattern, got)?;
                if is_probe {
                    let Some(found) = from else { return Some(()) };
                    let receives_before = self.run.posts[rank].len();
                    self.run.probes.push(RunProbe { asks: receive, receives_before, found });
                } else {
                    let at = self.post(receive);
                    self.came(at, from);
                }
            }
            MessageRow::Post { site, pattern } => {
                let is_wild = pattern.source.is_none();
                let receive = self.receive(rank, reading, site, pattern)?;
                let operation = match receive {
                    Some(mut receive) => {
                        receive.wild_post = is_wild.then_some(reading.wild_posts);
                        RequestOperation::Receive(self.post(receive))
                    }
                    None => RequestOperation::Unknown,
                };
                reading.wild_posts += u64::from(is_wild);
                reading.operations.push(operation);
            }
            MessageRow::Done { back, got, is_final } => match *nth_back(&reading.operations, back)? {
                RequestOperation::Send(send) if is_final => self.run.sends[send].completed = Some(call),
                RequestOperation::Receive(at) => {
                    let receive = &mut self.run.receives[at];
                    if is_final {
                        receive.completed = Some(call);
                    }
                    let comm = receive.comm;
                    if !self.got.contains_key(&at) {
                        let from = self.got_in(rank, comm, got)?;
                        self.came(at, from);
                    }
                }
                _ => {}
            },
            MessageRow::Choice { site, offered, taken } => {
                let offered: Option<Vec<_>> = offered
                    .into_iter()
                    .map(|(index, back)| Some((index, *nth_back(&reading.operations, back)?)))
                    .collect();
                self.run.choices.push(RunChoice { rank, call, site, offered: offered?, taken });
            }
            MessageRow::Collective { order, comm, root } => {
                let comm = reading.comms.get(comm as usize)?.clone();
                self.collective(rank, call, &comm, order, root);
            }
        }
        Some(())
    }

    fn comm(
        &mut self,
        rank: usize,
        size: usize,
        reading: &mut RunReading,
        group: Vec<u32>,
        remote: Vec<u32>,
    ) -> Option<()> {
        if group.iter().chain(&remote).any(|member| *member as usize >= size) {
            return None;
        }
        if group.is_empty() {
            reading.comms.push(LocalComm { id: None, group, peers: remote });
            return Some(());
        }
        let is_first = remote.is_empty() || group <= remote;
        let sides = if is_first { (group.clone(), remote.clone()) } else { (remote.clone(), group.clone()) };
        let count = reading.counts.entry(sides.clone()).or_default();
        let key = CommKey { group: sides.0, remote: sides.1, nth: *count };
        *count += 1;
        let next = self.comms.len();
        let id = *self.comms.entry(key).or_insert(next);
        let peers = if remote.is_empty() { group.clone() } else { remote };
        self.run.peers.insert((id, rank), peers.clone());
        reading.comms.push(LocalComm { id: Some(id), group, peers });
        Some(())
    }

    fn channel(&mut self, comm: usize, source: usize, dest: usize) -> usize {
        let next = self.run.channels.len();
        let channel = *self.channels.entry((comm, source, dest)).or_insert(next);
        if channel == next {
            self.run.channels.push(Channel { source, sends: Vec::new(), completed: Vec::new() });
            self.run.inbound.entry((dest, comm)).or_default().push(channel);
        }
        channel
    }

    /// A receive as it is asked for; none within: nothing is known of its communicator.
    fn receive(
        &mut self,
        rank: usize,
        reading: &RunReading,
        site: u32,
        pattern: Pattern,
    ) -> Option<Option<RunReceive>> {
        let comm = reading.comms.get(pattern.comm as usize)?;
        let Some(id) = comm.id else {
            self.run.unknown += 1;
            return Some(None);
        };
        let source = match pattern.source {
            None => None,
            Some(source) => Some(*comm.peers.get(source as usize)?),
        };
        Some(Some(RunReceive {
            rank,
            posted: reading.here(),
            completed: None,
            comm: id,
            source,
            tag: pattern.tag,
            message: None,
            is_aside: false,
            site,
            wild_post: None,
        }))
    }

    fn post(&mut self, receive: RunReceive) -> usize {
        let at = self.run.receives.len();
        self.run.posts[receive.rank].push(at);
        self.run.receives.push(receive);
        at
    }

    fn came(&mut self, receive: usize, from: Option<(usize, u32)>) {
        match from {
            Some(from) => {
                self.got.insert(receive, from);
                self.run.receives[receive].is_aside = false;
            }
            None => self.run.receives[receive].is_aside = true,
        }
    }

    /// The channel and tag of a message.
    fn got(
        &mut self,
        rank: usize,
        reading: &RunReading,
        pattern: Pattern,
        got: Option<MessageEnvelope>,
    ) -> Option<Option<(usize, u32)>> {
        match reading.comms.get(pattern.comm as usize)?.id {
            Some(comm) => self.got_in(rank, comm, got),
            None => Some(None),
        }
    }

    fn got_in(
        &mut self,
        rank: usize,
        comm: usize,
        got: Option<MessageEnvelope>,
    ) -> Option<Option<(usize, u32)>> {
        let Some(got) = got else { return Some(None) };
        let source = *self.run.peers.get(&(comm, rank))?.get(got.source as usize)?;
        Some(Some((self.channel(comm, source as usize, rank), got.tag)))
    }

    fn collective(
        &mut self,
        rank: usize,
        call: u32,
        comm: &LocalComm,
        order: CollectiveOrder,
        root: Option<u32>,
    ) {
        let Some(id) = comm.id else { return };
        let nth = self.collectives.entry((id, rank)).or_default();
        let key = (id, *nth);
        *nth += 1;
        let next = self.run.collectives.len();
        let at = *self.made.entry(key).or_insert(next);
        if at == next {
            let is_inter = comm.group != comm.peers;
            let root = root.and_then(|root| comm.group.get(root as usize)).map(|root| *root as usize);
            let members = comm.group.len() + if is_inter { comm.peers.len() } else { 0 };
            let order = match order {
                CollectiveOrder::All => order,
                _ if is_inter => CollectiveOrder::Unknown,
                _ => order,
            };
            self.run.collectives.push(RunCollective { order, calls: Vec::new(), root, members });
        }
        self.run.collectives[at].calls.push((rank, call));
    }
}

fn nth_back(operations: &[RequestOperation], back: u64) -> Option<&RequestOperation> {
    operations.get(operations.len().checked_sub(usize::try_from(back).ok()?)?)
}

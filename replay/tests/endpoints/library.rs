//! A message library of another shape than MPI: endpoints, and receives that take whatever comes.
//!
//! Nothing can be asked for by its sender. Messages of one sender stay in order. Receives that were posted get messages in the order
//! of their posts.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};

use crate::perturb::Perturbation;

pub type NodeId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: NodeId,
    pub value: i64,
}

/// The program was ended by one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request(pub usize);

#[derive(Default)]
struct Inbox {
    /// Those that nobody has posted a receive for.
    unexpected: VecDeque<Message>,
    /// By request: what it got.
    posted: Vec<Option<Message>>,
    /// Requests up to here have got theirs.
    filled: usize,
}

#[derive(Default)]
struct State {
    inboxes: Vec<Inbox>,
    is_aborted: bool,
}

/// All endpoints: one for each node.
#[derive(Default)]
pub struct Network {
    state: Mutex<State>,
    changed: Condvar,
}

impl Network {
    pub fn new(nodes: usize) -> Self {
        let inboxes = (0..nodes).map(|_| Inbox::default()).collect();
        Self { state: Mutex::new(State { inboxes, is_aborted: false }), changed: Condvar::new() }
    }

    /// Ends the program: whoever waits is told.
    pub fn abort(&self) {
        self.state.lock().expect("no node panics").is_aborted = true;
        self.changed.notify_all();
    }
}

/// One node's end of it.
pub struct Endpoint<'a> {
    network: &'a Network,
    node: NodeId,
    perturbation: Perturbation,
}

impl<'a> Endpoint<'a> {
    pub fn open(network: &'a Network, node: NodeId, perturbation: Perturbation) -> Self {
        Self { network, node, perturbation }
    }

    pub fn send(&mut self, to: NodeId, value: i64) {
        self.perturbation.pause();
        let mut state = self.network.state.lock().expect("no node panics");
        let inbox = &mut state.inboxes[to as usize];
        let message = Message { from: self.node, value };
        match inbox.posted.get_mut(inbox.filled) {
            Some(place) => {
                *place = Some(message);
                inbox.filled += 1;
            }
            None => inbox.unexpected.push_back(message),
        }
        self.network.changed.notify_all();
    }

    pub fn receive_i(&mut self) -> Request {
        let mut state = self.network.state.lock().expect("no node panics");
        let inbox = &mut state.inboxes[self.node as usize];
        let message = inbox.unexpected.pop_front();
        inbox.filled += usize::from(message.is_some());
        inbox.posted.push(message);
        Request(inbox.posted.len() - 1)
    }

    pub fn test(&mut self, request: Request) -> Option<Message> {
        self.perturbation.pause();
        self.network.state.lock().expect("no node panics").inboxes[self.node as usize].posted[request.0]
    }

    /// The first of these in the list that has got a message, and its place there.
    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, Message), Aborted> {
        self.perturbation.pause();
        let mut state = self.network.state.lock().expect("no node panics");
        loop {
            let posted = &state.inboxes[self.node as usize].posted;
            let filled = requests.iter().enumerate().find_map(|(at, request)| Some((at, posted[request.0]?)));
            if let Some(found) = filled {
                return Ok(found);
            }
            if state.is_aborted {
                return Err(Aborted);
            }
            state = self.network.changed.wait(state).expect("no node panics");
        }
    }

    pub fn wait(&mut self, request: Request) -> Result<Message, Aborted> {
        self.wait_any(&[request]).map(|(_, message)| message)
    }
}

//! The engine's second front end: it asks the engine what is due, and makes the library of endpoints do it.
//!
//! That library cannot be asked for the message of a certain sender, so that what comes early is kept aside here.

use std::collections::HashMap;

use replay::{Answer, AskedFor, Divergence, Due, Mark, Playback, ReceiveEnd, Recording};

use crate::library::{Aborted, Endpoint, Message, NodeId, Request};

/// Why a node's program ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another node has ended the program.
    Aborted,
    /// The program is not the one that was recorded.
    Diverged(Divergence),
    /// Its own assertion failed.
    Failed,
}

impl From<Aborted> for Stop {
    fn from(_: Aborted) -> Self {
        Self::Aborted
    }
}

impl From<Divergence> for Stop {
    fn from(divergence: Divergence) -> Self {
        Self::Diverged(divergence)
    }
}

/// What a node's calls answered.
#[derive(Clone, Debug, Default)]
pub struct NodeRecord {
    pub bytes: Vec<u8>,
    pub polls: u64,
}

enum Work {
    Record { recording: Box<Recording>, record: NodeRecord },
    Replay { playback: Box<Playback>, posted: Posted },
}

/// In a replay: receives by number, and messages.
#[derive(Default)]
struct Posted {
    due: Vec<ReceiveEnd>,
    got: HashMap<usize, Message>,
    /// Those that came early.
    aside: Vec<Message>,
}

/// A node of a program.
pub struct Node<'a> {
    endpoint: Endpoint<'a>,
    work: Work,
}

/// Numbers of calls.
enum Call {
    Send = 1,
    Receive,
    ReceiveI,
    Wait,
    WaitAny,
    Test,
}

impl<'a> Node<'a> {
    pub fn recorded(endpoint: Endpoint<'a>) -> Self {
        let work = Work::Record { recording: Box::default(), record: NodeRecord::default() };
        Self { endpoint, work }
    }

    pub fn replayed(endpoint: Endpoint<'a>, record: NodeRecord) -> Self {
        let playback = Box::new(Playback::new(record.bytes, record.polls).expect("it was recorded"));
        Self { endpoint, work: Work::Replay { playback, posted: Posted::default() } }
    }

    fn call(&mut self, call: Call, argument: i32) {
        let arguments = [argument, 0, 0];
        match &mut self.work {
            Work::Record { recording, .. } => recording.call(call as u32, arguments),
            Work::Replay { playback, .. } => playback.call(call as u32, arguments),
        }
    }

    pub fn send(&mut self, to: NodeId, value: i64) {
        self.call(Call::Send, to as i32);
        self.endpoint.send(to, value);
    }

    pub fn receive(&mut self) -> Result<i64, Stop> {
        self.call(Call::Receive, 0);
        let message = match &mut self.work {
            Work::Record { recording, record } => {
                let request = self.endpoint.receive_i();
                let message = self.endpoint.wait(request)?;
                recording.answer(Answer::From(Some(message.from)), &mut record.bytes);
                message
            }
            Work::Replay { playback, posted } => match playback.due(AskedFor::Source, 0)? {
                Due::Answer(Answer::From(Some(from))) => {
                    posted.fill_from(from, &mut self.endpoint)?;
                    posted.take_from(from, &mut self.endpoint)?
                }
                _ => posted.take_any(&mut self.endpoint)?,
            },
        };
        Ok(message.value)
    }

    pub fn receive_i(&mut self) -> Request {
        self.call(Call::ReceiveI, 0);
        match &mut self.work {
            Work::Record { recording, record } => {
                let request = self.endpoint.receive_i();
                recording.posted(request.0 as u64, &mut record.bytes);
                request
            }
            Work::Replay { playback, posted } => {
                posted.due.push(playback.posted().unwrap_or(ReceiveEnd::Unknown));
                Request(posted.due.len() - 1)
            }
        }
    }

    pub fn wait(&mut self, request: Request) -> Result<i64, Stop> {
        self.call(Call::Wait, 0);
        let message = match &mut self.work {
            Work::Record { recording, record } => {
                let message = self.endpoint.wait(request)?;
                recording.arrived(request.0 as u64, ReceiveEnd::From(message.from), &mut record.bytes);
                message
            }
            Work::Replay { posted, .. } => posted.wait(request, &mut self.endpoint)?,
        };
        Ok(message.value)
    }

    pub fn wait_any(&mut self, requests: &[Request]) -> Result<(usize, i64), Stop> {
        self.call(Call::WaitAny, requests.len() as i32);
        let (at, message) = match &mut self.work {
            Work::Record { recording, record } => {
                let (at, message) = self.endpoint.wait_any(requests)?;
                recording.arrived(requests[at].0 as u64, ReceiveEnd::From(message.from), &mut record.bytes);
                recording.answer(Answer::Index(Some(at as u32)), &mut record.bytes);
                (at, message)
            }
            Work::Replay { playback, posted } => {
                let due = playback.due(AskedFor::Index, requests.len() as u32)?;
                let at = match due {
                    Due::Answer(Answer::Index(Some(at))) => at as usize,
                    _ => 0,
                };
                (at, posted.wait(requests[at], &mut self.endpoint)?)
            }
        };
        Ok((at, message.value))
    }

    pub fn test(&mut self, request: Request) -> Result<Option<i64>, Stop> {
        self.call(Call::Test, 0);
        let message = match &mut self.work {
            Work::Record { recording, record } => {
                let message = self.endpoint.test(request);
                if let Some(message) = message {
                    recording.arrived(request.0 as u64, ReceiveEnd::From(message.from), &mut record.bytes);
                }
                let answer = if message.is_some() { Answer::Yes } else { Answer::No };
                recording.answer(answer, &mut record.bytes);
                message
            }
            Work::Replay { playback, posted } => match playback.due(AskedFor::Poll, 0)? {
                Due::Answer(Answer::No) => None,
                _ => Some(posted.wait(request, &mut self.endpoint)?),
            },
        };
        Ok(message.map(|message| message.value))
    }

    /// The node's program has ended; gives what was recorded.
    pub fn end(mut self, is_whole: bool) -> Result<NodeRecord, Stop> {
        match &mut self.work {
            Work::Record { recording, record } => {
                if is_whole {
                    recording.mark(Mark::End, &mut record.bytes);
                }
                record.polls = recording.polls();
                Ok(std::mem::take(record))
            }
            Work::Replay { playback, .. } => {
                playback.end()?;
                Ok(NodeRecord::default())
            }
        }
    }
}

impl Posted {
    fn take_from(&mut self, from: NodeId, endpoint: &mut Endpoint<'_>) -> Result<Message, Aborted> {
        loop {
            if let Some(at) = self.aside.iter().position(|message| message.from == from) {
                return Ok(self.aside.remove(at));
            }
            let request = endpoint.receive_i();
            let message = endpoint.wait(request)?;
            self.aside.push(message);
        }
    }

    fn take_any(&mut self, endpoint: &mut Endpoint<'_>) -> Result<Message, Aborted> {
        if self.aside.is_empty() {
            let request = endpoint.receive_i();
            return endpoint.wait(request);
        }
        Ok(self.aside.remove(0))
    }

    /// Receives that were posted before get what is theirs of a sender's messages, which stay in order.
    fn fill_from(&mut self, from: NodeId, endpoint: &mut Endpoint<'_>) -> Result<(), Aborted> {
        self.fill_before(self.due.len(), from, endpoint)
    }

    fn fill_before(&mut self, end: usize, from: NodeId, endpoint: &mut Endpoint<'_>) -> Result<(), Aborted> {
        for at in 0..end {
            if self.due[at] == ReceiveEnd::From(from) && !self.got.contains_key(&at) {
                let message = self.take_from(from, endpoint)?;
                self.got.insert(at, message);
            }
        }
        Ok(())
    }

    fn wait(&mut self, request: Request, endpoint: &mut Endpoint<'_>) -> Result<Message, Aborted> {
        let Some(message) = self.got.get(&request.0) else {
            let message = match self.due[request.0] {
                ReceiveEnd::From(from) => {
                    self.fill_before(request.0, from, endpoint)?;
                    self.take_from(from, endpoint)?
                }
                _ => self.take_any(endpoint)?,
            };
            self.got.insert(request.0, message);
            return Ok(message);
        };
        Ok(*message)
    }
}

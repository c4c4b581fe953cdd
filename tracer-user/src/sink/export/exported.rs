//! What is written down of a job.

use analyzer::calls::CallRow;
use analyzer::finding::Finding;
use analyzer::input::{ClockReading, Start};
use analyzer::messages::{CallCommunicator, CallId, MessageFacts, MessageId, ShownArgument};
use analyzer::timeline::correction::solver::SolvedCall;
use anyhow::Result;

/// The session on the tapes.
#[derive(Clone, Copy, Debug)]
pub struct ExportedSession<'a> {
    /// How it began; times are those of its first node's clock.
    pub start: &'a Start,
    /// How far times may be off on other nodes, in a sentence.
    pub clocks: Option<&'a str>,
}

impl ExportedSession<'_> {
    /// Names of its nodes, one at least.
    pub fn nodes(&self) -> &[String] {
        match self.start.nodes.as_slice() {
            [] => std::slice::from_ref(&self.start.host),
            nodes => nodes,
        }
    }

    /// The node of a process.
    pub fn node_of(&self, pid: u32) -> &str {
        let node = if self.start.nodes.is_empty() { 0 } else { analyzer::tape::node_of(pid) };
        self.nodes().get(node).map_or("", String::as_str)
    }

    /// What a process or thread is called on its node.
    pub fn pid_on_node(&self, pid: u32) -> u32 {
        if self.start.nodes.is_empty() { pid } else { analyzer::tape::pid_on_node(pid) }
    }
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct ExportedCall<'a> {
    /// Which.
    pub id: CallId,
    /// Its process, by a number that no other one of the job has.
    pub pid: u32,
    /// What it is.
    pub row: &'static CallRow,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// The same, if it was seen to return.
    pub end_ns: Option<u64>,
    /// How far both may be off, if they are not measured.
    pub error_ns: Option<[u64; 2]>,
    /// Names and values of its arguments.
    pub arguments: &'a [(&'static str, ShownArgument)],
    /// Where it was made.
    pub place: Option<&'a str>,
    /// The communicator that it names.
    pub communicator: Option<&'a CallCommunicator>,
    /// Root of a collective call.
    pub root: Option<i32>,
    /// What each rank gives or gets in a collective call, where that is the same for all.
    pub collective_bytes: Option<u64>,
    /// What it did to messages.
    pub parts: &'a CallParts,
}

impl ExportedCall<'_> {
    /// The value of an argument, if it is a number.
    pub fn number(&self, name: &str) -> Option<i32> {
        self.arguments.iter().find_map(|(known, value)| match value {
            ShownArgument::Number(number) if *known == name => Some(*number),
            _ => None,
        })
    }
}

/// What a call did to messages.
#[derive(Clone, Debug, Default)]
pub struct CallParts {
    /// Messages that it gave to the library.
    pub posted: Vec<(MessageId, MessageFacts)>,
    /// Messages that are over by it.
    pub completed: Vec<CompletedMessage>,
    /// Nonblocking collective calls that are over by it.
    pub collectives: Vec<CallId>,
}

/// A message that is over.
#[derive(Clone, Copy, Debug)]
pub struct CompletedMessage {
    /// Which.
    pub message: MessageId,
    /// What is known of it.
    pub facts: MessageFacts,
    /// It was given up.
    pub cancelled: bool,
}

/// A send and the receive that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedMessage {
    /// The send.
    pub send: MessageId,
    /// The receive.
    pub receive: MessageId,
    /// When it was given to the library, CLOCK_MONOTONIC; none: that was too long ago.
    pub sent_ns: Option<u64>,
    /// Where it was there; none: nobody waited for it, or that came too late.
    pub received: Option<Reception>,
    /// Number of the communicator.
    pub comm: Option<u32>,
    /// Its tag.
    pub tag: Option<i32>,
    /// Its size.
    pub len_bytes: Option<u64>,
}

/// How a receive came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The call that said so.
    pub by: CallId,
    /// When that call returned, CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// A movement of data, with its places in words.
#[derive(Clone, Copy, Debug)]
pub struct ExportedMovement<'a> {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Its process, by a number that no other one of the job has.
    pub pid: u32,
    /// Its thread, in the same way.
    pub tid: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// `copy`.
    pub kind: &'static str,
    /// How much.
    pub len_bytes: u64,
    /// Where in code.
    pub place: &'a str,
    /// In which MPI call; empty: in none.
    pub function: &'a str,
    /// Where that was made.
    pub called_at: &'a str,
    /// From what.
    pub source: &'a str,
    /// From where, in the process that holds it; 0: not known.
    pub source_addr: u64,
    /// To what.
    pub destination: &'a str,
    /// To where.
    pub destination_addr: u64,
    /// Rank of the other process, where the data is moved from or to another one's memory.
    pub peer_rank: Option<u32>,
    /// The operation that it is a piece of.
    pub operation: Option<u64>,
    /// The operation that wrote most of what it read.
    pub written_by: Option<u64>,
}

/// A finding that holds at the end.
#[derive(Clone, Copy, Debug)]
pub struct ExportedFinding<'a> {
    /// The finding, with names.
    pub finding: &'a Finding,
    /// When it was first told, CLOCK_MONOTONIC.
    pub raised_ns: u64,
}

/// A time in which not everything was seen.
#[derive(Clone, Copy, Debug)]
pub struct ExportedGap {
    /// The process that records are missing of, by a number that no other one has; none: all.
    pub pid: Option<u32>,
    /// Its rank.
    pub rank: Option<u32>,
    /// CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// The same; none: it goes on.
    pub to_ns: Option<u64>,
    /// How many records; none: not known.
    pub records: Option<u64>,
    /// Why: `lost`, `paused`.
    pub why: &'static str,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    /// Calls.
    pub calls: u64,
    /// Messages whose send and receive are known.
    pub messages: u64,
    /// Movements of data.
    pub movements: u64,
    /// Findings.
    pub findings: u64,
}

/// Whoever writes it down. All is told as it becomes known; calls of a thread come in order.
pub trait Exporter {
    /// What is told first.
    ///
    /// # Errors
    /// Of all of these: there is no room for what is written, or no right.
    fn session(&mut self, session: &ExportedSession<'_>) -> Result<()>;

    /// What the clocks of a node show beside each other.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn clock(&mut self, reading: &ClockReading) -> Result<()>;

    /// A call is over.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn call(&mut self, session: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()>;

    /// It is known when a call would have been without watching. Whoever writes measured times has no use for it.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn solved(&mut self, _: &ExportedSession<'_>, _: &SolvedCall) -> Result<()> {
        Ok(())
    }

    /// All is known of a message that ever will be.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn message(&mut self, session: &ExportedSession<'_>, message: &ExportedMessage) -> Result<()>;

    /// Data moved.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn movement(&mut self, session: &ExportedSession<'_>, movement: &ExportedMovement<'_>) -> Result<()>;

    /// Something is missing.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn gap(&mut self, session: &ExportedSession<'_>, gap: &ExportedGap) -> Result<()>;

    /// What was found, at the end.
    ///
    /// # Errors
    /// See [`Exporter::session`].
    fn finding(&mut self, finding: &ExportedFinding<'_>) -> Result<()>;

    /// All was told.
    ///
    /// # Errors
    /// There is no room for the last of it.
    fn finish(&mut self, session: &ExportedSession<'_>) -> Result<()>;

    /// What was written so far.
    fn counts(&self) -> ExportCounts;

    /// Whether it has a place for movements of data: otherwise none need be told.
    fn takes_movements(&self) -> bool {
        true
    }
}

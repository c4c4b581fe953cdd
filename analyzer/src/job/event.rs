//! What inputs mean for the job: all that analyses hear of.

use super::ids::SpaceId;
use super::ids::ThreadId;
use super::lifecycle::MpiLife;
use super::messages;
use super::process::Who;
use crate::job::last_calls::CallEntry;
use crate::mpi::calls::Lifecycle;
use crate::tape::input::{CallInProgress, CodePlace, Loss, Threads};

/// What happened. Movements of data, beginnings of calls and changes of memory have ways of their own, as there are so many of
/// them: see [`Job::movement`](super::Job::movement), [`CallBegan`] and [`Gone`].
#[derive(Debug)]
pub(crate) enum Event {
    /// The session begins.
    Started,
    /// What `/proc` says of a process is known now.
    ProcessKnown { process: usize },
    /// The answer of a polling call was yes.
    PollAnswered { process: usize, tid: u32, time_ns: u64, slot: usize },
    /// The library was told of an error.
    ErrorReported(ErrorReport),
    /// The program goes on after an error.
    ErrorHandled { pid: u32, tid: u32 },
    /// Another program runs in a process now.
    ProcessReplaced { process: usize, pid: u32 },
    /// A process ended.
    ProcessEnded(Box<ProcessEnded>),
    /// Where quiet threads are; requests have the calls that started them, where those were seen.
    Sampled(Box<Threads>),
    /// Something was learnt of calls and messages.
    Message(messages::MessageEvent),
    /// Something of the job was not seen.
    Gap(Gap),
    /// Time goes on, and nothing else.
    Tick,
    /// The session is over.
    Ended,
}

/// A call of a thread began that is not part of another one: what its entry tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBegan {
    /// Index of the process.
    pub process: usize,
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
    /// What the call is for the life of its process.
    pub part: Lifecycle,
    pub begun: CallEntry,
}

/// A thread was where the library reports errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorReport {
    /// Index of the process.
    pub process: usize,
    pub pid: u32,
    pub tid: u32,
    pub time_ns: u64,
    /// Of the probe.
    pub slot: usize,
    /// Of the thread's last call, if it is still in that; else 0.
    pub return_address: u64,
    pub arguments: [u64; 6],
}

/// The end of a process, with what is forgotten of it now.
#[derive(Clone, Debug)]
pub(crate) struct ProcessEnded {
    /// Its index; what is known under it stays, but for its memory.
    pub process: usize,
    pub pid: u32,
    pub who: Who,
    pub time_ns: u64,
    /// As wait(2) gives it.
    pub status: u32,
    /// Where it was.
    pub place: Option<CodePlace>,
    pub life: MpiLife,
    /// The last that it was seen to call was MPI_Finalize.
    pub in_finalize: bool,
    /// The call, and when, that it was ended for because MPI was over.
    pub forbidden: Option<(u64, CallInProgress)>,
    /// It ended as if all were well, but without MPI_Finalize, and all of its calls were seen.
    pub unfinished: bool,
}

/// Why not all of the job was seen. Every analysis says what each of these means for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gap {
    /// Records were lost.
    Lost {
        /// Index of the process whose ring it was.
        process: usize,
        /// Its rank is known. Otherwise it may have been any that starts: those share a ring.
        is_rank: bool,
        loss: Loss,
    },
    /// A record came too late to have its place in the order.
    Late { time_ns: u64 },
    /// Movements are not watched from here on.
    Paused,
    /// They are again.
    Resumed { time_ns: u64 },
    /// MPI calls are not watched from here on.
    CallsPaused { time_ns: u64 },
    /// They are again.
    CallsResumed { time_ns: u64 },
}

/// Memory whose content is not what was written there any more; and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// New content, or none, that no movement wrote.
    Range { space: SpaceId, start: u64, end: u64 },
    /// What was there was taken by somebody who was not seen.
    Unseen { space: SpaceId, start: u64, end: u64 },
    /// Its number may be given out again.
    Space(SpaceId),
    /// Its number may be given out again.
    Thread(ThreadId),
}

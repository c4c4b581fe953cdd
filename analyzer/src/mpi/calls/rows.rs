//! An MPI call: what it does, what its arguments are, and what follows from that.

use super::args::Arg;
use super::buffers::{CollectiveBuffer, ContentArgs};
use super::does::{Does, EpochStep, Form, LockStep, Making, Meeting, Mode, Which, WindowSync};

/// A call.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// Name as in the standard.
    pub name: String,
    /// What it does.
    pub does: Does,
    /// When it returns.
    pub form: Form,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// By argument: where the first such one is. Looked up for every call that is seen.
    pub(super) first: [Option<u8>; Arg::COUNT],
    /// How many arguments it takes to know what it does, and to show it.
    pub(super) used: usize,
    /// See [`CallRow::elements`].
    pub(super) elements: Option<ContentArgs>,
    /// See [`CallRow::collective_buffers`]: of its blocking form.
    pub(super) collective_buffers: &'static [CollectiveBuffer],
}

/// Positions of the arguments that name a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Rank of the other side.
    pub peer: usize,
    /// Tag.
    pub tag: usize,
    /// Communicator.
    pub comm: usize,
}

/// How a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For the receiver.
    Send(Envelope),
    /// For the sender.
    Receive(Envelope),
    /// For both, of two messages.
    Exchange {
        /// The one that is sent.
        send: Envelope,
        /// The one that is received.
        receive: Envelope,
    },
    /// For requests.
    Requests {
        /// Which argument says how many; none: one.
        count: Option<usize>,
        /// Which argument points to them.
        at: usize,
        /// For all of them, or for any.
        all: bool,
    },
    /// For the other ranks of a communicator.
    Collective(Collective),
    /// For the other ranks of MPI_COMM_WORLD, at the end.
    Finalize,
    /// For other ranks of a window.
    Window {
        /// Which argument is its handle.
        win: usize,
        /// Which one names those that are waited for, if one does.
        group: Option<usize>,
        /// How.
        sync: WindowSync,
    },
}

/// Positions of the arguments that all ranks of a collective call agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// Communicator, or window.
    pub comm: usize,
    /// Root, if it has one.
    pub root: Option<usize>,
    /// Operation, if it has one.
    pub op: Option<usize>,
}

impl CallRow {
    /// Where an argument is, if the call has it: the first, if there are several.
    pub fn position(&self, arg: Arg) -> Option<usize> {
        self.first[arg as usize].map(usize::from)
    }

    /// The same: the last of them.
    pub fn last_position(&self, arg: Arg) -> Option<usize> {
        self.args.iter().rposition(|a| *a == arg)
    }

    /// The message that it sends.
    pub fn sends(&self) -> Option<Envelope> {
        self.envelope(Arg::Dest, Arg::SendTag)
    }

    /// The message that it receives, or asks for.
    pub fn receives(&self) -> Option<Envelope> {
        self.envelope(Arg::Source, Arg::ReceiveTag)
    }

    fn envelope(&self, peer: Arg, tag: Arg) -> Option<Envelope> {
        let comm = self.position(Arg::Comm)?;
        Some(Envelope { peer: self.position(peer)?, tag: self.position(tag)?, comm })
    }

    /// Where what it sends is.
    pub fn sent(&self) -> Option<ContentArgs> {
        let is_sent = matches!(self.does, Does::Send(_) | Does::Exchange);
        let buffer = self.position(Arg::Buffer).filter(|_| is_sent)?;
        let count = self.position(Arg::SendCount).or_else(|| self.position(Arg::Count))?;
        Some(ContentArgs { buffer, count, datatype: self.position(Arg::Datatype)? })
    }

    /// Where what it receives goes.
    pub fn received(&self) -> Option<ContentArgs> {
        let is_received = matches!(self.does, Does::Receive | Does::ReceiveMatched | Does::Exchange);
        let buffer = self.last_position(Arg::Buffer).filter(|_| is_received)?;
        let count = self.position(Arg::ReceiveCount).or_else(|| self.position(Arg::Count))?;
        Some(ContentArgs { buffer, count, datatype: self.last_position(Arg::Datatype)? })
    }

    /// Where the memory of a one-sided operation is that is the caller's own.
    pub fn origin(&self) -> Option<ContentArgs> {
        let is_one = matches!(self.does, Does::OneSided(_));
        let buffer = self.position(Arg::Buffer).filter(|_| is_one)?;
        Some(ContentArgs {
            buffer,
            count: self.position(Arg::Count)?,
            datatype: self.position(Arg::Datatype)?,
        })
    }

    /// Whether it asks, and does not wait.
    pub fn polls(&self) -> bool {
        self.position(Arg::Flag).is_some() || matches!(self.does, Does::Complete { polls: true, .. })
    }

    /// What it waits for; `None`: for nothing that another rank does.
    pub fn waiting(&self) -> Option<Waiting> {
        if self.polls() { None } else { self.awaits() }
    }

    /// The same; of a call that only asks: what is waited for by who asks again and again.
    pub fn awaits(&self) -> Option<Waiting> {
        if self.form != Form::Blocking {
            return None;
        }
        match self.does {
            Does::Send(Mode::Buffered) => None,
            Does::Send(_) => self.sends().map(Waiting::Send),
            Does::Receive | Does::Probe | Does::ProbeMatched => self.receives().map(Waiting::Receive),
            Does::Exchange => {
                let (send, receive) = self.sends().zip(self.receives())?;
                Some(Waiting::Exchange { send, receive })
            }
            Does::Complete { which, .. } => Some(Waiting::Requests {
                count: self.position(Arg::Count),
                at: self.position(Arg::Requests).or_else(|| self.position(Arg::Request))?,
                all: matches!(which, Which::One | Which::All),
            }),
            Does::Collective | Does::MakeCommunicator(_) | Does::FreeCommunicator => {
                self.collective().map(Waiting::Collective)
            }
            Does::Finalize => Some(Waiting::Finalize),
            Does::Window(WindowSync::Epoch(EpochStep::Posts)) => None,
            Does::Window(sync) => {
                let (win, group) = (self.position(Arg::Win)?, self.position(Arg::Group));
                Some(Waiting::Window { win, group, sync })
            }
            Does::ReceiveMatched
            | Does::Partitioned
            | Does::Start
            | Does::Free
            | Does::Cancel
            | Does::Inquire
            | Does::OneSided(_)
            | Does::MakeGroup(_)
            | Does::FreeGroup
            | Does::MakeDescription(_)
            | Does::FreeDescription(_) => None,
        }
    }

    /// What all ranks agree on, if it is a collective call of any form that may wait for the others.
    pub fn collective(&self) -> Option<Collective> {
        match self.does {
            Does::Collective | Does::MakeCommunicator(Making { meeting: Meeting::All, .. }) => {}
            // Libraries give communicators back without the others.
            Does::FreeCommunicator if self.position(Arg::FreedWin).is_some() => {}
            // Of others, who is to be there is not told by the arguments alone.
            _ => return None,
        }
        Some(Collective {
            comm: [Arg::Comm, Arg::Win, Arg::FreedWin].into_iter().find_map(|arg| self.position(arg))?,
            root: self.position(Arg::Root),
            op: self.position(Arg::Op),
        })
    }

    /// What it does to a lock on a window.
    pub fn lock_step(&self) -> Option<LockStep> {
        match self.does {
            Does::Window(WindowSync::Lock(step)) => Some(step),
            _ => None,
        }
    }

    /// Whether its return is recorded whatever else is: it is rare, and much depends on it.
    pub fn always_returns(&self) -> bool {
        let is_prepared = self.form == Form::Persistent || self.does == Does::Partitioned;
        is_prepared
            || matches!(
                self.does,
                Does::Finalize
                    | Does::Start
                    | Does::Free
                    | Does::MakeCommunicator(_)
                    | Does::FreeCommunicator
                    | Does::MakeGroup(_)
                    | Does::FreeGroup
            )
    }

    /// Whether all members of a communicator or window that it names make it.
    pub fn is_collective(&self) -> bool {
        match self.does {
            Does::Collective | Does::FreeCommunicator => true,
            Does::MakeCommunicator(Making { meeting, .. }) => meeting != Meeting::NewMembers,
            Does::Finalize => true,
            _ => false,
        }
    }

    /// Whether it is an exchange among neighbours: the only collective calls with two buffers, neither a root nor an operation, and no
    /// MPI_IN_PLACE.
    pub fn is_among_neighbors(&self) -> bool {
        self.does == Does::Collective
            && self.position(Arg::Buffer).is_some()
            && [Arg::BufferOrInPlace, Arg::Op, Arg::Root].into_iter().all(|arg| self.position(arg).is_none())
    }

    /// Whether it carries nothing of the program's memory: what is moved in it is the library's own, unless it helps on what others began.
    pub(super) fn has_no_data(&self) -> bool {
        match self.does {
            Does::MakeCommunicator(_)
            | Does::FreeCommunicator
            | Does::MakeGroup(_)
            | Does::FreeGroup
            | Does::MakeDescription(_)
            | Does::FreeDescription(_)
            | Does::Finalize => true,
            // A buffer would be the first argument.
            Does::Collective => self.position(Arg::Comm) == Some(0),
            _ => false,
        }
    }

    /// The buffers that a collective call is given which it uses before it is complete. One that only prepares uses none.
    pub fn collective_buffers(&self) -> &'static [CollectiveBuffer] {
        if self.form == Form::Persistent { &[] } else { self.collective_buffers }
    }

    /// Count and datatype of a collective call where all ranks must give the same amount of data.
    pub fn same_everywhere(&self) -> Option<(usize, usize)> {
        let count = self.position(Arg::Count).filter(|_| self.does == Does::Collective)?;
        Some((count, count + 1))
    }

    /// Where a collective call says what it gives or gets, if elements must be of one kind in all ranks.
    pub fn elements(&self) -> Option<ContentArgs> {
        self.elements
    }

    /// The argument that points to where a handle is stored which stands for what the call has begun.
    pub fn made(&self) -> Option<usize> {
        self.position(Arg::NewRequest)
    }

    /// Arguments worth showing: positions and names.
    pub fn shown(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let both = self.sends().is_some() && self.receives().is_some();
        self.args.iter().enumerate().filter_map(move |(at, arg)| Some((at, arg.name(both)?)))
    }

    /// How many arguments it takes to know what it does, and to show it.
    pub fn arguments_used(&self) -> usize {
        self.used
    }
}

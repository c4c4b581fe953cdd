//! What an MPI call does, what its arguments are, and what follows from that.

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Arg {
    Buffer,
    /// What is sent, or MPI_IN_PLACE: then all ranks of an intracommunicator must give that.
    BufferOrInPlace,
    Count,
    SendCount,
    ReceiveCount,
    /// A handle of the datatype of what a message has.
    Datatype,
    Dest,
    Source,
    SendTag,
    ReceiveTag,
    Comm,
    Root,
    Op,
    Color,
    Key,
    /// Where a status is stored.
    Status,
    /// Where one is stored for each request that completes.
    Statuses,
    /// Where a handle of a new request is stored.
    NewRequest,
    /// A handle of a request.
    RequestItself,
    /// Where a handle of a request is.
    Request,
    /// Where handles of requests are, as many as the count says.
    Requests,
    /// Where it is stored which of the requests completed.
    Index,
    /// The same, for several.
    Indices,
    /// Where it is stored how many completed.
    OutCount,
    /// Where it is stored whether the answer is yes.
    Flag,
    /// Where a handle of a new communicator is stored.
    NewComm,
    /// Where a handle of a matched message is stored.
    NewMessage,
    /// Where one is.
    Message,
    /// A handle of a group: several, if it is made from several.
    Group,
    /// Where one is stored.
    NewGroup,
    /// Where one is that is given back.
    OldGroup,
    /// Where a handle of a new object of another class is stored.
    NewObject,
    /// Where one is that is given back.
    OldObject,
    /// How many ranks, ranges, dimensions or nodes follow.
    Number,
    /// Where ranks are, as many as the number says.
    Ranks,
    /// Where triplets of first rank, last rank and stride are.
    Ranges,
    /// Where sizes of dimensions are.
    Dimensions,
    /// Whether ranks may be numbered anew.
    Reorder,
    /// Where it is said of each dimension whether it remains.
    Remain,
    /// What ranks must share to be together.
    SplitType,
    /// Hints.
    Info,
    /// Rank that leads the group of a communicator, in it …
    LocalLeader,
    /// … and whom it speaks to, in another communicator …
    RemoteLeader,
    /// … which is this.
    PeerComm,
    /// Which of two groups comes last.
    High,
    /// What tells calls apart that make communicators at the same time.
    MakingTag,
    /// A handle of a window.
    Win,
    /// Where one is that is given back.
    FreedWin,
    /// Where one is to be stored that the call makes.
    NewWin,
    /// Memory of the caller that becomes part of a window …
    WindowMemory,
    /// … and how many bytes.
    WindowBytes,
    /// Where the address of such memory is to be stored that the call allocates.
    NewMemory,
    /// What the program promises of its accesses to a window.
    Assertion,
    /// Rank whose memory is meant, in the window.
    Target,
    /// Whether a lock is shared.
    LockType,
    /// In what bytes displacements in a window are counted.
    DisplacementUnit,
    /// Where in the target's window.
    Displacement,
    /// How many elements there.
    TargetCount,
    /// Of which type.
    TargetDatatype,
    /// Anything else.
    Other,
}

/// When a send is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mode {
    Standard,
    Synchronous,
    Buffered,
    Ready,
}

/// Which requests a call completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Which {
    One,
    All,
    Any,
    Some,
}

/// Who makes a call that makes a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// All of the old one.
    All,
    /// Only those make the call that are to be in the new communicator.
    NewMembers,
    /// Two groups, of which the handle tells one.
    TwoGroups,
}

/// Who is in a new communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The same ranks as in the old one.
    Same,
    /// Those that gave the same color, by key.
    ByColor,
    /// Those of a group.
    Given,
    /// The first ones, as many as a grid has points.
    Grid,
    /// The first ones, as many as the number says.
    Nodes,
    /// Those that share memory, by key.
    SharedMemory,
    /// Those at the same place in the dimensions of the old one's grid that do not remain.
    Subgrid,
    /// Those of the old one, and of another: two groups.
    Bridged,
    /// Both groups of the old one, as one.
    Merged,
    /// The same ranks: it is a window.
    Window,
}

/// How a group is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Grouping {
    OfCommunicator,
    OfOtherGroup,
    Included,
    Excluded,
    RangesIncluded,
    RangesExcluded,
    Union,
    Intersection,
    Difference,
}

/// Objects that say how data is laid out or reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DescriptionClass {
    Datatype,
    Operation,
}

/// How a communicator is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Making {
    /// Its members.
    pub group: Group,
    /// Who calls.
    pub meeting: Meeting,
}

/// How a call synchronizes a rank with others in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSync {
    /// By epochs that targets open for groups.
    Epoch(EpochStep),
    /// By a lock that another one may hold, or it waits for what another one has to do with data.
    Lock(LockStep),
}

/// What a call does to an epoch that a target opens for a group (MPI 4.0, 12.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochStep {
    /// Opens it, as its target.
    Posts,
    /// Opens it, as one who accesses the target.
    Starts,
    /// Ends what that one has opened.
    Completes,
    /// Ends what the target has opened, or asks whether it has ended.
    Waits,
}

/// What a call does with memory in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum WindowAccess {
    Put,
    Get,
    Accumulate,
}

/// What a call does to a lock on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStep {
    /// Takes it.
    Takes,
    /// Gives it back.
    GivesBack,
    /// Neither: it waits for data.
    Flushes,
    /// The same, until the caller's own memory may be used again.
    FlushesLocally,
}

/// What a call is for the life of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It says nothing.
    None,
    /// Only possible between MPI_Init and MPI_Finalize.
    Use,
    /// MPI_Init.
    Init,
    /// MPI_Finalize.
    Finalize,
    /// MPI_Abort.
    Abort,
    /// A use that takes or gives back locks on windows.
    Lock,
    /// A use that may complete requests.
    Completion,
    /// Of a session, which needs none of the two.
    Session,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Does {
    Send(Mode),
    Receive,
    /// Sends and receives.
    Exchange,
    /// Waits for a message without taking it.
    Probe,
    /// The same, and takes it out of the matching.
    ProbeMatched,
    /// Receives a message that such a probe has taken.
    ReceiveMatched,
    Partitioned,
    Start,
    /// `polls`: asks, and does not wait.
    Complete {
        which: Which,
        polls: bool,
    },
    Free,
    Cancel,
    /// Asks whether something is over that no other call here completes: a request that stays, or a part of one.
    Inquire,
    Collective,
    /// Or a window, which counts as one: it has members, and all of them make the same collective calls on it.
    MakeCommunicator(Making),
    /// Or a window.
    FreeCommunicator,
    MakeGroup(Grouping),
    FreeGroup,
    MakeDescription(DescriptionClass),
    FreeDescription(DescriptionClass),
    /// Of one-sided communication.
    Window(WindowSync),
    /// Moves data of a window, until an epoch ends or it is flushed.
    OneSided(WindowAccess),
    Finalize,
}

/// When a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// When it has done what it does.
    Blocking,
    /// At once: a request stands for what it does.
    Nonblocking,
    /// At once: it is done whenever its request is started.
    Persistent,
}

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

/// Positions of the arguments that say where the content of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentArgs {
    /// Where it begins.
    pub buffer: usize,
    /// How many elements; of a receive: at most.
    pub count: usize,
    /// Of which type.
    pub datatype: usize,
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

impl Arg {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Other as usize + 1;

    /// As the standard calls it, where people want to see it. `both`: the call sends and receives.
    fn name(self, both: bool) -> Option<&'static str> {
        Some(match self {
            Self::Count => "count",
            Self::SendCount => "sendcount",
            Self::ReceiveCount => "recvcount",
            Self::Dest => "dest",
            Self::Source => "source",
            Self::SendTag if both => "sendtag",
            Self::ReceiveTag if both => "recvtag",
            Self::SendTag | Self::ReceiveTag => "tag",
            Self::Comm => "comm",
            Self::Root => "root",
            Self::Color => "color",
            Self::Key => "key",
            Self::Win | Self::FreedWin => "win",
            Self::Target => "rank",
            _ => return None,
        })
    }

    /// Whether its value at the entry says something.
    pub(super) fn matters(self) -> bool {
        use Arg::{BufferOrInPlace, Group, High, Info, LocalLeader, MakingTag, Message, Number, Op};
        use Arg::{PeerComm, RemoteLeader, Reorder, Request, Requests, SplitType};
        let is_hidden =
            matches!(self, Op | Request | Requests | Message | Group | Number | Reorder | MakingTag)
                || matches!(self, SplitType | Info | LocalLeader | PeerComm | RemoteLeader | High)
                || matches!(self, BufferOrInPlace);
        is_hidden || self.name(false).is_some()
    }
}

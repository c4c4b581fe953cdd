//! What the arguments of MPI calls are.

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

impl Arg {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Other as usize + 1;

    /// As the standard calls it, where people want to see it. `both`: the call sends and receives.
    pub(super) fn name(self, both: bool) -> Option<&'static str> {
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

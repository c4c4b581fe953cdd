//! What MPI calls do, and when they return.

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

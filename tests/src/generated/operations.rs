//! Operations of MPI, and which faults are possible in their use: data.

use super::Fault;

/// One operation, in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Name in arguments and tables: as in the standard, in lower case, without `MPI_`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of all ranks of a communicator.
    Collective(Flow, Form),
    /// All ranks make something, or give it back.
    Maker,
    /// Of the sender of a message.
    Send(Mode, Form),
    /// Of the receiver.
    Receive(From, Form),
    /// Of a receiver of several messages that were begun. The other side makes the fault.
    Completion,
    /// Of a receiver that asks first. The other side makes the fault.
    Probe,
    /// Of all ranks of a window.
    Fence,
    /// Of two ranks, of which one exposes its window to the other.
    Active(Role),
    /// Of two ranks that lock two windows.
    Lock,
    /// Of a rank that gives a lock back.
    Unlock,
    /// Of a rank that holds a lock.
    Flush,
}

/// When a send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the library has the data (these messages are short).
    Standard,
    /// When it is received.
    Synchronous,
    /// At once.
    Buffered,
    /// Like standard; but the receiver must be waiting already.
    Ready,
    /// When an answer has come as well.
    Exchange,
}

/// Whose messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Those of one rank with one tag.
    One,
    /// Those of anybody.
    AnySource,
    /// Those with any tag.
    AnyTag,
}

/// What the bad rank does with a window that is exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It exposes it.
    Exposes,
    /// It accesses the other's.
    Accesses,
    /// It ends its access to the other's.
    Completes,
    /// The same, and the other asks again and again whether it has.
    IsAskedFor,
}

/// Who of a collective operation needs whose data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Everybody that of everybody (or of neighbors).
    AllToAll,
    /// Everybody that of the root.
    FromRoot,
    /// The root that of everybody.
    ToRoot,
    /// Each that of the ranks below it.
    Upward,
}

/// In which form an operation is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It returns when it is done.
    Blocking,
    /// It makes a request.
    Nonblocking,
    /// It makes a request that can be started again and again.
    Persistent,
}

use Fault::*;
use Flow::*;

/// Collective operations that have all forms.
const COLLECTIVES: [(&str, Flow); 22] = [
    ("barrier", AllToAll),
    ("bcast", FromRoot),
    ("gather", ToRoot),
    ("gatherv", ToRoot),
    ("scatter", FromRoot),
    ("scatterv", FromRoot),
    ("allgather", AllToAll),
    ("allgatherv", AllToAll),
    ("alltoall", AllToAll),
    ("alltoallv", AllToAll),
    ("alltoallw", AllToAll),
    ("reduce", ToRoot),
    ("allreduce", AllToAll),
    ("reduce_scatter", AllToAll),
    ("reduce_scatter_block", AllToAll),
    ("scan", Upward),
    ("exscan", Upward),
    ("neighbor_allgather", AllToAll),
    ("neighbor_allgatherv", AllToAll),
    ("neighbor_alltoall", AllToAll),
    ("neighbor_alltoallv", AllToAll),
    ("neighbor_alltoallw", AllToAll),
];

/// Operations by which all ranks make something, or give it back.
const MAKERS: [&str; 13] = [
    "comm_dup",
    "comm_dup_with_info",
    "comm_idup",
    "comm_split",
    "comm_split_type",
    "comm_create",
    "cart_create",
    "dist_graph_create_adjacent",
    "win_create",
    "win_allocate",
    "win_allocate_shared",
    "win_create_dynamic",
    "win_free",
];

/// Sends that have all forms.
const SENDS: [(&str, Mode); 4] = [
    ("send", Mode::Standard),
    ("ssend", Mode::Synchronous),
    ("bsend", Mode::Buffered),
    ("rsend", Mode::Ready),
];

/// Operations that are there in one form only, or not in all.
const OTHERS: [(&str, Kind); 35] = [
    ("sendrecv", Kind::Send(Mode::Exchange, Form::Blocking)),
    ("sendrecv_replace", Kind::Send(Mode::Exchange, Form::Blocking)),
    ("recv", Kind::Receive(From::One, Form::Blocking)),
    ("recv_any_source", Kind::Receive(From::AnySource, Form::Blocking)),
    ("recv_any_tag", Kind::Receive(From::AnyTag, Form::Blocking)),
    ("irecv", Kind::Receive(From::One, Form::Nonblocking)),
    ("irecv_any_source", Kind::Receive(From::AnySource, Form::Nonblocking)),
    ("recv_init", Kind::Receive(From::One, Form::Persistent)),
    ("wait", Kind::Completion),
    ("waitall", Kind::Completion),
    ("waitany", Kind::Completion),
    ("waitsome", Kind::Completion),
    ("test", Kind::Completion),
    ("testall", Kind::Completion),
    ("testany", Kind::Completion),
    ("testsome", Kind::Completion),
    ("probe", Kind::Probe),
    ("probe_any_source", Kind::Probe),
    ("iprobe", Kind::Probe),
    ("iprobe_any_source", Kind::Probe),
    ("mprobe", Kind::Probe),
    ("improbe", Kind::Probe),
    ("win_fence", Kind::Fence),
    ("win_post", Kind::Active(Role::Exposes)),
    ("win_start", Kind::Active(Role::Accesses)),
    ("win_complete", Kind::Active(Role::Completes)),
    ("win_test", Kind::Active(Role::IsAskedFor)),
    ("win_lock", Kind::Lock),
    ("win_unlock", Kind::Unlock),
    ("win_unlock_shared", Kind::Unlock),
    ("win_unlock_all", Kind::Unlock),
    ("win_flush", Kind::Flush),
    ("win_flush_all", Kind::Flush),
    ("win_flush_local", Kind::Flush),
    ("win_flush_local_all", Kind::Flush),
];

const FORMS: [Form; 3] = [Form::Blocking, Form::Nonblocking, Form::Persistent];

impl Form {
    /// What an operation is called in this form.
    fn name_of(self, operation: &str) -> String {
        match self {
            Self::Blocking => operation.to_owned(),
            Self::Nonblocking => format!("i{operation}"),
            Self::Persistent => format!("{operation}_init"),
        }
    }

    /// Faults that only operations of this form can have.
    fn faults(self) -> &'static [Fault] {
        match self {
            Self::Blocking => &[],
            Self::Nonblocking => &[MissingWait],
            Self::Persistent => &[MissingStart, MissingWait],
        }
    }
}

/// All of them.
pub fn operations() -> Vec<Operation> {
    let collectives = COLLECTIVES.iter().flat_map(|(name, flow)| {
        FORMS.map(|form| Operation { name: form.name_of(name), kind: Kind::Collective(*flow, form) })
    });
    let sends = SENDS.iter().flat_map(|(name, mode)| {
        FORMS.map(|form| Operation { name: form.name_of(name), kind: Kind::Send(*mode, form) })
    });
    let one = |name: &str, kind| Operation { name: name.to_owned(), kind };
    let makers = MAKERS.iter().map(|name| one(name, Kind::Maker));
    let others = OTHERS.iter().map(|(name, kind)| one(name, *kind));
    collectives.chain(sends).chain(makers).chain(others).collect()
}

impl Operation {
    /// The faults that are possible in its use.
    pub fn faults(&self) -> Vec<Fault> {
        let (faults, form): (&[Fault], Form) = match self.kind {
            Kind::Collective(FromRoot | ToRoot, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherRoot, MissingCall], form)
            }
            Kind::Collective(AllToAll | Upward, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, MissingCall], form)
            }
            Kind::Maker | Kind::Fence => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, MissingCall], Form::Blocking)
            }
            Kind::Send(_, form) | Kind::Receive(From::One, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherTag, OtherRank, MissingCall], form)
            }
            Kind::Receive(From::AnySource, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherTag, MissingCall], form)
            }
            Kind::Receive(From::AnyTag, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherRank, MissingCall], form)
            }
            Kind::Completion | Kind::Probe => {
                (&[OtherCommunicator, OtherTag, OtherRank, MissingCall, MissingStart], Form::Blocking)
            }
            Kind::Active(Role::Exposes | Role::Accesses) => {
                (&[OtherCommunicator, OtherRank, MissingCall], Form::Blocking)
            }
            Kind::Active(Role::Completes | Role::IsAskedFor) | Kind::Unlock => {
                (&[MissingCall], Form::Blocking)
            }
            Kind::Lock => (&[OtherOrder], Form::Blocking),
            Kind::Flush => (&[OtherOperation], Form::Blocking),
        };
        faults.iter().chain(form.faults()).copied().collect()
    }
}

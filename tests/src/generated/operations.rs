//! Operations of MPI, and which faults are possible in their use: data.

use super::GeneratedFault;

/// One operation, in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Name in arguments and tables: as in the standard, in lower case, without `MPI_`.
    pub name: String,
    /// What it is.
    pub kind: OperationKind,
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Of all ranks of a communicator.
    Collective(DataFlow, CallForm),
    /// All ranks make something, or give it back.
    Maker,
    /// Of the sender of a message.
    Send(SendVariant, CallForm),
    /// Of the receiver.
    Receive(From, CallForm),
    /// Of a receiver of several messages that were begun. The other side makes the fault.
    Completion,
    /// Of a receiver that asks first. The other side makes the fault.
    Probe,
    /// Of all ranks of a window.
    Fence,
    /// Of two ranks, of which one exposes its window to the other.
    Active(CallRole),
    /// Of two ranks that lock two windows.
    Lock,
    /// Of a rank that gives a lock back.
    Unlock,
    /// Of a rank that holds a lock.
    Flush,
}

/// When a send is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendVariant {
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
pub enum CallRole {
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
pub enum DataFlow {
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
pub enum CallForm {
    /// It returns when it is done.
    Blocking,
    /// It makes a request.
    Nonblocking,
    /// It makes a request that can be started again and again.
    Persistent,
}

use DataFlow::*;
use GeneratedFault::*;

/// Collective operations that have all forms.
const COLLECTIVES: [(&str, DataFlow); 22] = [
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
const SENDS: [(&str, SendVariant); 4] = [
    ("send", SendVariant::Standard),
    ("ssend", SendVariant::Synchronous),
    ("bsend", SendVariant::Buffered),
    ("rsend", SendVariant::Ready),
];

/// Operations that are there in one form only, or not in all.
const OTHERS: [(&str, OperationKind); 35] = [
    ("sendrecv", OperationKind::Send(SendVariant::Exchange, CallForm::Blocking)),
    ("sendrecv_replace", OperationKind::Send(SendVariant::Exchange, CallForm::Blocking)),
    ("recv", OperationKind::Receive(From::One, CallForm::Blocking)),
    ("recv_any_source", OperationKind::Receive(From::AnySource, CallForm::Blocking)),
    ("recv_any_tag", OperationKind::Receive(From::AnyTag, CallForm::Blocking)),
    ("irecv", OperationKind::Receive(From::One, CallForm::Nonblocking)),
    ("irecv_any_source", OperationKind::Receive(From::AnySource, CallForm::Nonblocking)),
    ("recv_init", OperationKind::Receive(From::One, CallForm::Persistent)),
    ("wait", OperationKind::Completion),
    ("waitall", OperationKind::Completion),
    ("waitany", OperationKind::Completion),
    ("waitsome", OperationKind::Completion),
    ("test", OperationKind::Completion),
    ("testall", OperationKind::Completion),
    ("testany", OperationKind::Completion),
    ("testsome", OperationKind::Completion),
    ("probe", OperationKind::Probe),
    ("probe_any_source", OperationKind::Probe),
    ("iprobe", OperationKind::Probe),
    ("iprobe_any_source", OperationKind::Probe),
    ("mprobe", OperationKind::Probe),
    ("improbe", OperationKind::Probe),
    ("win_fence", OperationKind::Fence),
    ("win_post", OperationKind::Active(CallRole::Exposes)),
    ("win_start", OperationKind::Active(CallRole::Accesses)),
    ("win_complete", OperationKind::Active(CallRole::Completes)),
    ("win_test", OperationKind::Active(CallRole::IsAskedFor)),
    ("win_lock", OperationKind::Lock),
    ("win_unlock", OperationKind::Unlock),
    ("win_unlock_shared", OperationKind::Unlock),
    ("win_unlock_all", OperationKind::Unlock),
    ("win_flush", OperationKind::Flush),
    ("win_flush_all", OperationKind::Flush),
    ("win_flush_local", OperationKind::Flush),
    ("win_flush_local_all", OperationKind::Flush),
];

const FORMS: [CallForm; 3] = [CallForm::Blocking, CallForm::Nonblocking, CallForm::Persistent];

impl CallForm {
    /// What an operation is called in this form.
    fn name_of(self, operation: &str) -> String {
        match self {
            Self::Blocking => operation.to_owned(),
            Self::Nonblocking => format!("i{operation}"),
            Self::Persistent => format!("{operation}_init"),
        }
    }

    /// Faults that only operations of this form can have.
    fn faults(self) -> &'static [GeneratedFault] {
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
        FORMS.map(|form| Operation { name: form.name_of(name), kind: OperationKind::Collective(*flow, form) })
    });
    let sends = SENDS.iter().flat_map(|(name, mode)| {
        FORMS.map(|form| Operation { name: form.name_of(name), kind: OperationKind::Send(*mode, form) })
    });
    let one = |name: &str, kind| Operation { name: name.to_owned(), kind };
    let makers = MAKERS.iter().map(|name| one(name, OperationKind::Maker));
    let others = OTHERS.iter().map(|(name, kind)| one(name, *kind));
    collectives.chain(sends).chain(makers).chain(others).collect()
}

impl Operation {
    /// The faults that are possible in its use.
    pub fn faults(&self) -> Vec<GeneratedFault> {
        let (faults, form): (&[GeneratedFault], CallForm) = match self.kind {
            OperationKind::Collective(FromRoot | ToRoot, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherRoot, MissingCall], form)
            }
            OperationKind::Collective(AllToAll | Upward, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, MissingCall], form)
            }
            OperationKind::Maker | OperationKind::Fence => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, MissingCall], CallForm::Blocking)
            }
            OperationKind::Send(_, form) | OperationKind::Receive(From::One, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherTag, OtherRank, MissingCall], form)
            }
            OperationKind::Receive(From::AnySource, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherTag, MissingCall], form)
            }
            OperationKind::Receive(From::AnyTag, form) => {
                (&[OtherOperation, OtherOrder, OtherCommunicator, OtherRank, MissingCall], form)
            }
            OperationKind::Completion | OperationKind::Probe => {
                (&[OtherCommunicator, OtherTag, OtherRank, MissingCall, MissingStart], CallForm::Blocking)
            }
            OperationKind::Active(CallRole::Exposes | CallRole::Accesses) => {
                (&[OtherCommunicator, OtherRank, MissingCall], CallForm::Blocking)
            }
            OperationKind::Active(CallRole::Completes | CallRole::IsAskedFor) | OperationKind::Unlock => {
                (&[MissingCall], CallForm::Blocking)
            }
            OperationKind::Lock => (&[OtherOrder], CallForm::Blocking),
            OperationKind::Flush => (&[OtherOperation], CallForm::Blocking),
        };
        faults.iter().chain(form.faults()).copied().collect()
    }
}

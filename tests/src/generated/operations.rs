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
    collectives.collect()
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
        };
        faults.iter().chain(form.faults()).copied().collect()
    }
}

//! What ranks do and wait for.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::job::signature::same_if_known;

/// A rank of MPI_COMM_WORLD.
pub(crate) type Rank = u32;

/// A message that a rank waits to send or receive. `None`: a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub peer: Option<Rank>,
    pub tag: Option<i32>,
    /// The same number for the same communicator.
    pub comm: u64,
}

/// Who has started a collective call, wherever they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrivals {
    pub started: BTreeSet<Rank>,
    /// Of these, ranks that came to MPI_Finalize and have not completed its request: a library may do nothing more for it.
    pub abandoned: BTreeSet<Rank>,
}

impl Arrivals {
    fn does_its_part(&self, rank: Rank) -> bool {
        self.started.contains(&rank) && !self.abandoned.contains(&rank)
    }
}

/// A collective call, as far as it must be the same in all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CollectiveOp {
    pub function: String,
    pub comm: u64,
    /// In the communicator.
    pub root: Option<i32>,
    pub op: Option<u64>,
    /// Who is known to have started it, wherever they are now; `None`: that is not known of anybody.
    pub arrived: Option<Rc<Arrivals>>,
    /// The last call of a program: all ranks meet there.
    pub is_finalize: bool,
}

impl CollectiveOp {
    /// Where all ranks meet at their end. `world`: MPI_COMM_WORLD.
    pub fn finalize(world: u64) -> Self {
        Self { is_finalize: true, comm: world, ..Self::default() }
    }

    /// Whether they may be the same; what is not known of one is as in the other.
    pub fn fits(&self, other: &Self) -> bool {
        self.function == other.function
            && self.is_finalize == other.is_finalize
            && self.comm == other.comm
            && same_if_known(self.root, other.root)
            && same_if_known(self.op, other.op)
    }

    /// Whether a rank is known to have started it.
    pub fn has_arrived(&self, rank: Rank) -> bool {
        self.arrived.as_ref().is_some_and(|arrived| arrived.does_its_part(rank))
    }
}

/// What a rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    Send(Message),
    Receive(Message),
    Collective(CollectiveOp),
    /// A lock on a window, and what belongs to it: any rank of the window may have to do something for it.
    Lock {
        /// The window.
        comm: u64,
        /// Who is known to hold a lock that is in the way.
        holders: BTreeSet<Rank>,
    },
}

/// What a rank is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RankActivity {
    /// It may go on by itself, or it is not known what it does.
    Moves,
    /// It waits: for all of these, or for any of them.
    Waits { dependencies: Vec<Dependency>, any: bool },
    /// It does nothing, outside of MPI.
    Outside,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It ended.
    Ended { well: bool },
}

impl RankActivity {
    /// Numbers of the communicators that a rank waits in.
    pub fn communicators(&self) -> impl Iterator<Item = u64> {
        let dependencies = match self {
            Self::Waits { dependencies, .. } => dependencies.as_slice(),
            _ => &[],
        };
        dependencies.iter().map(|dependency| match dependency {
            Dependency::Send(message) | Dependency::Receive(message) => message.comm,
            Dependency::Collective(collective) => collective.comm,
            Dependency::Lock { comm, .. } => *comm,
        })
    }
}

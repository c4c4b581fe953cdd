//! What MPI calls wait for, as far as their arguments tell: a table.
//!
//! Positions of arguments are those of the C binding of MPI 4.0, from 0. Calls that are not here
//! never wait for another rank, or their peers cannot be told from their arguments.

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
    Collective {
        /// Communicator.
        comm: usize,
        /// Root, if it has one.
        root: Option<usize>,
        /// Operation, if it has one.
        op: Option<usize>,
        /// No rank leaves it before all have come. Of others it is not known who has been there and gone on.
        synchronizes: bool,
    },
    /// For the other ranks of MPI_COMM_WORLD, at the end.
    Finalize,
    /// For ranks of a window, which are not told apart here.
    Window,
}

/// A call that can wait, and the names of the arguments worth showing.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    /// Name as in the standard.
    pub name: &'static str,
    /// How it waits.
    pub waiting: Waiting,
    /// Arguments worth showing: position and name.
    pub shown: &'static [(usize, &'static str)],
}

const fn envelope(peer: usize, tag: usize, comm: usize) -> Envelope {
    Envelope { peer, tag, comm }
}

const fn send(name: &'static str) -> CallRow {
    CallRow {
        name,
        waiting: Waiting::Send(envelope(3, 4, 5)),
        shown: &[(1, "count"), (3, "dest"), (4, "tag"), (5, "comm")],
    }
}

const fn collective(
    name: &'static str,
    comm: usize,
    root: Option<usize>,
    op: Option<usize>,
    shown: &'static [(usize, &'static str)],
) -> CallRow {
    CallRow { name, waiting: Waiting::Collective { comm, root, op, synchronizes: false }, shown }
}

/// A collective call that synchronizes.
const fn meeting(
    name: &'static str,
    comm: usize,
    op: Option<usize>,
    shown: &'static [(usize, &'static str)],
) -> CallRow {
    CallRow { name, waiting: Waiting::Collective { comm, root: None, op, synchronizes: true }, shown }
}

const fn window(name: &'static str) -> CallRow {
    CallRow { name, waiting: Waiting::Window, shown: &[] }
}

const CALLS: [CallRow; 57] = [
    send("MPI_Send"),
    send("MPI_Ssend"),
    send("MPI_Rsend"),
    CallRow {
        name: "MPI_Recv",
        waiting: Waiting::Receive(envelope(3, 4, 5)),
        shown: &[(1, "count"), (3, "source"), (4, "tag"), (5, "comm")],
    },
    CallRow {
        name: "MPI_Probe",
        waiting: Waiting::Receive(envelope(0, 1, 2)),
        shown: &[(0, "source"), (1, "tag"), (2, "comm")],
    },
    CallRow {
        name: "MPI_Mprobe",
        waiting: Waiting::Receive(envelope(0, 1, 2)),
        shown: &[(0, "source"), (1, "tag"), (2, "comm")],
    },
    CallRow {
        name: "MPI_Sendrecv",
        waiting: Waiting::Exchange { send: envelope(3, 4, 10), receive: envelope(8, 9, 10) },
        shown: &[(3, "dest"), (4, "sendtag"), (8, "source"), (9, "recvtag"), (10, "comm")],
    },
    CallRow {
        name: "MPI_Sendrecv_replace",
        waiting: Waiting::Exchange { send: envelope(3, 4, 7), receive: envelope(5, 6, 7) },
        shown: &[(3, "dest"), (4, "sendtag"), (5, "source"), (6, "recvtag"), (7, "comm")],
    },
    CallRow { name: "MPI_Wait", waiting: Waiting::Requests { count: None, at: 0, all: true }, shown: &[] },
    CallRow {
        name: "MPI_Waitall",
        waiting: Waiting::Requests { count: Some(0), at: 1, all: true },
        shown: &[(0, "count")],
    },
    CallRow {
        name: "MPI_Waitany",
        waiting: Waiting::Requests { count: Some(0), at: 1, all: false },
        shown: &[(0, "count")],
    },
    CallRow {
        name: "MPI_Waitsome",
        waiting: Waiting::Requests { count: Some(0), at: 1, all: false },
        shown: &[(0, "count")],
    },
    meeting("MPI_Barrier", 0, None, &[(0, "comm")]),
    collective("MPI_Bcast", 4, Some(3), None, &[(1, "count"), (3, "root"), (4, "comm")]),
    collective("MPI_Gather", 7, Some(6), None, &[(1, "sendcount"), (6, "root"), (7, "comm")]),
    collective("MPI_Gatherv", 8, Some(7), None, &[(1, "sendcount"), (7, "root"), (8, "comm")]),
    collective("MPI_Scatter", 7, Some(6), None, &[(5, "recvcount"), (6, "root"), (7, "comm")]),
    collective("MPI_Scatterv", 8, Some(7), None, &[(5, "recvcount"), (7, "root"), (8, "comm")]),
    meeting("MPI_Allgather", 6, None, &[(1, "sendcount"), (6, "comm")]),
    collective("MPI_Allgatherv", 7, None, None, &[(1, "sendcount"), (7, "comm")]),
    meeting("MPI_Alltoall", 6, None, &[(1, "sendcount"), (6, "comm")]),
    collective("MPI_Alltoallv", 8, None, None, &[(8, "comm")]),
    collective("MPI_Alltoallw", 8, None, None, &[(8, "comm")]),
    collective("MPI_Reduce", 6, Some(5), Some(4), &[(2, "count"), (5, "root"), (6, "comm")]),
    meeting("MPI_Allreduce", 5, Some(4), &[(2, "count"), (5, "comm")]),
    collective("MPI_Reduce_scatter", 5, None, Some(4), &[(5, "comm")]),
    meeting("MPI_Reduce_scatter_block", 5, Some(4), &[(2, "recvcount"), (5, "comm")]),
    collective("MPI_Scan", 5, None, Some(4), &[(2, "count"), (5, "comm")]),
    collective("MPI_Exscan", 5, None, Some(4), &[(2, "count"), (5, "comm")]),
    collective("MPI_Neighbor_allgather", 6, None, None, &[(6, "comm")]),
    collective("MPI_Neighbor_allgatherv", 7, None, None, &[(7, "comm")]),
    collective("MPI_Neighbor_alltoall", 6, None, None, &[(6, "comm")]),
    collective("MPI_Neighbor_alltoallv", 8, None, None, &[(8, "comm")]),
    collective("MPI_Neighbor_alltoallw", 8, None, None, &[(8, "comm")]),
    meeting("MPI_Comm_dup", 0, None, &[(0, "comm")]),
    meeting("MPI_Comm_dup_with_info", 0, None, &[(0, "comm")]),
    meeting("MPI_Comm_split", 0, None, &[(0, "comm"), (1, "color"), (2, "key")]),
    meeting("MPI_Comm_split_type", 0, None, &[(0, "comm")]),
    collective("MPI_Comm_create", 0, None, None, &[(0, "comm")]),
    meeting("MPI_Cart_create", 0, None, &[(0, "comm")]),
    collective("MPI_Cart_sub", 0, None, None, &[(0, "comm")]),
    collective("MPI_Graph_create", 0, None, None, &[(0, "comm")]),
    collective("MPI_Dist_graph_create", 0, None, None, &[(0, "comm")]),
    collective("MPI_Dist_graph_create_adjacent", 0, None, None, &[(0, "comm")]),
    collective("MPI_File_open", 0, None, None, &[(0, "comm")]),
    meeting("MPI_Win_create", 4, None, &[(4, "comm")]),
    meeting("MPI_Win_allocate", 3, None, &[(3, "comm")]),
    meeting("MPI_Win_allocate_shared", 3, None, &[(3, "comm")]),
    window("MPI_Win_fence"),
    window("MPI_Win_free"),
    window("MPI_Win_start"),
    window("MPI_Win_complete"),
    window("MPI_Win_wait"),
    window("MPI_Win_lock"),
    window("MPI_Win_unlock"),
    window("MPI_Win_flush"),
    CallRow { name: "MPI_Finalize", waiting: Waiting::Finalize, shown: &[] },
];

impl CallRow {
    /// How many arguments it takes to know what it waits for, and to show it.
    pub fn arguments_used(&self) -> usize {
        let of = |envelope: Envelope| [envelope.peer, envelope.tag, envelope.comm, 1];
        let waited: Vec<usize> = match self.waiting {
            Waiting::Send(envelope) | Waiting::Receive(envelope) => of(envelope).into(),
            Waiting::Exchange { send, receive } => [of(send), of(receive), [6; 4]].concat(),
            Waiting::Requests { count, at, .. } => count.into_iter().chain([at]).collect(),
            Waiting::Collective { comm, root, op, .. } => root.into_iter().chain(op).chain([comm]).collect(),
            Waiting::Finalize | Waiting::Window => Vec::new(),
        };
        let shown = self.shown.iter().map(|shown| shown.0);
        waited.into_iter().chain(shown).max().map_or(0, |last| last + 1)
    }

    /// Position of the argument that is a communicator.
    pub fn communicator(&self) -> Option<usize> {
        match self.waiting {
            Waiting::Send(envelope) | Waiting::Receive(envelope) => Some(envelope.comm),
            Waiting::Exchange { send, .. } => Some(send.comm),
            Waiting::Collective { comm, .. } => Some(comm),
            Waiting::Requests { .. } | Waiting::Finalize | Waiting::Window => None,
        }
    }
}

/// The row of a call; names of the large-count forms (`_c`) have the same.
pub fn row(function: &str) -> Option<&'static CallRow> {
    let plain = function.strip_suffix("_c").unwrap_or(function);
    CALLS.iter().find(|row| row.name == plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_in_the_table_twice() {
        let mut names: Vec<_> = CALLS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CALLS.len());
    }

    #[test]
    fn large_counts_are_the_same_calls() {
        assert_eq!(row("MPI_Recv_c").map(|row| row.name), Some("MPI_Recv"));
        assert!(row("MPI_Comm_rank").is_none());
    }
}

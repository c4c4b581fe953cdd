//! Buffers of collective calls whose lengths follow from arguments and the number of members: all but the parts of different lengths
//! that `v` and `w` forms have for each member, and those of neighbours.

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

/// Ranks to whom an argument means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOf {
    /// All members.
    All,
    /// The root.
    Root,
    /// All but the root.
    Others,
}

/// A buffer of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveBuffer {
    /// Where it is, and how much is for one member.
    pub content: ContentArgs,
    /// Whose call has it.
    pub of: BufferOf,
    /// It has a part for each member of the communicator.
    pub has_parts: bool,
    /// The call writes there; otherwise it reads.
    pub is_written: bool,
}

const fn read(of: BufferOf, [buffer, count, datatype]: [usize; 3]) -> CollectiveBuffer {
    let content = ContentArgs { buffer, count, datatype };
    CollectiveBuffer { content, of, has_parts: false, is_written: false }
}

const fn written(of: BufferOf, at: [usize; 3]) -> CollectiveBuffer {
    CollectiveBuffer { is_written: true, ..read(of, at) }
}

const fn in_parts(buffer: CollectiveBuffer) -> CollectiveBuffer {
    CollectiveBuffer { has_parts: true, ..buffer }
}

use BufferOf::{All, Others, Root};

/// Positions of arguments, by the name of the blocking form (MPI 4.0, 6.4 to 6.11).
const BUFFERS: &[(&str, &[CollectiveBuffer])] = &[
    ("MPI_Bcast", &[read(Root, [0, 1, 2]), written(Others, [0, 1, 2])]),
    ("MPI_Gather", &[read(All, [0, 1, 2]), in_parts(written(Root, [3, 4, 5]))]),
    ("MPI_Gatherv", &[read(All, [0, 1, 2])]),
    ("MPI_Scatter", &[in_parts(read(Root, [0, 1, 2])), written(All, [3, 4, 5])]),
    ("MPI_Scatterv", &[written(All, [4, 5, 6])]),
    ("MPI_Allgather", &[read(All, [0, 1, 2]), in_parts(written(All, [3, 4, 5]))]),
    ("MPI_Allgatherv", &[read(All, [0, 1, 2])]),
    ("MPI_Alltoall", &[in_parts(read(All, [0, 1, 2])), in_parts(written(All, [3, 4, 5]))]),
    ("MPI_Reduce", &[read(All, [0, 2, 3]), written(Root, [1, 2, 3])]),
    ("MPI_Allreduce", &[read(All, [0, 2, 3]), written(All, [1, 2, 3])]),
    ("MPI_Reduce_scatter_block", &[in_parts(read(All, [0, 2, 3])), written(All, [1, 2, 3])]),
    ("MPI_Scan", &[read(All, [0, 2, 3]), written(All, [1, 2, 3])]),
    // The first rank gets nothing.
    ("MPI_Exscan", &[read(All, [0, 2, 3])]),
];

/// Those of a call, by the name of its blocking form.
pub(super) fn of(base: &str) -> &'static [CollectiveBuffer] {
    BUFFERS.iter().find(|(name, _)| *name == base).map_or(&[], |(_, buffers)| buffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls::{Arg, CallRow, Does, row};

    #[test]
    fn buffers_are_arguments_that_are_followed_by_their_count_and_datatype() {
        for (name, buffers) in BUFFERS {
            let of = row(name).expect("a call");
            assert_eq!(of.does, Does::Collective, "{name}");
            for CollectiveBuffer { content, of: whose, .. } in *buffers {
                let kind = of.args[content.buffer];
                assert!(matches!(kind, Arg::Buffer | Arg::BufferOrInPlace), "{name}: {kind:?}");
                assert_eq!(content.datatype, content.count + 1, "{name}");
                assert!(*whose == BufferOf::All || of.position(Arg::Root).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn nonblocking_forms_have_the_same_buffers_and_what_only_prepares_has_none() {
        let of = |name: &str| row(name).map(CallRow::collective_buffers);
        assert_eq!(of("MPI_Ialltoall"), of("MPI_Alltoall"));
        assert_eq!(of("MPI_Iallreduce_c").map(<[_]>::len), Some(2));
        assert_eq!(of("MPI_Alltoall_init").map(<[_]>::len), Some(0));
        assert_eq!(of("MPI_Barrier").map(<[_]>::len), Some(0));
    }
}

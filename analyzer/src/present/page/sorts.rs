//! What MPI functions are for, by the call table.

use super::data::Sort;
use crate::mpi::calls::{self, Arg, Does};

/// What a function is for.
pub(super) fn sort_of(function: &str) -> Sort {
    let Some(row) = calls::row(function) else { return Sort::Other };
    match row.does {
        Does::Send(_) => Sort::Send,
        Does::Receive | Does::Probe | Does::ProbeMatched | Does::ReceiveMatched => Sort::Receive,
        Does::Exchange => Sort::Exchange,
        Does::Complete { .. } | Does::Start | Does::Inquire => Sort::Completion,
        Does::Collective if row.position(Arg::Win).is_some() => Sort::Other,
        Does::Collective | Does::MakeCommunicator(_) | Does::Finalize => Sort::Collective,
        Does::Partitioned
        | Does::Free
        | Does::Cancel
        | Does::FreeCommunicator
        | Does::MakeGroup(_)
        | Does::FreeGroup
        | Does::MakeDescription(_)
        | Does::FreeDescription(_)
        | Does::Window(_)
        | Does::OneSided(_) => Sort::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_sorted_by_what_they_are_for_whether_or_not_they_block() {
        let cases = [
            ("MPI_Ssend", Sort::Send),
            ("MPI_Isend_c", Sort::Send),
            ("MPI_Recv_init", Sort::Receive),
            ("MPI_Iprobe", Sort::Receive),
            ("MPI_Isendrecv", Sort::Exchange),
            ("MPI_Testall", Sort::Completion),
            ("MPI_Waitany", Sort::Completion),
            ("MPI_Ibarrier", Sort::Collective),
            ("MPI_Finalize", Sort::Collective),
            ("MPI_Win_fence", Sort::Other),
            ("MPI_Nothing", Sort::Other),
        ];
        for (function, sort) in cases {
            assert_eq!(sort_of(function), sort, "{function}");
        }
    }
}

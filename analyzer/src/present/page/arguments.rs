//! Arguments of recorded calls as people write them.

use crate::mpi::calls::{self, Arg};
use crate::tape::input::{CallInProgress, MpiFacts};
use crate::tape::plan::MpiKind;
use crate::timeline::History;

/// Handle of MPI_COMM_WORLD in MPICH and what is made from it.
const MPICH_WORLD: u64 = 0x4400_0000;

/// Names and values of the arguments worth showing. What lies beyond the recorded ones is `?`.
pub(super) fn shown(function: &str, arguments: &[u64], history: &History) -> Vec<(String, String)> {
    let Some(row) = calls::row(function) else { return Vec::new() };
    let comm = row.position(Arg::Comm).and_then(|at| arguments.get(at)).copied();
    let call = CallInProgress {
        function: function.to_owned(),
        mpi: history.mpi.or_else(|| comm.map(library_of)),
        arguments: arguments.iter().copied().map(Some).collect(),
        communicators: history.communicators.clone(),
        ..CallInProgress::default()
    };
    owned(crate::hang::call_text::shown(&call))
}

/// Of a library that neither the plan nor a look tells of: its handles tell numbers from pointers.
fn library_of(comm: u64) -> MpiFacts {
    const COMMUNICATOR: u64 = 1;
    let is_number = comm <= u64::from(u32::MAX) && comm >> 30 != 0 && comm >> 26 & 0xf == COMMUNICATOR;
    match is_number {
        true => MpiFacts { kind: MpiKind::Mpich, comm_world: Some(MPICH_WORLD) },
        // Where its MPI_COMM_WORLD is differs from process to process.
        false => MpiFacts { kind: MpiKind::OpenMpi, comm_world: None },
    }
}

/// The same for whoever keeps them.
pub(super) fn owned(shown: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    shown.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(function: &str, arguments: &[u64], history: &History) -> String {
        let shown = shown(function, arguments, history);
        shown.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }

    fn negative(number: i32) -> u64 {
        u64::from(number as u32)
    }

    #[test]
    fn handles_that_are_numbers_are_those_of_mpich() {
        let arguments = [0x1000, 4, 5, negative(-2), negative(-1), MPICH_WORLD];
        let shown = text("MPI_Recv", &arguments, &History::default());
        assert_eq!(shown, "count 4, source MPI_ANY_SOURCE, tag MPI_ANY_TAG, comm MPI_COMM_WORLD");
    }

    #[test]
    fn handles_that_are_pointers_are_those_of_open_mpi() {
        let arguments = [0x1000, 4, 5, negative(-1), 7, 0x7f00_1234_5678];
        let shown = text("MPI_Recv", &arguments, &History::default());
        assert_eq!(shown, "count 4, source MPI_ANY_SOURCE, tag 7, comm 0x7f0012345678");
    }

    #[test]
    fn what_was_not_recorded_is_not_known() {
        let mpi = Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(MPICH_WORLD) });
        let history = History { mpi, ..History::default() };
        let shown = text("MPI_Sendrecv", &[1, 2, 3, 1, 9, 6], &history);
        assert_eq!(shown, "sendcount 2, dest 1, sendtag 9, recvcount ?, source ?, recvtag ?, comm ?");
        assert_eq!(text("MPI_Comm_rank", &[1, 2, 3, 4, 5, 6], &history), "");
    }
}

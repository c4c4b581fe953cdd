//! What of an MPI call is recorded besides its arguments in registers: from the call table.

use analyzer::calls::{Arg, CallRow, Does, Form, Which};
use analyzer::input::MpiKind;
use analyzer::plan::{Read, ReadCount, Results, SentBuffers};

/// Arguments in registers.
pub(super) const REGISTERS: usize = 6;
/// Dimensions of a grid whose parts are known: as many integers as come in one piece. How many there are, the call does not
/// say.
const DIMENSIONS: u8 = 10;

/// What is recorded of MPI calls when they return.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum Returns {
    /// Nothing: costs least.
    #[default]
    None,
    /// When they return, and what became of their requests, statuses and communicators.
    All,
}

/// Sizes of what the library stores, in bytes.
#[derive(Clone, Copy)]
struct Sizes {
    handle: u8,
    status: u8,
}

impl Sizes {
    fn of(kind: MpiKind) -> Self {
        match kind {
            MpiKind::OpenMpi => Self { handle: 8, status: 24 },
            MpiKind::Mpich => Self { handle: 4, status: 20 },
        }
    }
}

/// What is read of a call whose return is wanted.
pub(super) fn results(row: &CallRow, kind: MpiKind) -> Results {
    let sizes = Sizes::of(kind);
    let mut reads: Vec<Read> =
        row.args.iter().enumerate().filter_map(|(at, arg)| read(row, *arg, at as u8, sizes)).collect();
    // One short value goes with the return itself: the others need records of their own.
    reads.sort_by_key(|read| (read.at_return, read.element_bytes, read.argument));
    let used = row.arguments_used();
    let pointed = reads.iter().map(|read| usize::from(read.argument) + 1).max().unwrap_or(0);
    let answer =
        row.polls().then(|| row.position(Arg::Flag).or_else(|| row.position(Arg::OutCount))).flatten();
    Results {
        reads,
        stack_arguments: used.max(pointed).saturating_sub(REGISTERS) as u32,
        answer: answer.map(|at| at as u8),
        buffers: sent_buffers(row),
    }
}

fn sent_buffers(row: &CallRow) -> Option<SentBuffers> {
    match row.does {
        Does::Send(_) => {
            let (at, request) = (row.sent()?, row.position(Arg::NewRequest)?);
            let [buffer, count, datatype, request] =
                [at.buffer, at.count, at.datatype, request].map(|at| at as u8);
            Some(SentBuffers::Sent { buffer, count, datatype, request })
        }
        Does::Start => Some(SentBuffers::Started),
        Does::Complete { which: Which::One | Which::All, .. } => Some(SentBuffers::Complete),
        Does::Complete { which: Which::Any | Which::Some, .. } => Some(SentBuffers::SomeComplete),
        _ => None,
    }
}

/// What an argument points to.
fn read(row: &CallRow, arg: Arg, argument: u8, sizes: Sizes) -> Option<Read> {
    let one =
        |at_return, element_bytes| Some(Read { argument, at_return, element_bytes, count: ReadCount::One });
    let count = |arg| row.position(arg).map(|at| at as u8);
    let several = |at_return, element_bytes| {
        let behind = count(Arg::OutCount).filter(|_| at_return).map(ReadCount::Behind);
        let given = count(Arg::Count).or(count(Arg::Number));
        let count = behind.or(given.map(ReadCount::Argument))?;
        Some(Read { argument, at_return, element_bytes, count })
    };
    match arg {
        Arg::NewRequest | Arg::NewComm | Arg::NewMessage | Arg::NewGroup | Arg::NewObject | Arg::NewWin => {
            one(true, sizes.handle)
        }
        Arg::Request | Arg::Message | Arg::OldGroup | Arg::OldObject | Arg::FreedWin => {
            one(false, sizes.handle)
        }
        Arg::Comm if row.does == Does::FreeCommunicator => one(false, sizes.handle),
        Arg::NewMemory => one(true, 8),
        Arg::Index | Arg::OutCount => one(true, 4),
        Arg::Status if row.form == Form::Blocking => one(true, sizes.status),
        Arg::Requests => several(false, sizes.handle),
        Arg::Statuses => several(true, sizes.status),
        Arg::Indices => several(true, 4),
        Arg::Ranks | Arg::Dimensions => several(false, 4),
        Arg::Ranges => several(false, 12),
        Arg::Remain => one(false, 4 * DIMENSIONS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use analyzer::calls::row;

    use super::*;

    fn of(name: &str, kind: MpiKind) -> Results {
        results(row(name).unwrap_or_else(|| panic!("{name}")), kind)
    }

    fn reads(name: &str, kind: MpiKind) -> Vec<(u8, bool, u8, ReadCount)> {
        let reads = of(name, kind).reads;
        reads.iter().map(|r| (r.argument, r.at_return, r.element_bytes, r.count)).collect()
    }

    #[test]
    fn of_a_nonblocking_call_the_request_is_read_at_its_return() {
        let request = Read { argument: 6, at_return: true, element_bytes: 8, count: ReadCount::One };
        let expected = Results { reads: vec![request], stack_arguments: 1, answer: None, buffers: None };
        assert_eq!(of("MPI_Irecv", MpiKind::OpenMpi), expected);
    }

    #[test]
    fn requests_are_read_at_the_entry_and_what_became_of_them_at_the_return() {
        assert_eq!(
            reads("MPI_Waitall", MpiKind::Mpich),
            [(1, false, 4, ReadCount::Argument(0)), (2, true, 20, ReadCount::Argument(0))]
        );
        assert_eq!(
            reads("MPI_Testsome", MpiKind::OpenMpi),
            [
                (1, false, 8, ReadCount::Argument(0)),
                (2, true, 4, ReadCount::One),
                (3, true, 4, ReadCount::Behind(2)),
                (4, true, 24, ReadCount::Behind(2)),
            ]
        );
    }

    #[test]
    fn what_new_groups_and_grids_are_made_from_is_read_at_the_entry() {
        assert_eq!(
            reads("MPI_Group_range_incl", MpiKind::Mpich),
            [(2, false, 12, ReadCount::Argument(1)), (3, true, 4, ReadCount::One)]
        );
        assert_eq!(
            reads("MPI_Cart_create", MpiKind::OpenMpi),
            [(2, false, 4, ReadCount::Argument(1)), (5, true, 8, ReadCount::One)]
        );
        assert_eq!(
            reads("MPI_Cart_sub", MpiKind::Mpich),
            [(1, false, 40, ReadCount::One), (2, true, 4, ReadCount::One)]
        );
        assert_eq!(reads("MPI_Group_free", MpiKind::OpenMpi), [(0, false, 8, ReadCount::One)]);
    }

    #[test]
    fn buffers_of_sends_are_looked_at_from_their_beginning_to_their_end() {
        let buffers = |name| of(name, MpiKind::Mpich).buffers;
        let sent = SentBuffers::Sent { buffer: 0, count: 1, datatype: 2, request: 6 };
        for name in ["MPI_Isend", "MPI_Issend", "MPI_Irsend", "MPI_Ibsend", "MPI_Send_init"] {
            assert_eq!(buffers(name), Some(sent), "{name}");
        }
        assert_eq!(buffers("MPI_Startall"), Some(SentBuffers::Started));
        for name in ["MPI_Wait", "MPI_Waitall", "MPI_Test", "MPI_Testall"] {
            assert_eq!(buffers(name), Some(SentBuffers::Complete), "{name}");
        }
        for name in ["MPI_Waitany", "MPI_Testsome"] {
            assert_eq!(buffers(name), Some(SentBuffers::SomeComplete), "{name}");
        }
        for name in ["MPI_Send", "MPI_Irecv", "MPI_Isendrecv_replace", "MPI_Request_free", "MPI_Iallreduce"] {
            assert_eq!(buffers(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_started_or_completed_is_read_first() {
        for row in analyzer::calls::rows() {
            let results = results(row, MpiKind::OpenMpi);
            let Some(SentBuffers::Started | SentBuffers::Complete | SentBuffers::SomeComplete) =
                results.buffers
            else {
                continue;
            };
            let requests = row.position(Arg::Requests).or_else(|| row.position(Arg::Request));
            let first = results.reads[0];
            assert_eq!(
                (Some(usize::from(first.argument)), first.at_return),
                (requests, false),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn polling_calls_say_where_their_answer_is() {
        let answer = |name| of(name, MpiKind::OpenMpi).answer;
        assert_eq!(answer("MPI_Test"), Some(1));
        assert_eq!(answer("MPI_Testany"), Some(3));
        assert_eq!(answer("MPI_Testsome"), Some(2));
        assert_eq!(answer("MPI_Iprobe"), Some(3));
        assert_eq!(answer("MPI_Waitsome"), None);
    }

    #[test]
    fn arguments_on_the_stack_are_counted() {
        let on_stack = |name| of(name, MpiKind::OpenMpi).stack_arguments;
        assert_eq!(on_stack("MPI_Sendrecv"), 6);
        assert_eq!(on_stack("MPI_Alltoallv"), 3);
        assert_eq!(on_stack("MPI_Recv"), 1);
        assert_eq!(on_stack("MPI_Barrier"), 0);
    }

    #[test]
    fn no_call_needs_more_than_the_kernel_part_can_read() {
        for row in analyzer::calls::rows() {
            for kind in [MpiKind::OpenMpi, MpiKind::Mpich] {
                let results = results(row, kind);
                assert!(
                    results.reads.len() <= 4 && results.stack_arguments <= 10,
                    "{}: {results:?}",
                    row.name
                );
            }
        }
    }
}

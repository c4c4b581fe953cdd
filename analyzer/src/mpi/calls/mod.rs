//! What MPI calls do, and what their arguments are: a table, and what follows from it.
//!
//! Positions of arguments are those of the C binding of MPI 4.0, from 0. Calls that are not here
//! have no part in communication, or their peers cannot be told from their arguments.

mod args;
mod buffers;
mod does;
mod process_calls;
mod rows;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use args::Arg;
pub use buffers::{BufferOf, CollectiveBuffer, ContentArgs};
pub use does::*;
use process_calls::{PROCESS_CALLS, ProcessCall};
pub use rows::*;

/// By name.
static CALLS: LazyLock<BTreeMap<String, CallRow>> = LazyLock::new(|| {
    let single =
        table::SINGLE.iter().map(|base| row_of(base, base.0.to_owned(), form_of(base.2), base.2.to_vec()));
    let formed = table::WITH_FORMS.iter().flat_map(forms);
    single.chain(formed).map(|row| (row.name.clone(), row)).collect()
});

/// By name: what calls of both tables are for the life of their process.
static PROCESSES: LazyLock<BTreeMap<&'static str, ProcessCall>> = LazyLock::new(|| {
    let of_rows = CALLS.values().map(|row| (row.name.as_str(), ProcessCall::of(row.does)));
    let others = PROCESS_CALLS.iter().flat_map(|(names, call)| names.iter().map(|name| (*name, *call)));
    of_rows.chain(others).collect()
});

fn row_of(base: &table::Base, name: String, form: Form, args: Vec<Arg>) -> CallRow {
    let mut first = [None; Arg::COUNT];
    for (at, arg) in (0..).zip(&args) {
        first[*arg as usize].get_or_insert(at);
    }
    let used = args.iter().rposition(|arg| arg.matters()).map_or(0, |last| last + 1);
    let elements = elements(base.0, base.1, &args);
    let collective_buffers = buffers::of(base.0);
    CallRow { name, does: base.1, form, args, first, used, elements, collective_buffers }
}

/// The datatype stands behind the count. Neighbours need to agree only with each other.
fn elements(base: &str, does: Does, args: &[Arg]) -> Option<ContentArgs> {
    let is_count = |arg: &Arg| matches!(arg, Arg::Count | Arg::SendCount | Arg::ReceiveCount);
    let is_of_all = does == Does::Collective && !base.starts_with("MPI_Neighbor_");
    let count = args.iter().position(is_count).filter(|_| is_of_all)?;
    Some(ContentArgs { buffer: count.checked_sub(1)?, count, datatype: count + 1 })
}

/// Of a call that has one form.
fn form_of(args: &[Arg]) -> Form {
    if args.contains(&Arg::NewRequest) { Form::Nonblocking } else { Form::Blocking }
}

/// All forms of a call. The request takes the place of the status.
fn forms(base: &table::Base) -> [CallRow; 3] {
    let (name, does, args) = *base;
    let mut started: Vec<Arg> = args.iter().copied().filter(|arg| *arg != Arg::Status).collect();
    let mut prepared = started.clone();
    // Persistent collectives take hints.
    if matches!(does, Does::Collective) {
        prepared.push(Arg::Other);
    }
    started.push(Arg::NewRequest);
    prepared.push(Arg::NewRequest);
    [
        row_of(base, name.to_owned(), Form::Blocking, args.to_vec()),
        row_of(base, nonblocking(name), Form::Nonblocking, started),
        row_of(base, format!("{name}_init"), Form::Persistent, prepared),
    ]
}

/// `MPI_Send` → `MPI_Isend`.
fn nonblocking(name: &str) -> String {
    let verb = name.strip_prefix("MPI_").unwrap_or(name);
    format!("MPI_I{}", verb.to_ascii_lowercase())
}

/// The row of a call; names of the large-count forms (`_c`) have the same.
pub fn row(function: &str) -> Option<&'static CallRow> {
    CALLS.get(without_large_count(function))
}

/// Whether a function carries nothing of the program's memory: communicators and windows are made, ranks wait for each other, MPI begins or ends; or
/// it is about an object that describes something, which the library takes apart and keeps.
pub(crate) fn has_no_data(function: &str) -> bool {
    /// Functions are called after the class of object that they are for (MPI 4.0, 2.2).
    const DESCRIPTIONS: [&str; 5] = ["MPI_Type_", "MPI_Group_", "MPI_Info_", "MPI_Op_", "MPI_Errhandler_"];
    lifecycle(function) == Lifecycle::Init
        || row(function).is_some_and(CallRow::has_no_data)
        || DESCRIPTIONS.iter().any(|class| function.starts_with(class))
}

/// Whether a function reads what is in a window: its owner may have stored that without a call.
pub(crate) fn reads_window(function: &str) -> bool {
    const NAMES: &[&str] = &[
        "MPI_Accumulate",
        "MPI_Compare_and_swap",
        "MPI_Fetch_and_op",
        "MPI_Get",
        "MPI_Get_accumulate",
        "MPI_Raccumulate",
        "MPI_Rget",
        "MPI_Rget_accumulate",
    ];
    NAMES.binary_search(&without_large_count(function)).is_ok()
}

fn without_large_count(function: &str) -> &str {
    function.strip_suffix("_c").unwrap_or(function)
}

/// What a call is for the life of its process, whether or not it has a row.
pub fn lifecycle(function: &str) -> Lifecycle {
    PROCESSES.get(without_large_count(function)).map_or(Lifecycle::None, |call| call.lifecycle)
}

/// Whether a call may wait for what is outside of the job: files, and other jobs.
pub fn waits_outside(function: &str) -> bool {
    PROCESSES.get(without_large_count(function)).is_some_and(|call| call.waits_outside)
}

/// All of them, by name.
pub fn rows() -> impl Iterator<Item = &'static CallRow> {
    CALLS.values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_in_the_table_twice() {
        assert_eq!(CALLS.len(), table::SINGLE.len() + 3 * table::WITH_FORMS.len());
    }

    #[test]
    fn what_a_call_is_for_its_process_is_in_a_table_whether_or_not_it_communicates() {
        use Lifecycle::{Abort, Finalize, Init, Lock, None, Session, Use};
        for (name, wanted, outside) in [
            ("MPI_Init_thread", Init, false),
            ("MPI_Finalize", Finalize, false),
            ("MPI_Abort", Abort, true),
            ("MPI_Session_init", Session, false),
            ("MPI_Send_c", Use, false),
            ("MPI_Win_unlock_all", Lock, false),
            ("MPI_Comm_free", None, false),
            ("MPI_Comm_disconnect", None, true),
            ("MPI_Comm_spawn_multiple", None, true),
            ("MPI_File_open", Use, true),
            ("MPI_File_read_at_all_c", None, true),
            ("MPI_Comm_rank", None, false),
        ] {
            assert_eq!((lifecycle(name), waits_outside(name)), (wanted, outside), "{name}");
        }
        let outside = PROCESS_CALLS.iter().flat_map(|(names, _)| names.iter());
        let names: Vec<&str> = outside.copied().collect();
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
    }

    #[test]
    fn calls_that_read_windows_are_in_the_order_in_which_they_are_looked_up() {
        let reads = ["MPI_Accumulate", "MPI_Get", "MPI_Get_c", "MPI_Fetch_and_op", "MPI_Rget_accumulate_c"];
        assert!(reads.iter().all(|name| reads_window(name)));
        assert!(
            !["MPI_Put", "MPI_Rput", "MPI_Win_flush", "MPI_Recv", ""].iter().any(|name| reads_window(name))
        );
    }

    #[test]
    fn calls_that_make_communicators_or_only_wait_carry_no_data() {
        let own = [
            "MPI_Init",
            "MPI_Comm_split",
            "MPI_Comm_idup",
            "MPI_Barrier",
            "MPI_Ibarrier",
            "MPI_Win_create",
            "MPI_Win_allocate_shared",
            "MPI_Win_free",
            "MPI_Finalize",
            "MPI_Type_indexed",
            "MPI_Group_translate_ranks",
            "MPI_Info_set",
        ];
        assert!(own.iter().all(|name| has_no_data(name)));
        let of_program = [
            "MPI_Send",
            "MPI_Bcast",
            "MPI_Allreduce",
            "MPI_Alltoallw",
            "MPI_Waitall",
            "MPI_Win_fence",
            "",
            "main",
        ];
        assert!(!of_program.iter().any(|name| has_no_data(name)));
    }

    #[test]
    fn large_counts_are_the_same_calls() {
        assert_eq!(row("MPI_Recv_c").map(|row| row.name.as_str()), Some("MPI_Recv"));
        assert!(row("MPI_Comm_rank").is_none());
    }

    #[test]
    fn the_request_takes_the_place_of_the_status() {
        let of = |name| row(name).and_then(|row| row.position(Arg::NewRequest));
        assert_eq!(of("MPI_Irecv"), Some(6));
        assert_eq!(of("MPI_Isendrecv"), Some(11));
        assert_eq!(of("MPI_Send_init"), Some(6));
        assert_eq!(of("MPI_Ineighbor_alltoallw"), Some(9));
        assert_eq!(of("MPI_Bcast_init"), Some(6));
        assert_eq!(of("MPI_Imrecv"), Some(4));
    }

    #[test]
    fn what_waits_waits_for_what_its_arguments_name() {
        let waiting = |name: &str| row(name).and_then(CallRow::waiting);
        let envelope = |peer, tag, comm| Envelope { peer, tag, comm };
        assert_eq!(waiting("MPI_Send"), Some(Waiting::Send(envelope(3, 4, 5))));
        assert_eq!(waiting("MPI_Bsend"), None);
        assert_eq!(waiting("MPI_Isend"), None);
        assert_eq!(waiting("MPI_Testall"), None);
        assert_eq!(waiting("MPI_Testsome"), None);
        assert_eq!(waiting("MPI_Iprobe"), None);
        assert_eq!(waiting("MPI_Ibarrier"), None);
        let both = Waiting::Exchange { send: envelope(3, 4, 7), receive: envelope(5, 6, 7) };
        assert_eq!(waiting("MPI_Sendrecv_replace"), Some(both));
        let window = |win, group, sync| Some(Waiting::Window { win, group, sync });
        assert_eq!(waiting("MPI_Win_lock"), window(3, None, WindowSync::Lock(LockStep::Takes)));
        assert_eq!(waiting("MPI_Win_start"), window(2, Some(0), WindowSync::Epoch(EpochStep::Starts)));
        assert_eq!((waiting("MPI_Win_post"), waiting("MPI_Win_test")), (None, None));
        let waits = window(0, None, WindowSync::Epoch(EpochStep::Waits));
        assert_eq!(row("MPI_Win_test").and_then(CallRow::awaits), waits);
        let fence = Collective { comm: 1, root: None, op: None };
        assert_eq!(waiting("MPI_Win_fence"), Some(Waiting::Collective(fence)));
        let freed = Collective { comm: 0, root: None, op: None };
        assert_eq!(waiting("MPI_Win_free"), Some(Waiting::Collective(freed)));
        let some = Waiting::Requests { count: Some(0), at: 1, all: false };
        assert_eq!(waiting("MPI_Waitsome"), Some(some));
        assert_eq!(waiting("MPI_Wait"), Some(Waiting::Requests { count: None, at: 0, all: true }));
    }

    #[test]
    fn the_content_of_a_message_is_where_its_arguments_say() {
        let content = |buffer, count, datatype| Some(ContentArgs { buffer, count, datatype });
        let of = |name: &str| row(name).map_or((None, None), |row| (row.sent(), row.received()));
        assert_eq!(of("MPI_Isend"), (content(0, 1, 2), None));
        assert_eq!(of("MPI_Recv_init"), (None, content(0, 1, 2)));
        assert_eq!(of("MPI_Imrecv"), (None, content(0, 1, 2)));
        assert_eq!(of("MPI_Sendrecv"), (content(0, 1, 2), content(5, 6, 7)));
        assert_eq!(of("MPI_Sendrecv_replace"), (content(0, 1, 2), content(0, 1, 2)));
        assert_eq!(of("MPI_Bcast"), (None, None));
    }

    #[test]
    fn shown_arguments_have_the_names_of_the_standard() {
        let shown = |name: &str| row(name).map(|row| row.shown().collect::<Vec<_>>());
        assert_eq!(shown("MPI_Recv"), Some(vec![(1, "count"), (3, "source"), (4, "tag"), (5, "comm")]));
        let names = shown("MPI_Sendrecv").unwrap_or_default().into_iter().map(|(_, name)| name);
        let all = ["sendcount", "dest", "sendtag", "recvcount", "source", "recvtag", "comm"];
        assert_eq!(names.collect::<Vec<_>>(), all);
    }
}

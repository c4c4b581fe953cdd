//! Jobs with one known fault each, and where a tool should find it.

use crate::fault_case::{Ends, FaultCase, FaultClass};

macro_rules! place {
    () => {
        None
    };
    ($file:literal $marker:literal) => {
        Some(($file, concat!("at fault: ", $marker)))
    };
}

macro_rules! cases {
    ($($job:literal $args:tt on $ranks:literal ranks, right $twin:tt:
        $class:ident of $at_fault:tt in $function:literal $(at $file:literal $marker:literal)?, $ends:ident;)*) => {
        &[$(FaultCase {
            job: $job,
            args: &$args,
            ranks: $ranks,
            class: FaultClass::$class,
            at_fault: &$at_fault,
            function: $function,
            place: place!($($file $marker)?),
            ends: Ends::$ends,
            twin: Some(&$twin),
        }),*]
    };
}

/// All jobs with a fault that the live tests run.
pub const CASES: &[FaultCase] = cases! {
    "gauss" ["--fault", "pivot_from_below"] on 4 ranks, right []:
        Deadlock of [1, 2, 3, 0] in "MPI_Recv" at "gauss_steps.c" "pivot", Hangs;
    "gauss" ["--fault", "pivot_from_owner"] on 4 ranks, right []:
        Deadlock of [2, 0, 1] in "MPI_Recv" at "gauss_steps.c" "pivot", Hangs;
    "gauss" ["--fault", "pivot_from_half"] on 4 ranks, right []:
        Deadlock of [3, 1, 2] in "MPI_Recv" at "gauss_steps.c" "pivot", Hangs;
    "gauss" ["--fault", "pivot_to_above"] on 4 ranks, right []:
        Deadlock of [0, 1] in "MPI_Recv" at "gauss_steps.c" "solved", Hangs;
    "gauss" ["--fault", "solved_from_last"] on 4 ranks, right []:
        Deadlock of [1, 3, 2] in "MPI_Recv" at "gauss_steps.c" "solved", Hangs;
    "gauss" ["--fault", "solved_to_first"] on 4 ranks, right []:
        Deadlock of [3, 2] in "MPI_Recv" at "gauss_steps.c" "part", Hangs;
    "gauss" ["--fault", "block_buffer_short"] on 4 ranks, right []:
        Truncated of [3, 0] in "MPI_Recv" at "gauss_blocks.c" "block", Dies;
    "gauss" ["--fault", "pivot_buffer_short"] on 4 ranks, right []:
        Truncated of [1, 0] in "MPI_Recv" at "gauss_steps.c" "pivot", Dies;
    "gauss" ["--fault", "solved_buffer_short"] on 4 ranks, right []:
        Truncated of [2, 3] in "MPI_Recv" at "gauss_steps.c" "solved", Dies;
    "gauss" ["--fault", "last_without_factors"] on 4 ranks, right []:
        CalculationFault of [3] in "subtract_pivot" at "gauss_steps.c" "no factors", Dies;
    "gauss" ["--fault", "last_divides_by_ranks_below"] on 4 ranks, right []:
        CalculationFault of [3] in "set_rows_per_rank_below" at "gauss_steps.c" "ranks below", Dies;
    "gauss" ["--fault", "share_all_send_first", "--right-sides", "16384"] on 4 ranks, right ["--right-sides", "16384"]:
        Deadlock of [0, 1, 2, 3] in "MPI_Send" at "gauss_steps.c" "all send first", Hangs;
    "gauss" ["--fault", "all_without_block_table"] on 4 ranks, right []:
        CalculationFault of [0, 1, 2, 3] in "make_blocks" at "gauss_blocks.c" "no block table", Dies;
    "gauss" ["--fault", "all_divide_by_hundredths"] on 4 ranks, right []:
        CalculationFault of [0, 1, 2, 3] in "set_report_interval" at "gauss_steps.c" "hundredths", Dies;
    "gauss" ["--fault", "all_count_below_zero"] on 4 ranks, right []:
        CalculationFault of [0, 1, 2, 3] in "check" at "gauss.c" "below zero", Dies;
    "gauss" ["--fault", "eliminate_adds"] on 4 ranks, right []:
        Silent of [] in "subtract_pivot", EndsWrong;
    "gauss" ["--fault", "eliminate_skips_row"] on 4 ranks, right []:
        Silent of [] in "subtract_pivot", EndsWrong;
    "gauss" ["--fault", "factor_undivided"] on 4 ranks, right []:
        Silent of [] in "factor_of", EndsWrong;
    "gauss" ["--fault", "factor_single_precision"] on 4 ranks, right []:
        Silent of [] in "factor_of", EndsWrong;
    "gauss" ["--fault", "pivot_row_wrong"] on 4 ranks, right []:
        Silent of [] in "pass_pivot", EndsWrong;
    "gauss" ["--fault", "pivot_wrong_type"] on 4 ranks, right []:
        Silent of [] in "pivot_type", EndsWrong;
    "gauss" ["--fault", "pivot_sent_short"] on 4 ranks, right []:
        Silent of [] in "pivot_sent", EndsWrong;
    "gauss" ["--fault", "pivot_sent_before_received"] on 4 ranks, right []:
        Silent of [] in "pass_pivot", EndsWrong;
    "gauss" ["--fault", "back_starts_late"] on 4 ranks, right []:
        Silent of [] in "solve_row", EndsWrong;
    "gauss" ["--fault", "back_undivided"] on 4 ranks, right []:
        Silent of [] in "solve_row", EndsWrong;
    "gauss" ["--fault", "share_wrong_slot"] on 4 ranks, right []:
        Silent of [] in "share_solution", EndsWrong;
    "gauss" ["--fault", "share_overwrites", "--right-sides", "16384"] on 4 ranks, right ["--right-sides", "16384"]:
        Silent of [] in "exchange_copies", EndsWrong;
    "gauss" ["--fault", "rows_left_over"] on 4 ranks, right []:
        Silent of [] in "make_blocks", EndsWrong;
    "binaryswap" ["--fault", "missing_break"] on 4 ranks, right []:
        Deadlock of [2, 0] in "MPI_Recv" at "binaryswap.c" "no break", Hangs;
    "binaryswap" ["--fault", "missing_break"] on 8 ranks, right []:
        Deadlock of [6, 4, 0] in "MPI_Recv" at "binaryswap.c" "no break", Hangs;
    "layers" ["--fault", "wrong_source"] on 6 ranks, right []:
        MissingMessage of [4, 2] in "MPI_Waitall" at "layers.c" "wrong source", Hangs;
    "layers" ["--fault", "wrong_source"] on 15 ranks, right []:
        MissingMessage of [2, 8] in "MPI_Waitall" at "layers.c" "wrong source", Hangs;
    "errors" ["--fault", "recv_recv"] on 2 ranks, right ["--right", "recv_recv"]:
        Deadlock of [0, 1] in "MPI_Recv" at "errors_messages.c" "all receive first", Hangs;
    "errors" ["--fault", "recv_cycle"] on 3 ranks, right ["--right", "recv_cycle"]:
        Deadlock of [0, 1, 2] in "MPI_Recv" at "errors_messages.c" "all receive first", Hangs;
    "errors" ["--fault", "recv_cycle"] on 5 ranks, right ["--right", "recv_cycle"]:
        Deadlock of [0, 1, 2, 3, 4] in "MPI_Recv" at "errors_messages.c" "all receive first", Hangs;
    "errors" ["--fault", "send_send"] on 2 ranks, right ["--right", "send_send"]:
        Deadlock of [0, 1] in "MPI_Send" at "errors_messages.c" "send_send", Hangs;
    "errors" ["--fault", "never_sent"] on 2 ranks, right ["--right", "never_sent"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_messages.c" "never_sent", Hangs;
    "errors" ["--fault", "sender_in_barrier"] on 2 ranks, right ["--right", "sender_in_barrier"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_messages.c" "sender_in_barrier", Hangs;
    "errors" ["--fault", "wrong_tag"] on 2 ranks, right ["--right", "wrong_tag"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_messages.c" "wrong_tag", Hangs;
    "errors" ["--fault", "wrong_communicator"] on 2 ranks, right ["--right", "wrong_communicator"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_messages.c" "wrong_communicator", Hangs;
    "errors" ["--fault", "wrong_source"] on 3 ranks, right ["--right", "wrong_source"]:
        MissingMessage of [1] in "MPI_Recv" at "errors_messages.c" "wrong_source", Hangs;
    "errors" ["--fault", "wrong_destination"] on 3 ranks, right ["--right", "wrong_destination"]:
        MissingMessage of [0] in "MPI_Ssend" at "errors_messages.c" "wrong_destination", Hangs;
    "errors" ["--fault", "any_source_cycle"] on 3 ranks, right ["--right", "any_source_cycle"]:
        Deadlock of [0, 1, 2] in "MPI_Recv" at "errors_messages.c" "any_source_cycle", Hangs;
    "errors" ["--fault", "any_source_extra"] on 3 ranks, right ["--right", "any_source_extra"]:
        MissingMessage of [0, 1, 2] in "MPI_Recv" at "errors_messages.c" "any_source_extra", Hangs;
    "errors" ["--fault", "truncated"] on 2 ranks, right ["--right", "truncated"]:
        Truncated of [1, 0] in "MPI_Recv" at "errors_messages.c" "truncated", Dies;
    "errors" ["--fault", "probe_blocks"] on 2 ranks, right ["--right", "probe_blocks"]:
        MissingMessage of [1, 0] in "MPI_Probe" at "errors_messages.c" "probe_blocks", Hangs;
    "errors" ["--fault", "matched_probe"] on 2 ranks, right ["--right", "matched_probe"]:
        MissingMessage of [1, 0] in "MPI_Mprobe" at "errors_messages.c" "matched_probe", Hangs;
    "errors" ["--fault", "unreceived"] on 2 ranks, right ["--right", "unreceived"]:
        Leak of [0, 1] in "MPI_Send" at "errors_messages.c" "unreceived", EndsWell;
    "errors" ["--fault", "received_as_other"] on 2 ranks, right ["--right", "received_as_other"]:
        MismatchedDatatype of [1, 0] in "MPI_Recv" at "errors_messages.c" "received_as_other", EndsWell;
    "errors" ["--fault", "waitall_unmatched"] on 3 ranks, right ["--right", "waitall_unmatched"]:
        MissingMessage of [0, 2] in "MPI_Waitall" at "errors_requests.c" "waitall_unmatched", Hangs;
    "errors" ["--fault", "waitany_unmatched"] on 3 ranks, right ["--right", "waitany_unmatched"]:
        MissingMessage of [0, 1, 2] in "MPI_Waitany" at "errors_requests.c" "waitany_unmatched", Hangs;
    "errors" ["--fault", "test_forever"] on 2 ranks, right ["--right", "test_forever"]:
        MissingMessage of [1, 0] in "MPI_Test" at "errors_requests.c" "test_forever", Hangs;
    "errors" ["--fault", "persistent_unstarted"] on 2 ranks, right ["--right", "persistent_unstarted"]:
        MissingMessage of [1, 0] in "MPI_Wait" at "errors_requests.c" "persistent_unstarted", Hangs;
    "errors" ["--fault", "leaked_send"] on 2 ranks, right ["--right", "leaked_send"]:
        Leak of [1] in "MPI_Isend" at "errors_requests.c" "leaked_send", EndsWell;
    "errors" ["--fault", "leaked_receive"] on 2 ranks, right ["--right", "leaked_receive"]:
        Leak of [1] in "MPI_Irecv" at "errors_requests.c" "leaked_receive", EndsWell;
    "errors" ["--fault", "barrier_or_bcast"] on 3 ranks, right ["--right", "barrier_or_bcast"]:
        MismatchedCollective of [1] in "MPI_Bcast" at "errors_collectives.c" "barrier_or_bcast", Hangs;
    "errors" ["--fault", "bcast_other_root"] on 3 ranks, right ["--right", "bcast_other_root"]:
        MismatchedCollective of [1] in "MPI_Bcast" at "errors_collectives.c" "bcast_other_root", Hangs;
    "errors" ["--fault", "gather_other_root"] on 3 ranks, right ["--right", "gather_other_root"]:
        MismatchedCollective of [1] in "MPI_Finalize", Hangs;
    "errors" ["--fault", "other_operation"] on 3 ranks, right ["--right", "other_operation"]:
        MismatchedCollective of [1] in "MPI_Allreduce" at "errors_collectives.c" "other_operation", EndsWrong;
    "errors" ["--fault", "other_datatype"] on 3 ranks, right ["--right", "other_datatype"]:
        MismatchedCollective of [1] in "MPI_Allreduce" at "errors_collectives.c" "other_datatype", EndsWrong;
    "errors" ["--fault", "other_size"] on 3 ranks, right ["--right", "other_size"]:
        MismatchedCollective of [1] in "MPI_Bcast" at "errors_collectives.c" "other_size", Dies;
    "errors" ["--fault", "two_communicators"] on 3 ranks, right ["--right", "two_communicators"]:
        MismatchedCollective of [2] in "MPI_Barrier" at "errors_collectives.c" "two_communicators", Hangs;
    "errors" ["--fault", "recv_in_collective"] on 3 ranks, right ["--right", "recv_in_collective"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_collectives.c" "recv_in_collective", Hangs;
    "errors" ["--fault", "skips_collective"] on 3 ranks, right ["--right", "skips_collective"]:
        MismatchedCollective of [1] in "MPI_Finalize", Hangs;
    "errors" ["--fault", "ibarrier_unstarted"] on 3 ranks, right ["--right", "ibarrier_unstarted"]:
        MismatchedCollective of [1] in "MPI_Finalize", Hangs;
    "errors" ["--fault", "survived_root"] on 3 ranks, right ["--right", "survived_root"]:
        MismatchedCollective of [1] in "MPI_Bcast" at "errors_collectives.c" "survived_root", EndsWrong;
    "errors" ["--fault", "in_place_on_one"] on 3 ranks, right ["--right", "in_place_on_one"]:
        MismatchedCollective of [1] in "MPI_Allreduce" at "errors_collectives.c" "in_place_on_one", EndsWrong;
    "errors" ["--fault", "barrier_or_ibarrier"] on 3 ranks, right ["--right", "barrier_or_ibarrier"]:
        MismatchedCollective of [1] in "MPI_Barrier" at "errors_collectives.c" "barrier_or_ibarrier", Hangs;
    "errors" ["--fault", "overlapping_communicators"] on 4 ranks, right ["--right", "overlapping_communicators"]:
        MismatchedCollective of [0] in "MPI_Barrier" at "errors_collectives.c" "overlapping_communicators", Hangs;
    "errors" ["--fault", "waitall_collective"] on 3 ranks, right ["--right", "waitall_collective"]:
        MissingMessage of [1, 0] in "MPI_Recv" at "errors_collectives.c" "waitall_collective", Hangs;
    "errors" ["--fault", "leaked_communicator"] on 2 ranks, right ["--right", "leaked_communicator"]:
        Leak of [1] in "MPI_Comm_split" at "errors_collectives.c" "leaked_communicator", EndsWell;
    "errors" ["--fault", "leaked_datatype"] on 2 ranks, right ["--right", "leaked_datatype"]:
        Leak of [1] in "MPI_Type_vector" at "errors_collectives.c" "leaked_datatype", EndsWell;
    "errors" ["--fault", "leaked_group"] on 2 ranks, right ["--right", "leaked_group"]:
        Leak of [1] in "MPI_Comm_group" at "errors_collectives.c" "leaked_group", EndsWell;
    "errors" ["--fault", "leaked_operation"] on 2 ranks, right ["--right", "leaked_operation"]:
        Leak of [1] in "MPI_Op_create" at "errors_collectives.c" "leaked_operation", EndsWell;
    "errors" ["--fault", "lock_held"] on 2 ranks, right ["--right", "lock_held"]:
        Deadlock of [1, 0] in "MPI_Win_lock" at "errors_windows.c" "lock_held", Hangs;
    "errors" ["--fault", "start_without_post"] on 2 ranks, right ["--right", "start_without_post"]:
        MissingMessage of [1, 0] in "MPI_Win_start" at "errors_windows.c" "start_without_post", Hangs;
    "errors" ["--fault", "fence_missed"] on 3 ranks, right ["--right", "fence_missed"]:
        MismatchedCollective of [1] in "MPI_Barrier" at "errors_windows.c" "fence_missed", Hangs;
    "errors" ["--fault", "window_kept"] on 3 ranks, right ["--right", "window_kept"]:
        MismatchedCollective of [1] in "MPI_Barrier" at "errors_windows.c" "window_kept", Hangs;
    "errors" ["--fault", "pipe_read"] on 2 ranks, right ["--right", "pipe_read"]:
        BlockedOutside of [1] in "read" at "errors_outside.c" "pipe_read", Hangs;
    "errors" ["--fault", "mutex_held"] on 2 ranks, right ["--right", "mutex_held"]:
        BlockedOutside of [1] in "pthread_mutex_lock" at "errors_outside.c" "mutex_held", Hangs;
    "errors" ["--fault", "endless_loop"] on 3 ranks, right ["--right", "endless_loop"]:
        BlockedOutside of [1] in "halve_down_to_one" at "errors_outside.c" "endless_loop", Hangs;
    "errors" ["--fault", "sleeps"] on 2 ranks, right ["--right", "sleeps"]:
        BlockedOutside of [1] in "sleep" at "errors_outside.c" "sleeps", Hangs;
    "errors" ["--fault", "invalid_rank"] on 2 ranks, right ["--right", "invalid_rank"]:
        InvalidCall of [1] in "MPI_Send" at "errors_calls.c" "arguments", Dies;
    "errors" ["--fault", "negative_count"] on 2 ranks, right ["--right", "negative_count"]:
        InvalidCall of [1] in "MPI_Send" at "errors_calls.c" "arguments", Dies;
    "errors" ["--fault", "call_after_finalize"] on 2 ranks, right ["--right", "call_after_finalize"]:
        InvalidCall of [1] in "MPI_Barrier" at "errors_calls.c" "call_after_finalize", Dies;
    "errors" ["--fault", "killed"] on 2 ranks, right ["--right", "killed"]:
        Crash of [1] in "raise" at "errors_deaths.c" "killed", Dies;
    "errors" ["--fault", "segfault"] on 2 ranks, right ["--right", "segfault"]:
        Crash of [1] in "write_to" at "errors_deaths.c" "segfault", Dies;
    "errors" ["--fault", "aborts"] on 2 ranks, right ["--right", "aborts"]:
        Crash of [1] in "MPI_Abort" at "errors_deaths.c" "aborts", Dies;
    "errors" ["--fault", "exits_with_3"] on 2 ranks, right ["--right", "exits_with_3"]:
        Crash of [1] in "exit" at "errors_deaths.c" "exits", Dies;
    "errors" ["--fault", "exits_with_0"] on 2 ranks, right ["--right", "exits_with_0"]:
        Crash of [1] in "exit" at "errors_deaths.c" "exits", Dies;
};

/// Faults that can be told only where a job was watched from its start: of windows, only the calls that made them say which is
/// which.
pub const FROM_THE_START: &[FaultCase] = cases! {
    "errors" ["--fault", "fence_left_out"] on 3 ranks, right ["--right", "fence_left_out"]:
        MismatchedCollective of [1] in "MPI_Win_free" at "errors_windows.c" "fence_left_out", Hangs;
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;
    use crate::job::build::sources;

    fn all_cases() -> impl Iterator<Item = &'static FaultCase> {
        CASES.iter().chain(FROM_THE_START)
    }

    fn all_sources() -> Vec<(String, String)> {
        let files = fs::read_dir(sources().join("hangs")).unwrap().map(|entry| entry.unwrap());
        files
            .map(|file| {
                let name = file.file_name().into_string().unwrap();
                (name, fs::read_to_string(file.path()).unwrap())
            })
            .collect()
    }

    #[test]
    fn every_marker_is_in_one_line_of_its_file() {
        for case in all_cases() {
            assert_eq!(case.line().unwrap().is_some(), case.place.is_some(), "{case:?}");
        }
    }

    #[test]
    fn every_marker_in_the_sources_belongs_to_a_case() {
        for (file, text) in all_sources() {
            let marked = text.lines().filter_map(|line| line.split_once("// at fault: "));
            for (_, name) in marked {
                let marker = format!("at fault: {name}");
                let is_known = all_cases().any(|case| case.place == Some((file.as_str(), marker.as_str())));
                assert!(is_known, "{file}: {marker}");
            }
        }
    }

    #[test]
    fn every_fault_is_one_of_its_program() {
        let sources = all_sources();
        for case in all_cases() {
            assert_eq!(case.args[0], "--fault", "{case:?}");
            let quoted = format!("\"{}\"", case.args[1]);
            let mut own = sources.iter().filter(|(file, _)| file.starts_with(case.job));
            assert!(own.any(|(_, text)| text.contains(&quoted)), "{case:?}");
        }
    }

    #[test]
    fn the_ranks_at_fault_are_ranks_of_the_job_and_only_silent_faults_have_none() {
        for case in all_cases() {
            assert!(case.at_fault.iter().all(|rank| *rank < case.ranks), "{case:?}");
            assert_eq!(case.at_fault.is_empty(), case.class == FaultClass::Silent, "{case:?}");
        }
    }

    #[test]
    fn no_case_is_there_twice() {
        let keys: HashSet<_> = all_cases().map(|case| (case.job, case.args, case.ranks)).collect();
        assert_eq!(keys.len(), all_cases().count());
    }
}

//! Calls that have no part in communication between ranks, but mean something for the life of their process, or wait for
//! what is outside of the job: data.

use super::does::{Does, Lifecycle, WindowSync};

/// What is known of a call beside its row, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessCall {
    pub lifecycle: Lifecycle,
    /// It may wait for files or for other jobs.
    pub waits_outside: bool,
}

impl ProcessCall {
    /// Of a call of the other table, by what it does.
    pub const fn of(does: Does) -> Self {
        let lifecycle = match does {
            Does::Finalize => Lifecycle::Finalize,
            // Libraries clean up with these, in MPI_Finalize too.
            Does::Free | Does::FreeCommunicator | Does::FreeGroup | Does::FreeDescription(_) => {
                Lifecycle::None
            }
            Does::Window(WindowSync::Lock(_)) => Lifecycle::Lock,
            Does::Complete { .. } => Lifecycle::Completion,
            _ => Lifecycle::Use,
        };
        Self { lifecycle, waits_outside: false }
    }
}

const fn life(lifecycle: Lifecycle) -> ProcessCall {
    ProcessCall { lifecycle, waits_outside: false }
}

const OUTSIDE: ProcessCall = ProcessCall { lifecycle: Lifecycle::None, waits_outside: true };

/// Names, and what is known of them; what it says of a call of the other table is what holds.
pub(super) const PROCESS_CALLS: &[(&[&str], ProcessCall)] = &[
    (&["MPI_Init", "MPI_Init_thread"], life(Lifecycle::Init)),
    (&["MPI_Abort"], ProcessCall { lifecycle: Lifecycle::Abort, waits_outside: true }),
    (SESSIONS, life(Lifecycle::Session)),
    (&["MPI_File_open"], ProcessCall { lifecycle: Lifecycle::Use, waits_outside: true }),
    (&["MPI_Win_free"], life(Lifecycle::Use)),
    (FILES, OUTSIDE),
    (OTHER_JOBS, OUTSIDE),
];

const SESSIONS: &[&str] = &[
    "MPI_Session_attach_buffer",
    "MPI_Session_call_errhandler",
    "MPI_Session_create_errhandler",
    "MPI_Session_detach_buffer",
    "MPI_Session_finalize",
    "MPI_Session_flush_buffer",
    "MPI_Session_get_errhandler",
    "MPI_Session_get_info",
    "MPI_Session_get_nth_pset",
    "MPI_Session_get_num_psets",
    "MPI_Session_get_pset_info",
    "MPI_Session_iflush_buffer",
    "MPI_Session_init",
    "MPI_Session_set_errhandler",
];

const OTHER_JOBS: &[&str] = &[
    "MPI_Comm_accept",
    "MPI_Comm_connect",
    "MPI_Comm_disconnect",
    "MPI_Comm_join",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
];

const FILES: &[&str] = &[
    "MPI_File_call_errhandler",
    "MPI_File_close",
    "MPI_File_create_errhandler",
    "MPI_File_delete",
    "MPI_File_get_amode",
    "MPI_File_get_atomicity",
    "MPI_File_get_byte_offset",
    "MPI_File_get_errhandler",
    "MPI_File_get_group",
    "MPI_File_get_info",
    "MPI_File_get_position",
    "MPI_File_get_position_shared",
    "MPI_File_get_size",
    "MPI_File_get_type_extent",
    "MPI_File_get_view",
    "MPI_File_iread",
    "MPI_File_iread_all",
    "MPI_File_iread_at",
    "MPI_File_iread_at_all",
    "MPI_File_iread_shared",
    "MPI_File_iwrite",
    "MPI_File_iwrite_all",
    "MPI_File_iwrite_at",
    "MPI_File_iwrite_at_all",
    "MPI_File_iwrite_shared",
    "MPI_File_preallocate",
    "MPI_File_read",
    "MPI_File_read_all",
    "MPI_File_read_all_begin",
    "MPI_File_read_all_end",
    "MPI_File_read_at",
    "MPI_File_read_at_all",
    "MPI_File_read_at_all_begin",
    "MPI_File_read_at_all_end",
    "MPI_File_read_ordered",
    "MPI_File_read_ordered_begin",
    "MPI_File_read_ordered_end",
    "MPI_File_read_shared",
    "MPI_File_seek",
    "MPI_File_seek_shared",
    "MPI_File_set_atomicity",
    "MPI_File_set_errhandler",
    "MPI_File_set_info",
    "MPI_File_set_size",
    "MPI_File_set_view",
    "MPI_File_sync",
    "MPI_File_write",
    "MPI_File_write_all",
    "MPI_File_write_all_begin",
    "MPI_File_write_all_end",
    "MPI_File_write_at",
    "MPI_File_write_at_all",
    "MPI_File_write_at_all_begin",
    "MPI_File_write_at_all_end",
    "MPI_File_write_ordered",
    "MPI_File_write_ordered_begin",
    "MPI_File_write_ordered_end",
    "MPI_File_write_shared",
];

//! What columns the tables have. All times are nanoseconds since the session began.

/// MPI calls.
pub(super) const CALLS: &str = "message calls {
    required int32 rank;
    required binary node (string);
    required int32 pid;
    required int32 thread;
    required int32 call;
    required binary function (string);
    required int64 begin_ns;
    optional int64 end_ns;
    optional int64 begin_error_ns;
    optional int64 end_error_ns;
    optional int32 communicator;
    optional int32 dest;
    optional int32 source;
    optional int32 tag;
    optional int32 count;
    optional int32 root;
    required binary arguments (json);
    optional binary place (string);
}";

/// Messages: a send and the receive that got it.
pub(super) const MESSAGES: &str = "message messages {
    required int32 send_rank;
    required int32 send_thread;
    required int32 send_call;
    required int32 send_part;
    required int32 receive_rank;
    required int32 receive_thread;
    required int32 receive_call;
    required int32 receive_part;
    optional int32 completed_thread;
    optional int32 completed_call;
    optional int64 sent_ns;
    optional int64 received_ns;
    optional int32 communicator;
    optional int32 tag;
    optional int64 bytes;
}";

/// Movements of data.
pub(super) const MOVEMENTS: &str = "message movements {
    required int64 time_ns;
    optional int32 rank;
    required binary node (string);
    required int32 pid;
    required int32 thread;
    required binary kind (string);
    required int64 bytes;
    required binary place (string);
    optional binary mpi_call (string);
    optional binary call_place (string);
    required binary source (string);
    required int64 source_address (integer(64,false));
    required binary destination (string);
    required int64 destination_address (integer(64,false));
    optional int32 peer_rank;
    optional int64 operation;
    optional int64 written_by;
}";

/// Findings that hold at the end.
pub(super) const FINDINGS: &str = "message findings {
    required binary id (string);
    required binary kind (string);
    required binary severity (string);
    required binary verdict (string);
    required binary summary (string);
    required int64 raised_ns;
    required group ranks (list) { repeated group list { required int32 element; } }
    required binary finding (json);
}";

/// Times in which not everything was seen.
pub(super) const GAPS: &str = "message gaps {
    required binary why (string);
    optional int32 rank;
    optional binary node (string);
    optional int32 pid;
    required int64 from_ns;
    optional int64 to_ns;
    optional int64 records;
}";

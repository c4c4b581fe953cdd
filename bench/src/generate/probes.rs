//! The probes of made-up programs.

use analyzer::plan::{Plan, PlannedFile, Probe, ProbeClass, ProbePlace};

use super::memory::PROGRAM;

pub(super) const HEADER_COPY: u32 = 1;
pub(super) const PAYLOAD_COPY: u32 = 2;
pub(super) const DELIVER: u32 = 3;
pub(super) const STAGE: u32 = 4;
pub(super) const EXCHANGE: u32 = 5;
pub(super) const MALLOC: u32 = 6;
pub(super) const FREE: u32 = 7;
pub(super) const TO_NETWORK: u32 = 8;
pub(super) const FROM_NETWORK: u32 = 9;
pub(super) const TEST: u32 = 10;
pub(super) const POST: u32 = 11;

pub(super) const REDUCE: u32 = 16;
/// What ranks wait in when a job hangs.
pub const RECEIVE: u32 = 17;

/// Whether only few ranks hit a probe, which do more than the others.
pub(super) fn is_extra(probe: u32) -> bool {
    matches!(probe, TEST | POST)
}

/// The plan for programs whose calls give no results.
pub(super) fn plan() -> Plan {
    let probe = |(id, class, function): (u32, ProbeClass, &str)| Probe {
        place: ProbePlace::Call,
        ..Probe::at(id, PROGRAM, u64::from(id) * 64, class, function)
    };
    let probes = [
        (HEADER_COPY, ProbeClass::Copy, "header"),
        (PAYLOAD_COPY, ProbeClass::Copy, "payload"),
        (DELIVER, ProbeClass::Copy, "deliver"),
        (STAGE, ProbeClass::Copy, "stage"),
        (EXCHANGE, ProbeClass::Call, "MPI_Sendrecv"),
        (MALLOC, ProbeClass::Alloc, "malloc"),
        (FREE, ProbeClass::Free, "free"),
        (TO_NETWORK, ProbeClass::Copy, "to network"),
        (FROM_NETWORK, ProbeClass::Copy, "from network"),
        (TEST, ProbeClass::Call, "MPI_Test"),
        (POST, ProbeClass::Copy, "post"),
        (REDUCE, ProbeClass::Call, "MPI_Allreduce"),
        (RECEIVE, ProbeClass::Call, "MPI_Recv"),
    ];
    let file =
        PlannedFile { id: PROGRAM, path: "/bin/made-up".to_owned(), own: true, ..PlannedFile::default() };
    Plan { files: vec![file], probes: probes.map(probe).into(), ..Plan::default() }
}

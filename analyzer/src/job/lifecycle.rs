//! Where in its use of MPI a process is: what it may do, and how it should end, depends on that.

use crate::job::last_calls::CallEntry;
use crate::mpi::calls::Lifecycle;

/// Of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MpiLife {
    uses: bool,
    finalizes: bool,
    is_over: bool,
    aborts: bool,
    has_sessions: bool,
    /// When requests were last completed, or may have been.
    completed_ns: Option<u64>,
    after: Option<(u64, CallEntry)>,
}

impl MpiLife {
    /// A call begins that is not part of another one.
    #[inline]
    pub fn call(&mut self, part: Lifecycle, time_ns: u64, begun: &CallEntry) {
        match part {
            Lifecycle::None => {}
            Lifecycle::Use | Lifecycle::Lock | Lifecycle::Completion if self.is_over => {
                self.after.get_or_insert((time_ns, *begun));
            }
            Lifecycle::Completion => {
                self.uses = true;
                self.completes(time_ns);
            }
            Lifecycle::Use | Lifecycle::Lock | Lifecycle::Init => self.uses = true,
            Lifecycle::Finalize => self.finalizes = true,
            Lifecycle::Abort => self.aborts = true,
            Lifecycle::Session => self.has_sessions = true,
        }
    }

    /// It has called MPI.
    pub fn is_used(&self) -> bool {
        self.uses
    }

    /// It has come to MPI_Finalize.
    pub fn finalizes(&self) -> bool {
        self.finalizes
    }

    /// When requests were last completed, or may have been.
    pub fn completed_ns(&self) -> Option<u64> {
        self.completed_ns
    }

    /// Requests are completed, or may be.
    pub fn completes(&mut self, time_ns: u64) {
        self.completed_ns = Some(time_ns);
    }

    /// It has come to MPI_Finalize, and called nothing since this time that completes requests.
    pub fn ends_without_completion_since(&self, time_ns: u64) -> bool {
        self.finalizes && self.completed_ns.is_none_or(|completed_ns| completed_ns < time_ns)
    }

    /// MPI_Finalize returned.
    pub fn finalized(&mut self) {
        self.is_over = true;
    }

    /// Whether MPI_Finalize has returned.
    pub fn is_over(&self) -> bool {
        self.is_over && !self.has_sessions
    }

    /// It ended as if all were well, but not with MPI_Finalize. Only if all its calls were seen.
    pub fn is_unfinished(&self, status: u32) -> bool {
        status == 0 && self.uses && !self.finalizes && !self.aborts && !self.has_sessions
    }

    /// The call, and when, that it was ended for because MPI was over: libraries do not come back from one.
    pub fn forbidden_call(&self, status: u32) -> Option<(u64, CallEntry)> {
        const SIGNAL: u32 = 0x7f;
        let gave_up = status != 0 && status & SIGNAL == 0;
        self.after.filter(|_| gave_up && !self.aborts && self.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::calls;

    const EXIT_1: u32 = 1 << 8;
    const KILLED: u32 = 9;

    fn begun() -> CallEntry {
        CallEntry { probe: 1, return_address: 2, arguments: [0; 6] }
    }

    fn life(functions: &[&str]) -> MpiLife {
        let mut life = MpiLife::default();
        for function in functions {
            life.call(calls::lifecycle(function), 5, &begun());
            if *function == "MPI_Finalize" {
                life.finalized();
            }
        }
        life
    }

    #[test]
    fn whoever_used_mpi_and_did_not_end_it_is_unfinished() {
        assert!(life(&["MPI_Init"]).is_unfinished(0));
        assert!(life(&["MPI_Send"]).is_unfinished(0));
        assert!(!life(&["MPI_Send"]).is_unfinished(EXIT_1));
        assert!(!life(&["MPI_Send", "MPI_Finalize"]).is_unfinished(0));
        assert!(!life(&["MPI_Send", "MPI_Abort"]).is_unfinished(0));
        assert!(!life(&["MPI_Session_init", "MPI_Send"]).is_unfinished(0));
        assert!(!life(&[]).is_unfinished(0));
        // What a library does inside MPI_Finalize, if that was not seen.
        assert!(!life(&["MPI_Comm_free_keyval", "MPI_Info_free"]).is_unfinished(0));
    }

    #[test]
    fn a_call_after_the_end_is_told_if_the_library_gave_up_the_process() {
        let late = ["MPI_Init", "MPI_Finalize", "MPI_Barrier"];
        assert!(life(&late).forbidden_call(EXIT_1).is_some());
        assert!(life(&late).forbidden_call(0).is_none());
        assert!(life(&late).forbidden_call(KILLED).is_none());
        assert!(life(&["MPI_Barrier", "MPI_Finalize", "MPI_Finalized"]).forbidden_call(EXIT_1).is_none());
        assert!(life(&["MPI_Session_init", "MPI_Finalize", "MPI_Barrier"]).forbidden_call(EXIT_1).is_none());
    }

    #[test]
    fn what_is_begun_after_the_last_completion_is_not_complete_at_the_end() {
        let mut life = MpiLife::default();
        life.call(Lifecycle::Completion, 5, &begun());
        assert!(!life.ends_without_completion_since(6), "it may still complete it");
        life.call(Lifecycle::Finalize, 9, &begun());
        assert!(life.ends_without_completion_since(6));
        assert!(!life.ends_without_completion_since(5));
        life.completes(10);
        assert!(!life.ends_without_completion_since(6));
    }

    #[test]
    fn a_call_while_mpi_ends_is_allowed() {
        let mut life = MpiLife::default();
        life.call(Lifecycle::Finalize, 1, &begun());
        life.call(Lifecycle::Use, 2, &begun());
        assert!(life.forbidden_call(EXIT_1).is_none());
    }
}

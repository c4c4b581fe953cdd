//! Processes of the job, as far as their MPI calls need them.

use rustc_hash::FxHashMap;

use crate::mpi::datatypes::Datatypes;
use crate::mpi::handles::{Builtin, Libraries};
use crate::mpi::operations::Operations;
use crate::tape::input::ProcessFacts;
use crate::tape::wire::FileId;

/// One of them.
#[derive(Default)]
pub(super) struct MpiProcess {
    pub rank: Option<u32>,
    /// When that was found out, CLOCK_MONOTONIC.
    pub facts_time_ns: u64,
    /// Inode of its pid namespace.
    pub pid_namespace: u64,
    pub builtin: Option<Builtin>,
    pub datatypes: Datatypes,
    pub operations: Operations,
    /// It was seen to begin with MPI, and nothing of it was missed since.
    pub is_complete: bool,
}

/// All of them, by numbers that are given out again.
#[derive(Default)]
pub(super) struct MpiProcesses {
    all: Vec<MpiProcess>,
    by_pid: FxHashMap<u32, usize>,
    free: Vec<usize>,
}

impl MpiProcess {
    /// Takes what is known of it.
    pub fn learn(&mut self, facts: &ProcessFacts) {
        self.rank = facts.rank;
        self.facts_time_ns = facts.time_ns;
        self.pid_namespace = facts.pid_namespace;
    }

    /// Looks for its library; `code_start`: where a file's first byte would be.
    pub fn look_up(&mut self, libraries: &Libraries, code_start: impl Fn(FileId) -> Option<u64>) {
        if let Some(builtin) = libraries.builtin(&code_start) {
            self.builtin = Some(builtin);
            self.datatypes = Datatypes::new(libraries, &code_start);
            self.operations = Operations::new(libraries, code_start);
        }
    }
}

impl MpiProcesses {
    pub fn find(&self, pid: u32) -> Option<&MpiProcess> {
        Some(&self.all[*self.by_pid.get(&pid)?])
    }

    pub fn find_mut(&mut self, pid: u32) -> Option<&mut MpiProcess> {
        Some(&mut self.all[*self.by_pid.get(&pid)?])
    }

    /// Its number; a new one is made if there is none.
    pub fn number(&mut self, pid: u32) -> usize {
        if let Some(&number) = self.by_pid.get(&pid) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(MpiProcess::default());
            self.all.len() - 1
        });
        self.by_pid.insert(pid, number);
        number
    }

    pub fn get(&self, number: usize) -> &MpiProcess {
        &self.all[number]
    }

    pub fn get_mut(&mut self, number: usize) -> &mut MpiProcess {
        &mut self.all[number]
    }

    /// It has ended.
    pub fn remove(&mut self, pid: u32) {
        if let Some(number) = self.by_pid.remove(&pid) {
            self.all[number] = MpiProcess::default();
            self.free.push(number);
        }
    }

    /// Those that have not ended.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.by_pid.keys().copied()
    }
}

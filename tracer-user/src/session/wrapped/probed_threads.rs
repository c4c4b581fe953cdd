//! Threads of a rank's process, as probes saw them being created.

use std::collections::HashMap;

use replay::thread_name::{FIRST_THREAD, child_name};

/// Of one process: its threads by names that are the same in every run, and how they may call MPI.
#[derive(Debug, Default)]
pub(super) struct ProbedThreads {
    /// By the kernel's number, which is used again: the last one that had it.
    names: HashMap<u32, NamedThread>,
    /// When the program had created its first one. From then on, what posts is in order.
    several_from_ns: Option<u64>,
    begun: Option<MpiBegin>,
}

#[derive(Clone, Copy, Debug)]
struct NamedThread {
    name: u64,
    /// How many threads it has created.
    children: u64,
}

/// The call that began MPI.
#[derive(Clone, Copy, Debug)]
struct MpiBegin {
    /// The thread that made it; 0: one without a name.
    thread: u64,
    level: ThreadLevel,
}

/// Which threads may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadLevel {
    /// One alone, always the same.
    One,
    Serialized,
    Multiple,
    Unknown,
}

impl ThreadLevel {
    /// What the program asked for: the third argument of MPI_Init_thread.
    pub fn asked_for(word: u64) -> Self {
        match word {
            0 | 1 => Self::One,
            2 => Self::Serialized,
            3 => Self::Multiple,
            _ => Self::Unknown,
        }
    }
}

impl ProbedThreads {
    /// A thread has created another one; `in_call`: within an MPI call, so that it is not the program's.
    pub fn created(&mut self, pid: u32, creator: u32, child: u32, in_call: bool, time_ns: u64) {
        self.names.remove(&child);
        if in_call {
            return;
        }
        let first = NamedThread { name: FIRST_THREAD, children: 0 };
        if creator == pid {
            self.names.entry(pid).or_insert(first);
        }
        let Some(creator) = self.names.get_mut(&creator) else { return };
        creator.children += 1;
        let name = child_name(creator.name, creator.children);
        self.names.insert(child, NamedThread { name, children: 0 });
        self.several_from_ns.get_or_insert(time_ns);
    }

    /// A thread has begun MPI.
    pub fn begin_mpi(&mut self, pid: u32, tid: u32, level: ThreadLevel) {
        let thread = self.name(pid, tid).unwrap_or(0);
        self.begun.get_or_insert(MpiBegin { thread, level });
    }

    /// The name of the thread that has this number now; none if the program has not created it.
    pub fn name(&self, pid: u32, tid: u32) -> Option<u64> {
        let first = (pid == tid).then_some(FIRST_THREAD);
        self.names.get(&tid).map(|named| named.name).or(first)
    }

    /// Whether a call that began then was made by a process with several threads.
    pub fn are_several(&self, begin_ns: u64) -> bool {
        self.several_from_ns.is_some_and(|from_ns| from_ns <= begin_ns)
    }

    /// The thread that began MPI.
    pub fn first(&self) -> u64 {
        self.begun.map_or(FIRST_THREAD, |begun| begun.thread)
    }

    /// How they may call.
    pub fn level(&self) -> ThreadLevel {
        self.begun.map_or(ThreadLevel::Unknown, |begun| begun.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 100;

    #[test]
    fn threads_are_named_by_who_created_them_and_as_which() {
        let mut threads = ProbedThreads::default();
        threads.created(PID, PID, 101, false, 10);
        threads.created(PID, PID, 102, false, 20);
        threads.created(PID, 102, 103, false, 30);
        let second = child_name(FIRST_THREAD, 2);
        assert_eq!(threads.name(PID, PID), Some(FIRST_THREAD));
        assert_eq!(threads.name(PID, 101), Some(child_name(FIRST_THREAD, 1)));
        assert_eq!(threads.name(PID, 103), Some(child_name(second, 1)));
        assert!(!threads.are_several(9) && threads.are_several(10));
    }

    #[test]
    fn what_the_library_creates_has_no_name_and_does_not_count() {
        let mut threads = ProbedThreads::default();
        threads.created(PID, PID, 101, true, 10);
        threads.created(PID, 101, 102, false, 20);
        assert!(!threads.are_several(30), "neither is the program's");
        threads.created(PID, PID, 103, false, 30);
        assert_eq!([101, 102].map(|tid| threads.name(PID, tid)), [None, None]);
        assert_eq!(threads.name(PID, 103), Some(child_name(FIRST_THREAD, 1)));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_threads() {
        let mut threads = ProbedThreads::default();
        threads.created(PID, PID, 101, false, 10);
        threads.created(PID, PID, 101, false, 20);
        assert_eq!(threads.name(PID, 101), Some(child_name(FIRST_THREAD, 2)));
        threads.created(PID, PID, 101, true, 30);
        assert_eq!(threads.name(PID, 101), None);
    }

    #[test]
    fn whoever_began_mpi_says_how_threads_may_call() {
        let mut threads = ProbedThreads::default();
        assert_eq!((threads.first(), threads.level()), (FIRST_THREAD, ThreadLevel::Unknown));
        threads.created(PID, PID, 101, false, 10);
        threads.begin_mpi(PID, 101, ThreadLevel::asked_for(3));
        threads.begin_mpi(PID, PID, ThreadLevel::asked_for(0));
        assert_eq!((threads.first(), threads.level()), (child_name(FIRST_THREAD, 1), ThreadLevel::Multiple));
        assert_eq!(ThreadLevel::asked_for(0x7fff_0000), ThreadLevel::Unknown);
    }
}

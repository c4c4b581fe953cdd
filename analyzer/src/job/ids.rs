//! Numbers of what a job is made of.

use super::names::id;

id!(/// An address space: private to a process, or a file that processes share.
    SpaceId);
id!(/// A thread of a watched process.
    ThreadId);
id!(/// A rank, or a process without one.
    WhoId);
id!(/// An MPI call at one place of the program.
    CallSiteId);

//! Giving up every right but to compute, to read files that are handed over, and to answer.

use std::collections::BTreeMap;
use std::io;

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Who has nothing.
const NOBODY: u32 = 65_534;
/// What is written of memory.
const MOST_MEMORY_BYTES: u64 = 1 << 30;
/// Files that are always open: standard ones, and the socket twice.
const OPEN_FILES: u64 = 8;

/// What such a process may have of what runs out.
#[derive(Clone, Copy, Debug)]
pub struct SandboxLimits {
    /// Files that it is handed and keeps open at a time.
    pub files: u64,
    /// Processor time of all that is asked in a session, seconds; `None`: only single answers have a limit.
    pub cpu_s: Option<u64>,
}

/// Takes all rights from this process, for good.
///
/// # Errors
/// The kernel does not do it: nothing may be read then.
pub fn enter(limits: SandboxLimits) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, OPEN_FILES + limits.files)?;
    limit(Resource::Data, MOST_MEMORY_BYTES)?;
    if let Some(cpu_s) = limits.cpu_s {
        limit(Resource::Cpu, cpu_s)?;
    }
    become_nobody()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_no_new_privs(true)?;
    open_nothing()?;
    call_nothing_else()
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let known = rustix::process::getrlimit(resource).maximum;
    let most = Some(known.map_or(most, |known| known.min(most)));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

/// Another user without groups, and no capabilities.
fn become_nobody() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let (user, group) = (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
        // In a user namespace nobody may be unknown: without capabilities, and with nothing that can be opened, that
        // changes little.
        let _ = rustix::thread::set_thread_groups(&[])
            .and_then(|()| rustix::thread::set_thread_res_gid(group, group, group))
            .and_then(|()| rustix::thread::set_thread_res_uid(user, user, user));
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

/// No path can be opened, where the kernel has Landlock.
fn open_nothing() -> io::Result<()> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5));
    let ruleset = ruleset.and_then(Ruleset::create).map_err(io::Error::other)?;
    ruleset.restrict_self().map(drop).map_err(io::Error::other)
}

/// Whatever else is called is not there.
fn call_nothing_else() -> io::Result<()> {
    const ALLOWED: [i64; 36] = [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_write,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_futex,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_poll,
        libc::SYS_getrusage,
        libc::SYS_arch_prctl,
    ];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![threads_only().map_err(io::Error::other)?]);
    let errno = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, errno, SeccompAction::Allow, TargetArch::x86_64);
    let program: BpfProgram =
        filter.and_then(BpfProgram::try_from).map_err(|error| io::Error::other(error.to_string()))?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// A new thread, never a new process.
fn threads_only() -> Result<SeccompRule, seccompiler::BackendError> {
    let flag = libc::CLONE_THREAD as u64;
    let is_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
    SeccompRule::new(vec![is_thread])
}

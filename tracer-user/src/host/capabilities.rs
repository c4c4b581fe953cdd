//! The capabilities of this process: which it has, and doing without them where they are not for what is done.
//!
//! A program that has capabilities by its file has them for whoever may run it. What such a user names is opened with the
//! user's own rights, and what needs none is done with none.

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// A capability that matters, by its number in capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Files that only other users may read.
    DacReadSearch = 2,
    /// Other users' processes.
    SysPtrace = 19,
    /// Much, and among it what was split off later.
    SysAdmin = 21,
    /// To take back a lower priority.
    SysNice = 23,
    /// What BPF programs see.
    Perfmon = 38,
    /// BPF programs.
    Bpf = 39,
    /// Files that were deleted or replaced since they were mapped.
    CheckpointRestore = 40,
}

impl Capability {
    /// Those that a session uses, in the order of [`SETCAP`].
    pub const USED: [Self; 6] = [
        Self::Bpf,
        Self::Perfmon,
        Self::SysPtrace,
        Self::DacReadSearch,
        Self::CheckpointRestore,
        Self::SysNice,
    ];

    /// As capabilities(7) has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
            Self::CheckpointRestore => "CAP_CHECKPOINT_RESTORE",
        }
    }

    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Gives the program all that a session uses.
pub const SETCAP: &str = "sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore,cap_sys_nice=ep \
                          /path/to/dmscope";

/// What to do where a capability is missing.
pub fn remedy() -> String {
    format!("run dmscope as root (sudo dmscope …), or give the program its capabilities ({SETCAP})")
}

/// A set of capabilities, as `/proc/PID/status` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// All that root usually has.
    pub const ALL: Self = Self(u64::MAX);

    /// In effect for the calling thread.
    pub fn in_effect() -> Self {
        Self(capabilities(None).map_or(0, |sets| sets.effective.bits()))
    }

    /// Whether it allows what the capability is for.
    pub fn has(self, capability: Capability) -> bool {
        let is_there = |capability: Capability| self.0 & capability.bit() != 0;
        // What was a part of CAP_SYS_ADMIN once still is.
        let by_admin =
            matches!(capability, Capability::Perfmon | Capability::Bpf | Capability::CheckpointRestore);
        is_there(capability) || by_admin && is_there(Capability::SysAdmin)
    }

    /// Those of `wanted` that it has not, named; nothing if none is missing.
    pub fn names_of_missing(self, wanted: &[Capability]) -> Option<String> {
        let missing = wanted.iter().filter(|capability| !self.has(**capability));
        let names: Vec<&str> = missing.map(|capability| capability.name()).collect();
        (!names.is_empty()).then(|| format!("{} {} missing", names.join(" and "), is_or_are(names.len())))
    }

    /// Without the right to open what the user could not.
    fn without_file_rights(self) -> Self {
        const DAC_OVERRIDE: u64 = 1 << 1;
        Self(self.0 & !(DAC_OVERRIDE | Capability::DacReadSearch.bit()))
    }
}

fn is_or_are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Does something that opens files which the user names: a user who is not root opens them with rights of their own.
/// Threads that are started meanwhile stay without.
pub fn with_own_file_rights<T>(work: impl FnOnce() -> T) -> T {
    let before = capabilities(None).ok().filter(|_| !rustix::process::geteuid().is_root());
    let lowered = before.filter(|sets| {
        let effective = Capabilities(sets.effective.bits()).without_file_rights();
        let effective = CapabilitySet::from_bits_retain(effective.0);
        // Fewer are always allowed.
        effective != sets.effective && set_capabilities(None, CapabilitySets { effective, ..*sets }).is_ok()
    });
    let result = work();
    if let Some(sets) = lowered {
        // They are still permitted.
        let _ = set_capabilities(None, sets);
    }
    result
}

/// Gives up all capabilities of a user who is not root, for what needs none.
///
/// # Errors
/// The kernel's; fewer are always allowed.
pub fn give_up_all() -> std::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(capabilities: &[Capability]) -> Capabilities {
        Capabilities(capabilities.iter().map(|capability| capability.bit()).sum())
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_else() {
        let wanted = [Capability::Bpf, Capability::Perfmon];
        assert_eq!(set(&wanted).names_of_missing(&wanted), None);
        assert_eq!(set(&[Capability::SysAdmin]).names_of_missing(&wanted), None);
        let told = |had: &[Capability]| set(had).names_of_missing(&wanted).expect("one is missing");
        assert_eq!(told(&[Capability::Bpf]), "CAP_PERFMON is missing");
        assert_eq!(told(&[Capability::SysPtrace]), "CAP_BPF and CAP_PERFMON are missing");
        let ptrace = [Capability::SysPtrace];
        assert!(set(&[Capability::SysAdmin]).names_of_missing(&ptrace).is_some(), "it never was a part");
    }

    #[test]
    fn the_line_that_gives_capabilities_has_all_that_are_used() {
        let names = Capability::USED.map(|capability| capability.name().to_lowercase());
        assert!(SETCAP.contains(&format!(" {}=ep ", names.join(","))), "{SETCAP}");
    }

    #[test]
    fn without_file_rights_all_others_stay() {
        let left = Capabilities::ALL.without_file_rights();
        assert!(!left.has(Capability::DacReadSearch));
        assert_eq!(left.0.count_ones(), u64::BITS - 2);
        assert!(left.has(Capability::SysPtrace));
    }
}

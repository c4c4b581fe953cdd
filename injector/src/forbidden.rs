//! What forbids to put anything into a process: pure, from what `/proc` says of it.

use std::fmt;

/// Why a process is to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// A debugger (or strace) has it.
    Traced {
        /// Which process that is.
        by: u32,
    },
    /// It does not run.
    Stopped,
    /// A seccomp filter might end it for a system call that it never makes itself.
    Filtered,
    /// Thread ids are others there.
    InNamespace,
    /// It has ended.
    Ended,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traced { by } => write!(f, "it is traced by process {by}, a debugger or the like"),
            Self::Stopped => f.write_str("it is stopped"),
            Self::Filtered => f.write_str("it runs under a seccomp filter"),
            Self::InNamespace => f.write_str("it is in a PID namespace of its own"),
            Self::Ended => f.write_str("it has ended"),
        }
    }
}

/// What matters of `/proc/PID/status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// As the kernel abbreviates it.
    pub state: char,
    /// The process that traces it; 0: none.
    pub tracer: u32,
    /// How system calls are restricted; 0: not at all.
    pub seccomp: u32,
    /// In how many PID namespaces it has a number.
    pub namespaces: usize,
}

/// Reads a `/proc/PID/status`; what is not there is as if nothing forbade anything.
pub fn parse_status(text: &str) -> ProcessStatus {
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
    };
    let number = |name| value(name).parse().unwrap_or(0);
    ProcessStatus {
        state: value("State").chars().next().unwrap_or('R'),
        tracer: number("TracerPid"),
        seccomp: number("Seccomp"),
        namespaces: value("NSpid").split_ascii_whitespace().count(),
    }
}

/// What forbids it, if anything does.
pub fn forbidden(status: &ProcessStatus) -> Option<Forbidden> {
    match status {
        ProcessStatus { tracer: by @ 1.., .. } => Some(Forbidden::Traced { by: *by }),
        ProcessStatus { state: 'T' | 't', .. } => Some(Forbidden::Stopped),
        ProcessStatus { state: 'Z' | 'X', .. } => Some(Forbidden::Ended),
        ProcessStatus { seccomp: 1.., .. } => Some(Forbidden::Filtered),
        ProcessStatus { namespaces: 2.., .. } => Some(Forbidden::InNamespace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Forbidden> {
        forbidden(&parse_status(text))
    }

    #[test]
    fn what_is_traced_stopped_filtered_or_elsewhere_is_left_alone_and_nothing_else() {
        let plain = "Name:\tx\nState:\tS (sleeping)\nTracerPid:\t0\nNSpid:\t12\nSeccomp:\t0\n";
        assert_eq!(of(plain), None);
        assert_eq!(of(""), None);
        assert_eq!(of(&plain.replace("TracerPid:\t0", "TracerPid:\t77")), Some(Forbidden::Traced { by: 77 }));
        assert_eq!(of(&plain.replace("S (sleeping)", "T (stopped)")), Some(Forbidden::Stopped));
        assert_eq!(of(&plain.replace("S (sleeping)", "Z (zombie)")), Some(Forbidden::Ended));
        assert_eq!(of(&plain.replace("Seccomp:\t0", "Seccomp:\t2")), Some(Forbidden::Filtered));
        assert_eq!(of(&plain.replace("NSpid:\t12", "NSpid:\t12\t1")), Some(Forbidden::InNamespace));
    }
}

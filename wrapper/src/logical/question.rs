//! What a call asks, and what it waits for until that is answered.

/// A probe's or receive's arguments. Source: the rank in the communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallEnvelope {
    pub comm: u32,
    pub source: Option<u32>,
    pub tag: Option<i32>,
}

/// What a call asks.
#[derive(Clone, Debug)]
pub(crate) enum LogicalQuestion {
    /// Whose message does the receive get that is at a place of the shim's table?
    Receive(u32),
    /// Which message does a probe find?
    Probe(CallEnvelope),
    /// Does a poll find one?
    Poll(CallEnvelope),
    /// Have all come to a collective call?
    Meeting { comm: u32, meeting: u64 },
    /// Which request is complete first?
    Any(Vec<u64>),
    /// Is one complete?
    TestAny(Vec<u64>),
    /// Are all?
    TestAll(Vec<u64>),
    /// Which are?
    TestSome(Vec<u64>),
    /// Does a cancellation come before the message?
    Cancel(u32),
    /// None: MPI itself is asked whether something is complete. A test may be put off.
    Mpi { is_test: bool },
}

impl LogicalQuestion {
    /// Whether the answer may depend on the clocks of others.
    pub(crate) fn needs_clocks(&self) -> bool {
        match self {
            Self::Receive(_) | Self::Meeting { .. } | Self::Mpi { .. } => false,
            Self::Probe(envelope) => envelope.source.is_none(),
            _ => true,
        }
    }
}

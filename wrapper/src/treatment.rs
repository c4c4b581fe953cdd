//! What the shim is told to do with a call; numbers are those of `shim.h`.

/// How a call is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Pass = 0,
    Record = 1,
    Replay = 2,
    Logical = 3,
}

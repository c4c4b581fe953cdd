//! Numbers of `<infiniband/verbs.h>`.

/// `IBV_QPT_RC`
pub const RELIABLE_CONNECTED: u8 = 2;
/// Of `enum ibv_send_flags`: it asks for a completion.
pub(super) const SIGNALED: u8 = 2;
/// Of `enum ibv_wc_opcode`.
pub(super) const RECEIVED: u32 = 1 << 7;
pub(super) const RECEIVED_WRITE: u32 = RECEIVED | 1;

/// `enum ibv_qp_state`, and what may be in place of a state in [`crate::wire::QueueChange`].
#[allow(missing_docs)]
pub mod queue_state {
    pub const RESET: u8 = 0;
    pub const INIT: u8 = 1;
    pub const READY_TO_RECEIVE: u8 = 2;
    pub const READY_TO_SEND: u8 = 3;
    pub const DRAINED: u8 = 4;
    /// None of these: it is in use, and who is at its other end is not known.
    pub const IN_USE: u8 = 0x80;
    /// Nor this: it was connected before, as it is told here.
    pub const FOUND_CONNECTED: u8 = 0x81;
}

/// `enum ibv_wr_opcode`: what a work request does.
pub(crate) mod operation {
    pub const RDMA_WRITE: u8 = 0;
    pub const RDMA_WRITE_WITH_IMMEDIATE: u8 = 1;
    pub const SEND: u8 = 2;
    pub const SEND_WITH_IMMEDIATE: u8 = 3;
    pub const RDMA_READ: u8 = 4;
    pub const COMPARE_AND_SWAP: u8 = 5;
    pub const FETCH_AND_ADD: u8 = 6;
    pub const SEND_WITH_INVALIDATE: u8 = 9;
}

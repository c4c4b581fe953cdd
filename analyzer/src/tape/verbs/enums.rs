//! Numbers of `<infiniband/verbs.h>`.

/// `IBV_QPT_RC`
pub(super) const RELIABLE_CONNECTED: u8 = 2;
/// Of `enum ibv_send_flags`: it asks for a completion.
pub(super) const SIGNALED: u8 = 2;
/// Of `enum ibv_wc_opcode`.
pub(super) const RECEIVED: u32 = 1 << 7;
pub(super) const RECEIVED_WRITE: u32 = RECEIVED | 1;

/// `enum ibv_qp_state`
pub(super) mod state {
    pub const RESET: u8 = 0;
    pub const INIT: u8 = 1;
    pub const READY_TO_RECEIVE: u8 = 2;
    pub const READY_TO_SEND: u8 = 3;
    pub const DRAINED: u8 = 4;
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

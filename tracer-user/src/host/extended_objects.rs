//! Queue pairs and completion queues that are made for nothing but to see which functions they have: those of `ibv_wr_*` and
//! `ibv_start_poll` are written into each object when it is made. For the child that opens devices ([`super::verbs_devices`]).

use std::ffi::{CStr, c_void};

use super::verbs::TABLE_BYTES;

/// The end of `struct ibv_context`.
pub(super) const CONTEXT_BYTES: usize = 328;
/// What lies before it, in `struct verbs_context`, so many bytes ahead.
const SIZE_BEFORE: usize = 8;
const CREATE_QP_EX_BEFORE: usize = 56;
const CREATE_CQ_EX_BEFORE: usize = 120;
/// `struct ibv_cq_ex`
const COMPLETION_QUEUE_BYTES: usize = 288;

/// `IBV_WC_STANDARD_FLAGS`: what is told of each completion.
const ALL_TOLD: u64 = 127;
/// `IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`
const QUEUE_PAIR_MASK: u32 = 1 | 1 << 6;
/// `enum ibv_qp_type` with `enum ibv_qp_create_send_ops_flags`, of which a device may have only some: connected reliably,
/// unreliably, datagrams.
const QUEUE_PAIRS: [(u32, &[u64]); 3] =
    [(2, &[0x13ff, 0x3ff, 0x27f, 0x7f, 0x1f]), (3, &[0x3ff, 0x38f, 0xf]), (4, &[0xc])];

/// `struct ibv_cq_init_attr_ex`
#[repr(C)]
struct CompletionQueueWish {
    entries: u32,
    own: *mut c_void,
    channel: *mut c_void,
    vector: u32,
    told: u64,
    mask: u32,
    flags: u32,
    parent: *mut c_void,
}

/// `struct ibv_qp_init_attr_ex`
#[repr(C)]
struct QueuePairWish {
    own: *mut c_void,
    send_queue: *mut c_void,
    receive_queue: *mut c_void,
    shared: *mut c_void,
    /// Requests to send and to receive, segments of each, bytes inline.
    most: [u32; 5],
    kind: u32,
    all_told: i32,
    mask: u32,
    domain: *mut c_void,
    unused: [u64; 7],
    operations: u64,
}

type AllocateDomain = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type CreateCompletionQueue = unsafe extern "C" fn(*mut c_void, *mut CompletionQueueWish) -> *mut c_void;
type CreateQueuePair = unsafe extern "C" fn(*mut c_void, *mut QueuePairWish) -> *mut c_void;

/// A copy of memory, and where it was.
pub(super) type ObjectCopy = (u64, Vec<u8>);

/// A function of libibverbs by its name.
pub(super) const ALLOCATE_DOMAIN: &CStr = c"ibv_alloc_pd";

/// The beginnings of objects of an opened device, one of each kind that it has. They stay until this process ends.
///
/// # Safety
/// `context` is one that libibverbs opened, and `allocate_domain` its function of this name.
pub(super) unsafe fn extended_objects(context: *mut c_void, allocate_domain: *mut c_void) -> Vec<ObjectCopy> {
    // SAFETY: as the caller promises; this is the function's type in <infiniband/verbs.h>.
    let domain = unsafe { std::mem::transmute::<*mut c_void, AllocateDomain>(allocate_domain)(context) };
    // SAFETY: the context is of an opened device, and these are places of these functions.
    let (make_queue, make_pair) = unsafe {
        (function_before(context, CREATE_CQ_EX_BEFORE), function_before(context, CREATE_QP_EX_BEFORE))
    };
    let Some(make_queue) = make_queue.filter(|_| !domain.is_null()) else { return Vec::new() };
    // SAFETY: that is the function's type.
    let make_queue = unsafe { std::mem::transmute::<*mut c_void, CreateCompletionQueue>(make_queue) };
    let mut wish = CompletionQueueWish {
        entries: 16,
        own: std::ptr::null_mut(),
        channel: std::ptr::null_mut(),
        vector: 0,
        told: ALL_TOLD,
        mask: 0,
        flags: 0,
        parent: std::ptr::null_mut(),
    };
    // SAFETY: the context is of an opened device, and the wish is as its header has it.
    let queue = unsafe { make_queue(context, &raw mut wish) };
    if queue.is_null() {
        return Vec::new();
    }
    // SAFETY: the queue was made just now, and is as large.
    let mut pieces = vec![unsafe { copy(queue, COMPLETION_QUEUE_BYTES) }];
    if let Some(make_pair) = make_pair {
        // SAFETY: that is the function's type.
        let make_pair = unsafe { std::mem::transmute::<*mut c_void, CreateQueuePair>(make_pair) };
        let pairs = QUEUE_PAIRS.into_iter().filter_map(|(kind, operations)| {
            let make = |operations: &u64| {
                let mut wish = queue_pair_wish(queue, domain, kind, *operations);
                // SAFETY: the context is of an opened device, queue and domain are of it, and the wish is as its header has it.
                let pair = unsafe { make_pair(context, &raw mut wish) };
                // SAFETY: the pair was made just now with functions of its own, and is as large.
                (!pair.is_null()).then(|| unsafe { copy(pair, TABLE_BYTES) })
            };
            operations.iter().find_map(make)
        });
        pieces.extend(pairs);
    }
    pieces
}

fn queue_pair_wish(queue: *mut c_void, domain: *mut c_void, kind: u32, operations: u64) -> QueuePairWish {
    QueuePairWish {
        own: std::ptr::null_mut(),
        send_queue: queue,
        receive_queue: queue,
        shared: std::ptr::null_mut(),
        most: [4, 4, 1, 1, 0],
        kind,
        all_told: 0,
        mask: QUEUE_PAIR_MASK,
        domain,
        unused: [0; 7],
        operations,
    }
}

/// A function of a device that libraries of today have, as `verbs_get_ctx_op` looks it up.
///
/// # Safety
/// `context` is one that libibverbs opened.
unsafe fn function_before(context: *mut c_void, before: usize) -> Option<*mut c_void> {
    // SAFETY: all contexts that libibverbs opens lie at the end of a `struct verbs_context`, which says its size.
    unsafe {
        let size = context.byte_sub(SIZE_BEFORE).cast::<usize>().read();
        let function = context.byte_sub(before).cast::<*mut c_void>();
        (size >= CONTEXT_BYTES + before).then(|| function.read()).filter(|function| !function.is_null())
    }
}

/// # Safety
/// There are as many bytes.
pub(super) unsafe fn copy(at: *const c_void, len_bytes: usize) -> ObjectCopy {
    // SAFETY: as the caller promises; nobody writes there meanwhile.
    (at as u64, unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len_bytes) }.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_as_large_as_their_header_has_them() {
        assert_eq!((size_of::<CompletionQueueWish>(), size_of::<QueuePairWish>()), (56, 136));
        assert_eq!(std::mem::offset_of!(QueuePairWish, operations), 128);
        assert_eq!(std::mem::offset_of!(QueuePairWish, domain), 64);
        assert_eq!(std::mem::offset_of!(CompletionQueueWish, told), 32);
    }
}

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * RDMA verbs: structures of <infiniband/verbs.h>, as far as they are read, and bounds.
 */
#ifndef DMSCOPE_VERBS_LAYOUT_H
#define DMSCOPE_VERBS_LAYOUT_H

/* Of one list, of one request, of one poll; what is beyond is counted as lost. */
#define MOST_REQUESTS 1024
#define MOST_SEGMENTS 64
#define MOST_COMPLETIONS 1024
/* Of struct ibv_qp. */
#define QUEUE_CONTEXT_AT 0
#define QUEUE_SEND_CQ_AT 24
#define QUEUE_RECEIVE_CQ_AT 32
#define QUEUE_SHARED_AT 40
#define QUEUE_HANDLE_AT 48
#define QUEUE_NUMBER_AT 52
#define QUEUE_TYPE_AT 60
/* Of struct ibv_qp_ex: what the program says of the next request. */
#define BUILT_NUMBER_AT 168
#define BUILT_FLAGS_AT 176
/* Of struct ibv_cq_ex. */
#define POLLED_STATUS_AT 132
#define POLLED_NUMBER_AT 136
/* Of struct ibv_device. */
#define DEVICE_NAME_AT 24
/* Of struct ibv_send_wr: where it writes or reads at the other end. */
#define REMOTE_AT 40
/* enum ibv_wr_opcode */
#define WR_RDMA_WRITE 0
#define WR_RDMA_WRITE_WITH_IMM 1
#define WR_RDMA_READ 4
#define WR_ATOMIC_CMP_AND_SWP 5
#define WR_ATOMIC_FETCH_AND_ADD 6
/* enum ibv_send_flags */
#define SEND_INLINE 8
/* enum ibv_wc_opcode */
#define WC_RECEIVE 128
/* What ibv_start_poll answers if there is nothing: ENOENT. */
#define NOTHING_THERE 2
/* enum ibv_qp_state */
#define STATE_READY_TO_RECEIVE 2
#define STATE_READY_TO_SEND 3
/* enum ibv_qp_type */
#define TYPE_RELIABLE_CONNECTED 2
/* enum ibv_qp_attr_mask */
#define ATTR_STATE 1

/* The beginning of struct ibv_send_wr and of struct ibv_recv_wr, which ends before the operation. */
struct work_request {
	__u64 number;
	__u64 next;
	__u64 segments;
	__u32 segment_count;
	__u32 operation;
	__u32 send_flags;
	__u32 immediate;
};

#define RECEIVE_REQUEST_BYTES offsetof(struct work_request, operation)

/* struct ibv_sge */
struct work_segment {
	__u64 addr;
	__u32 len_bytes;
	__u32 key;
};

/* struct ibv_wc */
struct work_completion {
	__u64 number;
	__u32 status;
	__u32 operation;
	__u32 vendor_error;
	__u32 len_bytes;
	__u32 immediate;
	__u32 queue;
	__u32 source_queue;
	__u32 flags;
	__u64 unused;
};

/* The beginning of struct ibv_qp_attr. */
struct queue_attributes {
	__u32 state;
	__u32 unused[4];
	__u32 receive_psn;
	__u32 send_psn;
	__u32 peer;
	__u32 more_unused[6];
	__u64 address[2];
	__u32 flow_label;
	__u8 index;
	__u8 hops[3];
	__u16 lid;
	__u8 level[3];
	__u8 is_global;
	__u8 port;
};

#endif

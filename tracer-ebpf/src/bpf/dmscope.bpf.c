/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * The BPF programs of dmscope: one generic program per class of probe; the cookie of a
 * probe says which one was hit. They decide nothing but what a record needs.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernel.h"

#ifndef __TARGET_ARCH_x86
#define __TARGET_ARCH_x86
#endif
#define __VMLINUX_H__ /* registers are named as in the kernel's own pt_regs */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "wire.h"
#include "common.h"
#include "context.h"
#include "copies.h"

/* Linux 7.0 gave it an argument; libbpf takes the one whose type the kernel has. */
bool bpf_session_is_return(void) __ksym __weak;
bool bpf_session_is_return___with_context(void *ctx) __ksym __weak;

/* Whether a session's program runs at the return. */
static __always_inline bool is_return(struct pt_regs *ctx)
{
	if (bpf_ksym_exists(bpf_session_is_return___with_context))
		return bpf_session_is_return___with_context(ctx);
	return bpf_session_is_return();
}

#include "own_time.h"
#include "calls.h"
#include "errors.h"
#include "shapes.h"
#include "sent_buffers.h"
#include "results.h"
#include "heap.h"
#include "memory.h"
#include "streams.h"
#include "verbs/layout.h"
#include "verbs/queues.h"
#include "verbs/work.h"
#include "verbs/building.h"
#include "verbs/posting.h"
#include "verbs/polling.h"
#include "life.h"
#include "threads.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

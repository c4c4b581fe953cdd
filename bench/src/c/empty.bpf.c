/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * Programs that do nothing: what is left is the kernel's own cost of a hit.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

SEC("uprobe.multi")
int empty(void *ctx)
{
	return 0;
}

SEC("uretprobe.multi")
int empty_return(void *ctx)
{
	return 0;
}

SEC("uprobe.session")
int empty_session(void *ctx)
{
	return 0;
}

SEC("uprobe.session")
int empty_session_declined(void *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
 *
 * What is read of MPI calls whose results are wanted, as the user side says.
 */
#ifndef DMSCOPE_SHAPES_H
#define DMSCOPE_SHAPES_H

#define MAX_SHAPES 512
#define MAX_READS 4
/* Of what one argument points to. */
#define MAX_VALUE_BYTES 8192
#define PIECE_BYTES (5 * 8)
/* Lower addresses are no places: libraries use them as special values. */
#define LOWEST_PLACE 4096

/* dms_read.how */
enum {
	READ_USED = 1,
	READ_AT_RETURN = 2,
	READ_COUNT_BEHIND = 4,	/* the count is not the argument itself, but where it points to */
	READ_INLINE = 8,	/* at most a word, and the only such one: goes with the RETURN */
};

/* The user side has the same. */
struct dms_read {
	__u8 argument;
	__u8 count_argument;	/* DMS_NO_ARGUMENT: one */
	__u8 how;
	__u8 element_bytes;
};

struct dms_shape {
	struct dms_read reads[MAX_READS];
	__u32 stack_arguments;	/* how many beyond the sixth are needed */
	__u32 answer;		/* which argument points to the answer of a polling call; or DMS_NO_ARGUMENT */
	/* See sent_buffers.h; 0: it has to do with none. */
	__u8 buffers;
	__u8 handle_bytes;
	/* Of a call that sends, which arguments these are. */
	__u8 buffer;
	__u8 count;
	__u8 datatype;
	__u8 request;
	__u8 unused[2];
};

struct dms_shape shapes[MAX_SHAPES] SEC(".data.shapes");

static __always_inline __u64 argument_of(struct thread *th, __u32 number)
{
	return th->args[number & (CALL_ARGUMENTS - 1)];
}

static __always_inline __u32 read_half(__u64 address)
{
	__u32 half = 0;

	bpf_probe_read_user(&half, sizeof(half), (void *)address);
	return half;
}

/* How much there is to read; 0: nothing. */
static __always_inline __u32 bytes_of(struct thread *th, struct dms_read *read)
{
	__s32 count = 1;

	if (argument_of(th, read->argument) < LOWEST_PLACE)
		return 0;
	if (read->count_argument != DMS_NO_ARGUMENT) {
		__u64 value = argument_of(th, read->count_argument);

		count = read->how & READ_COUNT_BEHIND ? read_half(value) : (__u32)value;
	}
	if (count <= 0 || count > MAX_VALUE_BYTES)
		return count <= 0 ? 0 : MAX_VALUE_BYTES;
	return count * read->element_bytes;
}

#endif

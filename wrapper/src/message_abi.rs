//! What the shim calls to write down envelopes of messages. Numbers are those of `shim.h`; a negative one stands for any, or none.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use replay::messages::{CollectiveOrder, MessageEnvelope, Pattern, PreparedOperation};

use crate::c_abi::with;
use crate::message_recorder::MessageRecorder;

/// Writes something down; it is given the address that the call was made from, and the call.
fn note(act: impl FnOnce(&mut MessageRecorder, u64, u32)) {
    with((), |rank| {
        let page = rank.page();
        let (address, call) =
            (page.return_address.load(Ordering::Relaxed), page.call.load(Ordering::Relaxed));
        let Some(messages) = &mut rank.messages else { return };
        act(messages, address, call);
        if let Err(why) = messages.write() {
            rank.stop_recording(&why);
        }
    });
}

fn optional(number: c_int) -> Option<u32> {
    u32::try_from(number).ok()
}

fn envelope(source: c_int, tag: c_int) -> Option<MessageEnvelope> {
    Some(MessageEnvelope { source: optional(source)?, tag: optional(tag)? })
}

fn pattern(messages: &mut MessageRecorder, comm: u64, source: c_int, tag: c_int) -> Pattern {
    let comm = messages.journal.comm(comm, &mut messages.out);
    Pattern { comm, source: optional(source), tag: optional(tag) }
}

/// A send begins.
#[unsafe(no_mangle)]
extern "C" fn dms_message_send(
    comm: u64,
    dest: c_int,
    tag: c_int,
    is_synchronous: c_int,
    has_request: c_int,
) {
    note(|messages, _, _| {
        let comm = messages.journal.comm(comm, &mut messages.out);
        let (dest, tag) = (dest as u32, tag as u32);
        let MessageRecorder { journal, out, .. } = messages;
        journal.send(comm, dest, tag, is_synchronous != 0, has_request != 0, out);
    });
}

/// Its request.
#[unsafe(no_mangle)]
extern "C" fn dms_message_sent(request: u64) {
    note(|messages, _, _| messages.journal.sent(request));
}

/// The request of what is for MPI_PROC_NULL.
#[unsafe(no_mangle)]
extern "C" fn dms_message_of_nobody(request: u64) {
    note(|messages, _, _| messages.journal.of_nobody(request));
}

/// A receive or probe has got a message.
#[unsafe(no_mangle)]
extern "C" fn dms_message_received(
    comm: u64,
    source: c_int,
    tag: c_int,
    is_probe: c_int,
    from: c_int,
    from_tag: c_int,
) {
    note(|messages, address, call| {
        let pattern = pattern(messages, comm, source, tag);
        let site = messages.site(address, call);
        let got = envelope(from, from_tag);
        messages.journal.received(site, pattern, is_probe != 0, got, &mut messages.out);
    });
}

/// A receive was posted.
#[unsafe(no_mangle)]
extern "C" fn dms_message_posted(comm: u64, source: c_int, tag: c_int, request: u64) {
    note(|messages, address, call| {
        let pattern = pattern(messages, comm, source, tag);
        let site = messages.site(address, call);
        messages.journal.posted(site, pattern, request, &mut messages.out);
    });
}

/// A persistent send was made.
#[unsafe(no_mangle)]
extern "C" fn dms_message_prepare_send(
    comm: u64,
    dest: c_int,
    tag: c_int,
    is_synchronous: c_int,
    request: u64,
) {
    note(|messages, _, _| {
        let comm = messages.journal.comm(comm, &mut messages.out);
        let (dest, tag, is_synchronous) = (dest as u32, tag as u32, is_synchronous != 0);
        messages.journal.prepare(request, PreparedOperation::Send { comm, dest, tag, is_synchronous });
    });
}

/// A persistent receive was made.
#[unsafe(no_mangle)]
extern "C" fn dms_message_prepare_receive(comm: u64, source: c_int, tag: c_int, request: u64) {
    note(|messages, address, call| {
        let pattern = pattern(messages, comm, source, tag);
        let site = messages.site(address, call);
        messages.journal.prepare(request, PreparedOperation::Receive { site, pattern });
    });
}

/// A persistent request is started.
#[unsafe(no_mangle)]
extern "C" fn dms_message_start(request: u64) {
    note(|messages, _, _| messages.journal.start(request, &mut messages.out));
}

/// A request is there no more.
#[unsafe(no_mangle)]
extern "C" fn dms_message_forget(request: u64) {
    note(|messages, _, _| messages.journal.forget(request));
}

/// A request is complete.
#[unsafe(no_mangle)]
extern "C" fn dms_message_done(request: u64, from: c_int, from_tag: c_int) {
    note(|messages, _, _| messages.journal.done(request, envelope(from, from_tag), &mut messages.out));
}

/// Its message is known.
#[unsafe(no_mangle)]
extern "C" fn dms_message_decided(request: u64, from: c_int, from_tag: c_int) {
    note(|messages, _, _| messages.journal.decided(request, envelope(from, from_tag), &mut messages.out));
}

/// A call has taken some of several requests.
///
/// # Safety
/// There are so many requests, and so many indices.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_message_choice(
    count: c_int,
    requests: *const u64,
    taken: c_int,
    indices: *const c_int,
) {
    let (Ok(count), Ok(taken)) = (usize::try_from(count), usize::try_from(taken)) else { return };
    if count == 0 || taken == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let (requests, indices) =
        unsafe { (std::slice::from_raw_parts(requests, count), std::slice::from_raw_parts(indices, taken)) };
    note(|messages, address, call| {
        let site = messages.site(address, call);
        let taken: Vec<u32> = indices.iter().filter_map(|index| optional(*index)).collect();
        messages.journal.choice(site, requests, &taken, &mut messages.out);
    });
}

/// A collective call begins.
#[unsafe(no_mangle)]
extern "C" fn dms_message_collective(comm: u64, order: c_int, root: c_int) {
    note(|messages, _, _| {
        let order = u64::try_from(order).ok().and_then(CollectiveOrder::of_number);
        let comm = messages.journal.comm(comm, &mut messages.out);
        let order = order.unwrap_or(CollectiveOrder::Unknown);
        messages.journal.collective(order, comm, optional(root), &mut messages.out);
    });
}

/// A communicator was made: ranks of its groups in MPI_COMM_WORLD.
///
/// # Safety
/// There are so many ranks.
#[unsafe(no_mangle)]
unsafe extern "C" fn dms_message_comm(
    comm: u64,
    count: c_int,
    group: *const c_int,
    remote_count: c_int,
    remote: *const c_int,
) {
    let ranks = |count: c_int, ranks: *const c_int| -> Vec<u32> {
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 || ranks.is_null() {
            return Vec::new();
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(ranks, count) }.iter().map(|rank| *rank as u32).collect()
    };
    let (group, remote) = (ranks(count, group), ranks(remote_count, remote));
    note(|messages, _, _| {
        messages.journal.new_comm(comm, &group, &remote, &mut messages.out);
    });
}

/// A communicator is there no more.
#[unsafe(no_mangle)]
extern "C" fn dms_message_comm_freed(comm: u64) {
    note(|messages, _, _| messages.journal.forget_comm(comm));
}

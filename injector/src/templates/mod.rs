//! The code that slots lead to, as it is copied into a process once for each hook.
//!
//! It is entered in place of a function, so it must leave all arguments, the stack and all registers that a called function
//! must keep as they are: it uses rax, r8 to r11 and the flags, which no caller counts on (of calls with more than four
//! arguments it saves r8 and r9). It calls nothing and returns nowhere, so that a shadow stack sees nothing of it, and begins
//! with `endbr64` for processes whose indirect jumps are tracked. But for allocators: see `heap`.

mod heap;
mod note;
mod pieces;
mod record;
mod whole;

use std::arch::global_asm;

use crate::heap::{HeapCall, MOST_FIRST_BYTES};
use crate::layout::{MAX_RINGS, STACK_BELOW_POINTER_BYTES, control, data, header, record as piece, rest};
use heap::{alloc_text, behind_probe, free_text, heap_record, unless_small, unless_unread};
use note::note_text;
use pieces::{find_ring, is_in_call, nobody_reads, note_call};
use record::record_text;
use whole::whole_text;

global_asm!(
    record_text!(),
    note_text!(),
    whole_text!(),
    alloc_text!(),
    free_text!(),
    OWNER = const header::OWNER,
    MAX_RINGS = const MAX_RINGS,
    STACK_BELOW = const STACK_BELOW_POINTER_BYTES,
    HEAD = const header::HEAD,
    LOST = const header::LOST,
    LOST_CALLS = const header::LOST_CALLS,
    CALL_SP = const header::CALL_SP,
    CALL_RETURN = const header::CALL_RETURN,
    CALL_HOOK = const header::CALL_HOOK,
    STACK_LOW = const header::STACK_LOW,
    STACK_HIGH = const header::STACK_HIGH,
    TAIL = const header::TAIL,
    DATA = const header::DATA,
    DEADLINE = const control::DEADLINE,
    CALLS_DEADLINE = const control::CALLS_DEADLINE,
    HEAP_DEADLINE = const control::HEAP_DEADLINE,
    HEAP_CALL = const data::HEAP_CALL,
    LEAST_BYTES = const data::LEAST_BYTES,
    OWN_LOW = const data::OWN_LOW,
    OWN_HIGH = const data::OWN_HIGH,
    BEHIND = const data::BEHIND,
    MOST_FIRST_BYTES = const MOST_FIRST_BYTES,
    CALLOC = const HeapCall::Calloc as u32,
    REALLOC = const HeapCall::Realloc as u32,
    CONTROL_LOST = const control::LOST,
    CONTROL_LOST_CALLS = const control::LOST_CALLS,
    TRAMPOLINE = const control::TRAMPOLINE,
    R_COUNTER = const piece::COUNTER,
    R_FIRST = const piece::FIRST,
    R_SECOND = const piece::SECOND,
    R_THIRD = const piece::THIRD,
    R_RETURN = const piece::RETURN,
    R_CALL_RETURN = const piece::CALL_RETURN,
    R_THREAD = const piece::THREAD,
    R_HOOK = const piece::HOOK,
    R_CALL_HOOK = const piece::CALL_HOOK,
    R_SERIAL = const piece::SERIAL,
    TARGET = const data::TARGET,
    GUARD = const data::GUARD,
    SHARED = const data::SHARED,
    THREAD_ID = const data::THREAD_ID,
    HOOK = const data::HOOK,
    MASK = const data::MASK,
    LIMIT = const data::LIMIT,
    PROCESS = const data::PROCESS,
    MAIN_LOW = const data::STACK_LOW,
    MAIN_HIGH = const data::STACK_HIGH,
    DATA_BYTES = const data::BYTES,
    MAY_BE_NESTED = const data::MAY_BE_NESTED,
    CALLS = const header::CALLS,
    CALL_NAME = const header::CALL_NAME,
    DATA_CALL_NAME = const data::CALL_NAME,
    R_FOURTH = const piece::FOURTH,
    R_FIFTH = const rest::FIFTH,
    R_SIXTH = const rest::SIXTH,
    R_STACK = const rest::STACK,
    R_CALLS = const rest::CALLS,
    R_REST_HOOK = const rest::HOOK,
    R_MADE = const rest::MADE,
    R_MADE_BY = const rest::MADE_BY,
    MADE_AT = const header::MADE_AT,
    MADE_BY = const header::MADE_BY,
    MADE_ARGUMENT = const data::MADE_ARGUMENT,
    DATA_MADE_BY = const data::MADE_BY,
    REQUESTS = const data::REQUESTS,
    PROGRAM_LOW = const data::PROGRAM_LOW,
    PROGRAM_HIGH = const data::PROGRAM_HIGH,
    READ_MEMORY = const libc::SYS_process_vm_readv,
    WHOLE = const piece::WHOLE,
    NESTED = const piece::NESTED,
    NO_HOOK = const rest::NO_HOOK,
    STACK_ARGUMENTS = const data::STACK_ARGUMENTS,
);

unsafe extern "C" {
    safe static dms_record_begin: u8;
    safe static dms_record_end: u8;
    safe static dms_note_begin: u8;
    safe static dms_note_end: u8;
    safe static dms_whole_begin: u8;
    safe static dms_whole_end: u8;
    safe static dms_alloc_begin: u8;
    safe static dms_alloc_first: u8;
    safe static dms_alloc_end: u8;
    safe static dms_free_begin: u8;
    safe static dms_free_first: u8;
    safe static dms_free_end: u8;
}

fn between(begin: &'static u8, end: &'static u8) -> &'static [u8] {
    let len = (&raw const *end as usize) - (&raw const *begin as usize);
    // SAFETY: both are labels of one section of read-only data that is assembled above, with all bytes between them.
    unsafe { std::slice::from_raw_parts(begin, len) }
}

/// Code of calls that are recorded; the data is at its end.
pub(crate) fn record_template() -> &'static [u8] {
    between(&dms_record_begin, &dms_record_end)
}

/// Code of calls that are noted.
pub(crate) fn note_template() -> &'static [u8] {
    between(&dms_note_begin, &dms_note_end)
}

/// Code of calls that are recorded whole.
pub(crate) fn whole_template() -> &'static [u8] {
    between(&dms_whole_begin, &dms_whole_end)
}

/// Code of calls that give out heap blocks.
pub(crate) fn alloc_template() -> &'static [u8] {
    between(&dms_alloc_begin, &dms_alloc_end)
}

/// Code of calls that take heap blocks back.
pub(crate) fn free_template() -> &'static [u8] {
    between(&dms_free_begin, &dms_free_end)
}

/// Where the first instructions of the function are put in the code of a call to an allocator.
pub(crate) fn first_at(call: HeapCall) -> usize {
    match call {
        HeapCall::Free => between(&dms_free_begin, &dms_free_first).len(),
        _ => between(&dms_alloc_begin, &dms_alloc_first).len(),
    }
}

/// Where the data begins in a template.
pub(crate) fn data_at(template: &[u8]) -> usize {
    template.len() - data::BYTES
}

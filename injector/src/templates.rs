//! The code that slots lead to, as it is copied into a process once for each hook.
//!
//! It is entered in place of a function, so it must leave all arguments, the stack and all registers that a called function
//! must keep as they are: it uses rax, r8 to r11 and the flags, which no caller counts on (of calls with more than four
//! arguments it saves r8 and r9). It calls nothing and returns nowhere, so that a shadow stack sees nothing of it, and begins
//! with `endbr64` for processes whose indirect jumps are tracked.

use std::arch::global_asm;

use crate::layout::{MAX_RINGS, STACK_BELOW_POINTER_BYTES, control, data, header, record};

/// Finds the header of the thread's ring: r9. Before: r10 the thread pointer, r11 the control page. Keeps rax; changes r8.
/// Goes on at `found`; at `none` if all rings belong to others.
macro_rules! find_ring {
    ($name:literal) => {
        concat!(
            "mov r9, r10\n",
            "shr r9, 12\n",
            "mov r8, 0x9E3779B97F4A7C15\n",
            "imul r9, r8\n",
            "shr r9, 58\n",
            "shl r9, 7\n",
            "lea r9, [r11 + r9 + 4096]\n",
            "cmp qword ptr [r9 + {OWNER}], r10\n",
            "je .Ldms_",
            $name,
            "_found\n",
            "mov r8d, {MAX_RINGS}\n",
            ".Ldms_",
            $name,
            "_look:\n",
            "cmp qword ptr [r9 + {OWNER}], r10\n",
            "je .Ldms_",
            $name,
            "_found\n",
            "cmp qword ptr [r9 + {OWNER}], 0\n",
            "jne .Ldms_",
            $name,
            "_next\n",
            // Two threads may want it.
            "push rax\n",
            "xor eax, eax\n",
            "lock cmpxchg qword ptr [r9 + {OWNER}], r10\n",
            "pop rax\n",
            "je .Ldms_",
            $name,
            "_claimed\n",
            ".Ldms_",
            $name,
            "_next:\n",
            "sub r9, r11\n",
            "sub r9, 4096 - 128\n",
            "and r9, 8191\n",
            "lea r9, [r11 + r9 + 4096]\n",
            "dec r8d\n",
            "jnz .Ldms_",
            $name,
            "_look\n",
            "jmp .Ldms_",
            $name,
            "_none\n",
            ".Ldms_",
            $name,
            "_claimed:\n",
            "mov r8, qword ptr [rip + .Ldms_",
            $name,
            "_data + {THREAD_ID}]\n",
            "mov r8d, dword ptr fs:[r8]\n",
            "cmp r8d, dword ptr [rip + .Ldms_",
            $name,
            "_data + {PROCESS}]\n",
            "je .Ldms_",
            $name,
            "_first\n",
            "lea r8, [r10 - {STACK_BELOW}]\n",
            "mov qword ptr [r9 + {STACK_LOW}], r8\n",
            "mov qword ptr [r9 + {STACK_HIGH}], r10\n",
            "jmp .Ldms_",
            $name,
            "_found\n",
            ".Ldms_",
            $name,
            "_first:\n",
            "mov r8, qword ptr [rip + .Ldms_",
            $name,
            "_data + {MAIN_LOW}]\n",
            "mov qword ptr [r9 + {STACK_LOW}], r8\n",
            "mov r8, qword ptr [rip + .Ldms_",
            $name,
            "_data + {MAIN_HIGH}]\n",
            "mov qword ptr [r9 + {STACK_HIGH}], r8\n",
            ".Ldms_",
            $name,
            "_found:\n",
        )
    };
}

/// Whether the noted call of the thread is still going on: its return address is where it was, and the stack is deeper. Before:
/// r9 the header, rax the stack pointer at the present call's own call instruction. Changes rax and r11. Goes on at `inside` or
/// `outside`. The return address is read only where the stack certainly is.
macro_rules! is_in_call {
    ($name:literal) => {
        concat!(
            "mov r11, qword ptr [r9 + {CALL_SP}]\n",
            "cmp rax, r11\n",
            "jae .Ldms_",
            $name,
            "_outside\n",
            "cmp rax, qword ptr [r9 + {STACK_LOW}]\n",
            "jb .Ldms_",
            $name,
            "_outside\n",
            "cmp r11, qword ptr [r9 + {STACK_HIGH}]\n",
            "jae .Ldms_",
            $name,
            "_outside\n",
            "mov rax, qword ptr [r11]\n",
            "cmp rax, qword ptr [r9 + {CALL_RETURN}]\n",
            "je .Ldms_",
            $name,
            "_inside\n",
            "cmp dword ptr [r9 + {CALL_HOOK} + 4], 0\n",
            "je .Ldms_",
            $name,
            "_outside\n",
            // The kernel has put its own address there, the same for all calls.
            "mov r11, qword ptr [rip + .Ldms_",
            $name,
            "_data + {SHARED}]\n",
            "cmp rax, qword ptr [r11 + {TRAMPOLINE}]\n",
            "je .Ldms_",
            $name,
            "_inside\n",
            "cmp qword ptr [r11 + {TRAMPOLINE}], 0\n",
            "jne .Ldms_",
            $name,
            "_outside\n",
            "mov qword ptr [r11 + {TRAMPOLINE}], rax\n",
            "jmp .Ldms_",
            $name,
            "_inside\n",
        )
    };
}

// A call that is recorded: three arguments, the return address, and the noted call that it is made in.
global_asm!(
    ".pushsection .rodata.dms_templates, \"a\"",
    ".balign 16",
    ".globl dms_record_begin, dms_record_end",
    ".hidden dms_record_begin, dms_record_end",
    "dms_record_begin:",
    "endbr64",
    "mov r10, qword ptr [rip + .Ldms_record_data + {GUARD}]",
    "cmp dword ptr [r10], 0",
    "je .Ldms_record_out",
    "mov r8, rdx",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov rdx, r8",
    "mov r11, qword ptr [rip + .Ldms_record_data + {SHARED}]",
    "cmp rax, qword ptr [r11 + {DEADLINE}]",
    "jae .Ldms_record_out",
    "mov r10, qword ptr fs:[0]",
    find_ring!("record"),
    "mov r10, qword ptr [r9 + {HEAD}]",
    "sub r10, qword ptr [r9 + {TAIL}]",
    "cmp r10, qword ptr [rip + .Ldms_record_data + {LIMIT}]",
    "jae .Ldms_record_full",
    // No lock: the ring is the thread's own, and a signal comes before or after it.
    "mov r10d, 1",
    "xadd qword ptr [r9 + {HEAD}], r10",
    "mov r8, r10",
    "and r8, qword ptr [rip + .Ldms_record_data + {MASK}]",
    "shl r8, 6",
    "add r8, qword ptr [r9 + {DATA}]",
    "mov qword ptr [r8 + {R_COUNTER}], rax",
    "mov qword ptr [r8 + {R_FIRST}], rdi",
    "mov qword ptr [r8 + {R_SECOND}], rsi",
    "mov qword ptr [r8 + {R_THIRD}], rdx",
    "mov rax, qword ptr [rsp]",
    "mov qword ptr [r8 + {R_RETURN}], rax",
    "mov rax, qword ptr [rip + .Ldms_record_data + {THREAD_ID}]",
    "mov eax, dword ptr fs:[rax]",
    "mov dword ptr [r8 + {R_THREAD}], eax",
    "mov eax, dword ptr [rip + .Ldms_record_data + {HOOK}]",
    "mov dword ptr [r8 + {R_HOOK}], eax",
    "lea rax, [rsp + 8]",
    is_in_call!("record"),
    ".Ldms_record_outside:",
    "mov qword ptr [r8 + {R_CALL_RETURN}], 0",
    "mov dword ptr [r8 + {R_CALL_HOOK}], 0",
    "jmp .Ldms_record_commit",
    ".Ldms_record_inside:",
    "mov rax, qword ptr [r9 + {CALL_RETURN}]",
    "mov qword ptr [r8 + {R_CALL_RETURN}], rax",
    "mov eax, dword ptr [r9 + {CALL_HOOK}]",
    "mov dword ptr [r8 + {R_CALL_HOOK}], eax",
    ".Ldms_record_commit:",
    "inc r10d",
    "mov dword ptr [r8 + {R_SERIAL}], r10d",
    ".Ldms_record_out:",
    "jmp qword ptr [rip + .Ldms_record_data + {TARGET}]",
    ".Ldms_record_full:",
    "inc qword ptr [r9 + {LOST}]",
    "jmp .Ldms_record_out",
    ".Ldms_record_none:",
    "lock inc qword ptr [r11 + {CONTROL_LOST}]",
    "jmp .Ldms_record_out",
    ".balign 16",
    ".Ldms_record_data:",
    ".zero {DATA_BYTES}",
    "dms_record_end:",
    ".popsection",
    OWNER = const header::OWNER,
    MAX_RINGS = const MAX_RINGS,
    STACK_BELOW = const STACK_BELOW_POINTER_BYTES,
    HEAD = const header::HEAD,
    LOST = const header::LOST,
    CALL_SP = const header::CALL_SP,
    CALL_RETURN = const header::CALL_RETURN,
    CALL_HOOK = const header::CALL_HOOK,
    STACK_LOW = const header::STACK_LOW,
    STACK_HIGH = const header::STACK_HIGH,
    TAIL = const header::TAIL,
    DATA = const header::DATA,
    DEADLINE = const control::DEADLINE,
    CONTROL_LOST = const control::LOST,
    TRAMPOLINE = const control::TRAMPOLINE,
    R_COUNTER = const record::COUNTER,
    R_FIRST = const record::FIRST,
    R_SECOND = const record::SECOND,
    R_THIRD = const record::THIRD,
    R_RETURN = const record::RETURN,
    R_CALL_RETURN = const record::CALL_RETURN,
    R_THREAD = const record::THREAD,
    R_HOOK = const record::HOOK,
    R_CALL_HOOK = const record::CALL_HOOK,
    R_SERIAL = const record::SERIAL,
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
);

// A call that is noted only: records that are made in it say so.
global_asm!(
    ".pushsection .rodata.dms_templates, \"a\"",
    ".balign 16",
    ".globl dms_note_begin, dms_note_end",
    ".hidden dms_note_begin, dms_note_end",
    "dms_note_begin:",
    "endbr64",
    "mov r10, qword ptr [rip + .Ldms_note_data + {GUARD}]",
    "cmp dword ptr [r10], 0",
    "je .Ldms_note_out",
    "push r8",
    "push r9",
    "mov r11, qword ptr [rip + .Ldms_note_data + {SHARED}]",
    "mov r10, qword ptr fs:[0]",
    find_ring!("note"),
    "cmp dword ptr [rip + .Ldms_note_data + {MAY_BE_NESTED}], 0",
    "je .Ldms_note_outside",
    "lea rax, [rsp + 16]",
    is_in_call!("note"),
    ".Ldms_note_outside:",
    // Nobody is in a call that is half noted.
    "mov qword ptr [r9 + {CALL_SP}], 0",
    "mov rax, qword ptr [rsp + 16]",
    "mov qword ptr [r9 + {CALL_RETURN}], rax",
    "mov rax, qword ptr [rip + .Ldms_note_data + {HOOK}]",
    "mov qword ptr [r9 + {CALL_HOOK}], rax",
    "lea rax, [rsp + 16]",
    "mov qword ptr [r9 + {CALL_SP}], rax",
    ".Ldms_note_inside:",
    ".Ldms_note_none:",
    "pop r9",
    "pop r8",
    ".Ldms_note_out:",
    "jmp qword ptr [rip + .Ldms_note_data + {TARGET}]",
    ".balign 16",
    ".Ldms_note_data:",
    ".zero {DATA_BYTES}",
    "dms_note_end:",
    ".popsection",
    OWNER = const header::OWNER,
    MAX_RINGS = const MAX_RINGS,
    STACK_BELOW = const STACK_BELOW_POINTER_BYTES,
    CALL_SP = const header::CALL_SP,
    CALL_RETURN = const header::CALL_RETURN,
    CALL_HOOK = const header::CALL_HOOK,
    STACK_LOW = const header::STACK_LOW,
    STACK_HIGH = const header::STACK_HIGH,
    TRAMPOLINE = const control::TRAMPOLINE,
    TARGET = const data::TARGET,
    GUARD = const data::GUARD,
    SHARED = const data::SHARED,
    THREAD_ID = const data::THREAD_ID,
    HOOK = const data::HOOK,
    PROCESS = const data::PROCESS,
    MAIN_LOW = const data::STACK_LOW,
    MAIN_HIGH = const data::STACK_HIGH,
    MAY_BE_NESTED = const data::MAY_BE_NESTED,
    DATA_BYTES = const data::BYTES,
);

unsafe extern "C" {
    safe static dms_record_begin: u8;
    safe static dms_record_end: u8;
    safe static dms_note_begin: u8;
    safe static dms_note_end: u8;
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

/// Where the data begins in a template.
pub(crate) fn data_at(template: &[u8]) -> usize {
    template.len() - data::BYTES
}

//! What several templates have in common. `name`: of the template, before its labels.

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

/// Nobody has said for long that the thread's records are read: from here on it is not asked what time it is, until somebody says so
/// again. `deadline`: the place of what was found to be over. Before: rax the counter, r11 the control page. Changes rax, r8 and r10. Goes
/// on at `to`.
macro_rules! nobody_reads {
    ($deadline:literal, $to:literal) => {
        concat!(
            "mov r10, rax\n",
            "mov rax, qword ptr [r11 + ",
            $deadline,
            "]\n",
            // It may have been said just now.
            "cmp r10, rax\n",
            "jb ",
            $to,
            "\n",
            "test rax, rax\n",
            "jz ",
            $to,
            "\n",
            "xor r8d, r8d\n",
            "lock cmpxchg qword ptr [r11 + ",
            $deadline,
            "], r8\n",
            "jmp ",
            $to,
            "\n",
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

/// Notes the thread's call. Before: r9 the header; `at`: where its return address lies, from the stack pointer. Changes rax.
macro_rules! note_call {
    ($name:literal, $at:literal) => {
        concat!(
            // Nobody is in a call that is half noted.
            "mov qword ptr [r9 + {CALL_SP}], 0\n",
            "mov rax, qword ptr [rsp + ",
            $at,
            "]\n",
            "mov qword ptr [r9 + {CALL_RETURN}], rax\n",
            "mov rax, qword ptr [rip + .Ldms_",
            $name,
            "_data + {HOOK}]\n",
            "mov qword ptr [r9 + {CALL_HOOK}], rax\n",
            "mov eax, dword ptr [rip + .Ldms_",
            $name,
            "_data + {DATA_CALL_NAME}]\n",
            "mov dword ptr [r9 + {CALL_NAME}], eax\n",
            "lea rax, [rsp + ",
            $at,
            "]\n",
            "mov qword ptr [r9 + {CALL_SP}], rax\n",
            // Last: whoever sees another number than before sees all of the note.
            "inc dword ptr [r9 + {CALLS}]\n",
        )
    };
}
pub(super) use {find_ring, is_in_call, nobody_reads, note_call};

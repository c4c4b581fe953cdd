//! The code of calls that give out or take back heap blocks. Small ones are nobody's messages: they go on at once, unless the
//! program asks for them itself.
//!
//! A probe of the kernel stays in the allocator, for calls that come another way, and for all of them as long as nobody reads
//! here. So what is done here passes it by: the first instructions of the function are run here, and it is entered behind the probe.
//! Whoever wants the result calls it; everything else jumps.

/// Enters the function behind the kernel's probe: the instructions that lie before are put at `dms_…_first`, in the place of some that do
/// nothing.
macro_rules! behind_probe {
    ($name:literal) => {
        concat!(
            ".Ldms_",
            $name,
            "_behind:\n",
            "dms_",
            $name,
            "_first:\n",
            ".zero {MOST_FIRST_BYTES}, 0x90\n",
            "notrack jmp qword ptr [rip + .Ldms_",
            $name,
            "_data + {BEHIND}]\n",
        )
    };
}

/// Goes on at `wanted` if a block is large or the program's own, else behind the probe. Before: rax its size. Changes r11.
macro_rules! unless_small {
    ($name:literal) => {
        concat!(
            "cmp rax, qword ptr [rip + .Ldms_",
            $name,
            "_data + {LEAST_BYTES}]\n",
            "jae .Ldms_",
            $name,
            "_wanted\n",
            "mov r11, qword ptr [rsp]\n",
            "cmp r11, qword ptr [rip + .Ldms_",
            $name,
            "_data + {OWN_LOW}]\n",
            "jb .Ldms_",
            $name,
            "_behind\n",
            "cmp r11, qword ptr [rip + .Ldms_",
            $name,
            "_data + {OWN_HIGH}]\n",
            "jb .Ldms_",
            $name,
            "_wanted\n",
        )
    };
}

/// Goes on at `kernel` if this is a child of fork, or nobody reads. Changes r11, which becomes the control page.
macro_rules! unless_unread {
    ($name:literal) => {
        concat!(
            "mov r11, qword ptr [rip + .Ldms_",
            $name,
            "_data + {GUARD}]\n",
            "cmp dword ptr [r11], 0\n",
            "je .Ldms_",
            $name,
            "_kernel\n",
            "mov r11, qword ptr [rip + .Ldms_",
            $name,
            "_data + {SHARED}]\n",
            "cmp qword ptr [r11 + {HEAP_DEADLINE}], 0\n",
            "je .Ldms_",
            $name,
            "_kernel\n",
        )
    };
}

/// Writes a record of rsi, rcx and rdi at the time rax. Before: r9 the header, and the return address on top of the stack.
/// Changes rax, rdx and r10.
macro_rules! heap_record {
    ($name:literal) => {
        concat!(
            "mov r10d, 1\n",
            "xadd qword ptr [r9 + {HEAD}], r10\n",
            "mov rdx, r10\n",
            "and rdx, qword ptr [rip + .Ldms_",
            $name,
            "_data + {MASK}]\n",
            "shl rdx, 6\n",
            "add rdx, qword ptr [r9 + {DATA}]\n",
            "mov qword ptr [rdx + {R_COUNTER}], rax\n",
            "mov qword ptr [rdx + {R_FIRST}], rsi\n",
            "mov qword ptr [rdx + {R_SECOND}], rcx\n",
            "mov qword ptr [rdx + {R_THIRD}], rdi\n",
            "mov rax, qword ptr [rsp]\n",
            "mov qword ptr [rdx + {R_RETURN}], rax\n",
            "mov qword ptr [rdx + {R_CALL_RETURN}], 0\n",
            "mov rax, qword ptr [rip + .Ldms_",
            $name,
            "_data + {THREAD_ID}]\n",
            "mov eax, dword ptr fs:[rax]\n",
            "mov dword ptr [rdx + {R_THREAD}], eax\n",
            "mov eax, dword ptr [rip + .Ldms_",
            $name,
            "_data + {HOOK}]\n",
            "mov dword ptr [rdx + {R_HOOK}], eax\n",
            "mov dword ptr [rdx + {R_CALL_HOOK}], 0\n",
            "inc r10d\n",
            "mov dword ptr [rdx + {R_SERIAL}], r10d\n",
        )
    };
}

macro_rules! alloc_text {
    () => {
        concat!(
            ".pushsection .rodata.dms_templates, \"a\"\n",
            ".balign 16\n",
            ".globl dms_alloc_begin, dms_alloc_first, dms_alloc_end\n",
            ".hidden dms_alloc_begin, dms_alloc_first, dms_alloc_end\n",
            "dms_alloc_begin:\n",
            "endbr64\n",
            // How much is asked for: rax.
            "mov r10d, dword ptr [rip + .Ldms_alloc_data + {HEAP_CALL}]\n",
            "mov rax, rdi\n",
            "test r10d, r10d\n",
            "jz .Ldms_alloc_sized\n",
            "mov rax, rsi\n",
            "cmp r10d, {CALLOC}\n",
            "jne .Ldms_alloc_sized\n",
            "imul rax, rdi\n",
            ".Ldms_alloc_sized:\n",
            unless_small!("alloc"),
            behind_probe!("alloc"),
            ".Ldms_alloc_wanted:\n",
            unless_unread!("alloc"),
            // The block that is replaced: r8. If there is none the library calls its malloc, and that is seen there.
            "xor r8d, r8d\n",
            "cmp r10d, {REALLOC}\n",
            "jne .Ldms_alloc_whole\n",
            "mov r8, rdi\n",
            "test r8, r8\n",
            "jz .Ldms_alloc_kernel\n",
            ".Ldms_alloc_whole:\n",
            "push rax\n",
            "push r8\n",
            "mov r10, qword ptr fs:[0]\n",
            find_ring!("alloc"),
            "mov r10, qword ptr [r9 + {HEAD}]\n",
            "sub r10, qword ptr [r9 + {TAIL}]\n",
            "cmp r10, qword ptr [rip + .Ldms_alloc_data + {LIMIT}]\n",
            "jae .Ldms_alloc_none\n",
            // With this the stack is a multiple of 16, as it must be before a call.
            "push r9\n",
            "call .Ldms_alloc_behind\n",
            "pop r9\n",
            "pop rdi\n",
            "pop rcx\n",
            "mov r8, rax\n",
            "mov rsi, rax\n",
            "test rsi, rsi\n",
            "jz .Ldms_alloc_out\n",
            "rdtsc\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            "mov r11, qword ptr [rip + .Ldms_alloc_data + {SHARED}]\n",
            "cmp rax, qword ptr [r11 + {HEAP_DEADLINE}]\n",
            "jae .Ldms_alloc_late\n",
            heap_record!("alloc"),
            ".Ldms_alloc_out:\n",
            "mov rax, r8\n",
            "ret\n",
            ".Ldms_alloc_late:\n",
            "mov rcx, r8\n",
            nobody_reads!("{HEAP_DEADLINE}", ".Ldms_alloc_over"),
            ".Ldms_alloc_over:\n",
            "mov rax, rcx\n",
            "ret\n",
            ".Ldms_alloc_none:\n",
            "add rsp, 16\n",
            ".Ldms_alloc_kernel:\n",
            "jmp qword ptr [rip + .Ldms_alloc_data + {TARGET}]\n",
            ".balign 16\n",
            ".Ldms_alloc_data:\n",
            ".zero {DATA_BYTES}\n",
            "dms_alloc_end:\n",
            ".popsection\n",
        )
    };
}

macro_rules! free_text {
    () => {
        concat!(
            ".pushsection .rodata.dms_templates, \"a\"\n",
            ".balign 16\n",
            ".globl dms_free_begin, dms_free_first, dms_free_end\n",
            ".hidden dms_free_begin, dms_free_first, dms_free_end\n",
            "dms_free_begin:\n",
            "endbr64\n",
            "test rdi, rdi\n",
            "jz .Ldms_free_nothing\n",
            // The word before a block has its size, and flags in the lowest bits: the function reads it as well.
            "mov rax, qword ptr [rdi - 8]\n",
            "and rax, -8\n",
            unless_small!("free"),
            "jmp .Ldms_free_behind\n",
            ".Ldms_free_wanted:\n",
            unless_unread!("free"),
            "rdtsc\n",
            "shl rdx, 32\n",
            "or rax, rdx\n",
            "cmp rax, qword ptr [r11 + {HEAP_DEADLINE}]\n",
            "jae .Ldms_free_late\n",
            "mov r10, qword ptr fs:[0]\n",
            find_ring!("free"),
            "mov r10, qword ptr [r9 + {HEAD}]\n",
            "sub r10, qword ptr [r9 + {TAIL}]\n",
            "cmp r10, qword ptr [rip + .Ldms_free_data + {LIMIT}]\n",
            "jae .Ldms_free_kernel\n",
            "mov rsi, rdi\n",
            "xor ecx, ecx\n",
            heap_record!("free"),
            behind_probe!("free"),
            ".Ldms_free_nothing:\n",
            "ret\n",
            ".Ldms_free_late:\n",
            nobody_reads!("{HEAP_DEADLINE}", ".Ldms_free_kernel"),
            ".Ldms_free_none:\n",
            ".Ldms_free_kernel:\n",
            "jmp qword ptr [rip + .Ldms_free_data + {TARGET}]\n",
            ".balign 16\n",
            ".Ldms_free_data:\n",
            ".zero {DATA_BYTES}\n",
            "dms_free_end:\n",
            ".popsection\n",
        )
    };
}
pub(super) use {alloc_text, behind_probe, free_text, heap_record, unless_small, unless_unread};

//! The code of calls that are noted only: records that are made in them say so.

macro_rules! note_text {
    () => {
        concat!(
            ".pushsection .rodata.dms_templates, \"a\"\n",
            ".balign 16\n",
            ".globl dms_note_begin, dms_note_end\n",
            ".hidden dms_note_begin, dms_note_end\n",
            "dms_note_begin:\n",
            "endbr64\n",
            "mov r10, qword ptr [rip + .Ldms_note_data + {GUARD}]\n",
            "cmp dword ptr [r10], 0\n",
            "je .Ldms_note_out\n",
            "push r8\n",
            "push r9\n",
            "mov r11, qword ptr [rip + .Ldms_note_data + {SHARED}]\n",
            "mov r10, qword ptr fs:[0]\n",
            find_ring!("note"),
            "cmp dword ptr [rip + .Ldms_note_data + {MAY_BE_NESTED}], 0\n",
            "je .Ldms_note_outside\n",
            "lea rax, [rsp + 16]\n",
            is_in_call!("note"),
            ".Ldms_note_outside:\n",
            note_call!("note", "16"),
            ".Ldms_note_inside:\n",
            ".Ldms_note_none:\n",
            "pop r9\n",
            "pop r8\n",
            ".Ldms_note_out:\n",
            "jmp qword ptr [rip + .Ldms_note_data + {TARGET}]\n",
            ".balign 16\n",
            ".Ldms_note_data:\n",
            ".zero {DATA_BYTES}\n",
            "dms_note_end:\n",
            ".popsection\n",
        )
    };
}
pub(super) use note_text;

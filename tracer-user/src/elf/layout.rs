//! Finding where a library keeps things in its structures, from the code that uses them.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::facts::ElfFacts;
use super::flow::{Flow, Width};

/// In Open MPI's convertor the pointer to the user's buffer is followed by its stack pointer
/// and then by the function that advances it.
const BASE_BEFORE_ADVANCE_BYTES: u64 = 16;

/// Where in a convertor the pointer to the user's buffer is, from the code of
/// `opal_convertor_pack`: it ends in a jump (or call) to the convertor's advance function.
/// `None` unless the code also uses the field that is found.
pub fn convertor_base_offset(elf: &ElfFacts<'_>, convertor_pack: u64) -> Option<u64> {
    let flow = Flow::follow(elf.body(convertor_pack)?, convertor_pack, 0, Width::Whole)?;
    let advance =
        flow.reached().find_map(|(index, instruction, _)| advance_offset(&flow, index, instruction))?;
    let base = advance.checked_sub(BASE_BEFORE_ADVANCE_BYTES)?;
    let used = flow.reached().any(|(_, instruction, state)| {
        matches!(instruction.mnemonic(), Mnemonic::Add | Mnemonic::Mov)
            && instruction.op1_kind() == OpKind::Memory
            && state.holds(instruction.memory_base())
            && instruction.memory_displacement64() == base
    });
    used.then_some(base)
}

/// The field that an indirect jump or call takes its target from, if it is one of the argument.
fn advance_offset(flow: &Flow, index: usize, jump: &Instruction) -> Option<u64> {
    if !matches!(jump.flow_control(), FlowControl::IndirectBranch | FlowControl::IndirectCall) {
        return None;
    }
    if jump.op0_kind() == OpKind::Memory {
        return field(flow, index);
    }
    let register = jump.op0_register();
    let block = &flow.blocks[flow.block_of(index)];
    let load = (block.first..index).rev().find(|n| {
        let i = &flow.instructions[*n];
        i.op0_kind() == OpKind::Register && i.op0_register() == register
    })?;
    (flow.instructions[load].mnemonic() == Mnemonic::Mov).then(|| field(flow, load)).flatten()
}

/// The offset of a memory operand in what the argument points to.
fn field(flow: &Flow, index: usize) -> Option<u64> {
    let instruction = &flow.instructions[index];
    let state = flow.states[index].as_ref()?;
    let plain = instruction.memory_index() == Register::None;
    (plain && state.holds(instruction.memory_base())).then(|| instruction.memory_displacement64())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BASE, of_code};
    use super::*;

    /// `if (flags) { r13 += conv->base; … } else return conv->advance(conv, …)`
    const PACK: [u8; 17] = [
        0x85, 0xf6, // test %esi,%esi
        0x74, 0x07, // je general
        0x4c, 0x03, 0x6f, 0x48, // add 0x48(%rdi),%r13
        0xc3, // ret
        0x90, 0x90, // nop
        0x48, 0x8b, 0x47, 0x58, // mov 0x58(%rdi),%rax
        0xff, 0xe0, // jmp *%rax
    ];

    #[test]
    fn the_users_buffer_is_found_from_the_advance_function() {
        assert_eq!(convertor_base_offset(&of_code(&PACK), BASE), Some(0x48));
    }

    #[test]
    fn a_field_that_the_code_does_not_use_is_not_believed() {
        let mut code = PACK;
        code[7] = 0x40;
        assert_eq!(convertor_base_offset(&of_code(&code), BASE), None);
    }
}

//! Finding where a library keeps things in its structures, from the code that uses them.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::facts::ElfFacts;
use super::flow::Flow;

/// In Open MPI's convertor the pointer to the user's buffer is followed by its stack pointer
/// and then by the function that advances it.
const BASE_BEFORE_ADVANCE_BYTES: u64 = 16;

/// Where in a convertor the pointer to the user's buffer is, from the code of
/// `opal_convertor_pack`: it ends in a jump (or call) to the convertor's advance function.
/// `None` unless the code also uses the field that is found.
pub fn convertor_base_offset(elf: &ElfFacts<'_>, convertor_pack: u64) -> Option<u64> {
    let flow = Flow::follow(elf.body(convertor_pack)?, convertor_pack, 0)?;
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

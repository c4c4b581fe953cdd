//! Small questions about instructions.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind,
    Register,
};

/// A decoder for 64-bit code; it goes on after bytes that are no instruction.
pub(super) fn decoder(bytes: &[u8], vaddr: u64) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, vaddr, DecoderOptions::NONE)
}

/// Length of the first instruction; `None` if it is none.
pub fn instruction_len(code: &[u8]) -> Option<usize> {
    let instruction = decoder(code, 0).iter().next()?;
    (!instruction.is_invalid()).then(|| instruction.len())
}

/// Longer functions are not analysed: nothing that answers a question is this long.
const MAX_INSTRUCTIONS: usize = 20_000;

/// All instructions of a function; `None`: it is too long to be analysed.
pub(super) fn decode_function(body: &[u8], vaddr: u64) -> Option<Vec<Instruction>> {
    let all: Vec<Instruction> = decoder(body, vaddr).iter().take(MAX_INSTRUCTIONS + 1).collect();
    (all.len() <= MAX_INSTRUCTIONS).then_some(all)
}

/// All instructions of a piece of code.
pub(super) fn decode_all(bytes: &[u8], vaddr: u64) -> Vec<Instruction> {
    decoder(bytes, vaddr).iter().collect()
}

/// The address of the slot, for an operand of the form `slot(%rip)`.
pub(super) fn slot_of(instruction: &Instruction) -> Option<u64> {
    let has_memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    (has_memory && instruction.is_ip_rel_memory_operand()).then(|| instruction.ip_rel_memory_address())
}

/// Where a direct jump or call goes.
pub(super) fn direct_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16)
        .then(|| instruction.near_branch_target())
}

/// Whether the instruction can be left for another place than the next one, other than by a
/// call that comes back.
pub(super) fn leaves(instruction: &Instruction) -> bool {
    !matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall)
}

/// The stack slot of an argument that does not come in a register.
pub(super) fn incoming_slot(argument: usize) -> Option<i64> {
    let on_stack = argument.checked_sub(ARGUMENTS.len())?;
    i64::try_from(8 * (on_stack + 1)).ok()
}

/// A set of the sixteen general registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RegisterSet(pub u16);

impl RegisterSet {
    /// Registers that a function of the System V interface may leave changed.
    pub const CALLER_SAVED: Self = Self(0b0000_1111_1100_0111);

    /// The set with one register, whatever part of it is named; empty if it is not a general one.
    pub fn one(register: Register) -> Self {
        let full = register.full_register();
        if full.is_gpr64() { Self(1 << full.number()) } else { Self(0) }
    }

    /// The first so many integer arguments (at most six are in registers).
    pub fn arguments(count: usize) -> Self {
        ARGUMENTS.iter().take(count).fold(Self(0), |set, r| set.with(Self::one(*r)))
    }

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Registers of the integer arguments, in order.
pub(super) const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];

/// General registers that an instruction may change.
pub(super) fn written(info: &mut InstructionInfoFactory, instruction: &Instruction) -> RegisterSet {
    if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
        || matches!(instruction.code(), Code::Syscall | Code::Sysenter)
    {
        return RegisterSet::CALLER_SAVED;
    }
    let mut set = RegisterSet::default();
    for used in info.info(instruction).used_registers() {
        if !matches!(
            used.access(),
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        ) {
            set = set.with(RegisterSet::one(used.register()));
        }
    }
    set
}

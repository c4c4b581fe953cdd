//! What a call was given, from the instructions that come just before it.
//!
//! The caller of a function that waits still has its registers: those that calls keep, and the stack pointer, are what they
//! were when the arguments were made ready. Code that is no longer running thus says what it made them from.

use std::collections::HashSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::decode::{ARGUMENTS, RegisterSet, decode_function, direct_target, leaves, written};
use super::facts::ElfFacts;

/// Arguments that come in registers.
pub const REGISTER_ARGUMENTS: usize = ARGUMENTS.len();
/// How far back the instructions are looked at: arguments are made ready just before a call.
const MOST_BACK: usize = 64;
/// Moves from register to register that one value is followed through.
const MOST_MOVES: usize = 8;

/// What an argument was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedFrom {
    /// Nothing else.
    Constant,
    /// An address of the file.
    File,
    /// A register of the caller, by the number that instructions encode it with, as it is when the call comes back.
    Register(usize),
}

/// An argument as it was made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedArgument {
    /// What it was made from.
    pub from: PassedFrom,
    /// What was added to that.
    pub distance: u64,
    /// How many bytes were read from memory at that place; `None`: it is that place itself.
    pub read_bytes: Option<u8>,
    /// Only the lower 32 bits of it.
    pub lower: bool,
}

impl PassedArgument {
    fn made_from(from: PassedFrom, distance: u64) -> Self {
        Self { from, distance, read_bytes: None, lower: false }
    }

    fn plus(self, distance: u64) -> Option<Self> {
        let is_place = self.read_bytes.is_none() && !self.lower;
        is_place.then(|| Self { distance: self.distance.wrapping_add(distance), ..self })
    }
}

/// What the call that returns to `return_vaddr` was given in registers, as far as the code just before it says;
/// `None`: no call is there, or its function cannot be followed.
pub fn passed_arguments(
    elf: &ElfFacts<'_>,
    return_vaddr: u64,
) -> Option<[Option<PassedArgument>; REGISTER_ARGUMENTS]> {
    let start = elf.start_of(return_vaddr.checked_sub(1)?)?;
    let instructions = decode_function(elf.body(start)?, start)?;
    let call = instructions.binary_search_by_key(&return_vaddr, Instruction::next_ip).ok()?;
    let is_call = matches!(instructions[call].flow_control(), FlowControl::Call | FlowControl::IndirectCall);
    // A jump table might lead in between.
    let is_followed = !instructions.iter().any(|i| i.flow_control() == FlowControl::IndirectBranch);
    (is_call && is_followed).then(|| {
        let entered = instructions.iter().filter(|i| leaves(i)).filter_map(direct_target).collect();
        let before = BeforeCall { first: first_of(&instructions, call, &entered), call, instructions };
        ARGUMENTS.map(|register| before.value(register, call, MOST_MOVES))
    })
}

/// The first instruction of those before a call that are gone through one after the other.
fn first_of(instructions: &[Instruction], call: usize, entered: &HashSet<u64>) -> usize {
    let mut first = call;
    while first > call.saturating_sub(MOST_BACK) && !entered.contains(&instructions[first].ip()) {
        let flow = instructions[first - 1].flow_control();
        let goes_on =
            !matches!(flow, FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::Exception);
        if !goes_on || instructions[first - 1].is_invalid() {
            break;
        }
        first -= 1;
    }
    first
}

/// The instructions from `first` to the call.
struct BeforeCall {
    instructions: Vec<Instruction>,
    first: usize,
    call: usize,
}

impl BeforeCall {
    /// What a register has before an instruction.
    fn value(&self, register: Register, before: usize, most_moves: usize) -> Option<PassedArgument> {
        let wanted = RegisterSet::one(register);
        if wanted == RegisterSet::default() || most_moves == 0 {
            return None;
        }
        if !RegisterSet::CALLER_SAVED.meets(wanted) && !self.is_written(wanted, before) {
            let number = register.full_register().number();
            return Some(PassedArgument::made_from(PassedFrom::Register(number), 0));
        }
        let mut info = InstructionInfoFactory::new();
        let writes = |at: &usize| written(&mut info, &self.instructions[*at]).meets(wanted);
        let writer = (self.first..before).rev().find(writes)?;
        self.result(&self.instructions[writer], writer, most_moves - 1)
    }

    /// Whether any of these registers changes from an instruction to the call.
    fn is_written(&self, registers: RegisterSet, from: usize) -> bool {
        let mut info = InstructionInfoFactory::new();
        self.instructions[from..self.call].iter().any(|i| {
            // A call gives back what it must keep.
            written(&mut info, i).meets(registers)
        })
    }

    /// What an instruction leaves in its first operand.
    fn result(&self, instruction: &Instruction, at: usize, most_moves: usize) -> Option<PassedArgument> {
        let to = instruction.op0_register();
        // A part of a register leaves the rest as it was.
        if instruction.op0_kind() != OpKind::Register || !(to.is_gpr64() || to.is_gpr32()) {
            return None;
        }
        let constant = |value| Some(PassedArgument::made_from(PassedFrom::Constant, value));
        let whole = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Xor | Mnemonic::Sub, OpKind::Register) if instruction.op1_register() == to => {
                constant(0)
            }
            (Mnemonic::Mov, OpKind::Register) => self.value(instruction.op1_register(), at, most_moves),
            (Mnemonic::Mov, OpKind::Memory) => {
                let place = self.place(instruction, at, most_moves)?;
                Some(PassedArgument { read_bytes: Some(if to.is_gpr64() { 8 } else { 4 }), ..place })
            }
            (Mnemonic::Lea, OpKind::Memory) => self.place(instruction, at, most_moves),
            (Mnemonic::Mov, _) => constant(instruction.try_immediate(1).ok()?),
            _ => None,
        }?;
        Some(PassedArgument { lower: whole.lower || to.is_gpr32(), ..whole })
    }

    /// The address that a memory operand names.
    fn place(&self, instruction: &Instruction, at: usize, most_moves: usize) -> Option<PassedArgument> {
        if instruction.segment_prefix() != Register::None || instruction.memory_index() != Register::None {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            let address = instruction.ip_rel_memory_address();
            return Some(PassedArgument::made_from(PassedFrom::File, address));
        }
        let base = self.value(instruction.memory_base(), at, most_moves)?;
        base.plus(instruction.memory_displacement64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BASE, of_code};
    use super::*;

    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0];

    fn passed(before: &[&[u8]]) -> [Option<PassedArgument>; REGISTER_ARGUMENTS] {
        let code = [&before.concat(), CALL].concat();
        let return_vaddr = BASE + code.len() as u64;
        let code = [&code[..], &[0xc3]].concat();
        passed_arguments(&of_code(&code), return_vaddr).expect("a call")
    }

    fn from(register: usize, distance: u64) -> Option<PassedArgument> {
        Some(PassedArgument::made_from(PassedFrom::Register(register), distance))
    }

    #[test]
    fn constants_addresses_on_the_stack_and_kept_registers_are_told() {
        let lea_rdx = [0x48, 0x8d, 0x54, 0x24, 0x0c]; // lea 0xc(%rsp),%rdx
        let mov_rcx = [0x4c, 0x89, 0xe1]; // mov %r12,%rcx
        let mov_rsi = [0x48, 0x89, 0xee]; // mov %rbp,%rsi
        let mov_edi = [0xbf, 2, 0, 0, 0]; // mov $2,%edi
        let xor_r8d = [0x45, 0x31, 0xc0]; // xor %r8d,%r8d
        let got = passed(&[&lea_rdx, &mov_rcx, &mov_rsi, &mov_edi, &xor_r8d]);
        let constant = |value| {
            Some(PassedArgument { lower: true, ..PassedArgument::made_from(PassedFrom::Constant, value) })
        };
        assert_eq!(got, [constant(2), from(5, 0), from(4, 0xc), from(12, 0), constant(0), None]);
    }

    #[test]
    fn what_is_read_from_memory_is_told_with_its_place() {
        let load = [0x48, 0x8b, 0x7b, 0x10]; // mov 0x10(%rbx),%rdi
        let load_half = [0x8b, 0x74, 0x24, 0xf8]; // mov -8(%rsp),%esi
        let [rdi, rsi, ..] = passed(&[&load, &load_half]);
        assert_eq!(rdi, from(3, 0x10).map(|place| PassedArgument { read_bytes: Some(8), ..place }));
        let below = from(4, 8_u64.wrapping_neg());
        assert_eq!(rsi, below.map(|place| PassedArgument { read_bytes: Some(4), lower: true, ..place }));
    }

    #[test]
    fn an_address_of_the_file_is_told_as_the_file_counts() {
        let lea_rdi = [0x48, 0x8d, 0x3d, 0x10, 0, 0, 0]; // lea 0x10(%rip),%rdi
        let file = PassedArgument::made_from(PassedFrom::File, BASE + 7 + 0x10);
        assert_eq!(passed(&[&lea_rdi])[0], Some(file));
    }

    #[test]
    fn nothing_is_told_of_what_is_not_known_at_the_call_any_more() {
        let mov_rdi = [0x48, 0x89, 0xdf]; // mov %rbx,%rdi
        let mov_ebx = [0xbb, 1, 0, 0, 0]; // mov $1,%ebx
        assert_eq!(passed(&[&mov_rdi])[0], from(3, 0));
        assert_eq!(passed(&[&mov_rdi, &mov_ebx])[0], None, "rbx has changed since");
        let lea_rdi = [0x48, 0x8d, 0x7c, 0x24, 0x08]; // lea 8(%rsp),%rdi
        let push = [0x50]; // push %rax
        assert_eq!(passed(&[&lea_rdi, &push])[0], None, "the stack pointer has changed since");
        let mov_from_rax = [0x48, 0x89, 0xc7]; // mov %rax,%rdi
        assert_eq!(passed(&[CALL, &mov_from_rax])[0], None, "what a call gave back");
        assert_eq!(passed(&[&mov_edi(), CALL])[0], None, "a call may change it");
    }

    fn mov_edi() -> [u8; 5] {
        [0xbf, 2, 0, 0, 0]
    }

    #[test]
    fn code_that_may_come_from_elsewhere_is_not_followed_back() {
        let jump_over = [0x74, 5]; // je over the next instruction
        assert_eq!(passed(&[&jump_over, &mov_edi()])[0], None, "there are two ways to the call");
        let jump_to_mov = [0x74, 0]; // je to the next instruction
        assert!(passed(&[&jump_to_mov, &mov_edi()])[0].is_some(), "both ways come by it");
        let through_table = [0xff, 0xe0]; // jmp *%rax
        let code = [&through_table[..], &mov_edi(), CALL].concat();
        assert_eq!(passed_arguments(&of_code(&code), BASE + code.len() as u64), None);
    }

    #[test]
    fn what_is_no_call_was_given_nothing() {
        let facts_of = |code: &[u8], at: u64| passed_arguments(&of_code(code), at);
        assert_eq!(facts_of(&[0x90, 0xc3], BASE + 1), None);
        assert_eq!(facts_of(CALL, BASE + 3), None);
        assert_eq!(facts_of(CALL, 0), None);
        assert_eq!(facts_of(CALL, u64::MAX), None);
    }
}

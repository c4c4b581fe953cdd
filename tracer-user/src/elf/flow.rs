//! Following one argument of a function through its code: which registers and stack slots
//! hold it, and what was last stored through it. A forward data flow over the function's
//! blocks; where paths meet, only what holds on all of them is kept.

use std::collections::BTreeMap;

use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::decode::{ARGUMENTS, RegisterSet, decode_function, direct_target, incoming_slot, written};

/// Steps over one instruction: compiled code takes two or three for each.
const MAX_STEPS: usize = 200_000;
/// Slots remembered at a time.
const MAX_SLOTS: usize = 32;

/// What was last stored through the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing yet.
    Nothing,
    /// Zero.
    Zero,
    /// A constant other than zero.
    NonZero,
    /// Something else, or not the same on all paths.
    Unclear,
}

/// How much of the argument must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// All 64 bits: a pointer.
    Whole,
    /// At least the lower 32: an integer.
    Lower,
}

/// What holds before an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FlowState {
    width: Width,
    /// Registers that hold the argument.
    holders: RegisterSet,
    /// Stack slots that hold it, counted from the stack pointer at entry.
    slots: Vec<i64>,
    /// Stack pointer and frame pointer, counted likewise.
    rsp: Option<i64>,
    rbp: Option<i64>,
    /// Constants in registers.
    constants: [Option<i32>; 16],
    pub stored: Stored,
}

impl FlowState {
    fn at_entry(argument: usize, width: Width) -> Self {
        Self {
            width,
            holders: ARGUMENTS.get(argument).map_or(RegisterSet::default(), |r| RegisterSet::one(*r)),
            slots: incoming_slot(argument).into_iter().collect(),
            rsp: Some(0),
            rbp: None,
            constants: [None; 16],
            stored: Stored::Nothing,
        }
    }

    /// Whether a register holds the argument.
    pub fn holds(&self, register: Register) -> bool {
        register.is_gpr64() && self.holders.meets(RegisterSet::one(register))
    }

    /// A register that holds the argument, by the number that instructions encode it with.
    pub fn first_kept_register(&self) -> Option<usize> {
        (self.holders.0 != 0).then(|| self.holders.0.trailing_zeros() as usize)
    }

    /// A stack slot that holds it.
    pub fn first_slot(&self) -> Option<i64> {
        self.slots.first().copied()
    }

    /// Whether a part of a register is enough to hold it.
    fn fits(&self, register: Register) -> bool {
        register.is_gpr64() || self.width == Width::Lower && register.is_gpr32()
    }

    /// The stack is as it was at entry: a jump from here leaves the function.
    pub fn at_entry_depth(&self) -> bool {
        self.rsp == Some(0)
    }

    /// Keeps what holds in both.
    fn meet(&mut self, other: &Self) {
        self.holders = RegisterSet(self.holders.0 & other.holders.0);
        self.slots.retain(|s| other.slots.contains(s));
        self.rsp = self.rsp.filter(|_| self.rsp == other.rsp);
        self.rbp = self.rbp.filter(|_| self.rbp == other.rbp);
        for (mine, theirs) in self.constants.iter_mut().zip(&other.constants) {
            *mine = mine.filter(|_| *mine == *theirs);
        }
        if self.stored != other.stored {
            self.stored = Stored::Unclear;
        }
    }

    /// Stack slot that a memory operand names, if that is known.
    fn slot_named(&self, instruction: &Instruction) -> Option<i64> {
        let base = match instruction.memory_base() {
            Register::RSP => self.rsp,
            Register::RBP => self.rbp,
            _ => None,
        }?;
        let plain = instruction.memory_index() == Register::None;
        plain.then(|| base.wrapping_add(instruction.memory_displacement64() as i64))
    }

    /// The memory operand is what the argument points to.
    pub fn points_to(&self, instruction: &Instruction) -> bool {
        self.holds(instruction.memory_base())
            && instruction.memory_index() == Register::None
            && instruction.memory_displacement64() == 0
    }

    fn constant_of(&self, register: Register) -> Option<i32> {
        let full = register.full_register();
        full.is_gpr64().then(|| self.constants[full.number()]).flatten()
    }

    /// What the second operand stores.
    pub fn value_stored(&self, instruction: &Instruction) -> Stored {
        let value = match instruction.op1_kind() {
            OpKind::Register => self.constant_of(instruction.op1_register()),
            OpKind::Immediate8 | OpKind::Immediate32 | OpKind::Immediate32to64 => {
                Some(instruction.immediate(1) as i32)
            }
            _ => None,
        };
        match value {
            Some(0) => Stored::Zero,
            Some(_) => Stored::NonZero,
            None => Stored::Unclear,
        }
    }

    /// What holds after the instruction.
    fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let source_holds = self.operand_holds(instruction);
        let target_slot =
            (instruction.op0_kind() == OpKind::Memory).then(|| self.slot_named(instruction)).flatten();
        let is_move = instruction.mnemonic() == Mnemonic::Mov;
        if is_move && instruction.op0_kind() == OpKind::Memory && self.points_to(instruction) {
            self.stored = self.value_stored(instruction);
        } else if writes_memory(instruction) && self.points_to(instruction) {
            self.stored = Stored::Unclear;
        }
        self.step_pointers(instruction, source_holds);
        let changed = written(info, instruction);
        self.holders = self.holders.without(changed);
        for (number, constant) in self.constants.iter_mut().enumerate() {
            *constant = constant.filter(|_| !changed.meets(RegisterSet(1 << number)));
        }
        if let Some(slot) = target_slot.filter(|_| writes_memory(instruction)) {
            self.set_slot(slot, is_move && source_holds);
        }
        if instruction.op0_kind() == OpKind::Register {
            self.step_register(instruction, is_move && source_holds);
        }
    }

    /// The source of a `mov` or `push` is the argument itself.
    fn operand_holds(&self, instruction: &Instruction) -> bool {
        let source = if instruction.mnemonic() == Mnemonic::Push { 0 } else { 1 };
        if instruction.op_count() <= source {
            return false;
        }
        match instruction.op_kind(source) {
            OpKind::Register => {
                let register = instruction.op_register(source);
                self.fits(register) && self.holds(register.full_register())
            }
            OpKind::Memory => {
                let loads = match self.width {
                    Width::Whole => instruction.code() == Code::Mov_r64_rm64,
                    Width::Lower => matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_r32_rm32),
                };
                loads && self.slot_named(instruction).is_some_and(|s| self.slots.contains(&s))
            }
            _ => false,
        }
    }

    fn set_slot(&mut self, slot: i64, holds: bool) {
        self.slots.retain(|s| *s != slot);
        if holds && self.slots.len() < MAX_SLOTS {
            self.slots.push(slot);
            self.slots.sort_unstable();
        }
    }

    fn step_register(&mut self, instruction: &Instruction, holds: bool) {
        let register = instruction.op0_register();
        let full = register.full_register();
        if !full.is_gpr64() {
            return;
        }
        if holds && self.fits(register) {
            self.holders = self.holders.with(RegisterSet::one(register));
        }
        let zeroed = instruction.mnemonic() == Mnemonic::Xor
            && instruction.op1_kind() == OpKind::Register
            && instruction.op1_register() == register;
        let loaded = matches!(instruction.code(), Code::Mov_r32_imm32 | Code::Mov_rm64_imm32)
            .then(|| instruction.immediate(1) as i32);
        self.constants[full.number()] = loaded.or(zeroed.then_some(0)).or(self.constants[full.number()]);
    }

    /// Stack and frame pointer.
    fn step_pointers(&mut self, instruction: &Instruction, source_holds: bool) {
        let to =
            |register| instruction.op0_kind() == OpKind::Register && instruction.op0_register() == register;
        let immediate = || {
            (instruction.op_count() == 2
                && instruction.op1_kind() != OpKind::Register
                && instruction.op1_kind() != OpKind::Memory)
                .then(|| instruction.immediate(1) as i64)
        };
        match instruction.mnemonic() {
            Mnemonic::Push => {
                self.rsp = self.rsp.map(|p| p.wrapping_sub(8));
                if let Some(slot) = self.rsp {
                    self.set_slot(slot, source_holds);
                }
            }
            Mnemonic::Pop => {
                // An argument that is restored by pop is forgotten: rare, and safe.
                self.rsp = self.rsp.map(|p| p.wrapping_add(8)).filter(|_| !to(Register::RSP));
                self.rbp = self.rbp.filter(|_| !to(Register::RBP));
            }
            Mnemonic::Sub if to(Register::RSP) => {
                self.rsp = self.rsp.zip(immediate()).map(|(p, n)| p.wrapping_sub(n));
            }
            Mnemonic::Add if to(Register::RSP) => {
                self.rsp = self.rsp.zip(immediate()).map(|(p, n)| p.wrapping_add(n));
            }
            Mnemonic::Lea if to(Register::RSP) => self.rsp = self.slot_named(instruction),
            Mnemonic::Lea if to(Register::RBP) => self.rbp = self.slot_named(instruction),
            Mnemonic::Mov if to(Register::RBP) && instruction.op1_kind() == OpKind::Register => {
                self.rbp = self.rsp.filter(|_| instruction.op1_register() == Register::RSP);
            }
            Mnemonic::Mov if to(Register::RSP) && instruction.op1_kind() == OpKind::Register => {
                self.rsp = self.rbp.filter(|_| instruction.op1_register() == Register::RBP);
            }
            Mnemonic::Leave => (self.rsp, self.rbp) = (self.rbp.map(|p| p.wrapping_add(8)), None),
            Mnemonic::Cmp | Mnemonic::Test => {}
            _ if to(Register::RSP) => self.rsp = None,
            _ if to(Register::RBP) => self.rbp = None,
            _ => {}
        }
    }
}

/// The first operand is memory and is changed.
pub(super) fn writes_memory(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Memory
        && !matches!(
            instruction.mnemonic(),
            Mnemonic::Cmp
                | Mnemonic::Test
                | Mnemonic::Bt
                | Mnemonic::Push
                | Mnemonic::Call
                | Mnemonic::Jmp
                | Mnemonic::Nop
        )
}

/// A straight piece of code: entered at its first instruction only, left after its last.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// First instruction.
    pub first: usize,
    /// One behind the last.
    pub end: usize,
    /// Blocks that may follow.
    pub next: Vec<usize>,
}

/// The blocks of one function, and what holds before each instruction that can be reached.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub instructions: Vec<Instruction>,
    pub blocks: Vec<Block>,
    pub states: Vec<Option<FlowState>>,
    /// Jumps whose targets are not known (jump tables).
    pub has_unknown_jumps: bool,
}

impl Flow {
    /// Follows an argument (from 0), all of it or its lower part, through a function; `None` if it is too long,
    /// too entangled or empty.
    pub fn follow(body: &[u8], start: u64, argument: usize, width: Width) -> Option<Self> {
        let instructions = decode_function(body, start).filter(|all| !all.is_empty())?;
        let blocks = blocks_of(&instructions);
        let mut flow =
            Self { states: vec![None; instructions.len()], has_unknown_jumps: false, instructions, blocks };
        flow.run(FlowState::at_entry(argument, width))?;
        let unknown = flow
            .reached()
            .any(|(_, i, state)| i.flow_control() == FlowControl::IndirectBranch && !state.at_entry_depth());
        flow.has_unknown_jumps = unknown;
        Some(flow)
    }

    /// `None`: it takes too many steps.
    fn run(&mut self, entry: FlowState) -> Option<()> {
        let mut left_steps = MAX_STEPS;
        let mut info = InstructionInfoFactory::new();
        let mut pending = vec![(0usize, entry)];
        let mut inputs: Vec<Option<FlowState>> = vec![None; self.blocks.len()];
        while let Some((block, state)) = pending.pop() {
            let met = match &inputs[block] {
                None => state,
                Some(known) => {
                    let mut met = known.clone();
                    met.meet(&state);
                    if met == *known {
                        continue;
                    }
                    met
                }
            };
            inputs[block] = Some(met.clone());
            let mut state = met;
            left_steps = left_steps.checked_sub(self.blocks[block].end - self.blocks[block].first)?;
            for index in self.blocks[block].first..self.blocks[block].end {
                self.states[index] = Some(state.clone());
                state.step(&self.instructions[index], &mut info);
            }
            pending.extend(self.blocks[block].next.iter().map(|next| (*next, state.clone())));
        }
        Some(())
    }

    /// Instructions that can be reached, with what holds before each.
    pub fn reached(&self) -> impl Iterator<Item = (usize, &Instruction, &FlowState)> {
        self.instructions.iter().enumerate().filter_map(|(n, i)| Some((n, i, self.states[n].as_ref()?)))
    }

    /// The block that holds an instruction.
    pub fn block_of(&self, instruction: usize) -> usize {
        self.blocks.partition_point(|b| b.end <= instruction)
    }
}

fn blocks_of(instructions: &[Instruction]) -> Vec<Block> {
    let index_of: BTreeMap<u64, usize> = instructions.iter().enumerate().map(|(n, i)| (i.ip(), n)).collect();
    let mut starts: Vec<usize> = vec![0];
    for (n, instruction) in instructions.iter().enumerate() {
        if ends_block(instruction) {
            starts.push(n + 1);
            starts.extend(jump_target(instruction).and_then(|t| index_of.get(&t)));
        }
    }
    starts.retain(|s| *s < instructions.len());
    starts.sort_unstable();
    starts.dedup();
    let block_at: BTreeMap<usize, usize> = starts.iter().enumerate().map(|(b, s)| (*s, b)).collect();
    let mut blocks = Vec::with_capacity(starts.len());
    for (b, first) in starts.iter().enumerate() {
        let end = starts.get(b + 1).copied().unwrap_or(instructions.len());
        let last = &instructions[end - 1];
        let mut next = Vec::new();
        if falls_through(last) && end < instructions.len() {
            next.push(b + 1);
        }
        next.extend(jump_target(last).and_then(|t| index_of.get(&t)).and_then(|i| block_at.get(i)).copied());
        blocks.push(Block { first: *first, end, next });
    }
    blocks
}

fn ends_block(instruction: &Instruction) -> bool {
    !matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall)
}

fn falls_through(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall | FlowControl::ConditionalBranch
    )
}

fn jump_target(instruction: &Instruction) -> Option<u64> {
    matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
        .then(|| direct_target(instruction))
        .flatten()
}

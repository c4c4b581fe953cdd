//! Where a polling call knows that its answer is yes.
//!
//! Calls like MPI_Test are asked millions of times and answer yes a few thousand times. The
//! answer is an integer that an argument points to. So: follow that argument, find every
//! place that stores a constant other than zero through it, and go on from there to the next
//! instruction that a probe is cheap on, as long as nothing but such a store leads there.

use std::collections::BTreeSet;

use analyzer::plan::ProbePlace;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::decode::{ARGUMENTS, direct_target};
use super::facts::ElfFacts;
use super::flow::{Flow, FlowState, Stored, Width, writes_memory};
use super::place::emulated_at;

/// Calls that the argument is followed through.
const MAX_DEPTH: usize = 4;

/// What was found for one polling function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollingAnswer {
    /// Every yes passes exactly one of these places.
    Places(SuccessPlaces),
    /// Nothing is ever stored through the argument.
    NeverStores,
    /// There is no such set of places, and why.
    Unclear(String),
}

/// Places that only a yes passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuccessPlaces {
    /// Their addresses, in order.
    pub places: Vec<(u64, ProbePlace)>,
    /// Where a yes is stored that passes none of them: exits before the function does anything
    /// (no requests given).
    pub unseen: Vec<u64>,
    /// Functions other than the polling one that hold places: they must have no other callers.
    pub through: Vec<u64>,
}

/// Finds the places that `function` (its address) reaches only when it stores yes through its
/// argument number `argument` (from 0).
pub fn success_places(elf: &ElfFacts<'_>, function: u64, argument: usize) -> PollingAnswer {
    let mut search = Search {
        elf,
        path: Vec::new(),
        places: BTreeSet::new(),
        unseen: Vec::new(),
        through: BTreeSet::new(),
        stores: false,
    };
    match search.visit(function, argument) {
        Err(reason) => PollingAnswer::Unclear(reason),
        Ok(()) if !search.places.is_empty() => PollingAnswer::Places(SuccessPlaces {
            places: search.places.into_iter().collect(),
            unseen: search.unseen,
            through: search.through.into_iter().filter(|f| *f != function).collect(),
        }),
        Ok(()) if search.stores => PollingAnswer::Unclear("it only ever stores no".into()),
        Ok(()) => PollingAnswer::NeverStores,
    }
}

struct Search<'a, 'd> {
    elf: &'a ElfFacts<'d>,
    path: Vec<(u64, usize)>,
    places: BTreeSet<(u64, ProbePlace)>,
    unseen: Vec<u64>,
    through: BTreeSet<u64>,
    stores: bool,
}

impl Search<'_, '_> {
    fn visit(&mut self, function: u64, argument: usize) -> Result<(), String> {
        if self.path.contains(&(function, argument)) {
            return Ok(());
        }
        if self.path.len() >= MAX_DEPTH {
            return Err("the answer is handed on through too many functions".into());
        }
        let body = self.elf.body(function).ok_or("its code is not in the file")?;
        let flow = Flow::follow(body, function, argument, Width::Whole).ok_or("too long to analyse")?;
        if flow.has_unknown_jumps {
            return Err("it jumps through a table".into());
        }
        self.path.push((function, argument));
        let mut chosen = BTreeSet::new();
        for (index, instruction, state) in flow.reached() {
            match effect(instruction, state) {
                Effect::None => {}
                Effect::Stores(Stored::NonZero) => {
                    self.stores = true;
                    match cheap_place(&flow, body, function, index) {
                        Some(place) => drop(chosen.insert(place)),
                        // Nothing was saved yet: an exit right at the start.
                        None if state.at_entry_depth() => self.unseen.push(instruction.ip()),
                        None => {
                            let at = instruction.ip();
                            return Err(format!("no cheap place after the answer is stored at {at:#x}"));
                        }
                    }
                }
                Effect::Stores(Stored::Zero | Stored::Nothing) => self.stores = true,
                Effect::Stores(Stored::Unclear) => {
                    return Err(format!("what is stored at {:#x} is computed", instruction.ip()));
                }
                Effect::Escapes => {
                    return Err(format!("the pointer to the answer is kept at {:#x}", instruction.ip()));
                }
                Effect::Calls => self.visit_call(function, instruction, state)?,
            }
        }
        if let Some(again) = hit_twice(&flow, &chosen) {
            return Err(format!("the place {again:#x} may be passed more than once"));
        }
        if !chosen.is_empty() {
            self.through.extend(self.path.iter().map(|(function, _)| *function));
        }
        self.places.extend(chosen.into_iter().map(|(index, place)| (flow.instructions[index].ip(), place)));
        self.path.pop();
        Ok(())
    }

    /// Follows the argument into what is called with it.
    fn visit_call(&mut self, caller: u64, call: &Instruction, state: &FlowState) -> Result<(), String> {
        let came_in = self.path.last().map(|(_, argument)| *argument);
        let target = direct_target(call).map(|t| self.own_function(t).ok_or(t));
        for (number, register) in ARGUMENTS.iter().enumerate().filter(|(_, r)| state.holds(**r)) {
            // Where the argument came in it may just have been left, unless it is all handed on.
            let is_left_over = Some(number) == came_in
                && (call.flow_control() != FlowControl::IndirectBranch || state.stored != Stored::Nothing);
            match target {
                Some(Ok(own)) if own != caller => self.visit(own, number)?,
                Some(Ok(_)) => {}
                _ if is_left_over => {}
                _ => {
                    return Err(format!(
                        "the pointer to the answer is handed to another function at {:#x} ({register:?})",
                        call.ip()
                    ));
                }
            }
        }
        Ok(())
    }

    /// The function of this file that a direct call reaches.
    fn own_function(&self, target: u64) -> Option<u64> {
        match self.elf.stubs.get(&target) {
            Some(name) => self.elf.function(name).filter(|f| !f.ifunc).map(|f| f.vaddr),
            None => self.elf.code_from(target).map(|_| target),
        }
    }
}

enum Effect {
    None,
    Stores(Stored),
    Escapes,
    Calls,
}

fn effect(instruction: &Instruction, state: &FlowState) -> Effect {
    let leaves_function = match instruction.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => true,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => state.at_entry_depth(),
        _ => false,
    };
    if leaves_function {
        return Effect::Calls;
    }
    if !writes_memory(instruction) {
        return Effect::None;
    }
    if state.points_to(instruction) {
        return Effect::Stores(match instruction.mnemonic() {
            Mnemonic::Mov => state.value_stored(instruction),
            _ => Stored::Unclear,
        });
    }
    let stores_pointer = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op1_kind() == OpKind::Register
        && state.holds(instruction.op1_register())
        && !matches!(instruction.memory_base(), Register::RSP | Register::RBP);
    if stores_pointer { Effect::Escapes } else { Effect::None }
}

/// The first cheap instruction after (or on) the one at `store` that only such stores lead to.
fn cheap_place(flow: &Flow, body: &[u8], start: u64, store: usize) -> Option<(usize, ProbePlace)> {
    let mut index = store + 1;
    let mut block = flow.block_of(store);
    loop {
        while index < flow.blocks[block].end {
            if let Some(place) = emulated_at(body, start, &flow.instructions[index]) {
                return Some((index, place));
            }
            index += 1;
        }
        // A block with two ways out ends in a conditional jump, which is a place itself.
        let [next] = flow.blocks[block].next[..] else { return None };
        let first = flow.blocks[next].first;
        if first <= store || flow.states[first].as_ref()?.stored != Stored::NonZero {
            return None;
        }
        (block, index) = (next, first);
    }
}

/// A chosen place that can be reached from another one, or from itself.
fn hit_twice(flow: &Flow, chosen: &BTreeSet<(usize, ProbePlace)>) -> Option<u64> {
    let places: BTreeSet<usize> = chosen.iter().map(|(index, _)| *index).collect();
    for from in &places {
        let block = flow.block_of(*from);
        if let Some(again) = places.range(from + 1..flow.blocks[block].end).next() {
            return Some(flow.instructions[*again].ip());
        }
        let mut seen = BTreeSet::new();
        let mut pending = flow.blocks[block].next.clone();
        while let Some(next) = pending.pop() {
            if !seen.insert(next) {
                continue;
            }
            let block = &flow.blocks[next];
            if let Some(again) = places.range(block.first..block.end).next() {
                return Some(flow.instructions[*again].ip());
            }
            pending.extend(&block.next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{BASE, of_code};
    use super::*;

    /// `if (edi) { *flag = 1; if (edx) return; } else *flag = 0;` with flag in rsi.
    const PLAIN: [u8; 23] = [
        0x85, 0xff, // test %edi,%edi
        0x74, 0x0b, // je no
        0xc7, 0x06, 1, 0, 0, 0, // movl $1,(%rsi)
        0x85, 0xd2, // test %edx,%edx
        0x74, 0x08, // je out
        0xc3, // ret
        0xc7, 0x06, 0, 0, 0, 0, // no: movl $0,(%rsi)
        0xc3, 0xc3, // ret; out: ret
    ];

    fn answer(code: &[u8], argument: usize) -> PollingAnswer {
        success_places(&of_code(code), BASE, argument)
    }

    fn places(code: &[u8], argument: usize) -> Vec<(u64, ProbePlace)> {
        match answer(code, argument) {
            PollingAnswer::Places(found) => found.places,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_cheap_instruction_after_a_yes_is_the_place() {
        assert_eq!(places(&PLAIN, 1), [(BASE + 12, ProbePlace::ConditionalJump)]);
    }

    #[test]
    fn another_argument_is_another_question() {
        assert_eq!(answer(&PLAIN, 0), PollingAnswer::NeverStores);
    }

    #[test]
    fn the_pointer_is_followed_through_registers_and_the_stack() {
        let code = [
            0x53, // push %rbx
            0x48, 0x89, 0xf3, // mov %rsi,%rbx
            0x56, // push %rsi
            0x31, 0xf6, // xor %esi,%esi
            0x48, 0x8b, 0x04, 0x24, // mov (%rsp),%rax
            0x85, 0xff, // test %edi,%edi
            0x74, 0x08, // je second
            0xc7, 0x00, 1, 0, 0, 0, // movl $1,(%rax)
            0xeb, 0x08, // jmp out
            0xc7, 0x03, 1, 0, 0, 0, // second: movl $1,(%rbx)
            0xeb, 0x00, // jmp out
            0x58, 0x5b, 0xc3, // out: pop %rax; pop %rbx; ret
        ];
        assert_eq!(places(&code, 1), [(BASE + 21, ProbePlace::Jump), (BASE + 29, ProbePlace::Jump)]);
    }

    #[test]
    fn a_computed_answer_has_no_place() {
        let code = [0x89, 0x3e, 0x74, 0x00, 0xc3]; // mov %edi,(%rsi); je +0; ret
        assert!(matches!(answer(&code, 1), PollingAnswer::Unclear(reason) if reason.contains("computed")));
    }

    #[test]
    fn a_place_that_a_no_reaches_as_well_is_not_taken() {
        let mut code = PLAIN;
        code[14] = 0x90; // instead of ret: what follows is reached from the yes, too
        code[12..14].copy_from_slice(&[0x90, 0x90]);
        // Now the first nop after the store is the place, before both ways meet.
        assert_eq!(places(&code, 1), [(BASE + 12, ProbePlace::Nop)]);
        code[12..15].copy_from_slice(&[0x85, 0xd2, 0xf8]); // test; clc: nothing cheap before they meet
        code[21] = 0x90;
        assert!(matches!(answer(&code, 1), PollingAnswer::NeverStores | PollingAnswer::Unclear(_)));
    }

    #[test]
    fn a_place_in_a_loop_is_refused() {
        let code = [
            0xc7, 0x06, 1, 0, 0, 0, // again: movl $1,(%rsi)
            0x85, 0xff, // test %edi,%edi
            0x75, 0xf6, // jne again
            0xc3,
        ];
        assert!(
            matches!(answer(&code, 1), PollingAnswer::Unclear(reason) if reason.contains("more than once"))
        );
    }

    #[test]
    fn a_pointer_that_is_kept_elsewhere_is_given_up() {
        let code = [0x48, 0x89, 0x37, 0xc3]; // mov %rsi,(%rdi); ret
        assert!(matches!(answer(&code, 1), PollingAnswer::Unclear(reason) if reason.contains("kept")));
    }

    #[test]
    fn no_bytes_at_all_make_it_panic() {
        let mut state = 1u32;
        for _ in 0..2_000 {
            let code: Vec<u8> = (0..64)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            let _ = answer(&code, 1);
            let _ = super::super::scan_copies(&of_code(&code));
            let _ = super::super::convertor_base_offset(&of_code(&code), BASE);
        }
    }
}

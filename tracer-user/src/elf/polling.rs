//! Where a polling call knows that its answer is yes.
//!
//! Calls like MPI_Test are asked millions of times and answer yes a few thousand times. The
//! answer is an integer that an argument points to. So: follow that argument, find every
//! place that stores a constant other than zero through it, and go on from there to the next
//! instruction that a probe is cheap on, as long as nothing but such a store leads there.

use std::collections::{BTreeSet, HashMap};

use analyzer::plan::ProbePlace;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::decode::{ARGUMENTS, direct_target};
use super::facts::ElfFacts;
use super::flow::{Flow, FlowState, Stored, Width, writes_memory};
use super::place::emulated_at;

/// Calls that the argument is followed through.
const MAX_DEPTH: usize = 4;
/// Instructions of all functions that are analysed for one question.
const MAX_INSTRUCTIONS: usize = 100_000;
/// Places of one function.
const MAX_PLACES: usize = 64;
/// How far behind a store a place is looked for.
const MAX_WALK: usize = 256;

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
    let mut search = Search::new(elf);
    match search.visit(function, argument) {
        Err(reason) => PollingAnswer::Unclear(reason),
        Ok(_) if !search.places.is_empty() => PollingAnswer::Places(SuccessPlaces {
            places: search.places.into_iter().collect(),
            unseen: search.unseen,
            through: search.through.into_iter().filter(|f| *f != function).collect(),
        }),
        Ok(_) if search.stores => PollingAnswer::Unclear("it only ever stores no".into()),
        Ok(_) => PollingAnswer::NeverStores,
    }
}

struct Search<'a, 'd> {
    elf: &'a ElfFacts<'d>,
    path: Vec<(u64, usize)>,
    /// What was analysed; each function once for each of its arguments.
    visited: HashMap<(u64, usize), Visited>,
    left_instructions: usize,
    places: BTreeSet<(u64, ProbePlace)>,
    unseen: Vec<u64>,
    through: BTreeSet<u64>,
    stores: bool,
}

/// What was found in a function and in what it calls.
#[derive(Clone, Copy, Default)]
struct Visited {
    /// Calls, one in the other.
    depth: usize,
    has_places: bool,
}

impl<'a, 'd> Search<'a, 'd> {
    fn new(elf: &'a ElfFacts<'d>) -> Self {
        Self {
            elf,
            path: Vec::new(),
            visited: HashMap::new(),
            left_instructions: MAX_INSTRUCTIONS,
            places: BTreeSet::new(),
            unseen: Vec::new(),
            through: BTreeSet::new(),
            stores: false,
        }
    }

    fn visit(&mut self, function: u64, argument: usize) -> Result<Visited, String> {
        if self.path.contains(&(function, argument)) {
            return Ok(Visited::default());
        }
        let known = self.visited.get(&(function, argument)).copied();
        if self.path.len() + known.map_or(1, |known| known.depth) > MAX_DEPTH {
            return Err("the answer is handed on through too many functions".into());
        }
        if let Some(known) = known {
            return Ok(known);
        }
        self.path.push((function, argument));
        let found = self.analyse(function, argument)?;
        self.path.pop();
        if found.has_places {
            self.through.insert(function);
        }
        self.visited.insert((function, argument), found);
        Ok(found)
    }

    fn analyse(&mut self, function: u64, argument: usize) -> Result<Visited, String> {
        let body = self.elf.body(function).ok_or("its code is not in the file")?;
        let flow = Flow::follow(body, function, argument, Width::Whole).ok_or("too long to analyse")?;
        let left = self.left_instructions.checked_sub(flow.instructions.len());
        self.left_instructions = left.ok_or("the answer is handed on to too many functions")?;
        if flow.has_unknown_jumps {
            return Err("it jumps through a table".into());
        }
        let mut found = Visited { depth: 1, has_places: false };
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
                    if chosen.len() > MAX_PLACES {
                        return Err("it stores its answer at too many places".into());
                    }
                }
                Effect::Stores(Stored::Zero | Stored::Nothing) => self.stores = true,
                Effect::Stores(Stored::Unclear) => {
                    return Err(format!("what is stored at {:#x} is computed", instruction.ip()));
                }
                Effect::Escapes => {
                    return Err(format!("the pointer to the answer is kept at {:#x}", instruction.ip()));
                }
                Effect::Calls => {
                    let called = self.visit_call(function, instruction, state)?;
                    found.depth = found.depth.max(called.depth + 1);
                    found.has_places |= called.has_places;
                }
            }
        }
        if let Some(again) = hit_twice(&flow, &chosen) {
            return Err(format!("the place {again:#x} may be passed more than once"));
        }
        found.has_places |= !chosen.is_empty();
        self.places.extend(chosen.into_iter().map(|(index, place)| (flow.instructions[index].ip(), place)));
        Ok(found)
    }

    /// Follows the argument into what is called with it.
    fn visit_call(&mut self, caller: u64, call: &Instruction, state: &FlowState) -> Result<Visited, String> {
        let mut deepest = Visited::default();
        let came_in = self.path.last().map(|(_, argument)| *argument);
        let target = direct_target(call).map(|t| self.own_function(t).ok_or(t));
        for (number, register) in ARGUMENTS.iter().enumerate().filter(|(_, r)| state.holds(**r)) {
            // Where the argument came in it may just have been left, unless it is all handed on.
            let is_left_over = Some(number) == came_in
                && (call.flow_control() != FlowControl::IndirectBranch || state.stored != Stored::Nothing);
            match target {
                Some(Ok(own)) if own != caller => {
                    let called = self.visit(own, number)?;
                    deepest.depth = deepest.depth.max(called.depth);
                    deepest.has_places |= called.has_places;
                }
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
        Ok(deepest)
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
    let mut left = MAX_WALK;
    loop {
        while index < flow.blocks[block].end {
            left = left.checked_sub(1)?;
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
    let mut seen = vec![usize::MAX; flow.blocks.len()];
    for from in &places {
        let block = flow.block_of(*from);
        if let Some(again) = places.range(from + 1..flow.blocks[block].end).next() {
            return Some(flow.instructions[*again].ip());
        }
        let mut pending = flow.blocks[block].next.clone();
        while let Some(next) = pending.pop() {
            if std::mem::replace(&mut seen[next], *from) == *from {
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

    /// Levels of functions, each of which hands its second argument to all of the next level; those of the last one store
    /// a yes. Also the number of functions.
    fn levels(a_level: usize) -> (Vec<u8>, usize) {
        let slot_bytes = 16 + 8 * a_level;
        let slot =
            |level: usize, number: usize| if level == 0 { 0 } else { 1 + (level - 1) * a_level + number };
        let mut code = Vec::new();
        for level in 0..MAX_DEPTH {
            for number in 0..if level == 0 { 1 } else { a_level } {
                code.resize(slot(level, number) * slot_bytes, 0xcc);
                code.extend([0x53, 0x48, 0x89, 0xf3]); // push %rbx; mov %rsi,%rbx
                if level + 1 == MAX_DEPTH {
                    code.extend([0xc7, 0x03, 1, 0, 0, 0, 0x90]); // movl $1,(%rbx); nop
                } else {
                    for callee in 0..a_level {
                        code.extend([0x48, 0x89, 0xde, 0xe8]); // mov %rbx,%rsi; call
                        let target = (slot(level + 1, callee) * slot_bytes) as i32;
                        code.extend((target - (code.len() as i32 + 4)).to_le_bytes());
                    }
                }
                code.extend([0x5b, 0xc3]); // pop %rbx; ret
            }
        }
        let functions = slot(MAX_DEPTH, 0);
        (code, functions)
    }

    fn of_slots(code: &[u8], a_level: usize, functions: usize) -> ElfFacts<'_> {
        let mut facts = of_code(code);
        let starts = (0..functions).map(|slot| BASE + (slot * (16 + 8 * a_level)) as u64).collect();
        facts.functions = super::super::functions::Functions::of_starts(starts);
        facts
    }

    #[test]
    fn each_function_is_analysed_once_however_many_call_it() {
        const A_LEVEL: usize = 80;
        let (code, functions) = levels(A_LEVEL);
        let facts = of_slots(&code, A_LEVEL, functions);
        let mut search = Search::new(&facts);
        assert!(search.visit(BASE, 1).is_ok_and(|found| found.depth == MAX_DEPTH && found.has_places));
        assert_eq!((search.visited.len(), search.places.len()), (functions, A_LEVEL));
        let analysed = MAX_INSTRUCTIONS - search.left_instructions;
        assert!(analysed < code.len(), "{analysed} instructions");
    }

    #[test]
    fn functions_without_end_are_given_up() {
        const A_LEVEL: usize = 300;
        let (code, functions) = levels(A_LEVEL);
        let facts = of_slots(&code, A_LEVEL, functions);
        let found = success_places(&facts, BASE, 1);
        assert!(matches!(found, PollingAnswer::Unclear(reason) if reason.contains("too many functions")));
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

//! Where a function keeps its arguments while it waits for a function that it called.

use iced_x86::FlowControl;

use super::decode::{decode_all, direct_target, slot_of};
use super::facts::ElfFacts;
use super::flow::{Flow, Width};

/// Arguments that are looked for: no MPI call has more.
pub const MAX_ARGUMENTS: usize = 12;

/// A place that holds an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A register, by the number that instructions encode it with.
    Register(usize),
    /// A word of the stack, counted from where the return address lies.
    Stack(i64),
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// All its 64 bits.
    pub whole: Option<Holder>,
    /// At least its lower 32 bits, which is all of an integer.
    pub lower: Option<Holder>,
}

/// Where the arguments of the function at `entry` are after the call that returns to `return_vaddr`;
/// `None`: that is no place of this function, or its code cannot be followed.
pub fn held_arguments(elf: &ElfFacts<'_>, entry: u64, return_vaddr: u64) -> Option<[Held; MAX_ARGUMENTS]> {
    let body = elf.body(entry)?;
    let mut held = [Held::default(); MAX_ARGUMENTS];
    for (argument, held) in held.iter_mut().enumerate() {
        held.whole = holder(body, entry, return_vaddr, argument, Width::Whole)?;
        held.lower = held.whole.or(holder(body, entry, return_vaddr, argument, Width::Lower)?);
    }
    Some(held)
}

fn holder(body: &[u8], entry: u64, at: u64, argument: usize, width: Width) -> Option<Option<Holder>> {
    let flow = Flow::follow(body, entry, argument, width)?;
    let index = flow.instructions.binary_search_by_key(&at, |i| i.ip()).ok()?;
    // Through a jump table the code may come here in ways that were not followed.
    let state = flow.states[index].as_ref().filter(|_| !flow.has_unknown_jumps);
    let slot = |state: &super::flow::FlowState| state.first_slot().map(Holder::Stack);
    Some(state.and_then(|state| state.first_kept_register().map(Holder::Register).or_else(|| slot(state))))
}

/// The function that the call instruction just before a place calls, if its name is known.
pub fn called_before<'d>(elf: &ElfFacts<'d>, return_vaddr: u64) -> Option<&'d str> {
    /// `call rel32`; and `call *slot(%rip)`.
    const LENGTHS: [u64; 2] = [5, 6];
    LENGTHS.into_iter().find_map(|len| {
        let start = return_vaddr.checked_sub(len)?;
        let code = elf.code_from(start)?.get(..len as usize)?;
        let [call] = decode_all(code, start)[..] else { return None };
        match call.flow_control() {
            FlowControl::Call => elf.callee(direct_target(&call)?),
            FlowControl::IndirectCall => elf.slots.get(&slot_of(&call)?).copied(),
            _ => None,
        }
    })
}

//! Where in a function, or before a call, a probe is cheap and sees the arguments.
//!
//! Under a uprobe the kernel runs some instructions itself, in the trap; all others are run
//! out of line with a second trap, about sixteen times as expensive. Which ones it runs itself is
//! in its `arch/x86/kernel/uprobes.c` (`branch_setup_xol_ops`, `push_setup_xol_ops`).

use std::collections::HashSet;

use analyzer::plan::ProbePlace;
use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::decode::{RegisterSet, decode_function, decoder, direct_target, leaves, written};

/// Most bytes that are looked at from the entry of a function.
const ENTRY_WINDOW_BYTES: usize = 64;

/// Nops that the kernel knows, by length (its `x86_nops`, of all versions that know any).
const LONG_NOPS: [&[u8]; 6] = [
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// How the kernel runs an instruction under a probe; `None` if it refuses to put one there.
pub fn emulated(bytes: &[u8]) -> Option<ProbePlace> {
    const REFUSED_PREFIXES: [u8; 5] = [0x26, 0x2e, 0x36, 0x3e, 0xf0];
    const OTHER_PREFIXES: [u8; 6] = [0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
    if LONG_NOPS.contains(&bytes) {
        return Some(if bytes.len() == 5 { ProbePlace::Nop5 } else { ProbePlace::Nop });
    }
    let prefixes =
        bytes.iter().take_while(|b| REFUSED_PREFIXES.contains(b) || OTHER_PREFIXES.contains(b)).count();
    let (prefixes, rest) = bytes.split_at(prefixes);
    if prefixes.iter().any(|b| REFUSED_PREFIXES.contains(b)) {
        return None;
    }
    let narrow = prefixes.contains(&0x66);
    Some(match rest {
        [0x90] => ProbePlace::Nop,
        [0xe8, ..] if !narrow => ProbePlace::Call,
        [0xe9 | 0xeb, ..] if !narrow => ProbePlace::Jump,
        [0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] if !narrow => ProbePlace::ConditionalJump,
        [0x50..=0x57] | [0x41, 0x50..=0x57] if prefixes.is_empty() => ProbePlace::Push,
        _ => ProbePlace::SingleStep,
    })
}

/// [`emulated`] of an instruction within the code that it was decoded from.
pub(super) fn emulated_at(code: &[u8], vaddr: u64, instruction: &Instruction) -> Option<ProbePlace> {
    let at = usize::try_from(instruction.ip().checked_sub(vaddr)?).ok()?;
    emulated(code.get(at..at + instruction.len())?).filter(|p| *p != ProbePlace::SingleStep)
}

/// What a probe at the entry of a function must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// So many of the first arguments (those beyond six are not in registers).
    pub arguments: usize,
    /// The return is hooked as well: the return address must be on top of the stack.
    pub returns: bool,
}

/// A place that is passed once per call, with the arguments as the caller gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    /// Its address.
    pub vaddr: u64,
    /// What it costs.
    pub place: ProbePlace,
    /// The return address is at the stack pointer + this.
    pub stack_bytes: u32,
}

/// Why a function has no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// The address is not in the file's code.
    #[error("its code is not in the file")]
    NoCode,
    /// An argument is overwritten before the first cheap instruction.
    #[error("an argument is overwritten before the first instruction that the kernel emulates")]
    Overwritten,
    /// The stack pointer is changed first, and the return is wanted.
    #[error("the stack is changed before the first instruction that the kernel emulates")]
    StackChanged,
    /// The function ends, or jumps where it was not followed, first.
    #[error("no instruction that the kernel emulates is passed by every call")]
    NotPassed,
}

/// The cheapest place at the entry of the function `body` (which starts at `entry`).
///
/// # Errors
/// There is none.
pub fn entry_place(body: &[u8], entry: u64, wanted: Wanted) -> Result<EntryPlace, NoPlace> {
    let needed = RegisterSet::arguments(wanted.arguments);
    let mut info = InstructionInfoFactory::new();
    let mut stack_bytes = 0u32;
    let window = &body[..body.len().min(ENTRY_WINDOW_BYTES)];
    for instruction in &mut decoder(window, entry) {
        if instruction.is_invalid() {
            break;
        }
        if wanted.returns && stack_bytes != 0 {
            return Err(NoPlace::StackChanged);
        }
        if let Some(place) = emulated_at(window, entry, &instruction) {
            let vaddr = instruction.ip();
            return if is_entered_below(body, entry, vaddr) {
                Err(NoPlace::NotPassed)
            } else {
                Ok(EntryPlace { vaddr, place, stack_bytes })
            };
        }
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
        if written(&mut info, &instruction).meets(needed) {
            return Err(NoPlace::Overwritten);
        }
        stack_bytes = stack_after(stack_bytes, &instruction).ok_or(NoPlace::StackChanged)?;
    }
    Err(if body.is_empty() { NoPlace::NoCode } else { NoPlace::NotPassed })
}

/// Whether the function jumps back to a place between its entry and `vaddr`: a loop would
/// hit a probe there again and again. Of a function that is too long to be analysed that is not known.
fn is_entered_below(body: &[u8], entry: u64, vaddr: u64) -> bool {
    let jumps_below = |i: &Instruction| {
        leaves(i) && direct_target(i).is_some_and(|target| entry < target && target <= vaddr)
    };
    vaddr != entry && decode_function(body, entry).is_none_or(|all| all.iter().any(jumps_below))
}

/// Bytes between the stack pointer and the return address after an instruction; `None` if
/// that cannot be said.
fn stack_after(stack_bytes: u32, instruction: &Instruction) -> Option<u32> {
    let on_stack_pointer =
        instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    let delta = match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pop => -i64::from(instruction.stack_pointer_increment()),
        Mnemonic::Sub if on_stack_pointer && is_immediate(instruction) => instruction.immediate(1) as i64,
        Mnemonic::Add if on_stack_pointer && is_immediate(instruction) => {
            (instruction.immediate(1) as i64).checked_neg()?
        }
        Mnemonic::Cmp | Mnemonic::Test => 0,
        _ if on_stack_pointer => return None,
        _ if instruction.is_stack_instruction() => return None,
        _ => 0,
    };
    u32::try_from(i64::from(stack_bytes).checked_add(delta)?).ok()
}

fn is_immediate(instruction: &Instruction) -> bool {
    matches!(
        instruction.op1_kind(),
        OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate8 | OpKind::Immediate32
    )
}

/// The nearest cheap place before an indirect call at `site`, in the same straight line of
/// code and with the first three arguments already final.
pub fn place_before_call(body: &[u8], start: u64, site: u64) -> Option<(u64, ProbePlace)> {
    CallPlaces::of(body, start)?.before(site)
}

/// Places before the indirect calls of one function.
pub struct CallPlaces<'d> {
    body: &'d [u8],
    start: u64,
    instructions: Vec<Instruction>,
    /// Where its own jumps lead.
    entered: HashSet<u64>,
    /// Jumps whose targets are not known.
    unknown_jumps: Vec<u64>,
}

impl<'d> CallPlaces<'d> {
    /// How far back a place may be: arguments are made ready just before a call.
    const MOST_BACK: usize = 64;

    /// Looks at a function; `None`: it is too long to be analysed.
    pub fn of(body: &'d [u8], start: u64) -> Option<Self> {
        let instructions = decode_function(body, start)?;
        let jumps = instructions.iter().filter(|i| leaves(i));
        let entered = jumps.filter_map(direct_target).chain([start]).collect();
        let unknown = instructions.iter().filter(|i| i.flow_control() == FlowControl::IndirectBranch);
        let unknown_jumps = unknown.map(Instruction::ip).collect();
        Some(Self { body, start, entered, unknown_jumps, instructions })
    }

    /// The nearest cheap place before a call at `site`, see [`place_before_call`].
    pub fn before(&self, site: u64) -> Option<(u64, ProbePlace)> {
        // A jump table might lead in between.
        if self.unknown_jumps.iter().take(2).any(|jump| *jump != site) {
            return None;
        }
        let call = self.instructions.binary_search_by_key(&site, Instruction::ip).ok()?;
        let arguments = RegisterSet::arguments(3);
        let mut info = InstructionInfoFactory::new();
        // Whoever comes in between the place and the call would not be seen.
        for after in (call.saturating_sub(Self::MOST_BACK) + 1..=call).rev() {
            if self.entered.contains(&self.instructions[after].ip()) {
                return None;
            }
            let here = &self.instructions[after - 1];
            if leaves(here) || written(&mut info, here).meets(arguments) || here.code() == Code::INVALID {
                return None;
            }
            if let Some(place) = emulated_at(self.body, self.start, here) {
                return Some((here.ip(), place));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_emulates_these_and_no_others() {
        let cases: [(&[u8], Option<ProbePlace>); 17] = [
            (&[0x55], Some(ProbePlace::Push)),
            (&[0x41, 0x54], Some(ProbePlace::Push)),
            (&[0x48, 0x50], Some(ProbePlace::SingleStep)),
            (&[0xe8, 0, 0, 0, 0], Some(ProbePlace::Call)),
            (&[0x67, 0xe8, 0, 0, 0, 0], Some(ProbePlace::Call)),
            (&[0x66, 0xe8, 0, 0], Some(ProbePlace::SingleStep)),
            (&[0xf2, 0xe9, 0, 0, 0, 0], Some(ProbePlace::Jump)),
            (&[0xeb, 0], Some(ProbePlace::Jump)),
            (&[0x74, 5], Some(ProbePlace::ConditionalJump)),
            (&[0x0f, 0x84, 0, 0, 0, 0], Some(ProbePlace::ConditionalJump)),
            // A branch hint: the kernel puts no probe there at all.
            (&[0x2e, 0x74, 5], None),
            (&[0x90], Some(ProbePlace::Nop)),
            (&[0x0f, 0x1f, 0x44, 0, 0], Some(ProbePlace::Nop5)),
            (&[0x0f, 0x1f, 0x40, 0], Some(ProbePlace::Nop)),
            // The same length, but not the form that the kernel compares with.
            (&[0x0f, 0x1f, 0x44, 0, 1], Some(ProbePlace::SingleStep)),
            (&[0xf3, 0x0f, 0x1e, 0xfa], Some(ProbePlace::SingleStep)),
            (&[0xff, 0x25, 0, 0, 0, 0], Some(ProbePlace::SingleStep)),
        ];
        for (bytes, place) in cases {
            assert_eq!(emulated(bytes), place, "{bytes:x?}");
        }
    }

    const ENTRY: u64 = 0x1000;

    fn at(code: &[u8], arguments: usize, returns: bool) -> Result<EntryPlace, NoPlace> {
        entry_place(code, ENTRY, Wanted { arguments, returns })
    }

    #[test]
    fn the_landing_pad_of_a_function_is_passed_over() {
        // endbr64; push %rbp
        let found = at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55], 6, true).unwrap();
        assert_eq!(found, EntryPlace { vaddr: ENTRY + 4, place: ProbePlace::Push, stack_bytes: 0 });
    }

    // sub $0x18,%rsp; test %rdi,%rdi; je
    const FRAME_FIRST: [u8; 9] = [0x48, 0x83, 0xec, 0x18, 0x48, 0x85, 0xff, 0x74, 0x00];

    #[test]
    fn bytes_that_were_pushed_are_counted() {
        let found = at(&FRAME_FIRST, 6, false).unwrap();
        assert_eq!(
            found,
            EntryPlace { vaddr: ENTRY + 7, place: ProbePlace::ConditionalJump, stack_bytes: 0x18 }
        );
    }

    #[test]
    fn a_push_that_is_not_emulated_is_counted_too() {
        // push $1; je
        let found = at(&[0x6a, 0x01, 0x74, 0x00], 6, false).unwrap();
        assert_eq!((found.vaddr, found.stack_bytes), (ENTRY + 2, 8));
    }

    #[test]
    fn a_return_probe_needs_the_return_address_on_top() {
        assert_eq!(at(&FRAME_FIRST, 1, true), Err(NoPlace::StackChanged));
    }

    #[test]
    fn an_overwritten_argument_counts_only_if_it_is_wanted() {
        // mov $1,%edx; push %rbp
        let code = [0xba, 1, 0, 0, 0, 0x55];
        assert_eq!(at(&code, 3, false), Err(NoPlace::Overwritten));
        assert_eq!(at(&code, 2, false).unwrap().vaddr, ENTRY + 5);
    }

    #[test]
    fn a_function_that_only_returns_has_no_place() {
        assert_eq!(at(&[0x31, 0xc0, 0xc3], 6, false), Err(NoPlace::NotPassed));
        assert_eq!(at(&[], 6, false), Err(NoPlace::NoCode));
    }

    #[test]
    fn a_place_within_a_loop_is_refused() {
        // xor %eax,%eax; again: dec %eax; jne again
        assert_eq!(at(&[0x31, 0xc0, 0xff, 0xc8, 0x75, 0xfc], 6, false), Err(NoPlace::NotPassed));
    }

    // push %rbx; mov %rdi,%rbx; call *0(%rip)
    const INDIRECT: [u8; 10] = [0x53, 0x48, 0x89, 0xfb, 0xff, 0x15, 0, 0, 0, 0];

    #[test]
    fn before_an_indirect_call_the_nearest_place_with_final_arguments_is_taken() {
        assert_eq!(place_before_call(&INDIRECT, ENTRY, ENTRY + 4), Some((ENTRY, ProbePlace::Push)));
    }

    #[test]
    fn an_argument_set_after_the_place_rules_it_out() {
        // push %rbx; mov %rbx,%rdi; call *0(%rip)
        let mut code = INDIRECT;
        code[3] = 0xdf;
        assert_eq!(place_before_call(&code, ENTRY, ENTRY + 4), None);
    }

    #[test]
    fn a_jump_to_behind_the_place_rules_it_out() {
        // … je to the mov
        let mut code = INDIRECT.to_vec();
        code.extend([0x74, (0u8).wrapping_sub(11)]);
        assert_eq!(place_before_call(&code, ENTRY, ENTRY + 4), None);
    }
}

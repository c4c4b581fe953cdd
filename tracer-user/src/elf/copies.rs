//! Where a file copies memory: its calls of memcpy and its like.
//!
//! Decoding all code of a large library takes too long for an attach. So the bytes are
//! first searched for what such a call looks like, and only functions with a candidate are
//! decoded, from their start: what is no instruction there is no call.

use std::collections::{BTreeMap, HashMap, HashSet};

use iced_x86::{Code, FlowControl, Instruction, Mnemonic};

use super::code::CodeRange;
use super::decode::{decoder, direct_target, slot_of};
use super::facts::ElfFacts;

/// A function that copies memory, with (to, from, bytes) as its first three arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFunction {
    /// Its symbol.
    pub symbol: &'static str,
    /// What it does, for people: the checked forms do the same as the plain ones.
    pub function: &'static str,
}

const fn copy(symbol: &'static str, function: &'static str) -> CopyFunction {
    CopyFunction { symbol, function }
}

/// Of one file so many places are listed, and the rest of the function of the last one.
pub const MOST_SITES: usize = 1 << 15;

/// Functions that copy memory.
const COPY_FUNCTIONS: [CopyFunction; 10] = [
    copy("memcpy", "memcpy"),
    copy("memmove", "memmove"),
    copy("mempcpy", "mempcpy"),
    copy("__mempcpy", "mempcpy"),
    copy("__memcpy_chk", "memcpy"),
    copy("__memmove_chk", "memmove"),
    copy("__mempcpy_chk", "mempcpy"),
    // What Intel's compilers call instead.
    copy("_intel_fast_memcpy", "memcpy"),
    copy("__intel_avx_rep_memcpy", "memcpy"),
    copy("_intel_fast_memmove", "memmove"),
];

/// The row of a symbol, if it copies memory.
pub fn copy_function(symbol: &str) -> Option<&'static CopyFunction> {
    COPY_FUNCTIONS.iter().find(|row| row.symbol == symbol)
}

/// How a copy is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// `call rel32`.
    Call,
    /// `jmp rel32` at the end of a function.
    TailJump,
    /// `call *slot(%rip)` (compiled with -fno-plt).
    IndirectCall,
    /// `jmp *slot(%rip)`.
    IndirectJump,
}

/// A place that copies memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySite {
    /// Address of the call or jump.
    pub vaddr: u64,
    /// What it calls.
    pub function: &'static str,
    /// How.
    pub kind: SiteKind,
    /// Start of the function that it is in.
    pub within: u64,
    /// The symbol whose stub it calls; `None`: it goes another way.
    pub stub_of: Option<&'static str>,
}

/// Copies that no probe can see at a price worth paying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnseenCopies {
    /// `rep movs`: a probe there would be hit once per step.
    Inline {
        /// Address of the instruction.
        vaddr: u64,
    },
    /// The address of a copying function is taken here; where it is called is not known.
    Pointer {
        /// Address of the load.
        vaddr: u64,
        /// The function.
        function: &'static str,
    },
}

/// What was found in one file.
#[derive(Clone, Debug, Default)]
pub struct CopyScan {
    /// Calls, by address.
    pub sites: Vec<CopySite>,
    /// The rest, by address.
    pub unseen: Vec<UnseenCopies>,
    /// There are more than are listed.
    pub is_cut: bool,
}

/// Addresses that mean a copy. Most calls go elsewhere, and are told by the range alone.
#[derive(Default)]
struct Addresses {
    rows: HashMap<u64, &'static CopyFunction>,
    lowest: u64,
    span: u64,
}

impl Addresses {
    fn of(rows: HashMap<u64, &'static CopyFunction>) -> Self {
        let lowest = rows.keys().min().copied().unwrap_or(0);
        let span = rows.keys().max().copied().unwrap_or(0) - lowest;
        Self { rows, lowest, span }
    }

    fn get(&self, vaddr: u64) -> Option<&'static CopyFunction> {
        if vaddr.wrapping_sub(self.lowest) > self.span {
            return None;
        }
        self.rows.get(&vaddr).copied()
    }
}

/// What a copy calls: stubs and functions directly, slots of the offset table through a pointer.
struct Targets {
    direct: Addresses,
    /// Those of `direct` that are stubs.
    stubs: HashSet<u64>,
    through: Addresses,
}

impl Targets {
    fn of(elf: &ElfFacts<'_>) -> Self {
        let named = |(vaddr, name): (&u64, &&str)| copy_function(name).map(|row| (*vaddr, row));
        let own = elf.functions.iter().filter(|f| !f.ifunc);
        let own = own.filter_map(|f| copy_function(f.name).map(|row| (f.vaddr, row)));
        Self {
            stubs: elf.stubs.iter().filter_map(named).map(|(vaddr, _)| vaddr).collect(),
            direct: Addresses::of(elf.stubs.iter().filter_map(named).chain(own).collect()),
            through: Addresses::of(elf.slots.iter().filter_map(named).collect()),
        }
    }
}

/// Finds all places of a file that copy memory.
pub fn scan_copies(elf: &ElfFacts<'_>) -> CopyScan {
    let targets = Targets::of(elf);
    let mut scan = CopyScan::default();
    for range in elf.code.iter().filter(|c| !c.is_plt()) {
        // The functions with candidates, and the last candidate of each.
        let mut functions: BTreeMap<u64, u64> = BTreeMap::new();
        for candidate in candidates(range, &targets) {
            let last = functions.entry(elf.start_of(candidate).unwrap_or(range.vaddr)).or_default();
            *last = candidate.max(*last);
        }
        for (start, last) in functions {
            if scan.sites.len().max(scan.unseen.len()) >= MOST_SITES {
                scan.is_cut = true;
                return scan;
            }
            scan_function(range, start, last, &targets, &mut scan);
        }
    }
    scan
}

/// Addresses where the bytes look like a copy (of some instruction's operand or last byte).
fn candidates<'a>(range: &'a CodeRange<'_>, targets: &'a Targets) -> impl Iterator<Item = u64> + 'a {
    let code = range.bytes;
    (0..code.len().saturating_sub(1)).filter_map(move |at| {
        let found = match code[at] {
            0xe8 | 0xe9 => relative(range, at + 1).is_some_and(|t| targets.direct.get(t).is_some()),
            // call *, jmp *, mov: with an operand relative to the next instruction.
            0xff | 0x8b if code[at + 1] & 0xc7 == 0x05 => {
                relative(range, at + 2).is_some_and(|t| targets.through.get(t).is_some())
            }
            0xf3 => matches!(code[at + 1..], [0xa4 | 0xa5, ..] | [0x48, 0xa4 | 0xa5, ..]),
            _ => false,
        };
        found.then(|| range.vaddr + at as u64)
    })
}

/// The address that a 32-bit operand at the end of an instruction names.
fn relative(range: &CodeRange<'_>, at: usize) -> Option<u64> {
    let operand = range.bytes.get(at..at + 4)?;
    let distance = i32::from_le_bytes([operand[0], operand[1], operand[2], operand[3]]);
    let next = range.vaddr.wrapping_add(at as u64 + 4);
    Some(next.wrapping_add_signed(i64::from(distance)))
}

fn scan_function(range: &CodeRange<'_>, start: u64, last: u64, targets: &Targets, scan: &mut CopyScan) {
    let Some(code) = start.checked_sub(range.vaddr).and_then(|at| range.bytes.get(at as usize..)) else {
        return;
    };
    for instruction in &mut decoder(code, start) {
        if instruction.ip() > last || scan.sites.len().max(scan.unseen.len()) >= 2 * MOST_SITES {
            break;
        }
        let vaddr = instruction.ip();
        if is_string_move(&instruction) {
            scan.unseen.push(UnseenCopies::Inline { vaddr });
        } else if let Some((kind, row)) = copy_call(&instruction, targets) {
            let calls_stub = kind == SiteKind::Call
                && direct_target(&instruction).is_some_and(|t| targets.stubs.contains(&t));
            let stub_of = calls_stub.then_some(row.symbol);
            scan.sites.push(CopySite { vaddr, function: row.function, kind, within: start, stub_of });
        } else if let Some(row) = loaded_pointer(&instruction, targets) {
            scan.unseen.push(UnseenCopies::Pointer { vaddr, function: row.function });
        }
    }
}

fn is_string_move(instruction: &Instruction) -> bool {
    instruction.has_rep_prefix()
        && matches!(
            instruction.code(),
            Code::Movsb_m8_m8 | Code::Movsw_m16_m16 | Code::Movsd_m32_m32 | Code::Movsq_m64_m64
        )
}

fn copy_call(instruction: &Instruction, targets: &Targets) -> Option<(SiteKind, &'static CopyFunction)> {
    let direct = || direct_target(instruction).and_then(|t| targets.direct.get(t));
    let through = || slot_of(instruction).and_then(|t| targets.through.get(t));
    match instruction.flow_control() {
        FlowControl::Call => direct().map(|row| (SiteKind::Call, row)),
        FlowControl::UnconditionalBranch => direct().map(|row| (SiteKind::TailJump, row)),
        FlowControl::IndirectCall => through().map(|row| (SiteKind::IndirectCall, row)),
        FlowControl::IndirectBranch => through().map(|row| (SiteKind::IndirectJump, row)),
        _ => None,
    }
}

fn loaded_pointer(instruction: &Instruction, targets: &Targets) -> Option<&'static CopyFunction> {
    if instruction.mnemonic() != Mnemonic::Mov {
        return None;
    }
    slot_of(instruction).and_then(|t| targets.through.get(t))
}

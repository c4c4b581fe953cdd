//! The general registers of one frame, as far as they are known.

use serde::{Deserialize, Serialize};

/// How many general registers there are.
const COUNT: usize = 16;

/// Registers by the numbers that unwind tables call them (System V ABI for x86-64, figure 3.36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers {
    values: [Option<u64>; COUNT],
    /// The next instruction.
    pub pc: u64,
}

/// Number of the stack pointer.
pub(super) const RSP: u16 = 7;
/// Number of the return address.
pub(super) const RETURN_ADDRESS: u16 = 16;
/// rbx, rbp, r12 to r15: a function gives them back as they were.
const KEPT_BY_FUNCTIONS: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// Numbers of the processor's own order (rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 …).
const FROM_ENCODING: [u16; COUNT] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

impl Registers {
    /// All known.
    pub fn new(values: [u64; COUNT], pc: u64) -> Self {
        Self { values: values.map(Some), pc }
    }

    /// One register.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
    }

    /// One register, by the number that instructions encode it with.
    pub fn encoded(&self, number: usize) -> Option<u64> {
        FROM_ENCODING.get(number).and_then(|&number| self.get(number))
    }

    pub(super) fn set(&mut self, number: u16, value: Option<u64>) {
        if let Some(register) = self.values.get_mut(usize::from(number)) {
            *register = value;
        }
    }

    /// What a caller can rely on after a call: the rest is not known.
    pub(super) fn kept_by_calls(&self) -> Self {
        let mut kept = Self { values: [None; COUNT], pc: self.pc };
        for number in KEPT_BY_FUNCTIONS {
            kept.set(number, self.get(number));
        }
        kept
    }
}

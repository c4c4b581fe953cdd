//! A checksum over all calls of a rank: a program that goes another way than it did is found at the next answer.

/// Over everything so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCheck(u64);

/// A record made by probes is checked over calls with lower numbers: those that ask for something, or begin or complete what
/// does. Others are not seen alike from within a rank and from outside: of some languages, only from outside.
pub const FIRST_CALL_UNCHECKED_BY_PROBES: u32 = 29;

impl CallCheck {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Takes a call: a number for what it is, and arguments that are the same in every run.
    #[inline]
    pub fn call(&mut self, call: u32, arguments: [i32; 3]) {
        let mut sum = (self.0 ^ u64::from(call)).wrapping_mul(Self::FACTOR);
        for argument in arguments {
            sum = (sum.rotate_left(29) ^ u64::from(argument as u32)).wrapping_mul(Self::FACTOR);
        }
        self.0 = sum;
    }

    /// As a number, for [`CallCheck::from_bits`].
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The other way round.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// What is recorded of it.
    #[inline]
    pub(crate) fn byte(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

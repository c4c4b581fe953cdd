//! Delays that differ from run to run.

use std::time::Duration;

/// Draws delays.
#[derive(Clone, Copy)]
pub struct Perturbation(u64);

impl Perturbation {
    /// Each seed has delays of its own.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Waits a little, or not.
    pub fn pause(&mut self) {
        // xorshift64, Marsaglia 2003.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        match self.0 >> 61 {
            0..3 => std::thread::sleep(Duration::from_micros(self.0 >> 32 & 0xff)),
            3..5 => std::thread::yield_now(),
            _ => {}
        }
    }
}

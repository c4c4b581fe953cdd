//! A ring as a job may have written it, and what it says of itself from look to look: no panic, an end, no more than there is.

#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

use dmscope_fuzz::limits::within_a_second;
use injector::{CounterClock, CounterPair, RingState, read_ring};
use libfuzzer_sys::fuzz_target;

/// Of 64 bytes.
const RECORDS: usize = 16;

/// Each piece of 16 bytes is a word that the job writes somewhere, and how many records it says to have begun.
fn run(bytes: &[u8]) {
    let ring: Vec<AtomicU64> = (0..RECORDS * 8).map(|_| AtomicU64::new(0)).collect();
    let mut state = RingState::default();
    for piece in bytes.chunks_exact(16) {
        let word = u64::from_le_bytes(piece[..8].try_into().unwrap_or_default());
        let head = u64::from_le_bytes(piece[8..].try_into().unwrap_or_default());
        // Words that are numbers of records come up often.
        let word = if word & 1 == 0 { (word % 64) << 32 } else { word };
        ring[usize::from(piece[0]) % ring.len()].store(word, Ordering::Relaxed);
        let head = if head & 1 == 0 { state.tail.wrapping_add(head % 20) } else { head };
        let before = state.given_up;
        let mut found = 0;
        let pair = |counter, time_ns| CounterPair { counter, time_ns, apart: 0 };
        let clock = CounterClock::between(pair(word, head), pair(head, word));
        let taken = read_ring(&ring, head, &mut state, 7, |call| {
            found += 1;
            let _ = clock.time_ns(call.counter);
        });
        assert_eq!(taken, found);
        assert!(taken <= 7 && state.given_up >= before);
    }
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));

//! How a function is entered behind a probe at its beginning, by whoever runs the instructions before in its place.

use iced_x86::{Code, Mnemonic, OpKind, Register};
use injector::{MOST_BEHIND_BYTES, MOST_FIRST_BYTES, PassedEntry};

use super::decode::decoder;

/// The instructions of a function up to behind the one at `probed`, if they do the same wherever they are. `body` starts at `entry`. `is_given`: its first
/// argument is not null, so that a jump for that case is not taken.
pub fn passed_entry(body: &[u8], entry: u64, probed: u64, is_given: bool) -> Option<PassedEntry> {
    let window = &body[..body.len().min(MOST_BEHIND_BYTES)];
    let mut first: Vec<u8> = Vec::new();
    let mut asks_for_null = false;
    for instruction in &mut decoder(window, entry) {
        let at = usize::try_from(instruction.ip().checked_sub(entry)?).ok()?;
        let bytes = window.get(at..at + instruction.len())?;
        let is_test = instruction.code() == Code::Test_rm64_r64
            && (instruction.op0_kind(), instruction.op1_kind()) == (OpKind::Register, OpKind::Register)
            && (instruction.op0_register(), instruction.op1_register()) == (Register::RDI, Register::RDI);
        match instruction.mnemonic() {
            // It says where jumps may lead.
            Mnemonic::Endbr64 | Mnemonic::Nop => {}
            Mnemonic::Push if instruction.op0_kind() == OpKind::Register => first.extend(bytes),
            Mnemonic::Test if is_test => first.extend(bytes),
            Mnemonic::Je if is_given && asks_for_null => {}
            _ => return None,
        }
        asks_for_null = is_test;
        if instruction.ip() == probed {
            let (len, mut code) = (at + bytes.len(), [0; MOST_BEHIND_BYTES]);
            code[..len].copy_from_slice(&window[..len]);
            let mut filled = [0; MOST_FIRST_BYTES];
            filled.get_mut(..first.len())?.copy_from_slice(&first);
            return Some(PassedEntry {
                code,
                len: len as u8,
                probed_at: at as u8,
                first: filled,
                first_len: first.len() as u8,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: u64 = 0x9_8ef0;

    /// What is run before, behind how many bytes, and where the probe is.
    fn passed(code: &[u8], probed_at: u64, is_given: bool) -> Option<(Vec<u8>, u8, u8)> {
        let entry = passed_entry(code, ENTRY, ENTRY + probed_at, is_given)?;
        assert_eq!(entry.code[..usize::from(entry.len)], code[..usize::from(entry.len)]);
        Some((entry.first[..usize::from(entry.first_len)].to_vec(), entry.len, entry.probed_at))
    }

    #[test]
    fn what_a_function_pushes_first_is_pushed_before_it_is_entered_behind() {
        let malloc = [0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb];
        assert_eq!(passed(&malloc, 0, false), Some((vec![0x41, 0x54], 2, 0)));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x53];
        assert_eq!(passed(&marked, 4, false), Some((vec![0x55], 5, 4)));
    }

    #[test]
    fn a_jump_for_no_block_is_not_taken_if_there_is_one() {
        let free = [0x48, 0x85, 0xff, 0x0f, 0x84, 0xbc, 0, 0, 0, 0x55];
        assert_eq!(passed(&free, 3, true), Some((vec![0x48, 0x85, 0xff], 9, 3)));
        assert_eq!(passed(&free, 3, false), None);
        // It is for another case.
        let other = [0x48, 0x85, 0xf6, 0x0f, 0x84, 0xbc, 0, 0, 0, 0x55];
        assert_eq!(passed(&other, 3, true), None);
    }

    #[test]
    fn what_depends_on_where_it_is_or_does_more_is_left_to_the_function() {
        // A load beside the instruction pointer; a stack pointer that is moved.
        assert_eq!(passed(&[0x48, 0x8b, 0x05, 1, 0, 0, 0, 0x53], 7, false), None);
        assert_eq!(passed(&[0x48, 0x83, 0xec, 0x18, 0x53], 4, false), None);
        assert_eq!(passed(&[0x53], 1, false), None, "the probe is elsewhere");
        assert_eq!(passed(&[], 0, false), None);
        // More than can be run in its place.
        assert_eq!(passed(&[0x41, 0x54].repeat(5), 8, false), None);
    }

    #[test]
    fn no_bytes_at_all_make_it_panic() {
        let mut state = 1u32;
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            for probed_at in 0..20 {
                let _ = passed_entry(&bytes, ENTRY, ENTRY + probed_at, probed_at % 2 == 0);
                let _ = passed_entry(&bytes, u64::MAX - 3, u64::MAX - 3 + probed_at % 4, true);
            }
        }
    }
}

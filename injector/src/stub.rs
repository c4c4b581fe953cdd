//! Stubs of linkage tables: the jump through a slot that a call of a function of another file leads to.

/// So many bytes are enough to see one, and the first entry of a table.
pub(crate) const STUB_BYTES: usize = 16;

/// The same for the first entry of a table, which leads to the linker for slots that are not bound yet: it pushes a word before.
pub(crate) fn slot_of_first_entry(code: &[u8; STUB_BYTES], at: u64) -> Option<u64> {
    /// `push [rip + …]`
    const PUSH: &[u8] = &[0xff, 0x35];
    const PUSH_BYTES: usize = 6;
    code.starts_with(PUSH).then(|| slot_of_jump(&code[PUSH_BYTES..], at + PUSH_BYTES as u64)).flatten()
}

/// The address of the slot through which code at `at` is about to jump, if that is all that it does.
pub(crate) fn slot_of_stub(code: &[u8; STUB_BYTES], at: u64) -> Option<u64> {
    slot_of_jump(code, at)
}

fn slot_of_jump(code: &[u8], at: u64) -> Option<u64> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    /// Of a jump that bounds registers or tracked targets are for.
    const PREFIXES: [u8; 2] = [0xf2, 0x3e];
    /// `jmp [rip + …]`
    const JUMP: &[u8] = &[0xff, 0x25];
    let rest = code.strip_prefix(ENDBR64).unwrap_or(code);
    let rest = if PREFIXES.contains(rest.first()?) { &rest[1..] } else { rest };
    let displacement = rest.strip_prefix(JUMP)?.first_chunk::<4>()?;
    let end = at.wrapping_add((code.len() - rest.len() + JUMP.len() + displacement.len()) as u64);
    Some(end.wrapping_add_signed(i64::from(i32::from_le_bytes(*displacement))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(code: &[u8]) -> Option<u64> {
        let mut bytes = [0x90; STUB_BYTES];
        bytes[..code.len()].copy_from_slice(code);
        slot_of_stub(&bytes, 0x1000)
    }

    #[test]
    fn a_stub_leads_through_its_slot_in_all_its_forms_and_from_its_middle() {
        let jump = [0xff, 0x25, 0x10, 0, 0, 0];
        assert_eq!(slot(&jump), Some(0x1016));
        assert_eq!(slot(&[&[0xf2], &jump[..]].concat()), Some(0x1017));
        assert_eq!(slot(&[&[0xf3, 0x0f, 0x1e, 0xfa], &jump[..]].concat()), Some(0x101a));
        assert_eq!(slot(&[&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2], &jump[..]].concat()), Some(0x101b));
        assert_eq!(slot(&[0xff, 0x25, 0xf0, 0xff, 0xff, 0xff]), Some(0xff6));
    }

    #[test]
    fn the_first_entry_of_a_table_pushes_a_word_before_it_jumps() {
        let first = |jump: &[u8]| {
            let mut bytes = [0x90; STUB_BYTES];
            let entry = [&[0xff, 0x35, 1, 0, 0, 0], jump].concat();
            bytes[..entry.len()].copy_from_slice(&entry);
            (slot_of_first_entry(&bytes, 0x1000), slot_of_stub(&bytes, 0x1000))
        };
        assert_eq!(first(&[0xff, 0x25, 0x10, 0, 0, 0]), (Some(0x101c), None));
        assert_eq!(first(&[0xf2, 0xff, 0x25, 0x10, 0, 0, 0]), (Some(0x101d), None));
        assert_eq!(first(&[0x55]), (None, None));
    }

    #[test]
    fn other_code_is_no_stub() {
        for code in
            [&[0x55][..], &[0xff, 0x15, 0x10, 0, 0, 0], &[0xff, 0xe0], &[0xf3, 0x0f, 0x1e, 0xfa, 0x55]]
        {
            assert_eq!(slot(code), None, "{code:x?}");
        }
    }
}

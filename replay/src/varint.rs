//! Numbers of variable length: seven bits a byte, the lowest first.

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes the number that bytes begin with; `None` if it is cut or has more than 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        if index == 9 && part > 1 {
            return None;
        }
        value |= part << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

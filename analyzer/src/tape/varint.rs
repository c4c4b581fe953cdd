//! Numbers of variable length: seven bits a byte, the lowest first.

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference: small ones are short whatever their sign.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

/// Takes a number from the front; `None` if it is cut or has more than 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
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

/// Takes a difference from the front.
#[inline]
pub(super) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = take(bytes)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), shift in 0_u32..64, tail in any::<u8>()) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_signed(&mut bytes, value as i64);
            put_signed(&mut bytes, (value as i64).wrapping_neg());
            bytes.push(tail);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take_signed(&mut rest), Some(value as i64));
            prop_assert_eq!(take_signed(&mut rest), Some((value as i64).wrapping_neg()));
            prop_assert_eq!(rest, [tail]);
        }
    }

    #[test]
    fn a_cut_or_endless_number_is_refused() {
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80][..]), None);
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2][..]), None);
    }
}

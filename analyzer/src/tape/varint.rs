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

/// The number that four bytes begin with, and its length; `None` if it is longer. All four are looked at at
/// once: lengths follow no pattern, and a loop over them would be guessed wrong.
#[inline(always)]
pub(super) fn take_short(bytes: &[u8; 4]) -> Option<(u64, usize)> {
    const MORE: u32 = 0x8080_8080;
    let four = u32::from_le_bytes(*bytes);
    let ends = !four & MORE;
    if ends == 0 {
        return None;
    }
    let len = ends.trailing_zeros() as usize / 8 + 1;
    // Seven bits of each byte of its own, side by side.
    let own = four & (ends ^ (ends - 1)) & !MORE;
    let pairs = own & 0x007f_007f | (own & 0x7f00_7f00) >> 1;
    let joined = pairs & 0x3fff | (pairs & 0x3fff_0000) >> 2;
    Some((u64::from(joined), len))
}

/// The number that bytes begin with, and its length; `None` if it is cut or has more than 64 bits.
pub(super) fn take(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        if index == 9 && part > 1 {
            return None;
        }
        value |= part << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The difference that a number stands for.
#[inline]
pub(super) fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
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
            let mut at = 0;
            let mut take = || {
                let (value, len) = super::take(&bytes[at..])?;
                if let Some(four) = bytes[at..].first_chunk() {
                    assert_eq!(take_short(four), Some((value, len)).filter(|_| len <= 4));
                }
                assert_eq!(super::take(&bytes[at..at + len]), Some((value, len)));
                assert_eq!(super::take(&bytes[at..at + len - 1]), None);
                at += len;
                Some(value)
            };
            prop_assert_eq!(take(), Some(value));
            prop_assert_eq!(take().map(signed), Some(value as i64));
            prop_assert_eq!(take().map(signed), Some((value as i64).wrapping_neg()));
            prop_assert_eq!(at, bytes.len() - 1);
        }
    }

    #[test]
    fn a_cut_or_endless_number_is_refused() {
        assert_eq!(take(&[]), None);
        assert_eq!(take(&[0x80, 0x80]), None);
        assert_eq!(take(&[0xff; 11]), None);
        assert_eq!(take(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2]), None);
        assert_eq!(take(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]), Some((1 << 63, 10)));
    }
}

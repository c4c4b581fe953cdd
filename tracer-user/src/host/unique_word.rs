//! Words that nobody guesses.

/// A word that nobody else will use: 128 random bits.
///
/// # Errors
/// The kernel has none.
pub fn unique_word() -> std::io::Result<String> {
    let mut bits = [0_u8; 16];
    let mut filled = 0;
    while filled < bits.len() {
        filled += rustix::rand::getrandom(&mut bits[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_different_each_time() {
        let (one, other) = (unique_word().expect("random bits"), unique_word().expect("random bits"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
    }
}

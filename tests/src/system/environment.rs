//! How thorough tests are, as the environment says.

use anyhow::{Context, Result};

/// The number that a variable of the environment has, or the usual one where it is not set.
///
/// # Errors
/// It is no number.
pub fn number_from_environment(name: &str, usual: usize) -> Result<usize> {
    std::env::var(name).map_or(Ok(usual), |text| text.parse()).with_context(|| format!("{name} is no number"))
}

//! Who calls a function of the same file.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::ElfFacts;

/// For each of these functions, the starts of the functions that call or jump to it directly.
///
/// Bytes that only look like such a call count as well: so many callers at most, never too few
/// (except for calls through pointers, which nobody can see).
pub fn callers(elf: &ElfFacts<'_>, functions: &[u64]) -> BTreeMap<u64, BTreeSet<u64>> {
    let mut found: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let (Some(lowest), Some(highest)) = (functions.iter().min(), functions.iter().max()) else {
        return found;
    };
    for range in elf.code.iter().filter(|c| !c.is_plt()) {
        for (at, window) in range.bytes.windows(5).enumerate() {
            let distance = match window {
                [0xe8 | 0xe9, a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]),
                _ => continue,
            };
            let caller = range.vaddr.wrapping_add(at as u64);
            let target = caller.wrapping_add(5).wrapping_add_signed(i64::from(distance));
            if (*lowest..=*highest).contains(&target) && functions.contains(&target) {
                found.entry(target).or_default().insert(elf.start_of(caller).unwrap_or(caller));
            }
        }
    }
    found
}

//! Where in a file an address is.

/// The file that an address is mapped from, and how far into it.
pub(crate) fn place_of(address: u64) -> (String, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().find_map(|line| place_in(line, address)).unwrap_or((String::new(), address))
}

/// The same, if it is in this line of the file: `start-end rights offset device inode path`.
fn place_in(line: &str, address: u64) -> Option<(String, u64)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let offset_bytes = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    let path = words.nth(2)?.trim_start();
    (start..end).contains(&address).then(|| (path.to_owned(), address - start + offset_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_what_is_mapped_there() {
        let line = "55d0c0001000-55d0c0002000 r-xp 00003000 08:01 1234                       /a b/program";
        assert_eq!(place_in(line, 0x55d0_c000_1010), Some(("/a b/program".to_owned(), 0x3010)));
        assert_eq!(place_in(line, 0x55d0_c000_2000), None);
    }

    #[test]
    fn this_function_is_in_this_program() {
        let (path, _) = place_of(place_of as *const () as u64);
        assert_eq!(std::fs::canonicalize(path).ok(), std::env::current_exe().ok());
    }
}

//! Writes the envelopes of a rank's messages into a file of their own.

use std::sync::atomic::{AtomicI32, Ordering};

use replay::messages::MessageJournal;

use crate::mapped_file::RankMapping;

/// Not zero: messages are written down.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
pub(crate) static dms_messages: AtomicI32 = AtomicI32::new(0);

pub(crate) struct MessageRecorder {
    file: RankMapping,
    pub journal: MessageJournal,
    /// Bytes on their way to the file.
    pub out: Vec<u8>,
    is_stopped: bool,
}

impl MessageRecorder {
    /// From now on the shim tells of messages.
    pub(crate) fn new(file: RankMapping) -> Self {
        dms_messages.store(1, Ordering::Relaxed);
        Self { file, journal: MessageJournal::default(), out: Vec::with_capacity(256), is_stopped: false }
    }

    /// The number of the place that a call is made from.
    pub(crate) fn site(&mut self, address: u64, call: u32) -> u32 {
        self.journal.site(address, call, &mut self.out, || place_of(address))
    }

    /// Puts what was written down into the file; says why it is full.
    pub(crate) fn write(&mut self) -> Result<(), String> {
        let result =
            if self.is_stopped || self.out.is_empty() { Ok(()) } else { self.file.append(&self.out) };
        self.out.clear();
        result.map_err(|error| {
            self.is_stopped = true;
            format!("there is no more room for its messages ({error})")
        })
    }
}

/// The file that an address is mapped from, and how far into it.
fn place_of(address: u64) -> (String, u64) {
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

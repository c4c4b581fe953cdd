//! Who a file is by the numbers that mappings of it have: some file systems (overlays, btrfs) give others to stat(2).

use std::fs::File;

use analyzer::wire::FileId;
use memmap2::MmapOptions;

use super::mappings;

/// Maps a file for a moment to learn it; nothing, if it cannot be mapped.
pub(super) fn id_as_mapped(file: &File) -> Option<FileId> {
    // SAFETY: nothing is read from the mapping, so that it does not matter what becomes of the file meanwhile.
    let mapped = unsafe { MmapOptions::new().len(1).map_copy_read_only(file) }.ok()?;
    let at = mapped.as_ptr() as u64;
    let mappings = mappings::read(std::process::id()).ok()?;
    mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&at)).map(|mapping| mapping.file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_numbers_by_which_it_is_mapped() {
        let file = File::open("/proc/self/exe").expect("this test");
        let path = std::fs::read_link("/proc/self/exe").expect("it has a path");
        let mappings = mappings::read(std::process::id()).expect("own mappings");
        let own = mappings.iter().find(|mapping| path.as_os_str() == mapping.name.as_str());
        assert_eq!(id_as_mapped(&file), own.map(|mapping| mapping.file));
        assert_eq!(id_as_mapped(&File::open("/proc/self/maps").expect("it is there")), None);
    }
}

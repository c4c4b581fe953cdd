//! Where the code of a process's files is mapped.

use std::collections::BTreeMap;

use crate::tape::input::CodePlace;
use crate::tape::wire::FileId;

/// By start: end, file, and where the start is in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeMap {
    regions: BTreeMap<u64, (u64, FileId, u64)>,
}

impl CodeMap {
    /// A new mapping, in the place of what was there.
    pub fn add(&mut self, start: u64, end: u64, file: FileId, offset_bytes: u64) {
        self.regions.retain(|&known, &mut (known_end, ..)| known_end <= start || known >= end);
        self.regions.insert(start, (end, file, offset_bytes));
    }

    /// Where the file's first byte would be if all of it were mapped as its code is.
    pub fn start_of(&self, file: FileId) -> Option<u64> {
        let mut of_file = self.regions.iter().filter(|(_, region)| region.1 == file);
        of_file.next().map(|(start, region)| start.wrapping_sub(region.2))
    }

    /// The place of an address; return addresses are behind their calls.
    pub fn place(&self, address: u64) -> Option<CodePlace> {
        let (&start, &(end, file, offset)) = self.regions.range(..address).next_back()?;
        let inside = address <= end;
        inside.then(|| CodePlace { file, offset_bytes: offset.wrapping_add(address - start) })
    }
}

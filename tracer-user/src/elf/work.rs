//! How much is done for one file: what is in it must not decide that.

use object::LittleEndian;
use object::read::StringTable;
use object::read::elf::Sym;

use super::contents::{Contents, LONGEST_NAME_BYTES};
use super::error::ElfError;

/// Bytes of tables and names that are looked at. Large libraries have a tenth of this.
const MOST_BYTES: u64 = 512 << 20;
/// What is kept of a symbol, beside its name.
const ROW_BYTES: u64 = 96;

/// What may still be done.
#[derive(Debug)]
pub(super) struct WorkLeft {
    left_bytes: u64,
}

impl Default for WorkLeft {
    fn default() -> Self {
        Self { left_bytes: MOST_BYTES }
    }
}

impl WorkLeft {
    /// Fails if that is more than may be done.
    pub fn spend(&mut self, bytes: u64) -> Result<(), ElfError> {
        self.left_bytes = self.left_bytes.checked_sub(bytes).ok_or(ElfError::TooMuch)?;
        Ok(())
    }

    /// The name of a symbol, if it has one that can be read.
    pub fn name<'d>(
        &mut self,
        endian: LittleEndian,
        symbol: &impl Sym<Endian = LittleEndian>,
        strings: StringTable<'d, &'d Contents>,
    ) -> Result<Option<&'d str>, ElfError> {
        let name = symbol.name(endian, strings).ok();
        self.spend(ROW_BYTES + name.map_or(LONGEST_NAME_BYTES, |name| name.len() as u64))?;
        Ok(name.and_then(|name| str::from_utf8(name).ok()))
    }
}

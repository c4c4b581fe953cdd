//! The file of a page.

use std::path::Path;

use anyhow::{Context, Result};

use crate::host::capabilities::with_own_file_rights;
use crate::host::output_file::OutputFile;

/// A file that keeps what it has until all that is to be written is there.
pub(super) struct PageFile<'a> {
    path: &'a Path,
    file: OutputFile,
}

impl<'a> PageFile<'a> {
    /// # Errors
    /// Nothing can be written there.
    pub(super) fn find(path: &'a Path) -> Result<Self> {
        let file = with_own_file_rights(|| OutputFile::find(path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file })
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// It cannot be written; what was there stays.
    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        let written = self.file.write_whole(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

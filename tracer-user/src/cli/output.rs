//! Standard output, and the files that are written instead.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::host::output_file::OutputFile;

/// A file for what is said line by line.
pub(super) fn create(path: &Path) -> Result<File> {
    let file = OutputFile::find(path).and_then(OutputFile::begin);
    file.with_context(|| format!("cannot write {}", path.display()))
}

use analyzer::visible::visible_json;

/// A reader that has gone away (`| head`) is no error.
pub(super) fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// One JSON document, on a line.
pub(super) fn print_json(document: &serde_json::Value) -> std::io::Result<()> {
    print(&format!("{}\n", visible_json(&document.to_string())))
}

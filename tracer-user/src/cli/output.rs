//! Standard output, and the files that are written instead.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use analyzer::visible::visible_json;
use anyhow::{Context, Result, bail};

use crate::host::output_file::OutputFile;

/// A file for what is said line by line.
pub(super) fn create(path: &Path) -> Result<File> {
    let file = OutputFile::find(path).and_then(OutputFile::begin);
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Fails if a file that is to be written is one that is to be read, or is named twice, by whatever names. Nothing is touched.
pub(super) fn keep_apart(read: &[PathBuf], written: &[&Path]) -> Result<()> {
    let read: Vec<PathBuf> = read.iter().filter_map(|path| real_name(path)).collect();
    let mut taken = Vec::new();
    for path in written {
        // Pipes and devices are for everybody.
        let Some(name) = real_name(path) else { continue };
        if read.contains(&name) {
            bail!("{} is to be read, and would be written over: write to another file", path.display());
        }
        if taken.contains(&name) {
            bail!("{} is named for two outputs: write them to two files", path.display());
        }
        taken.push(name);
    }
    Ok(())
}

/// What tells a file or folder from others, there or to be made; nothing of a pipe or device.
fn real_name(path: &Path) -> Option<PathBuf> {
    match path.metadata() {
        Ok(found) if found.is_file() || found.is_dir() => path.canonicalize().ok(),
        Ok(_) => None,
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_written_over_and_no_file_is_written_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let (tape, link) = (folder.path().join("tape"), folder.path().join("link"));
        std::fs::write(&tape, "").expect("ours");
        std::os::unix::fs::symlink(&tape, &link).expect("ours");
        let refused = |read: &[PathBuf], written: &[&Path]| {
            keep_apart(read, written).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused(std::slice::from_ref(&tape), &[&link]).contains("to be read"));
        assert!(refused(&[link], &[&tape]).contains("to be read"));
        let (new, same) = (folder.path().join("new"), folder.path().join("./new"));
        assert!(refused(&[], &[&new, &same]).contains("two outputs"));
        assert_eq!(refused(&[tape], &[&new, Path::new("/dev/null"), Path::new("/dev/null")]), "");
    }
}

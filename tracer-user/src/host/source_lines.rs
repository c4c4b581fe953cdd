//! Source lines of calls, by file and place in it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analyzer::wire::FileId;

use super::files::open_trusted;
use super::symbols::Symbols;

/// Looks them up. The paths are a stranger's words: only files of root's or the caller's own are read, by a child without rights.
#[derive(Default)]
pub struct SourceLines {
    symbols: Symbols,
    files: HashMap<PathBuf, Option<FileId>>,
    /// Each place is asked for once: a second time nothing is said of it.
    found: HashMap<(PathBuf, u64), Option<String>>,
}

impl SourceLines {
    /// `function at file:line` in short: `master.c:42`, or the function's name.
    pub fn at(&mut self, path: &Path, offset_bytes: u64) -> Option<String> {
        let place = (path.to_owned(), offset_bytes);
        if let Some(found) = self.found.get(&place) {
            return found.clone();
        }
        let found = self.find(path, offset_bytes);
        self.found.insert(place, found.clone());
        found
    }

    fn find(&mut self, path: &Path, offset_bytes: u64) -> Option<String> {
        // Numbers of its own: nobody else asks these symbols.
        let next = FileId { dev: 0, inode: self.files.len() as u64 };
        let symbols = &mut self.symbols;
        let file = self.files.entry(path.to_owned()).or_insert_with(|| {
            let file = open_trusted(path).ok()?;
            symbols.know([(next, Arc::new(file))]);
            Some(next)
        });
        let symbol = self.symbols.resolve([((*file)?, offset_bytes)]).pop()?;
        let frame = symbol.frames.first()?;
        match (&frame.source, frame.line) {
            (Some(source), Some(line)) => {
                let name = Path::new(source).file_name()?.to_string_lossy().into_owned();
                Some(format!("{name}:{line}"))
            }
            _ => Some(frame.function.clone()).filter(|function| !function.is_empty()),
        }
    }
}

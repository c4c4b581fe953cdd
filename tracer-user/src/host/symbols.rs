//! Names of code places, for people's eyes: function, file and line, through blazesym.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use analyzer::input::{Frame, Symbol};
use analyzer::wire::FileId;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

use super::files::open_path;
use crate::elf;

/// Looks names up, each place once.
pub struct Symbols {
    symbolizer: Symbolizer,
    files: HashMap<FileId, KnownFile>,
    done: HashSet<(FileId, u64)>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self { symbolizer: Symbolizer::new(), files: HashMap::new(), done: HashSet::new() }
    }
}

impl Symbols {
    /// Says where files can be opened now. Names can be asked for when they no longer can be: when
    /// the job, through whose processes the paths lead, has ended.
    pub fn know(&mut self, paths: impl IntoIterator<Item = (FileId, PathBuf)>) {
        for (id, path) in paths {
            if let Ok(file) = File::open(&path) {
                self.files.insert(id, KnownFile { path, file });
            }
        }
    }

    /// The names of those places that were not asked for before. A place without a name comes
    /// back without frames.
    pub fn resolve(&mut self, places: impl IntoIterator<Item = (FileId, u64)>) -> Vec<Symbol> {
        let mut by_file: HashMap<FileId, Vec<u64>> = HashMap::new();
        for place in places {
            if self.done.insert(place) {
                by_file.entry(place.0).or_default().push(place.1);
            }
        }
        let mut symbols: Vec<Symbol> =
            by_file.into_iter().flat_map(|(file, offsets)| self.resolve_file(file, offsets)).collect();
        symbols.sort_by_key(|symbol| (symbol.file, symbol.offset_bytes));
        symbols
    }

    fn resolve_file(&self, file: FileId, offsets: Vec<u64>) -> Vec<Symbol> {
        let frames = self.frames(file, &offsets);
        offsets
            .into_iter()
            .zip(frames)
            .map(|(offset_bytes, frames)| Symbol { file, offset_bytes, frames })
            .collect()
    }

    fn frames(&self, file: FileId, offsets: &[u64]) -> Vec<Vec<Frame>> {
        let nothing = || vec![Vec::new(); offsets.len()];
        let Some(file) = self.files.get(&file) else { return nothing() };
        let source = Source::Elf(Elf::new(file.path()));
        // A strange file has no names; that is all it costs.
        match self.symbolizer.symbolize(&source, Input::FileOffset(offsets)) {
            Ok(found) => found.iter().map(|place| place.as_sym().map(frames).unwrap_or_default()).collect(),
            Err(_) => nothing(),
        }
    }
}

/// A file that stays, whatever becomes of its path.
struct KnownFile {
    path: PathBuf,
    file: File,
}

impl KnownFile {
    fn path(&self) -> PathBuf {
        let by_number = Path::new("/proc/self/fd").join(self.file.as_raw_fd().to_string());
        // Separate debug information may lie beside the real path.
        if self.path.exists() { self.path.clone() } else { by_number }
    }
}

/// Whether a file that was known in another session is still what it was: by its build id, else by its number.
pub fn is_file(path: &Path, id: FileId, build_id: Option<&str>) -> bool {
    let Ok((id_now, file)) = open_path(path) else { return false };
    match build_id {
        None => id_now == id,
        Some(wanted) => {
            let Ok(image) = file.read_image() else { return false };
            elf::parse(&image).is_ok_and(|facts| facts.build_id.as_deref() == Some(wanted))
        }
    }
}

/// Innermost inlined function first.
fn frames(sym: &Sym<'_>) -> Vec<Frame> {
    let inlined = sym.inlined.iter().rev().map(|f| frame(&f.name, f.code_info.as_ref()));
    inlined.chain(std::iter::once(frame(&sym.name, sym.code_info.as_deref()))).collect()
}

fn frame(name: &str, info: Option<&CodeInfo<'_>>) -> Frame {
    Frame {
        function: name.to_owned(),
        source: info.map(|info| info.to_path().to_string_lossy().into_owned()),
        line: info.and_then(|info| info.line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_names_when_its_path_is_gone() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("program");
        std::fs::copy(std::env::current_exe().expect("this test"), &path).expect("a copy");
        let object = std::fs::read(&path).expect("the copy");
        let offset = file_offset_of_a_function(&object);
        let file = FileId { dev: 1, inode: 2 };
        let mut symbols = Symbols::default();
        symbols.know([(file, path.clone())]);
        std::fs::remove_file(&path).expect("ours");
        let found = symbols.resolve([(file, offset)]);
        assert!(found[0].frames[0].function.contains("main"), "{found:?}");
    }

    /// Of `main`, which every program has.
    fn file_offset_of_a_function(bytes: &[u8]) -> u64 {
        use object::{Object, ObjectSegment, ObjectSymbol};
        let object = object::File::parse(bytes).expect("an ELF file");
        let main = object.symbol_by_name("main").expect("a main").address();
        let segment = object.segments().find(|s| (s.address()..s.address() + s.size()).contains(&main));
        let segment = segment.expect("a segment with main");
        main - segment.address() + segment.file_range().0
    }

    #[test]
    fn a_file_is_known_again_by_its_build_id_whatever_its_path_and_number() {
        let path = std::env::current_exe().expect("this test");
        let bytes = std::fs::read(&path).expect("this test");
        let build_id = elf::parse(&bytes).expect("an ELF file").build_id.expect("linkers write one");
        let (number, _) = open_path(&path).expect("this test");
        let other = FileId { dev: 1, inode: 2 };
        assert!(is_file(&path, other, Some(&build_id)) && !is_file(&path, number, Some("00")));
        assert!(is_file(&path, number, None) && !is_file(&path, other, None));
        assert!(!is_file(Path::new("/nonexistent"), number, None));
    }

    #[test]
    fn a_file_that_is_gone_has_places_without_names() {
        let file = FileId { dev: 1, inode: 2 };
        let mut symbols = Symbols::default();
        symbols.know([(file, PathBuf::from("/nonexistent"))]);
        let found = symbols.resolve([(file, 64)]);
        assert_eq!(found, vec![Symbol { file, offset_bytes: 64, frames: vec![] }]);
        assert!(symbols.resolve([(file, 64)]).is_empty(), "each place is looked up once");
    }
}

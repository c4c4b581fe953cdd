//! Names of code places, for people's eyes: function, file and line.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use analyzer::input::{Frame, Symbol};
use analyzer::wire::FileId;

use super::debug_files::debug_file;
use super::files::{OpenedFile, open_trusted};
use super::parsing::{FileParser, ParsingChild};

/// Looks names up, each place once.
pub struct Symbols {
    parser: Box<dyn FileParser>,
    files: HashMap<FileId, SymbolFile>,
    done: HashSet<(FileId, u64)>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::through(ParsingChild::default())
    }
}

impl Symbols {
    /// Looks them up through somebody who reads files.
    pub fn through(parser: impl FileParser + 'static) -> Self {
        Self { parser: Box::new(parser), files: HashMap::new(), done: HashSet::new() }
    }

    /// Takes files along. Names can be asked for when the job, through whose processes their paths lead, has ended.
    pub fn know(&mut self, files: impl IntoIterator<Item = (FileId, Arc<OpenedFile>)>) {
        self.files.extend(files.into_iter().map(|(id, file)| (id, SymbolFile { file, debug: None })));
    }

    /// Takes a file along that was known in another session, and says whether it is still what it was: a regular file of
    /// root's or the caller's own with that build id. The path is a stranger's word, and so is what is there.
    pub fn know_again(&mut self, id: FileId, path: &Path, build_id: &str) -> bool {
        let Ok(file) = open_trusted(path) else { return false };
        let summary = self.parser.summary(&file).unwrap_or_default();
        let is_same = summary.build_id.as_deref() == Some(build_id);
        if is_same {
            self.know([(id, Arc::new(file))]);
        }
        is_same
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

    fn resolve_file(&mut self, file: FileId, offsets: Vec<u64>) -> Vec<Symbol> {
        let mut frames = self.frames(file, &offsets).unwrap_or_default();
        frames.resize(offsets.len(), Vec::new());
        let symbol = |(offset_bytes, frames)| Symbol { file, offset_bytes, frames };
        offsets.into_iter().zip(frames).map(symbol).collect()
    }

    fn frames(&mut self, id: FileId, offsets: &[u64]) -> Option<Vec<Vec<Frame>>> {
        let known = self.files.get_mut(&id)?;
        if let Some(Some(debug)) = &known.debug
            && let Ok(found) = self.parser.names(&known.file, Some(debug), offsets)
        {
            return Some(found.frames);
        }
        let Ok(found) = self.parser.names(&known.file, None, offsets) else {
            // A strange file has no names; that is all it costs, and once.
            self.files.remove(&id);
            return None;
        };
        let Some(build_id) = found.debug_build_id else { return Some(found.frames) };
        let debug = known.debug.get_or_insert_with(|| debug_file(&known.file, &build_id, &mut *self.parser));
        let Some(opened) = debug else { return Some(found.frames) };
        let Ok(with_debug) = self.parser.names(&known.file, Some(opened), offsets) else {
            *debug = None;
            return Some(found.frames);
        };
        Some(with_debug.frames)
    }
}

/// A file that names are looked up in.
struct SymbolFile {
    file: Arc<OpenedFile>,
    /// The file with its debug information. Looked for when the first name is wanted that the file itself does not tell
    /// in full; none inside: there is none.
    debug: Option<Option<OpenedFile>>,
}

#[cfg(test)]
mod tests {
    use super::super::files::open_path;
    use super::super::parsing::InProcess;
    use super::*;
    use crate::elf;

    #[test]
    fn a_file_keeps_its_names_when_its_path_is_gone() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("program");
        std::fs::copy(std::env::current_exe().expect("this test"), &path).expect("a copy");
        let object = std::fs::read(&path).expect("the copy");
        let offset = file_offset_of_a_function(&object);
        let file = FileId { dev: 1, inode: 2 };
        let mut symbols = Symbols::through(InProcess);
        symbols.know([(file, Arc::new(open_path(&path).expect("the copy").1))]);
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
    fn a_file_is_known_again_by_its_build_id_alone() {
        let path = std::env::current_exe().expect("this test");
        let bytes = std::fs::read(&path).expect("this test");
        let build_id = elf::parse(&bytes.into()).expect("an ELF file").build_id.expect("linkers write one");
        let mut symbols = Symbols::through(InProcess);
        let mut is_known = |path: &Path, build_id| symbols.know_again(FileId::default(), path, build_id);
        assert!(is_known(&path, &build_id));
        assert!(!is_known(&path, "00"));
        assert!(!is_known(Path::new("/nonexistent"), &build_id));
        assert!(!is_known(Path::new("/dev/zero"), &build_id));
    }

    #[test]
    fn a_file_that_is_not_known_has_places_without_names() {
        let file = FileId { dev: 1, inode: 2 };
        let mut symbols = Symbols::through(InProcess);
        let found = symbols.resolve([(file, 64)]);
        assert_eq!(found, vec![Symbol { file, offset_bytes: 64, frames: vec![] }]);
        assert!(symbols.resolve([(file, 64)]).is_empty(), "each place is looked up once");
    }
}

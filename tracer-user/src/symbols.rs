//! Names of code places, for people's eyes: function, file and line, through blazesym.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use analyzer::input::{Frame, Symbol};
use analyzer::wire::FileId;
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};

/// Looks names up, each place once.
pub struct Symbols {
    symbolizer: Symbolizer,
    paths: HashMap<FileId, PathBuf>,
    done: HashSet<(FileId, u64)>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self { symbolizer: Symbolizer::new(), paths: HashMap::new(), done: HashSet::new() }
    }
}

impl Symbols {
    /// Says where files can be opened.
    pub fn know(&mut self, paths: impl IntoIterator<Item = (FileId, PathBuf)>) {
        self.paths.extend(paths);
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
        let Some(path) = self.paths.get(&file) else { return nothing() };
        let source = Source::Elf(Elf::new(path));
        // A strange file has no names; that is all it costs.
        match self.symbolizer.symbolize(&source, Input::FileOffset(offsets)) {
            Ok(found) => found.iter().map(|place| place.as_sym().map(frames).unwrap_or_default()).collect(),
            Err(_) => nothing(),
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
    fn a_file_that_is_gone_has_places_without_names() {
        let file = FileId { dev: 1, inode: 2 };
        let mut symbols = Symbols::default();
        symbols.know([(file, PathBuf::from("/nonexistent"))]);
        let found = symbols.resolve([(file, 64)]);
        assert_eq!(found, vec![Symbol { file, offset_bytes: 64, frames: vec![] }]);
        assert!(symbols.resolve([(file, 64)]).is_empty(), "each place is looked up once");
    }
}

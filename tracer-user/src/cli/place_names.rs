//! Names of places in code, for people, as they are asked for.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use analyzer::finding::Place;
use analyzer::input::CodePlace;
use analyzer::pipeline::Pipeline;
use analyzer::plan::Plan;
use analyzer::symbols::SymbolTable;
use analyzer::text::place_text;
use analyzer::wire::FileId;

use crate::host::symbols::Symbols;

/// Texts that are kept.
const MOST_TEXTS: usize = 1 << 17;

/// A tape has the names that its findings need. Others are looked up where the very same files are still there.
#[derive(Default)]
pub(super) struct PlaceLookup {
    names: SymbolTable,
    symbols: Symbols,
    /// Where files were that were not looked for yet, each with its build id.
    files: HashMap<FileId, (PathBuf, String)>,
    looked_for: HashSet<FileId>,
    texts: HashMap<CodePlace, Rc<str>>,
}

impl PlaceLookup {
    /// With the names that are on a tape.
    pub(super) fn new(names: SymbolTable) -> Self {
        Self { names, ..Self::default() }
    }

    /// Learns where files were.
    pub(super) fn know(&mut self, plan: &Plan) {
        for file in &plan.files {
            if let Some(build_id) = &file.build_id {
                let known = || (PathBuf::from(&file.path), build_id.clone());
                self.files.entry(file.id).or_insert_with(known);
            }
        }
    }

    /// Where a call was made that returns to a place: `solve (solver.c:42)`, or `solver+0x1f30`.
    pub(super) fn call_text(&mut self, pipeline: &Pipeline, place: CodePlace) -> Rc<str> {
        if let Some(text) = self.texts.get(&place) {
            return Rc::clone(text);
        }
        let CodePlace { file, offset_bytes } = place;
        // A call is before what it returns to.
        let offset_bytes = offset_bytes.saturating_sub(1);
        let module = pipeline.path(file);
        let text: Rc<str> =
            self.text(Place { module, file: Some(file), offset_bytes, frames: Vec::new() }).into();
        if self.texts.len() < MOST_TEXTS {
            self.texts.insert(place, Rc::clone(&text));
        }
        text
    }

    /// The same, of a place that is known otherwise.
    pub(super) fn text(&mut self, mut place: Place) -> String {
        if let Some(file) = place.file {
            self.look_up([(file, place.offset_bytes)]);
            place.frames = self.names.get(file, place.offset_bytes).unwrap_or_default().to_vec();
        }
        place_text(&place)
    }

    /// Looks up names that are not known.
    pub(super) fn look_up(&mut self, places: impl IntoIterator<Item = (FileId, u64)>) {
        let names = &self.names;
        let wanted = places.into_iter().filter(|(file, offset)| names.get(*file, *offset).is_none());
        let wanted: Vec<(FileId, u64)> = wanted.collect();
        for (file, _) in &wanted {
            if let Some((path, build_id)) = self.files.get(file).filter(|_| self.looked_for.insert(*file)) {
                self.symbols.know_again(*file, path, build_id);
            }
        }
        if !wanted.is_empty() {
            let found = self.symbols.resolve(wanted);
            self.names.extend(&found);
        }
    }

    /// All that are known.
    pub(super) fn names(&self) -> &SymbolTable {
        &self.names
    }
}

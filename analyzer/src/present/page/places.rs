//! Code places of a page, each with its name.

use rustc_hash::FxHashMap;

use super::data::NamedPlace;
use crate::findings::finding::Place;
use crate::job::names::Names;
use crate::job::symbols::SymbolTable;
use crate::present::text::place_text;
use crate::tape::input::CodePlace;
use crate::tape::wire::FileId;

/// Gives places their names.
pub(super) struct Places<'a> {
    pub(super) files: &'a Names,
    pub(super) table: &'a SymbolTable,
    pub(super) numbers: FxHashMap<(Option<FileId>, String, u64), u32>,
    pub(super) all: Vec<NamedPlace>,
}

impl Places<'_> {
    /// A place in a file.
    pub fn at(&self, place: CodePlace) -> Place {
        let module = self.files.path(place.file);
        self.named(Place {
            module,
            file: Some(place.file),
            offset_bytes: place.offset_bytes,
            frames: Vec::new(),
        })
    }

    pub(super) fn named(&self, mut place: Place) -> Place {
        if let Some(frames) = place.file.and_then(|file| self.table.get(file, place.offset_bytes)) {
            place.frames = frames.to_vec();
        }
        place
    }

    /// Its position in the list; none if it is not known at all.
    pub(super) fn number(&mut self, place: &Place) -> Option<u32> {
        if place.module.is_empty() {
            return None;
        }
        let key = (place.file, place.module.clone(), place.offset_bytes);
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.all.push(NamedPlace { text: place_text(place), place: place.clone() });
        }
        Some(number)
    }
}

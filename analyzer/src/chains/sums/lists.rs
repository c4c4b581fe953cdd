//! Processes, files and probes: numbers that mean something on one node alone stand beside the content.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::tape::BadBytes;
use crate::tape::bytes::ByteReader;
use crate::tape::wire::FileId;

/// A list, and where each of its items is.
#[derive(Debug)]
pub(crate) struct PlacedList<T> {
    items: Vec<T>,
    places: FxHashMap<T, u64>,
}

impl<T> Default for PlacedList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), places: FxHashMap::default() }
    }
}

impl<T: Copy + Eq + Hash> PlacedList<T> {
    /// Where an item is, from here on.
    pub(crate) fn place(&mut self, item: T) -> u64 {
        let next = self.items.len() as u64;
        let place = *self.places.entry(item).or_insert(next);
        if place == next {
            self.items.push(item);
        }
        place
    }

    pub(crate) fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// Lists that are gathered while content is written.
#[derive(Debug, Default)]
pub(crate) struct WrittenLists {
    pub pids: PlacedList<u32>,
    pub files: PlacedList<FileId>,
    pub probes: PlacedList<u32>,
}

/// Lists that came with content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLists<'a> {
    pub pids: &'a [u32],
    pub files: &'a [FileId],
    pub probes: &'a [u32],
}

impl ReadLists<'_> {
    pub(crate) fn pid(&self, r: &mut ByteReader<'_>) -> Result<u32, BadBytes> {
        item(self.pids, r)
    }

    pub(crate) fn file(&self, r: &mut ByteReader<'_>) -> Result<FileId, BadBytes> {
        item(self.files, r)
    }

    pub(crate) fn probe(&self, r: &mut ByteReader<'_>) -> Result<u32, BadBytes> {
        item(self.probes, r)
    }
}

fn item<T: Copy>(list: &[T], r: &mut ByteReader<'_>) -> Result<T, BadBytes> {
    list.get(r.small::<usize>()?).copied().ok_or(BadBytes)
}

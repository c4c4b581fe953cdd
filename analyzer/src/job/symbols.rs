//! Names of code places. Only for people's eyes: no decision looks at them.

use rustc_hash::FxHashMap;

use crate::tape::input::{Frame, Symbol};
use crate::tape::wire::FileId;

/// Most names kept.
const MAX_SYMBOLS: usize = 1 << 20;

/// Functions, files and lines by place.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    frames: FxHashMap<(FileId, u64), Vec<Frame>>,
}

impl SymbolTable {
    /// Learns names.
    pub fn extend(&mut self, symbols: &[Symbol]) {
        for symbol in symbols {
            if self.frames.len() < MAX_SYMBOLS {
                self.frames.insert((symbol.file, symbol.offset_bytes), symbol.frames.clone());
            }
        }
    }

    /// The functions at a place; an empty list: it was looked up and has none.
    pub fn get(&self, file: FileId, offset_bytes: u64) -> Option<&[Frame]> {
        self.frames.get(&(file, offset_bytes)).map(Vec::as_slice)
    }
}

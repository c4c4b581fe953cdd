//! Names of code places. Only for people's eyes: no decision looks at them.

use rustc_hash::FxHashMap;

use crate::tape::input::{Frame, Symbol};
use crate::tape::wire::FileId;

/// Most names kept.
const MAX_SYMBOLS: usize = 1 << 20;
/// Most bytes of their text and what holds it.
const MAX_BYTES: usize = 128 << 20;

/// Functions, files and lines by place.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    frames: FxHashMap<(FileId, u64), Vec<Frame>>,
    bytes: usize,
}

impl SymbolTable {
    /// Learns names, as long as there is room; says whether there is more.
    pub fn extend(&mut self, symbols: &[Symbol]) -> bool {
        for symbol in symbols {
            let bytes: usize = 64 + symbol.frames.iter().map(frame_bytes).sum::<usize>();
            if self.frames.len() >= MAX_SYMBOLS || self.bytes + bytes > MAX_BYTES {
                return false;
            }
            self.bytes += bytes;
            self.frames.insert((symbol.file, symbol.offset_bytes), symbol.frames.clone());
        }
        true
    }

    /// The functions at a place; an empty list: it was looked up and has none.
    pub fn get(&self, file: FileId, offset_bytes: u64) -> Option<&[Frame]> {
        self.frames.get(&(file, offset_bytes)).map(Vec::as_slice)
    }
}

fn frame_bytes(frame: &Frame) -> usize {
    size_of::<Frame>() + frame.function.len() + frame.source.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_long_as_there_is_room_for_their_text() {
        let frame = Frame { function: "x".repeat(1 << 20), ..Frame::default() };
        let symbol =
            |offset_bytes| Symbol { file: FileId::default(), offset_bytes, frames: vec![frame.clone()] };
        let mut table = SymbolTable::default();
        let kept = (0..200).take_while(|offset_bytes| table.extend(&[symbol(*offset_bytes)])).count();
        assert_eq!(kept, 127);
        assert!(table.get(FileId::default(), 126).is_some() && table.get(FileId::default(), 127).is_none());
    }
}

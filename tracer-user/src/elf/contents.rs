//! The parts of a file that facts are read from: its tables, its loaded segments and its symbols. Debug information can
//! be gigabytes, and is left out.

use std::io;
use std::ops::Range;

use object::ReadRef;

/// Files with more code, data and symbols than this are not read.
const MOST_BYTES: u64 = 384 << 20;
/// Longer names are none.
pub(super) const LONGEST_NAME_BYTES: u64 = 16 << 10;

const HEADER_BYTES: u64 = 64;
const SEGMENT_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;

/// Parts of a file, at their places. What was not read is not there.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    len_bytes: u64,
    /// In order of place; none touches another.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    offset_bytes: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset_bytes + self.bytes.len() as u64
    }
}

impl From<Vec<u8>> for Contents {
    /// A whole file.
    fn from(bytes: Vec<u8>) -> Self {
        Self { len_bytes: bytes.len() as u64, pieces: vec![Piece { offset_bytes: 0, bytes }] }
    }
}

impl Contents {
    /// Reads what is needed of a file of that length: first its tables, then what they name, each byte once.
    /// `read_at` fills a buffer from a place.
    ///
    /// # Errors
    /// What is needed is too large, or cannot be read.
    pub fn read(
        len_bytes: u64,
        mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut needed = vec![range(0, HEADER_BYTES)];
        let mut found = Self::read_ranges(len_bytes, &needed, &mut read_at)?;
        needed.extend(found.table_ranges());
        found = Self::read_ranges(len_bytes, &needed, &mut read_at)?;
        needed.extend(found.named_ranges());
        Self::read_ranges(len_bytes, &needed, &mut read_at)
    }

    fn read_ranges(
        len_bytes: u64,
        ranges: &[Range<u64>],
        read_at: &mut impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let ranges = merged(ranges, len_bytes);
        let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if total > MOST_BYTES {
            let limit = MOST_BYTES >> 20;
            return Err(io::Error::other(format!(
                "its code, data and symbols are {} MiB, and no more than {limit} are read of a file",
                total >> 20
            )));
        }
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut bytes = vec![0; usize::try_from(range.end - range.start).map_err(io::Error::other)?];
            read_at(&mut bytes, range.start)?;
            pieces.push(Piece { offset_bytes: range.start, bytes });
        }
        Ok(Self { len_bytes, pieces })
    }

    /// How many bytes of the file are here.
    pub fn held_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
    }

    /// The bytes from a place to the end of its part.
    pub fn bytes_from(&self, offset_bytes: u64) -> Option<&[u8]> {
        let piece = self.pieces.get(self.pieces.partition_point(|piece| piece.end() <= offset_bytes))?;
        piece.bytes.get(usize::try_from(offset_bytes.checked_sub(piece.offset_bytes)?).ok()?..)
    }

    fn bytes_at(&self, offset_bytes: u64, len_bytes: u64) -> Option<&[u8]> {
        self.bytes_from(offset_bytes)?.get(..usize::try_from(len_bytes).ok()?)
    }

    fn number<const LEN: usize>(&self, at: u64) -> Option<u64> {
        let mut word = [0; 8];
        word[..LEN].copy_from_slice(self.bytes_at(at, LEN as u64)?);
        Some(u64::from_le_bytes(word))
    }

    /// Where the segment and section tables are, from the file header; nothing if it is no 64-bit ELF.
    fn table_ranges(&self) -> [Range<u64>; 2] {
        let is_elf = self.bytes_at(0, 6) == Some(b"\x7fELF\x02\x01");
        let table = |at, count, row| Some(range(self.number::<8>(at)?, self.number::<2>(count)? * row));
        [(0x20, 0x38, SEGMENT_HEADER_BYTES), (0x28, 0x3c, SECTION_HEADER_BYTES)]
            .map(|(at, count, row)| table(at, count, row).filter(|_| is_elf).unwrap_or_default())
    }

    /// What the tables name that is needed: loaded segments, symbols and strings.
    fn named_ranges(&self) -> Vec<Range<u64>> {
        const LOAD: u64 = 1;
        const SYMBOLS: u64 = 2;
        const STRINGS: u64 = 3;
        let [segments, sections] = self.table_ranges();
        let rows = |table: Range<u64>, row: u64| {
            let end = table.end.min(self.len_bytes);
            (table.start..end).step_by(row as usize).collect::<Vec<u64>>()
        };
        let mut ranges = Vec::new();
        for at in rows(segments, SEGMENT_HEADER_BYTES) {
            if self.number::<4>(at) == Some(LOAD) {
                ranges.extend(self.range_named(at + 0x08, at + 0x20));
            }
        }
        for at in rows(sections, SECTION_HEADER_BYTES) {
            if matches!(self.number::<4>(at + 4), Some(SYMBOLS | STRINGS)) {
                ranges.extend(self.range_named(at + 0x18, at + 0x20));
            }
        }
        ranges
    }

    fn range_named(&self, offset: u64, len: u64) -> Option<Range<u64>> {
        Some(range(self.number::<8>(offset)?, self.number::<8>(len)?))
    }
}

fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// The same bytes, each once, in order; what is beyond the end is left out.
fn merged(ranges: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let within = ranges.iter().map(|range| range.start..range.end.min(end)).filter(|range| !range.is_empty());
    let mut all: Vec<Range<u64>> = within.collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in all {
        match merged.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

impl<'d> ReadRef<'d> for &'d Contents {
    fn len(self) -> Result<u64, ()> {
        Ok(self.len_bytes)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        self.bytes_at(offset, size).ok_or(())
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        let longest = range.end.saturating_sub(range.start).min(LONGEST_NAME_BYTES);
        let bytes = self.bytes_from(range.start).ok_or(())?;
        bytes[..bytes.len().min(longest as usize)].read_bytes_at_until(0..longest, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Load, file_of};
    use super::*;

    /// Reads a file whose bytes are these and then nothing but holes, and counts the bytes that are asked for.
    fn read(bytes: &[u8], len_bytes: u64) -> (io::Result<Contents>, u64) {
        let mut asked_bytes = 0;
        let contents = Contents::read(len_bytes, |buffer, at| {
            asked_bytes += buffer.len() as u64;
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(())
        });
        (contents, asked_bytes)
    }

    fn load(offset_bytes: u64, len_bytes: u64) -> Load {
        Load { offset_bytes, vaddr: 0x40_0000 + offset_bytes, len_bytes }
    }

    #[test]
    fn of_a_file_of_holes_only_what_it_names_is_read() {
        let small = file_of(&[load(0, 0x1000)]);
        let (contents, asked_bytes) = read(&small, 1 << 62);
        assert_eq!(contents.expect("a small program").held_bytes(), 0x1000);
        assert!(asked_bytes < 0x2000, "{asked_bytes}");
    }

    #[test]
    fn a_segment_of_more_than_is_read_is_refused_before_anything_is_allocated() {
        let huge = file_of(&[load(0, 1 << 62)]);
        let (contents, asked_bytes) = read(&huge, 1 << 62);
        assert!(contents.is_err() && asked_bytes < 0x1000, "{asked_bytes}");
    }

    #[test]
    fn segments_that_overlap_are_read_once() {
        const LEN: u64 = 16 << 20;
        let (contents, asked_bytes) = read(&file_of(&[load(0, LEN); 20]), LEN);
        assert_eq!(contents.expect("a program").held_bytes(), LEN);
        assert!(asked_bytes < LEN + 0x2000, "{asked_bytes}");
    }

    #[test]
    fn parts_that_were_not_read_are_not_there() {
        let contents = read(&file_of(&[load(0x2000, 0x100)]), 1 << 20).0.expect("a program");
        assert_eq!(contents.bytes_from(0x2080).map(<[u8]>::len), Some(0x80));
        assert_eq!((contents.bytes_from(0x1fff), contents.bytes_from(0x2100)), (None, None));
        assert_eq!((&contents).read_bytes_at(0x20f0, 0x11), Err(()));
    }
}

//! Parts of a tape, found without decoding its records.

use std::io::Read;

use zstd::bulk::Decompressor;

use super::damage::TapeError;
use super::fact;
use super::frame::FrameKind;
use super::frames::{Frames, decompress};
use super::input::{Input, Symbol};

/// Length of all frames that can be read, decompressed but not decoded: for measuring.
///
/// # Errors
/// This is not a tape, or not one that this version can read. Damage is passed over.
pub fn content_bytes<R: Read>(source: R) -> Result<u64, TapeError> {
    let mut bytes = 0;
    each_content(source, None, |content| {
        bytes += content.len() as u64;
        true
    })?;
    Ok(bytes)
}

/// Gives all names of code places that are on a tape to `take`, some at a time, without decoding its records. `take` says
/// whether it wants more.
///
/// # Errors
/// This is not a tape, or not one that this version can read. Damage is passed over.
pub fn symbols<R: Read>(source: R, mut take: impl FnMut(&[Symbol]) -> bool) -> Result<(), TapeError> {
    each_content(source, Some(FrameKind::Symbols), |json| {
        let lists = serde_json::from_slice::<Vec<Vec<Symbol>>>(json).unwrap_or_default();
        lists.iter().all(|symbols| take(symbols))
    })
}

/// Gives the facts of a tape (its start, processes, plans, its end) to `take`, without decoding its records.
///
/// # Errors
/// This is not a tape, or not one that this version can read. Damage is passed over.
pub fn facts<R: Read>(source: R, mut take: impl FnMut(Input)) -> Result<(), TapeError> {
    each_content(source, Some(FrameKind::Facts), |json| {
        fact::read(json).into_iter().flatten().for_each(&mut take);
        true
    })
}

/// Gives the content of all frames, or of those of a kind, to `take`, which says whether it wants more.
fn each_content<R: Read>(
    source: R,
    kind: Option<FrameKind>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), TapeError> {
    let mut frames = Frames::new(source);
    let mut ahead = frames.begin()?;
    let mut decompressor = Decompressor::new()?;
    let mut content = Vec::new();
    loop {
        let found = match ahead.take() {
            Some(found) => found,
            None => frames.next(u64::MAX)?,
        };
        let Some(header) = found.header else { return Ok(()) };
        let is_wanted = kind.is_none_or(|kind| header.kind == kind as u8);
        if is_wanted
            && decompress(&mut decompressor, &header, frames.payload(), &mut content).is_some()
            && !take(&content)
        {
            return Ok(());
        }
    }
}

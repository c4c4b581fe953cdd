//! Program files made of bytes.

use std::io;

use dmscope::elf::Contents;

/// What is read of a file at most: sanitizers make each byte of code many times as dear. What the readers themselves bound
/// is tested with them.
const MOST_BYTES: u64 = 32 << 20;

/// The bytes as a whole file; or, if the first is odd, as the beginning of a file of holes that is as long as the next eight
/// say. `None`: it is not read.
pub fn contents(bytes: &[u8]) -> Option<Contents> {
    let (first, rest) = bytes.split_first()?;
    if first % 2 == 0 {
        return Some(rest.to_vec().into());
    }
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let mut left_bytes = MOST_BYTES;
    let read = |buffer: &mut [u8], at| {
        let left = left_bytes.checked_sub(buffer.len() as u64).ok_or_else(|| io::Error::other("too much"))?;
        left_bytes = left;
        read_with_holes(rest, buffer, at)
    };
    Contents::read(u64::from_le_bytes(*len), read).ok()
}

/// Buffers come as zeros.
fn read_with_holes(file: &[u8], buffer: &mut [u8], at: u64) -> io::Result<()> {
    let there = usize::try_from(at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
    let len = there.len().min(buffer.len());
    buffer[..len].copy_from_slice(&there[..len]);
    Ok(())
}

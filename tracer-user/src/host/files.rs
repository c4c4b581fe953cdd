//! Files as a process sees them: the very file that is mapped, even if it was deleted or
//! replaced since, and in the process's own mount namespace.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use analyzer::wire::FileId;

use super::mappings::MappedFile;

/// An opened file of a process.
#[derive(Debug)]
pub struct OpenedFile {
    file: File,
    /// A path that leads to the same file for whoever opens it now, for the kernel's probes.
    pub path: PathBuf,
    /// The path which the process maps it by leads to another file now.
    pub replaced: bool,
}

/// Why a mapped file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path}: neither the mapping ({mapping}) nor the path ({by_path}) can be opened")]
pub struct OpenError {
    /// As the process maps it.
    pub path: String,
    mapping: io::Error,
    by_path: io::Error,
}

/// Opens the file that a process maps. The mapping itself counts (`map_files`); the path within
/// the process's root is taken where it leads to the same file, since people can read it.
///
/// # Errors
/// Neither way leads to the file.
pub fn open_mapped(pid: u32, mapped: &MappedFile) -> Result<OpenedFile, OpenError> {
    let by_mapping = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapped.start, mapped.end));
    let by_path = PathBuf::from(format!("/proc/{pid}/root{}", mapped.path));
    let mapping = open_regular(&by_mapping);
    // Some file systems give other numbers to stat(2) than to /proc/PID/maps: compare like with like.
    let wanted = mapping.as_ref().ok().and_then(|f| id_of(f).ok()).unwrap_or(mapped.id);
    let same = open_regular(&by_path).and_then(|file| {
        if id_of(&file)? == wanted { Ok(file) } else { Err(io::Error::other("another file is there now")) }
    });
    match (same, mapping) {
        (Ok(file), _) => Ok(OpenedFile { file, path: by_path, replaced: false }),
        (Err(_), Ok(file)) => Ok(OpenedFile { file, path: by_mapping, replaced: true }),
        (Err(by_path), Err(mapping)) => Err(OpenError { path: mapped.path.clone(), mapping, by_path }),
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Who an opened file is, in the numbers that `/proc/PID/maps` and the kernel part use.
fn id_of(file: &File) -> io::Result<FileId> {
    let metadata = file.metadata()?;
    Ok(FileId { dev: kernel_dev(metadata.dev()), inode: metadata.ino() })
}

/// The kernel's own device number from that of stat(2).
pub fn kernel_dev(dev: u64) -> u32 {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & 0xffff_f000);
    let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
    (major << 20 | minor & 0xf_ffff) as u32
}

/// Opens a file by its path on this machine.
///
/// # Errors
/// It is not there, or no regular file.
pub fn open_path(path: &Path) -> io::Result<(FileId, OpenedFile)> {
    let file = open_regular(path)?;
    Ok((id_of(&file)?, OpenedFile { file, path: path.to_owned(), replaced: false }))
}

impl OpenedFile {
    /// The parts of the file that are read for a plan, at their places; all else is zero. Debug
    /// information can be gigabytes, and is not read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_image(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.file.metadata()?.len()).map_err(io::Error::other)?;
        // Zeroed memory is only taken where it is written.
        let mut image = vec![0; len];
        self.read_range(&mut image, 0, HEADER_BYTES)?;
        for (offset, len) in table_ranges(&image) {
            self.read_range(&mut image, offset, len)?;
        }
        for (offset, len) in needed_ranges(&image) {
            self.read_range(&mut image, offset, len)?;
        }
        Ok(image)
    }

    /// Reads a part of the file to its place; what is beyond the end is left out.
    fn read_range(&self, image: &mut [u8], offset: u64, len: u64) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(image.len());
        let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)).min(image.len());
        self.file.read_exact_at(&mut image[start..end], offset)
    }
}

const HEADER_BYTES: u64 = 64;
const SEGMENT_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;

/// Where the segment and section tables are, from the file header; nothing if it is no 64-bit ELF.
fn table_ranges(image: &[u8]) -> Vec<(u64, u64)> {
    if !image.starts_with(b"\x7fELF\x02\x01") || image.len() < HEADER_BYTES as usize {
        return Vec::new();
    }
    let count = |at: usize| u64::from(u16::from_le_bytes([image[at], image[at + 1]]));
    vec![
        (word(image, 0x20).unwrap_or(0), count(0x38) * SEGMENT_HEADER_BYTES),
        (word(image, 0x28).unwrap_or(0), count(0x3c) * SECTION_HEADER_BYTES),
    ]
}

/// Where the code and the symbols are, from the tables.
fn needed_ranges(image: &[u8]) -> Vec<(u64, u64)> {
    const LOAD: u32 = 1;
    const SYMBOLS: u32 = 2;
    const STRINGS: u32 = 3;
    let tables = table_ranges(image);
    let [(segments, segments_len), (sections, sections_len)] = tables[..] else { return Vec::new() };
    let rows = |start: u64, len: u64, row: u64| {
        (0..len / row).filter_map(move |n| usize::try_from(start.checked_add(n * row)?).ok())
    };
    let mut ranges = Vec::new();
    for at in rows(segments, segments_len, SEGMENT_HEADER_BYTES) {
        if half(image, at) == Some(LOAD) {
            ranges.extend(word(image, at + 0x08).zip(word(image, at + 0x20)));
        }
    }
    for at in rows(sections, sections_len, SECTION_HEADER_BYTES) {
        if matches!(half(image, at + 4), Some(SYMBOLS | STRINGS)) {
            ranges.extend(word(image, at + 0x18).zip(word(image, at + 0x20)));
        }
    }
    ranges
}

fn word(image: &[u8], at: usize) -> Option<u64> {
    let bytes = image.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn half(image: &[u8], at: usize) -> Option<u32> {
    let bytes = image.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_the_kernels_own() {
        // 0xfe:1 as stat(2) gives it, and a minor number beyond eight bits.
        assert_eq!(kernel_dev(0xfe01), 0xfe << 20 | 1);
        assert_eq!(kernel_dev(0x0010_0803), 8 << 20 | 0x103);
    }

    #[test]
    fn an_image_has_the_same_facts_as_the_whole_file() {
        let path = std::env::current_exe().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let (_, opened) = open_path(&path).unwrap();
        let image = opened.read_image().unwrap();
        assert_eq!(image.len(), whole.len());
        let (a, b) = (crate::elf::parse(&whole).unwrap(), crate::elf::parse(&image).unwrap());
        assert!(a.functions.iter().count() > 100);
        assert!(a.functions.iter().eq(b.functions.iter()));
        assert!(a.code.iter().map(|c| c.bytes).eq(b.code.iter().map(|c| c.bytes)));
        assert_eq!((a.build_id, a.needed), (b.build_id, b.needed));
    }

    #[test]
    fn a_file_that_is_not_elf_is_read_as_such() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let image = open_path(file.path()).unwrap().1.read_image().unwrap();
        assert_eq!(crate::elf::parse(&image).unwrap_err(), crate::elf::ElfError::Foreign);
    }
}

//! What a process maps.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use analyzer::input::Mapping;
use analyzer::wire::FileId;

/// What a process maps now.
///
/// # Errors
/// It does not exist (any more), or may not be looked at.
pub(super) fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    Ok(parse_maps(&read_lines(pid)?))
}

/// A path may hold any bytes, also such as are no text.
fn read_lines(pid: u32) -> io::Result<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/maps"))
}

/// Reads all lines of a `/proc/PID/maps`; lines that are none are left out.
pub fn parse_maps(lines: &[u8]) -> Vec<Mapping> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| parse_line(&String::from_utf8_lossy(line))).collect()
}

/// The path of a file that a process maps, as it is, without the mark of a deleted file; `None`: it is not mapped there any
/// more.
pub(super) fn path_of(pid: u32, file: &MappedFile) -> Option<PathBuf> {
    path_among(&read_lines(pid).ok()?, file)
}

fn path_among(lines: &[u8], file: &MappedFile) -> Option<PathBuf> {
    let mut lines = lines.split(|byte| *byte == b'\n');
    let line = lines.find(|line| {
        let mapping = parse_line(&String::from_utf8_lossy(line));
        mapping.is_some_and(|m| (m.start, m.end, m.file) == (file.start, file.end, file.id))
    })?;
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Some(PathBuf::from(OsStr::from_bytes(&unescaped(path))))
}

/// The kernel writes a newline within a name as \012.
fn unescaped(name: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = b"\\012";
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(NEWLINE) {
            bytes.push(b'\n');
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

/// `7f12-7f34 r-xp 00002000 fe:01 1234    /usr/lib/libfoo.so (deleted)`
fn parse_line(line: &str) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail;
        word
    };
    let (range, permissions, offset, device, inode) = (field(), field(), field(), field(), field());
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let permissions = permissions.as_bytes();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset_bytes: hex(offset)?,
        file: FileId {
            dev: u32::try_from(hex(major)? << 20 | hex(minor)?).ok()?,
            inode: inode.parse().ok()?,
        },
        shared: permissions.get(3) == Some(&b's'),
        exec: permissions.get(2) == Some(&b'x'),
        name: name(rest.trim_start_matches(' ')),
    })
}

/// The kernel writes a newline within a name as \012.
fn name(text: &str) -> String {
    // Few names have one, and jobs have ten thousands of names.
    if text.contains('\\') { text.replace("\\012", "\n") } else { text.to_owned() }
}

/// A file that a process runs code from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// Who it is.
    pub id: FileId,
    /// Path as the process sees it, without the mark of a deleted file; for people: what is no text is replaced.
    pub path: String,
    /// The file was deleted or replaced since.
    pub deleted: bool,
    /// Addresses of an executable mapping: the name in `map_files`.
    pub start: u64,
    /// Its end.
    pub end: u64,
}

/// Files that are mapped executable, each once, in order of address.
pub fn code_files(mappings: &[Mapping]) -> Vec<MappedFile> {
    let mut files: Vec<MappedFile> = Vec::new();
    let mut seen = HashSet::new();
    for m in mappings.iter().filter(|m| m.exec && m.file.inode != 0 && m.name.starts_with('/')) {
        if !seen.insert(m.file) {
            continue;
        }
        let path = m.name.strip_suffix(" (deleted)");
        files.push(MappedFile {
            id: m.file,
            path: path.unwrap_or(&m.name).to_owned(),
            deleted: path.is_some(),
            start: m.start,
            end: m.end,
        });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:01 1042                       /opt/a b/prog
55d0c0001000-55d0c0002000 r-xp 00001000 fe:01 1042                       /opt/a b/prog
7f0000000000-7f0000400000 rw-s 00000000 00:1a 77                         /dev/shm/vader_segment.h.0 (deleted)
7f0000500000-7f0000600000 r-xp 00002000 103:02 99                        /usr/lib/libx.so (deleted)
7f0000700000-7f0000800000 r-xp 00102000 103:02 99                        /usr/lib/libx.so (deleted)
7f0000900000-7f0000a00000 r--s 00000000 fe:01 98                         /tmp/two\\012lines \\x
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
7ffd00030000-7ffd00031000 rw-p 00000000 00:00 0 
not a line
";

    #[test]
    fn every_line_of_maps_becomes_a_mapping() {
        let mappings = parse_maps(MAPS.as_bytes());
        assert_eq!(mappings.len(), 8);
        assert_eq!(mappings[1].name, "/opt/a b/prog");
        assert!(mappings[1].exec && !mappings[1].shared);
        assert_eq!(mappings[1].file, FileId { dev: 0xfe << 20 | 1, inode: 1042 });
        assert!(mappings[2].shared);
        assert_eq!(mappings[3].file.dev, 0x103 << 20 | 2);
        assert_eq!(mappings[5].name, "/tmp/two\nlines \\x");
        assert_eq!(mappings[6].name, "[stack]");
        assert_eq!(mappings[7].name, "");
    }

    #[test]
    fn code_files_are_listed_once_with_their_deletion_told() {
        let files = code_files(&parse_maps(MAPS.as_bytes()));
        let summary: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.deleted, f.start)).collect();
        assert_eq!(
            summary,
            [("/opt/a b/prog", false, 0x55d0c0001000), ("/usr/lib/libx.so", true, 0x7f0000500000)]
        );
    }

    #[test]
    fn a_path_that_is_no_text_is_mapped_all_the_same_and_known_as_it_is() {
        let lines = b"1000-2000 r-xp 00000000 fe:01 7    /a/\xff\xfe\\012b.so (deleted)\n3000-4000 r-xp 00000000 fe:01 8 /c\n";
        let files = code_files(&parse_maps(lines));
        assert_eq!(files.len(), 2);
        assert_eq!(files[0].path, "/a/\u{fffd}\u{fffd}\nb.so");
        let path = path_among(lines, &files[0]).expect("it is mapped");
        assert_eq!(path.as_os_str().as_bytes(), b"/a/\xff\xfe\nb.so");
        assert_eq!(path_among(&lines[40..], &files[0]), None);
    }
}

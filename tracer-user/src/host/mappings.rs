//! What a process maps.

use analyzer::input::Mapping;
use analyzer::wire::FileId;

/// Reads all lines of a `/proc/PID/maps`; lines that are none are left out.
pub fn parse_maps(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
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
    /// Path as the process sees it, without the mark of a deleted file.
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
    for m in mappings.iter().filter(|m| m.exec && m.file.inode != 0 && m.name.starts_with('/')) {
        if files.iter().any(|f| f.id == m.file) {
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
        let mappings = parse_maps(MAPS);
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
        let files = code_files(&parse_maps(MAPS));
        let summary: Vec<_> = files.iter().map(|f| (f.path.as_str(), f.deleted, f.start)).collect();
        assert_eq!(
            summary,
            [("/opt/a b/prog", false, 0x55d0c0001000), ("/usr/lib/libx.so", true, 0x7f0000500000)]
        );
    }
}

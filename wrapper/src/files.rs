//! What dmscope has put down for a replay, and what is known of the program.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use replay::{Playback, RankCut};

/// What the job was like that was recorded: lines of a word and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginalJob {
    pub size: u32,
    pub library: String,
}

/// Reads the file `job`.
pub(crate) fn job(folder: &Path) -> io::Result<OriginalJob> {
    let text = std::fs::read_to_string(folder.join("job"))?;
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default()
    };
    Ok(OriginalJob { size: value("size").parse().unwrap_or(0), library: value("library").to_owned() })
}

/// Reads what a rank's calls answered: eight bytes with the number of polls behind the record, then the record.
pub(crate) fn record(folder: &Path, rank: u32) -> io::Result<Playback> {
    let mut bytes = std::fs::read(folder.join(format!("record-{rank}")))?;
    let polls =
        bytes.first_chunk().map(|eight| u64::from_le_bytes(*eight)).ok_or(io::ErrorKind::InvalidData)?;
    bytes.drain(..8);
    let playback =
        Playback::new(bytes, polls).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
    // It may be left for another way.
    match std::fs::read_to_string(folder.join(format!("cut-{rank}"))) {
        Ok(text) => Ok(playback.cut(RankCut::of_text(&text).ok_or(io::ErrorKind::InvalidData)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(playback),
        Err(error) => Err(error),
    }
}

/// Length and a checksum of the program's file: of its beginning, where linkers leave an id of the whole.
pub(crate) fn program() -> io::Result<(u64, u64)> {
    const BEGINNING_BYTES: u64 = 1 << 16;
    let file = File::open("/proc/self/exe")?;
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(BEGINNING_BYTES).read_to_end(&mut bytes)?;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    Ok((len, sum))
}

//! OTF2 traces, as EZTrace writes them: their size, and how many events are in them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::peer::{Folders, is_installed};
use crate::harness::{Nobody, Workload};

/// Bytes and events of a job's OTF2 trace.
pub(super) fn bytes_and_events(job: &Workload, folders: &Folders) -> Result<(u64, u64)> {
    for program in ["eztrace", "otf2-print"] {
        ensure!(is_installed(program), "{program} is not installed");
    }
    folders.empty("eztrace")?;
    let wrapper = ["eztrace", "-t", "openmpi", "-o", &folders.text("eztrace")?].map(str::to_owned);
    job.through(&wrapper).seconds(&mut Nobody)?;
    let folder = folders.of("eztrace")?;
    let anchor = file_below(&folder, "otf2")?.context("EZTrace left no OTF2 trace")?;
    let mut printing = Command::new("otf2-print")
        .arg(anchor)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start otf2-print")?;
    let printed = printing.stdout.take().context("output of otf2-print")?;
    let mut events = 0;
    for line in BufReader::new(printed).lines() {
        events += u64::from(is_event(&line?));
    }
    ensure!(printing.wait()?.success() && events > 0, "otf2-print found no events");
    Ok((folder_bytes(&folder)?, events))
}

fn file_below(folder: &Path, extension: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = file_below(&path, extension)? {
                return Ok(Some(found));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Lines of events begin with a name in capitals and have the number of a location next.
fn is_event(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let name = words.next().is_some_and(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    name && words.next().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit()))
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_attributes_of_otf2_print_are_no_events() {
        assert!(is_event(
            "LEAVE                                 1073741823             58906475  Region: \"MPI_Send\""
        ));
        assert!(!is_event("                 ADDITIONAL ATTRIBUTES: (\"x\")"));
        assert!(!is_event("=== Events ==="));
        assert!(!is_event(
            "Event                                   Location            Timestamp  Attributes"
        ));
        assert!(!is_event(""));
    }
}

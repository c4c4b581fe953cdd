//! The pages of ranks, read again and again while they run. What they say is the job's: nothing of it is believed to be in
//! bounds.

use std::collections::BTreeMap;
use std::fs::{File, read_dir};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use replay::shared_page::{MAX_RECORD_BYTES, PAGE_BYTES, PageText, SharedPage};

use super::shared_folder::{open_of_rank, read_of_rank};

/// More ranks are not on a machine.
const MAX_RANKS: usize = 1 << 16;
/// Of a record, read at once.
const MAX_PART_BYTES: usize = 8 << 20;

/// Files of ranks, by the ranks in their names.
pub(super) struct Pages {
    /// What their names begin with.
    prefix: &'static str,
    /// None: one that cannot be opened or read, which was said.
    files: BTreeMap<u32, Option<RankFile>>,
}

/// One of them.
pub(super) struct RankFile {
    file: File,
    /// Bytes of the record that were taken.
    taken: usize,
    /// Bytes of the file whose room was given back.
    freed: usize,
}

/// Size and checksum of the program that a rank runs.
pub(super) fn program_of(page: &SharedPage) -> (u64, u64) {
    (page.program_bytes.load(Ordering::Relaxed), page.program_checksum.load(Ordering::Relaxed))
}

impl Pages {
    /// The pages of ranks themselves.
    pub(super) fn of_ranks() -> Self {
        Self::named("rank-")
    }

    /// Files of ranks whose names begin so.
    pub(super) fn named(prefix: &'static str) -> Self {
        Self { prefix, files: BTreeMap::new() }
    }

    /// Looks for ranks that have come.
    ///
    /// # Errors
    /// The folder cannot be read; a rank's file cannot be opened, which is said once.
    pub(super) fn look(&mut self, folder: &Path) -> Result<()> {
        let mut refused = Vec::new();
        for entry in read_dir(folder).with_context(|| folder.display().to_string())? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let rank = name.to_str().and_then(|name| name.strip_prefix(self.prefix)?.parse::<u32>().ok());
            let Some(rank) = rank.filter(|rank| !self.files.contains_key(rank)) else { continue };
            if self.files.len() >= MAX_RANKS {
                continue;
            }
            let file = open_of_rank(&entry.path(), true).with_context(|| format!("the file of rank {rank}"));
            let file = file.map(|file| RankFile { file, taken: 0, freed: PAGE_BYTES });
            self.files.insert(rank, file.map_err(|error| refused.push(format!("{error:#}"))).ok());
        }
        ensure!(refused.is_empty(), "{}", refused.join("; "));
        Ok(())
    }

    /// Leaves a rank's file, which cannot be read.
    pub(super) fn leave(&mut self, rank: u32) {
        self.files.insert(rank, None);
    }

    /// All ranks that have begun, with their pages as they are now.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut RankFile, SharedPage)> {
        self.files.iter_mut().filter_map(|(rank, file)| {
            let file = file.as_mut()?;
            let page = file.page()?;
            (page.has_begun() && page.rank.load(Ordering::Relaxed) == *rank).then_some((*rank, file, page))
        })
    }
}

impl RankFile {
    fn page(&self) -> Option<SharedPage> {
        let mut bytes = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Some(SharedPage::from_bytes(&bytes))
    }

    /// What is new in the record, from where; none if there is nothing.
    pub(super) fn take(&mut self, page: &SharedPage) -> Result<Option<(u64, Vec<u8>)>> {
        let there = page.record_bytes().min(MAX_RECORD_BYTES);
        let len = there.saturating_sub(self.taken).min(MAX_PART_BYTES);
        if len == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        let from = (PAGE_BYTES + self.taken) as u64;
        self.file.read_exact_at(&mut bytes, from).context("cannot read what a rank has recorded")?;
        let offset_bytes = self.taken as u64;
        self.taken += len;
        self.free();
        Ok(Some((offset_bytes, bytes)))
    }

    /// Gives room back to the file system.
    fn free(&mut self) {
        const STEP_BYTES: usize = 1 << 20;
        let to = (PAGE_BYTES + self.taken) / STEP_BYTES * STEP_BYTES;
        if to > self.freed {
            let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            // Refused: it stays in use until the end.
            let _ = rustix::fs::fallocate(&self.file, flags, self.freed as u64, (to - self.freed) as u64);
            self.freed = to;
        }
    }
}

/// A text of a page; none if it is empty.
pub(super) fn text(page: &SharedPage, which: PageText) -> Option<String> {
    Some(page.text(which)).filter(|text| !text.is_empty())
}

/// Why a rank refuses to run.
pub(super) fn refusal(folder: &Path) -> Option<String> {
    let entries = read_dir(folder).ok()?;
    let path = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("refused-")))?;
    refusal_in(&path)
}

/// The same of one file.
pub(super) fn refusal_in(path: &Path) -> Option<String> {
    const MOST_BYTES: u64 = 4096;
    let why = String::from_utf8_lossy(&read_of_rank(path, MOST_BYTES)).into_owned();
    Some(why).filter(|why| !why.is_empty())
}

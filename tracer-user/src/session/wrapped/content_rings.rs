//! Contents of ranks on their way to the tape: each rank has a ring that it shares with dmscope.

use std::collections::BTreeMap;
use std::fs::{File, read_dir};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use analyzer::tape::RankAnswers;
use anyhow::{Context, Result, bail, ensure};
use memmap2::{MmapOptions, MmapRaw};
use replay::content_ring::{RING_BYTES, RING_PAGE_BYTES, RingPage};
use replay::contents::ContentWriter;
use rustix::fs::{FlockOperation, flock};

use super::shared_folder::{SharedFolder, open_of_rank};

/// What was recorded of a rank's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankContents {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Bytes that it got, and what describes them.
    pub bytes: u64,
    /// The record ends before the rank did: it has done what cannot be recorded.
    pub is_stopped: bool,
}

/// The rings of all ranks.
pub(super) struct ContentRings {
    /// None: one that cannot be opened or read, which was said.
    rings: BTreeMap<u32, Option<RankRing>>,
    /// Locked as long as somebody takes what ranks write.
    _alive: File,
}

/// The file by whose lock ranks know that somebody takes what they write.
const ALIVE: &str = "alive";
/// The ranks whose contents are wanted.
const WANTED: &str = "contents-ranks";

struct RankRing {
    file: File,
    page: MmapRaw,
    taken: u64,
}

impl ContentRings {
    /// Puts down what the wrapper looks for.
    pub(super) fn prepare(folder: &SharedFolder, ranks: &[u32]) -> Result<Self> {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        folder.put(WANTED, ranks.join(" ").as_bytes())?;
        Self::locked(folder.put(ALIVE, b"")?)
    }

    /// The same where another process has put it down; none: contents are not wanted.
    pub(super) fn prepared(folder: &Path) -> Result<Option<Self>> {
        match open_of_rank(&folder.join(ALIVE), false) {
            Ok(alive) => Self::locked(alive).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("a file that tells ranks that dmscope is there"),
        }
    }

    fn locked(alive: File) -> Result<Self> {
        flock(&alive, FlockOperation::LockExclusive).context("cannot lock a file")?;
        Ok(Self { rings: BTreeMap::new(), _alive: alive })
    }

    /// Takes what is new; whether there was much. `is_last`: the job has ended. A rank that has destroyed what it shares is
    /// left, and told to `fail`: others go on.
    pub(super) fn take(
        &mut self,
        folder: &Path,
        is_last: bool,
        give: &mut dyn FnMut(RankAnswers),
        fail: &mut dyn FnMut(String),
    ) -> bool {
        if let Err(error) = self.look(folder) {
            fail(format!("{error:#}"));
        }
        let mut is_filled = false;
        for (rank, place) in &mut self.rings {
            let Some(ring) = place else { continue };
            match ring.take_all(*rank, is_last, give) {
                Ok(was_filled) => is_filled |= was_filled,
                Err(error) => {
                    fail(format!("{error:#}; its contents from then on are not recorded"));
                    *place = None;
                }
            }
        }
        is_filled
    }

    /// Looks for ranks that have come.
    fn look(&mut self, folder: &Path) -> Result<()> {
        let mut refused = Vec::new();
        for entry in read_dir(folder).with_context(|| folder.display().to_string())?.flatten() {
            let name = entry.file_name();
            let rank = name.to_str().and_then(|name| name.strip_prefix("contents-")?.parse::<u32>().ok());
            let Some(rank) = rank.filter(|rank| !self.rings.contains_key(rank)) else { continue };
            match RankRing::open(&entry.path()) {
                Ok(None) => {}
                Ok(ring) => _ = self.rings.insert(rank, ring),
                Err(error) => {
                    refused.push(format!("the contents of rank {rank}: {error:#}"));
                    self.rings.insert(rank, None);
                }
            }
        }
        ensure!(refused.is_empty(), "{}", refused.join("; "));
        Ok(())
    }

    /// What was recorded of the ranks that could be read so far.
    pub(super) fn recorded(&self) -> Vec<RankContents> {
        let contents = |(rank, ring): (&u32, &Option<RankRing>)| {
            let ring = ring.as_ref()?;
            let is_stopped = ring.page().stopped.load(Ordering::Acquire) != 0;
            Some(RankContents { rank: *rank, bytes: ring.taken, is_stopped })
        };
        self.rings.iter().filter_map(contents).collect()
    }
}

impl RankRing {
    /// None: the rank has not begun yet.
    fn open(path: &Path) -> Result<Option<Self>> {
        let file = open_of_rank(path, true)?;
        let len = file.metadata()?.len();
        if len < (RING_PAGE_BYTES + RING_BYTES) as u64 {
            return Ok(None);
        }
        let page = MmapOptions::new().len(RING_PAGE_BYTES).map_raw(&file);
        let page = page.context("cannot map it")?;
        let ring = Self { file, page, taken: 0 };
        Ok(ring.page().has_begun().then_some(ring))
    }

    fn page(&self) -> &RingPage {
        // SAFETY: a page of its own is mapped, and all fields are atomic integers, of which any bytes are a value.
        unsafe { &*self.page.as_ptr().cast::<RingPage>() }
    }

    /// Takes what there is, to the end of the ring or, if the job has ended, all; whether there was much.
    fn take_all(&mut self, rank: u32, is_last: bool, give: &mut dyn FnMut(RankAnswers)) -> Result<bool> {
        let is_filled = self.take(rank, give)?;
        if is_last {
            while self.take(rank, give)? {}
            self.take_polls(rank, give);
        }
        Ok(is_filled)
    }

    /// Takes what there is up to the end of the ring; whether there was much.
    fn take(&mut self, rank: u32, give: &mut dyn FnMut(RankAnswers)) -> Result<bool> {
        const MUCH_BYTES: usize = 1 << 16;
        let (at, len, before) = self.page().filled();
        if len == 0 {
            return Ok(false);
        }
        // Nobody but us says how much was taken.
        if before != self.taken {
            bail!("rank {rank} has destroyed what it shares with dmscope");
        }
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(&mut bytes, (RING_PAGE_BYTES + at) as u64)
            .context("cannot read what a rank has recorded")?;
        self.page().took(len);
        give(RankAnswers { rank, offset_bytes: self.taken, polls: 0, bytes });
        self.taken += len as u64;
        // Behind the end of the ring there may be more.
        Ok(len >= MUCH_BYTES || at + len == RING_BYTES)
    }

    /// Takes the polls that are not in the ring.
    fn take_polls(&mut self, rank: u32, give: &mut dyn FnMut(RankAnswers)) {
        let mut bytes = Vec::new();
        ContentWriter::polls_at_the_end(self.page().again.load(Ordering::Acquire), &mut bytes);
        if !bytes.is_empty() {
            let offset_bytes = self.taken;
            self.taken += bytes.len() as u64;
            give(RankAnswers { rank, offset_bytes, polls: 0, bytes });
        }
    }
}

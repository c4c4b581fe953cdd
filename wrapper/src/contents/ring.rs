//! The ring of a recorded rank, mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use replay::content_ring::{RING_BYTES, RING_PAGE_BYTES, RingPage};

/// Stays mapped until the process ends.
pub(super) struct MappedRing {
    start: NonNull<u8>,
    /// As long as dmscope is there it holds a lock on this file.
    alive: PathBuf,
}

// SAFETY: the mapping belongs to the process, and whoever has the value alone writes to it through it.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// Makes the file, which must not be there.
    pub(super) fn create(folder: &Path, rank: u32) -> io::Result<Self> {
        let path = folder.join(format!("contents-{rank}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let len = RING_PAGE_BYTES + RING_BYTES;
        // To write where there is no room would kill the rank.
        // SAFETY: a system call on a descriptor that is open.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        let start = map(&file, len, libc::PROT_READ | libc::PROT_WRITE)?;
        let ring = Self { start, alive: folder.join("alive") };
        ring.page().begin();
        Ok(ring)
    }

    pub(super) fn page(&self) -> &RingPage {
        // SAFETY: the mapping begins with a page of its own, is aligned to pages, and is never unmapped. All fields are
        // atomic, and zeros are a value of each.
        unsafe { self.start.cast().as_ref() }
    }

    /// Writes all of it, and waits for room.
    ///
    /// # Errors
    /// There is none, and dmscope is gone.
    pub(super) fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (at, room) = self.page().free();
            if room == 0 {
                self.wait()?;
                continue;
            }
            let now = room.min(bytes.len());
            // SAFETY: `at..at + now` is within the ring, behind the page, and nobody else writes or reads there.
            unsafe {
                let to = self.start.as_ptr().add(RING_PAGE_BYTES + at);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, now);
            }
            self.page().wrote(now);
            bytes = &bytes[now..];
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        const LOOK: Duration = Duration::from_millis(100);
        let begin = Instant::now();
        while self.page().free().1 == 0 {
            std::thread::sleep(Duration::from_micros(50));
            if begin.elapsed() > LOOK {
                return if self.is_dmscope_there() { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            }
        }
        Ok(())
    }

    fn is_dmscope_there(&self) -> bool {
        let Ok(file) = File::open(&self.alive) else { return false };
        // SAFETY: a system call on a descriptor that is open.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) != 0 }
    }
}

/// Maps the beginning of a file, for as long as the process lives.
pub(super) fn map(file: &File, len: usize, rights: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

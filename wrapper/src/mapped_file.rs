//! The file of a rank, mapped: a page, and behind it the record.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;

use replay::shared_page::{MAX_RECORD_BYTES, PAGE_BYTES, SharedPage};

/// Room on the disk is asked for in steps of this: to write where there is none would kill the rank.
const STEP_BYTES: usize = 1 << 16;

/// Stays mapped until the process ends.
pub(crate) struct RankMapping {
    file: File,
    start: NonNull<u8>,
    len: usize,
    /// Up to here there is room on the disk.
    room: usize,
    /// Bytes of the record.
    used: usize,
}

// SAFETY: the mapping belongs to the process, and whoever has the value alone writes to it through it.
unsafe impl Send for RankMapping {}

impl RankMapping {
    /// Makes the file, which must not be there.
    ///
    /// # Errors
    /// It is there, or there is no room for the page.
    pub(crate) fn create(path: &Path, record_bytes: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let len = PAGE_BYTES + record_bytes.min(MAX_RECORD_BYTES).min(file_limit_bytes());
        file.set_len(len as u64)?;
        reserve(&file, 0, PAGE_BYTES)?;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, len, room: PAGE_BYTES, used: 0 })
    }

    /// The page.
    pub(crate) fn page(&self) -> &'static SharedPage {
        // SAFETY: the mapping begins with a page of its own, is aligned to pages, and is never unmapped. All fields are
        // atomic, and zeros are a value of each.
        unsafe { self.start.cast().as_ref() }
    }

    /// Appends to the record.
    ///
    /// # Errors
    /// There is no more room.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let from = PAGE_BYTES + self.used;
        let to =
            from.checked_add(bytes.len()).filter(|to| *to <= self.len).ok_or(io::ErrorKind::FileTooLarge)?;
        if to > self.room {
            let more = (to - self.room).next_multiple_of(STEP_BYTES).min(self.len - self.room);
            reserve(&self.file, self.room, more)?;
            self.room += more;
        }
        // SAFETY: `from..to` is within the mapping, behind the page, and this is the only one that writes there.
        let room = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(from), bytes.len()) };
        match (room, bytes) {
            // As usual: not worth a call.
            ([first], [one]) => *first = *one,
            ([first, second], [one, two]) => (*first, *second) = (*one, *two),
            (room, bytes) => room.copy_from_slice(bytes),
        }
        self.used += bytes.len();
        self.page().set_record_bytes(self.used);
        Ok(())
    }
}

/// Has the file system give room to a part of a file.
fn reserve(file: &File, from: usize, len: usize) -> io::Result<()> {
    // SAFETY: a system call on a descriptor that is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), from as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// How long a file may be: to make it longer would kill the process.
fn file_limit_bytes() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a system call that fills what it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } != 0 {
        return 0;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX).saturating_sub(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_in_the_file_behind_the_page() {
        let path = std::env::temp_dir().join(format!("dmscope-mapped-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut file = RankMapping::create(&path, 100).expect("there is room");
        assert!(RankMapping::create(&path, 100).is_err());
        file.append(b"abc").expect("there is room");
        file.append(&[7; 97]).expect("there is room");
        assert!(file.append(&[7]).is_err());
        let bytes = std::fs::read(&path).expect("ours");
        assert_eq!(&bytes[PAGE_BYTES..PAGE_BYTES + 4], b"abc\x07");
        assert_eq!(file.page().record_bytes(), 100);
        std::fs::remove_file(&path).expect("ours");
    }
}

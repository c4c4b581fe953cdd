//! A folder in memory that ranks and dmscope share. Of one whose dmscope was killed, the next one takes the memory back.

use std::fs::{File, OpenOptions, read_dir, remove_dir, remove_dir_all, remove_file};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::host::gather::read_maps;
use crate::host::output_folder::OutputFolder;
use crate::host::processes::all_pids;
use crate::host::sudo::Account;

/// A younger one may not be locked yet by whoever has made it.
const LEAST_AGE: Duration = Duration::from_secs(60);
const PREFIX: &str = "dmscope-";

/// See the [module](self). Gone with the value.
///
/// It belongs to the user whose job it is, who may rename it, and put links and FIFOs there: what is opened in it as root is
/// opened below [`SharedFolder::pinned`], and by [`open_of_rank`] or [`SharedFolder::put`], which follow nothing.
pub(super) struct SharedFolder {
    path: PathBuf,
    folder: Arc<OutputFolder>,
    /// Locked for as long as this process lives.
    lock: File,
    /// Whose it is, if not the caller's.
    owner: Option<(u32, u32)>,
}

impl SharedFolder {
    /// In memory, if the machine has a folder for that: what ranks leave there is lost with the machine alone.
    pub(super) fn create(account: Option<&Account>) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let own = rustix::process::geteuid().as_raw();
        let users: Vec<u32> = [own].into_iter().chain(account.map(|account| account.uid)).collect();
        remove_orphans(&base, &users, LEAST_AGE);
        let number = RandomState::new().hash_one(std::process::id());
        let path = base.join(format!("{PREFIX}{}-{number:016x}", std::process::id()));
        let folder = OutputFolder::create(&path).with_context(|| path.display().to_string())?;
        let lock = locked(&path).with_context(|| path.display().to_string())?;
        let lock = lock.context("another process has locked a new folder")?;
        let owner = account.map(|account| (account.uid, account.gid));
        let folder = Self { path, folder: Arc::new(folder), lock, owner };
        folder.give(&folder.lock).context("cannot give a folder to the user")?;
        Ok(folder)
    }

    /// As ranks name it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that was made, whatever its name leads to by now; for this process alone.
    pub(super) fn pinned(&self) -> PathBuf {
        self.folder.path()
    }

    /// The same for threads that may outlive this value.
    pub(super) fn opened(&self) -> Arc<OutputFolder> {
        Arc::clone(&self.folder)
    }

    /// Puts a new file there, for the user whose job it is.
    ///
    /// # Errors
    /// There is something of that name already; there is no room.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<File> {
        let put = || -> io::Result<File> {
            let mut file = self.folder.file(name)?;
            file.write_all(bytes)?;
            self.give(&file)?;
            Ok(file)
        };
        put().with_context(|| self.path.join(name).display().to_string())
    }

    fn give(&self, file: &File) -> io::Result<()> {
        self.owner.map_or(Ok(()), |(user, group)| fchown(file, Some(user), Some(group)))
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // What is left there is small, and says whose it is.
        for entry in read_dir(self.pinned()).into_iter().flatten().flatten() {
            let _ = remove_file(entry.path()).or_else(|_| remove_dir_all(entry.path()));
        }
        let _ = remove_dir(&self.path);
    }
}

/// Opens a file that a rank has made: a file, no link to one, and none that has another name elsewhere. Waits for nobody.
///
/// # Errors
/// It cannot be opened, or is something else.
pub(super) fn open_of_rank(path: &Path, is_written: bool) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).write(is_written).custom_flags(flags).open(path)?;
    let stat = file.metadata()?;
    if !stat.is_file() || stat.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file that a rank has made"));
    }
    Ok(file)
}

/// The beginning of a file that a rank has made; nothing if it cannot be read.
pub(super) fn read_of_rank(path: &Path, most_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = open_of_rank(path, false) {
        // What could be read is what there is.
        let _ = file.take(most_bytes).read_to_end(&mut bytes);
    }
    bytes
}

/// The folder, locked: nobody takes it for one whose maker is gone. None: somebody else has locked it.
///
/// # Errors
/// It cannot be opened.
pub(super) fn locked(path: &Path) -> std::io::Result<Option<File>> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(folder)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes folders of these users whose makers are gone, unless a process still has something of them mapped: ranks may go on
/// without their dmscope. One that cannot be removed stays.
fn remove_orphans(base: &Path, users: &[u32], least_age: Duration) {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(stat) = path.symlink_metadata() else { return false };
        let age = stat.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        name.starts_with(PREFIX)
            && stat.is_dir()
            && users.contains(&stat.uid())
            && age.is_some_and(|age| age >= least_age)
    };
    let entries = read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(is_ours) {
        if let Ok(Some(_lock)) = locked(&path)
            && !is_mapped(&path)
        {
            let _ = remove_dir_all(&path);
        }
    }
}

fn is_mapped(folder: &Path) -> bool {
    let of_folder = |name: &str| Path::new(name).starts_with(folder);
    all_pids().into_iter().any(|pid| read_maps(pid).is_ok_and(|maps| maps.iter().any(|m| of_folder(&m.name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(base: &Path, name: &str) -> PathBuf {
        let path = base.join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("rank-0"), [1; 4096]).unwrap();
        path
    }

    #[test]
    fn a_folder_whose_maker_is_gone_is_removed_and_no_other() {
        let base = tempfile::tempdir().unwrap();
        let [orphan, locked_one, other] =
            ["dmscope-1-0", "dmscope-2-0", "other-3-0"].map(|name| folder(base.path(), name));
        let link = base.path().join("dmscope-4-0");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let _lock = locked(&locked_one).unwrap().unwrap();
        let own = rustix::process::geteuid().as_raw();
        remove_orphans(base.path(), &[own], LEAST_AGE);
        assert!(orphan.exists(), "it may not be locked yet");
        remove_orphans(base.path(), &[own + 1], Duration::ZERO);
        assert!(orphan.exists(), "it is somebody else's");
        remove_orphans(base.path(), &[own], Duration::ZERO);
        assert!(!orphan.exists());
        assert!(locked_one.exists() && other.join("rank-0").exists() && link.exists());
    }

    #[test]
    fn what_the_user_of_a_job_plants_is_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        let (victim, fifo) = (elsewhere.path().join("rank-0"), elsewhere.path().join("fifo"));
        std::fs::write(&victim, "theirs").unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();

        let folder = SharedFolder::create(None).unwrap();
        let pinned = folder.pinned();
        std::os::unix::fs::symlink(&victim, pinned.join("order")).unwrap();
        assert!(folder.put("order", b"ours").is_err(), "a link is there");
        std::fs::write(pinned.join("rank-1"), "a rank's").unwrap();
        assert_eq!(read_of_rank(&pinned.join("rank-1"), 6), b"a rank");
        std::fs::hard_link(pinned.join("rank-1"), pinned.join("rank-2")).unwrap();
        for planted in [pinned.join("order"), pinned.join("rank-2"), fifo, elsewhere.path().to_owned()] {
            assert!(open_of_rank(&planted, false).is_err(), "{}", planted.display());
            assert_eq!(read_of_rank(&planted, 6), b"");
        }

        let path = folder.path().to_owned();
        let moved = path.with_extension("moved");
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &path).unwrap();
        folder.put("job", b"ours").unwrap();
        assert!(moved.join("job").exists() && !elsewhere.path().join("job").exists());
        drop(folder);
        assert_eq!(read_dir(&moved).unwrap().count(), 0);
        assert_eq!(std::fs::read(&victim).unwrap(), b"theirs");
        remove_file(&path).unwrap();
        remove_dir(&moved).unwrap();
    }

    #[test]
    fn a_folder_that_a_rank_still_uses_is_left() {
        let base = tempfile::tempdir().unwrap();
        let used = folder(base.path(), "dmscope-1-0");
        let file = File::open(used.join("rank-0")).unwrap();
        // SAFETY: a mapping of its own, which nobody looks into.
        let mapping = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                4096,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::SHARED,
                &file,
                0,
            )
        };
        assert!(mapping.is_ok());
        remove_orphans(base.path(), &[rustix::process::geteuid().as_raw()], Duration::ZERO);
        assert!(used.exists());
    }
}

//! A folder in memory that ranks and dmscope share. Of one whose dmscope was killed, the next one takes the memory back.

use std::fs::{DirBuilder, File, OpenOptions, read_dir, remove_dir_all, write};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::host::gather::read_maps;
use crate::host::processes::all_pids;
use crate::host::sudo::Account;

/// A younger one may not be locked yet by whoever has made it.
const LEAST_AGE: Duration = Duration::from_secs(60);
const PREFIX: &str = "dmscope-";

/// See the [module](self). Gone with the value.
pub(super) struct SharedFolder {
    path: PathBuf,
    /// Locked for as long as this process lives.
    _lock: File,
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
        DirBuilder::new().mode(0o700).create(&path).with_context(|| path.display().to_string())?;
        let lock = locked(&path).with_context(|| path.display().to_string())?;
        let folder = Self { path, _lock: lock.context("another process has locked a new folder")? };
        if let Some(account) = account {
            chown(&folder.path, Some(account.uid), Some(account.gid))
                .context("cannot give a folder to the user")?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a file there, for the user whose job it is.
    pub(super) fn put(&self, name: &str, bytes: &[u8], account: Option<&Account>) -> Result<()> {
        let path = self.path.join(name);
        write(&path, bytes).with_context(|| path.display().to_string())?;
        if let Some(account) = account {
            chown(&path, Some(account.uid), Some(account.gid)).context("cannot give a file to the user")?;
        }
        Ok(())
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // What is left there is small, and says whose it is.
        let _ = remove_dir_all(&self.path);
    }
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
        write(path.join("rank-0"), [1; 4096]).unwrap();
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

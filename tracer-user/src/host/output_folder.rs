//! Folders that are written for the caller, who may be root in a folder where others can write.
//!
//! A folder is made anew and held open: what is put into it goes into that folder, whatever its path leads to later.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::sudo::SudoUser;

/// How a folder is opened that is to be no link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A new folder, for its owner's eyes only.
#[derive(Clone, Debug)]
pub struct OutputFolder {
    folder: Arc<OwnedFd>,
}

impl OutputFolder {
    /// Makes a folder. An empty one that is there already is taken.
    ///
    /// # Errors
    /// Something else is there; no folder can be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Err(rustix::io::Errno::EXIST) => {}
            done => done?,
        }
        let folder = rustix::fs::open(path, FOLDER, Mode::empty())?;
        let stat = rustix::fs::fstat(&folder)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it is another user's"));
        }
        for entry in rustix::fs::Dir::read_from(&folder)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Err(io::Error::other("it is there and not empty: remove it, or name another one"));
            }
        }
        Ok(Self { folder: Arc::new(folder) })
    }

    /// A new file in it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(file))
    }

    /// A path that leads into it as long as this is kept, for libraries that want one.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))
    }

    /// Removes all that is in it, and what is left at its path if that is empty.
    ///
    /// # Errors
    /// The user may not; something is there that is not empty.
    pub fn remove(self, path: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(self.path())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
        std::fs::remove_dir(path)
    }

    /// Gives it, with all that is in it, to the user behind sudo, if there is one.
    ///
    /// # Errors
    /// The user cannot be given it.
    pub fn give_to_caller(&self) -> io::Result<()> {
        SudoUser::of_this_process().map_or(Ok(()), |user| give(&self.folder, user))
    }
}

fn give(folder: &OwnedFd, user: SudoUser) -> io::Result<()> {
    let (uid, gid) = user.ids();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            give(&rustix::fs::openat(folder, name, FOLDER, Mode::empty())?, user)?;
        } else {
            rustix::fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    // Last: nobody else can put anything into it before.
    Ok(rustix::fs::fchown(folder, Some(uid), Some(gid))?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_is_new_or_empty_and_what_is_put_into_it_stays_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tables");
        let output = OutputFolder::create(&path).expect("it is new");
        std::fs::rename(&path, folder.path().join("moved")).expect("ours");
        output.file("calls").expect("a file").write_all(b"rows").expect("there is room");
        assert_eq!(std::fs::read(folder.path().join("moved/calls")).expect("ours"), b"rows");
        assert_eq!(std::fs::read(output.path().join("calls")).expect("ours"), b"rows");
        assert!(output.file("calls").is_err(), "it is there");
        let refused = OutputFolder::create(&folder.path().join("moved")).expect_err("not empty");
        assert!(refused.to_string().contains("not empty"), "{refused}");
    }

    #[test]
    fn a_folder_is_removed_with_all_that_is_in_it_and_what_took_its_place_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("archive");
        let output = OutputFolder::create(&path).expect("it is new");
        std::fs::create_dir(path.join("traces")).expect("ours");
        std::fs::write(path.join("traces/0.evt"), b"events").expect("ours");
        output.file("traces.otf2").expect("a file");
        output.remove(&path).expect("ours");
        assert!(!path.exists());

        let output = OutputFolder::create(&path).expect("it is new");
        output.file("calls").expect("a file");
        std::fs::rename(&path, folder.path().join("moved")).expect("ours");
        std::fs::create_dir(&path).expect("ours");
        std::fs::write(path.join("another's"), b"").expect("ours");
        assert!(output.remove(&path).is_err());
        assert!(path.join("another's").exists() && !folder.path().join("moved/calls").exists());
    }

    #[test]
    fn links_and_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).expect("ours");
        symlink(&target, &link).expect("ours");
        assert!(OutputFolder::create(&link).is_err());
        std::fs::write(folder.path().join("file"), "").expect("ours");
        assert!(OutputFolder::create(&folder.path().join("file")).is_err());
        assert!(OutputFolder::create(&folder.path().join("nowhere/tables")).is_err());
    }
}

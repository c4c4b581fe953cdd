//! Files that are written for the caller, who may be root in a folder where others can write.
//!
//! What is there is never opened: a new file, for its owner's eyes only, takes the place of what had the name, be it a
//! link. Pipes and devices that the caller owns are written to as they are.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::sudo::{SudoUser, is_trusted_owner};

/// Where output goes.
#[derive(Debug)]
pub enum OutputFile {
    /// A pipe or a device, open.
    Stream(File),
    /// A file that is made anew.
    New(NewFile),
}

/// A name in a folder.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    name: OsString,
}

impl OutputFile {
    /// Finds out what a path stands for, and that it can be written. Nothing that has the name is touched.
    ///
    /// # Errors
    /// No file can be made there; it is a folder, or a pipe or device of another user.
    pub fn find(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        if is_of_the_kernel(&folder) {
            return open_stream(path).map(Self::Stream);
        }
        let new = NewFile { folder, name: name.to_owned() };
        match kind_of(&new.folder, name)? {
            None | Some(FileType::RegularFile | FileType::Symlink) => {
                new.make()?;
                Ok(Self::New(new))
            }
            Some(FileType::Fifo | FileType::CharacterDevice) => open_own_stream(&new).map(Self::Stream),
            Some(FileType::Directory) => Err(rustix::io::Errno::ISDIR.into()),
            Some(_) => Err(io::Error::other("neither a file nor a pipe")),
        }
    }

    /// For what is written little by little: the file has its name from now on, so that all that was written is there under
    /// it, however the program ends.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(self) -> io::Result<File> {
        match self {
            Self::Stream(file) => Ok(file),
            Self::New(new) => new.make()?.put_in_place(),
        }
    }

    /// For what is written at once: the file has its name when all of it is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(file) => file.write_all(bytes),
            Self::New(new) => {
                let mut unnamed = new.make()?;
                unnamed.file.write_all(bytes)?;
                unnamed.put_in_place().map(drop)
            }
        }
    }
}

/// `/dev/stdout`, `/dev/null`, `/dev/fd/3`: nobody but the kernel and root puts anything there.
fn is_of_the_kernel(folder: &OwnedFd) -> bool {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).unwrap_or_default();
    path == Path::new("/dev") || path.starts_with("/proc") && path.ends_with("fd")
}

/// Like the shell's `>`: a file that standard output leads to is written anew.
fn open_stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).truncate(true).open(path)
}

/// What has a name in a folder, without following a link.
fn kind_of(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<FileType>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A pipe or device that the caller made; whoever reads another's pipe would read the output.
fn open_own_stream(at: &NewFile) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(&at.folder, &at.name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo | FileType::CharacterDevice) {
        return Err(io::Error::other("something else is there now"));
    }
    if !is_trusted_owner(stat.st_uid) {
        return Err(io::Error::other("a pipe or device of another user"));
    }
    OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// A file that does not have its name yet; it is removed unless it is put in place.
struct Unnamed<'a> {
    at: &'a NewFile,
    file: File,
    temporary: PathBuf,
}

impl NewFile {
    /// Makes an empty file, of the user behind sudo if there is one.
    fn make(&self) -> io::Result<Unnamed<'_>> {
        const TRIES: u64 = 100;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let random = RandomState::new();
        let mut refused = rustix::io::Errno::EXIST;
        for number in 0..TRIES {
            let temporary = PathBuf::from(format!(".dmscope-{:016x}", random.hash_one(number)));
            match rustix::fs::openat(&self.folder, &temporary, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let unnamed = Unnamed { at: self, file: File::from(file), temporary };
                    give_to_caller(&unnamed.file)?;
                    return Ok(unnamed);
                }
                Err(error) => refused = error,
            }
            if refused != rustix::io::Errno::EXIST {
                break;
            }
        }
        Err(refused.into())
    }
}

/// Before it has anything in it.
fn give_to_caller(file: &File) -> io::Result<()> {
    if let Some(user) = SudoUser::of_this_process() {
        let (uid, gid) = user.ids();
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    Ok(())
}

impl Unnamed<'_> {
    /// A link that has the name is replaced, not followed.
    fn put_in_place(self) -> io::Result<File> {
        let folder = &self.at.folder;
        rustix::fs::renameat(folder, &self.temporary, folder, &self.at.name)?;
        self.file.try_clone()
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        // Not there any more if it was put in place.
        let _ = rustix::fs::unlinkat(&self.at.folder, &self.temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect()
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (precious, page) = (folder.path().join("precious"), folder.path().join("page"));
        for whole in [true, false] {
            std::fs::write(&precious, "precious").expect("ours");
            let _ = std::fs::remove_file(&page);
            symlink(&precious, &page).expect("ours");
            let mut file = OutputFile::find(&page).expect("a link");
            assert_eq!(std::fs::read_link(&page).expect("nothing was touched yet"), precious);
            if whole {
                file.write_whole(b"page").expect("there is room");
            } else {
                file.begin().expect("a file").write_all(b"page").expect("there is room");
            }
            assert_eq!(std::fs::read(&precious).expect("ours"), b"precious");
            assert_eq!(std::fs::read(&page).expect("ours"), b"page");
            let metadata = page.symlink_metadata().expect("ours");
            assert!(metadata.is_file());
            assert_eq!(metadata.mode() & 0o777, 0o600, "for its owner only");
        }
        assert_eq!(names(folder.path()).len(), 2, "nothing is left beside it");
    }

    #[test]
    fn what_is_written_at_once_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = folder.path().join("page");
        std::fs::write(&page, "old").expect("ours");
        let mut file = OutputFile::find(&page).expect("a file");
        assert_eq!((std::fs::read(&page).expect("ours"), names(folder.path()).len()), (b"old".to_vec(), 1));
        file.write_whole(b"new").expect("there is room");
        assert_eq!((std::fs::read(&page).expect("ours"), names(folder.path()).len()), (b"new".to_vec(), 1));
    }

    #[test]
    fn what_is_written_little_by_little_has_its_name_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let tape = folder.path().join("tape");
        let file = OutputFile::find(&tape).expect("a file").begin().expect("a file");
        assert_eq!(names(folder.path()), ["tape"]);
        (&file).write_all(b"record").expect("there is room");
        assert_eq!(std::fs::read(&tape).expect("ours"), b"record");
    }

    #[test]
    fn own_pipes_and_devices_are_written_as_they_are_and_folders_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(OutputFile::find(folder.path()).is_err());
        assert!(OutputFile::find(&folder.path().join("..")).is_err());
        assert!(OutputFile::find(&folder.path().join("nowhere/page")).is_err());
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a FIFO");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).expect("ours")
        });
        OutputFile::find(&pipe).expect("ours").write_whole(b"page").expect("it is read");
        assert_eq!(reader.join().expect("it reads"), "page");
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        for stream in ["/dev/null".into(), format!("/dev/fd/{}", writer.as_raw_fd())] {
            assert!(matches!(OutputFile::find(stream.as_ref()), Ok(OutputFile::Stream(_))), "{stream}");
        }
    }
}

//! Files as a process sees them: the very file that is mapped, even if it was deleted or
//! replaced since, and in the process's own mount namespace.
//!
//! A job chooses its paths, and may put a FIFO, a device or a link there. So a file is found without opening it
//! (`O_PATH`), looked at, and only then opened: by what was found, not by its path again. Who needs it later takes the
//! open file along.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use analyzer::wire::FileId;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::as_mapped::id_as_mapped;
use super::capabilities::{Capabilities, Capability, remedy};
use super::mappings::{MappedFile, path_of};
use super::sudo::is_trusted_owner;
use crate::elf::Contents;

/// An open regular file, whatever becomes of its path.
#[derive(Debug)]
pub struct OpenedFile {
    file: StampedFile,
    /// A path that led to the file when it was opened, for people and for what lies beside it.
    pub path: PathBuf,
    /// The path which the process maps it by leads to another file now.
    pub replaced: bool,
}

/// An open file, and when it had last been changed when this was made.
#[derive(Debug)]
pub struct StampedFile {
    file: File,
    changed: ChangeTime,
}

/// Seconds and nanoseconds; unlike the time of modification it cannot be set back.
type ChangeTime = (i64, u64);

/// Why a mapped file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path}: neither the mapping ({mapping}) nor the path ({by_path}) can be opened{}",
    lacking(.mapping, .by_path, Capabilities::in_effect())
)]
pub struct OpenError {
    /// As the process maps it.
    pub path: String,
    mapping: io::Error,
    by_path: io::Error,
}

/// Which capabilities would help, if any. Pure.
fn lacking(mapping: &io::Error, by_path: &io::Error, capabilities: Capabilities) -> String {
    let mut wanted = Vec::new();
    // Its folder in `/proc`, or the file, is for its owner alone.
    if [mapping, by_path].iter().any(|error| error.raw_os_error() == Some(libc::EACCES)) {
        wanted.push(Capability::DacReadSearch);
    }
    // The kernel lets others not follow a mapping to its file.
    if mapping.kind() == io::ErrorKind::PermissionDenied {
        wanted.push(Capability::CheckpointRestore);
    }
    let missing = capabilities.names_of_missing(&wanted);
    missing.map_or_else(String::new, |missing| format!("; {missing}: {}", remedy()))
}

/// Opens the file that a process maps: by the mapping itself (`map_files`, which takes root or
/// `CAP_CHECKPOINT_RESTORE`), else by its path within the process's root, if that leads to the same file.
///
/// # Errors
/// Neither way leads to the file, or it is no regular file.
pub fn open_mapped(pid: u32, mapped: &MappedFile) -> Result<OpenedFile, OpenError> {
    by_mapping(pid, mapped).or_else(|mapping| {
        let refused = |by_path| OpenError { path: mapped.path.clone(), mapping, by_path };
        by_path(pid, mapped).map_err(refused)
    })
}

fn by_mapping(pid: u32, mapped: &MappedFile) -> io::Result<OpenedFile> {
    let found = find_mapping(pid, mapped)?;
    let replaced = !find_in_root(pid, mapped).is_ok_and(|there| are_same(&there, &found));
    OpenedFile::open(found, path_in_root(pid, mapped), replaced)
}

fn by_path(pid: u32, mapped: &MappedFile) -> io::Result<OpenedFile> {
    let found = find_in_root(pid, mapped)?;
    if id_of(&found)? != mapped.id {
        return Err(io::Error::other("another file is there now"));
    }
    OpenedFile::open(found, path_in_root(pid, mapped), false)
}

fn path_in_root(pid: u32, mapped: &MappedFile) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", mapped.path))
}

/// The file of a mapping, found but not opened.
fn find_mapping(pid: u32, mapped: &MappedFile) -> io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", mapped.start, mapped.end);
    let found = find(CWD, path.as_ref(), ResolveFlags::empty())?;
    // Some file systems give other numbers to stat(2) than to /proc/PID/maps: then the mapping must still be there.
    if id_of(&found)? == mapped.id || path_of(pid, mapped).is_some() {
        Ok(found)
    } else {
        Err(io::Error::other("something else is mapped there now"))
    }
}

/// What the path of a mapping leads to now in the process's root, found but not opened. The kernel wrote the path without
/// links: one that is there now was put there since.
fn find_in_root(pid: u32, mapped: &MappedFile) -> io::Result<OwnedFd> {
    let root = find(CWD, format!("/proc/{pid}/root").as_ref(), ResolveFlags::empty())?;
    let path = match mapped.path.contains(char::REPLACEMENT_CHARACTER) {
        true => path_of(pid, mapped).ok_or_else(|| io::Error::other("it is not mapped any more"))?,
        false => PathBuf::from(&mapped.path),
    };
    find(root, &path, ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS)
}

/// Finds a file without opening it: nobody is waited for, and no device notices.
fn find(folder: impl AsFd, path: &Path, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve)?)
}

/// Opens what was found, if it is a regular file.
fn open_found(found: OwnedFd) -> io::Result<File> {
    let file = File::from(found);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // Not blocking: somebody may hold a lease on it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(link_to(&file), flags, Mode::empty())?))
}

fn are_same(one: &OwnedFd, other: &OwnedFd) -> bool {
    id_of(one).is_ok_and(|id| id_of(other).is_ok_and(|other| id == other))
}

/// A path that leads to an open file, for this process.
fn link_to(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn change_time(file: &File) -> io::Result<ChangeTime> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec))
}

/// Who a file is, in the numbers that `/proc/PID/maps` and the kernel part use.
fn id_of(file: impl AsFd) -> io::Result<FileId> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileId { dev: kernel_dev(stat.st_dev), inode: stat.st_ino })
}

/// The kernel's own device number from that of stat(2).
pub fn kernel_dev(dev: u64) -> u32 {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & 0xffff_f000);
    let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
    (major << 20 | minor & 0xf_ffff) as u32
}

/// Opens a file by its path on this machine; it has the numbers that processes map it by.
///
/// # Errors
/// It is not there, or no regular file.
pub fn open_path(path: &Path) -> io::Result<(FileId, OpenedFile)> {
    let file = OpenedFile::open(find(CWD, path, ResolveFlags::empty())?, path.to_owned(), false)?;
    let id = id_as_mapped(file.file()).map_or_else(|| id_of(file.file()), Ok)?;
    Ok((id, file))
}

/// Opens a file that somebody else named, if it is of root's or of the caller's own.
///
/// # Errors
/// It is not there, another user's, or no regular file.
pub fn open_trusted(path: &Path) -> io::Result<OpenedFile> {
    let found = find(CWD, path, ResolveFlags::empty())?;
    if !is_trusted_owner(rustix::fs::fstat(&found)?.st_uid) {
        return Err(io::Error::other("a file of another user"));
    }
    OpenedFile::open(found, path.to_owned(), false)
}

/// The bytes of one instruction at most.
pub const INSTRUCTION_BYTES: usize = 15;

impl StampedFile {
    /// An open file as it is now.
    ///
    /// # Errors
    /// The kernel does not say when it was changed.
    pub fn of(file: File) -> io::Result<Self> {
        let changed = change_time(&file)?;
        Ok(Self { file, changed })
    }

    /// Whether it may have been written since then.
    pub fn may_have_changed(&self) -> bool {
        change_time(&self.file).map_or(true, |changed| changed != self.changed)
    }

    /// The parts of the file that are of use.
    ///
    /// # Errors
    /// The file cannot be read, or is too large.
    pub fn read_image(&self) -> io::Result<Contents> {
        read_contents(&self.file)
    }
}

impl OpenedFile {
    fn open(found: OwnedFd, path: PathBuf, replaced: bool) -> io::Result<Self> {
        Ok(Self { file: StampedFile::of(open_found(found)?)?, path, replaced })
    }

    /// Whether it may have been written since it was opened. As long as it is open, its number is no other file's.
    pub fn may_have_changed(&self) -> bool {
        self.file.may_have_changed()
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file.file
    }

    /// A path that leads to this very file as long as it is open, for whoever takes nothing but paths.
    pub fn link(&self) -> PathBuf {
        link_to(self.file())
    }

    /// Number of the user whose file it is.
    pub fn owner(&self) -> Option<u32> {
        rustix::fs::fstat(self.file()).ok().map(|stat| stat.st_uid)
    }

    /// What is at a place now; beyond the end of the file, or where it cannot be read, nothing.
    pub fn code_at(&self, offset_bytes: u64) -> Vec<u8> {
        let mut code = vec![0; INSTRUCTION_BYTES];
        let len = self.file().read_at(&mut code, offset_bytes).unwrap_or(0);
        code.truncate(len);
        code
    }

    /// The parts of the file that a plan is made from.
    ///
    /// # Errors
    /// The file cannot be read, or is too large.
    pub fn read_image(&self) -> io::Result<Contents> {
        self.file.read_image()
    }
}

/// The parts of a file that a plan is made from.
///
/// # Errors
/// The file cannot be read, or is too large.
pub fn read_contents(file: &File) -> io::Result<Contents> {
    Contents::read(len_bytes(file)?, |bytes, at| file.read_exact_at(bytes, at))
}

/// How long a file is, by the one call about a file that the parsing child may make: it names no path.
pub(super) fn len_bytes(file: &File) -> io::Result<u64> {
    u64::try_from(rustix::fs::fstat(file)?.st_size).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_told_with_the_capability_that_would_help() {
        let error = io::Error::from_raw_os_error;
        let told = |mapping, by_path| lacking(&error(mapping), &error(by_path), Capabilities::default());
        assert!(told(libc::EPERM, libc::ENOENT).starts_with("; CAP_CHECKPOINT_RESTORE is missing: run"));
        let both = "; CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE are missing: ";
        assert!(told(libc::EACCES, libc::ENOENT).starts_with(both));
        assert!(told(libc::EPERM, libc::EACCES).starts_with(both));
        assert_eq!(told(libc::ENOENT, libc::ENOENT), "");
        assert_eq!(lacking(&error(libc::EPERM), &error(libc::EACCES), Capabilities::ALL), "");
    }

    #[test]
    fn device_numbers_are_the_kernels_own() {
        // 0xfe:1 as stat(2) gives it, and a minor number beyond eight bits.
        assert_eq!(kernel_dev(0xfe01), 0xfe << 20 | 1);
        assert_eq!(kernel_dev(0x0010_0803), 8 << 20 | 0x103);
    }

    #[test]
    fn an_image_has_the_same_facts_as_the_whole_file() {
        let path = std::env::current_exe().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let (_, opened) = open_path(&path).unwrap();
        let image = opened.read_image().unwrap();
        assert!(image.held_bytes() < whole.len() as u64);
        let whole = Contents::from(whole);
        let (a, b) = (crate::elf::parse(&whole).unwrap(), crate::elf::parse(&image).unwrap());
        assert!(a.functions.iter().count() > 100);
        assert!(a.functions.iter().eq(b.functions.iter()));
        assert!(a.code.iter().map(|c| c.bytes).eq(b.code.iter().map(|c| c.bytes)));
        assert_eq!((a.build_id, a.needed), (b.build_id, b.needed));
    }

    #[test]
    fn a_file_that_is_not_elf_is_read_as_such() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let image = open_path(file.path()).unwrap().1.read_image().unwrap();
        assert_eq!(crate::elf::parse(&image).unwrap_err(), crate::elf::ElfError::Foreign);
    }
}

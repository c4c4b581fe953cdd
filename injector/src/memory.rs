//! The memory of another process, through its file in `/proc`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// See the [module](self).
#[derive(Debug)]
pub struct WritableMemory(File);

impl WritableMemory {
    /// To read and write. Pages that the process may not write itself can be written, as by a debugger.
    ///
    /// # Errors
    /// The process is gone, or not ours to change.
    pub fn open(pid: i32) -> io::Result<Self> {
        File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// # Errors
    /// Nothing is mapped there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    /// # Errors
    /// Nothing is mapped there.
    pub fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn half(&self, address: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

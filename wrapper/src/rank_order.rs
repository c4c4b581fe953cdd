//! The position of this rank's calls in the order of all ranks' calls.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use replay::total_order::{ORDER_BYTES, SharedOrder};

/// Of one rank.
pub(crate) struct RankOrder {
    shared: &'static SharedOrder,
}

impl RankOrder {
    /// Maps what all ranks share; none if no order is wanted.
    ///
    /// # Errors
    /// It is there, and cannot be mapped.
    pub(crate) fn find(folder: &Path) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).write(true).open(folder.join("order")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() < ORDER_BYTES as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ORDER_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is as long as this, aligned to pages, and never unmapped; all fields are atomic integers.
        let shared = unsafe { &*start.cast::<SharedOrder>() };
        Ok(Some(Self { shared }))
    }

    /// Whether a call waits for its recorded position: up to where the order is whole.
    pub(crate) fn is_due(&self, position: u64) -> bool {
        position < self.shared.end()
    }

    /// Whether the recorded order has come as far as this, or is over.
    pub(crate) fn has_passed(&self, position: u64) -> bool {
        self.shared.has_passed(position)
    }

    /// The position of a call that ends, if its turn has come; `due`: the recorded one.
    pub(crate) fn take(&self, due: Option<u64>) -> Option<u64> {
        match due {
            Some(position) => self.shared.pass_on(position).then_some(position),
            None => Some(self.shared.take()),
        }
    }
}

//! The position of this rank's calls in the order of all ranks' calls.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use replay::total_order::{ORDER_BYTES, SharedOrder};

/// Of one rank.
pub(crate) struct RankOrder {
    shared: &'static SharedOrder,
    /// The call that ends waits for this position.
    due: Option<u64>,
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
        Ok(Some(Self { shared, due: None }))
    }

    /// The call that ends now is not before this position.
    pub(crate) fn set_due(&mut self, position: Option<u64>) {
        self.due = position.filter(|position| *position < self.shared.end());
    }

    /// The position that is waited for.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due
    }

    /// The position of the call, if its turn has come.
    pub(crate) fn take(&mut self) -> Option<u64> {
        match self.due {
            Some(position) => self.shared.pass_on(position).then(|| {
                self.due = None;
                position
            }),
            None => Some(self.shared.take()),
        }
    }
}

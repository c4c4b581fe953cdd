//! Writes the envelopes of a rank's messages into a file of their own.

use std::sync::atomic::{AtomicI32, Ordering};

use replay::messages::MessageJournal;

use crate::mapped_file::RankMapping;
use crate::place::place_of;

/// Not zero: messages are written down.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
pub(crate) static dms_messages: AtomicI32 = AtomicI32::new(0);

pub(crate) struct MessageRecorder {
    file: RankMapping,
    pub journal: MessageJournal,
    /// Bytes on their way to the file.
    pub out: Vec<u8>,
    is_stopped: bool,
}

impl MessageRecorder {
    /// From now on the shim tells of messages.
    pub(crate) fn new(file: RankMapping) -> Self {
        dms_messages.store(1, Ordering::Relaxed);
        Self { file, journal: MessageJournal::default(), out: Vec::with_capacity(256), is_stopped: false }
    }

    /// The number of the place that a call is made from.
    pub(crate) fn site(&mut self, address: u64, call: u32) -> u32 {
        self.journal.site(address, call, &mut self.out, || place_of(address))
    }

    /// Puts what was written down into the file; says why it is full.
    pub(crate) fn write(&mut self) -> Result<(), String> {
        let result =
            if self.is_stopped || self.out.is_empty() { Ok(()) } else { self.file.append(&self.out) };
        self.out.clear();
        result.map_err(|error| {
            self.is_stopped = true;
            format!("there is no more room for its messages ({error})")
        })
    }
}

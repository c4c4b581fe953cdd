//! Streams between this node and others.

use super::ids::SpaceId;
use super::streams::{MAX_STREAMS, Stream, StreamBytes, Streams};

impl Streams {
    /// What is written into a stream is read on another node, or not any more.
    pub fn set_read_elsewhere(&mut self, stream: u64, is_read: bool) {
        if let Some(known) = self.by_number.get_mut(&stream) {
            known.is_read_elsewhere = is_read;
            known.was_read_elsewhere |= is_read;
        }
    }

    /// What was written into a stream is not kept if it is read on another node. What is not needed any more is in `change`.
    pub fn hand_over(&mut self, stream: u64) {
        let Self { by_number, change, .. } = self;
        if let Some(known) = by_number.get_mut(&stream).filter(|known| known.is_read_elsewhere) {
            known.hand_over(change);
        }
    }

    /// Takes what another node says that was written; `is_known`: it also says by what. What is known of its bytes here is in
    /// `change`.
    pub fn take_from_elsewhere(
        &mut self,
        written: StreamBytes,
        is_known: bool,
        new_space: impl FnOnce() -> SpaceId,
    ) {
        self.change.clear();
        if !self.by_number.contains_key(&written.stream) {
            if self.by_number.len() >= MAX_STREAMS {
                return;
            }
            self.by_number.insert(written.stream, Stream::new(new_space(), written.position));
        }
        let Some(stream) = self.by_number.get_mut(&written.stream) else { return };
        stream.is_written_elsewhere = true;
        if is_known {
            let start = stream.extended(written.position);
            stream.write(start, start + u64::from(written.len_bytes), &mut self.change);
            let missed = self.change.missed.iter().map(|range| range.end - range.start);
            let missed = missed.fold(0, u64::saturating_add);
            stream.counts.missed_bytes = stream.counts.missed_bytes.saturating_add(missed);
        }
    }
}

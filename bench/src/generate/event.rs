//! A record of a made-up rank, before its time is known.

use analyzer::wire::Body;

/// Probe and body of a record; who wrote it and when is added by the stream.
pub(super) struct GeneratedEvent {
    pub(super) probe: u32,
    pub(super) body: Body,
}

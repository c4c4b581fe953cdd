//! A record of a made-up rank, before its time is known.

use analyzer::wire::Body;

/// One record, without who and when.
pub(super) struct GeneratedEvent {
    pub(super) probe: u32,
    pub(super) body: Body,
}

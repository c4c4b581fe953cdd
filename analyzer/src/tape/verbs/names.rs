//! Names that both ends of a connection know.

use crate::tape::wire::QueueChange;

/// An address of a port of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaAddress {
    /// Name of the device, as much of it as is in a record.
    pub device: [u64; 2],
    /// Of the device.
    pub port: u8,
    /// Number of the GID; none: this is the port's LID.
    pub index: Option<u8>,
    /// A GID as it lies in memory, or zero and a LID.
    pub address: [u64; 2],
}

/// One end: its address, and the number of its queue pair.
pub(super) type QueueEnd = ([u64; 2], u32);

/// Both ends of a queue pair that is being connected: its own, and the other one.
pub(super) fn ends(change: &QueueChange, addresses: &[RdmaAddress]) -> (QueueEnd, QueueEnd) {
    let peer = if change.is_global { change.address } else { [0, u64::from(change.lid)] };
    // Unless it is known, both ends are taken to be of one device; if they are not, nothing fits together.
    let own = own_address(change, addresses).unwrap_or(peer);
    ((own, change.queue), (peer, change.peer))
}

fn own_address(change: &QueueChange, addresses: &[RdmaAddress]) -> Option<[u64; 2]> {
    let index = change.is_global.then_some(change.index);
    let device = up_to_nul(change.device);
    let is_it =
        |known: &&RdmaAddress| (known.device, known.port, known.index) == (device, change.port, index);
    addresses.iter().find(is_it).map(|known| known.address)
}

/// A name without what lies behind its end.
fn up_to_nul(words: [u64; 2]) -> [u64; 2] {
    let mut is_over = false;
    words.map(|word| {
        let bytes = word.to_ne_bytes().map(|byte| {
            is_over |= byte == 0;
            if is_over { 0 } else { byte }
        });
        u64::from_ne_bytes(bytes)
    })
}

/// Of what goes from one end to the other, from the first packet's number on; never 0.
pub(super) fn stream_name(from: QueueEnd, to: QueueEnd, psn: u32) -> u64 {
    mixed(mixed(mixed(0, endpoint_name(from)), endpoint_name(to)), u64::from(psn)).max(1)
}

/// Never 0.
pub(super) fn endpoint_name((address, queue): QueueEnd) -> u64 {
    mixed(mixed(mixed(0, address[0]), address[1]), u64::from(queue)).max(1)
}

/// Of what goes there from a moment on, since something before it was missed; never 0.
pub(super) fn later_name(stream: u64, time_ns: u64) -> u64 {
    mixed(stream, time_ns).max(1)
}

fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_end_at_their_first_zero() {
        let name = u64::from_ne_bytes(*b"rxe0\0abc");
        assert_eq!(up_to_nul([name, u64::MAX]), [u64::from_ne_bytes(*b"rxe0\0\0\0\0"), 0]);
    }
}

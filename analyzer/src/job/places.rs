//! Ranges of a process's memory that were asked for lately, with all that is asked of them.

use super::ids::SpaceId;
use super::names::BufferId;

/// Ranges that are kept: a rank in its main loop uses fewer.
const PLACES: usize = 16;
/// Pages, told apart by a few bits of their number, whose range is remembered.
const HINTS: usize = 64;

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub space: SpaceId,
    pub offset: u64,
    /// Bytes from here on that are in this space; offsets end at the largest number, though.
    pub limit_bytes: u64,
}

/// What an address is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferAt {
    pub buffer: BufferId,
    pub at: Location,
}

/// A range of addresses that have one name and are in one space: one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct AddressRange {
    pub start: u64,
    pub end: u64,
    pub buffer: BufferId,
    pub space: SpaceId,
    /// Of `start`, in the space.
    pub offset: u64,
    /// The space goes on up to here.
    pub limit: u64,
}

const NOWHERE: AddressRange =
    AddressRange { start: 1, end: 0, buffer: BufferId(0), space: SpaceId::NONE, offset: 0, limit: 0 };

impl AddressRange {
    #[inline]
    fn has(&self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// What holds of an address in the range.
    #[inline]
    pub fn found(&self, addr: u64) -> BufferAt {
        let offset = self.offset.wrapping_add(addr - self.start);
        let limit_bytes = self.limit - addr;
        BufferAt { buffer: self.buffer, at: Location { space: self.space, offset, limit_bytes } }
    }
}

/// See the [module](self).
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct PlaceCache {
    hints: [u8; HINTS],
    places: [AddressRange; PLACES],
    /// What the next new range takes the place of.
    oldest: u8,
}

impl Default for PlaceCache {
    fn default() -> Self {
        Self { places: [NOWHERE; PLACES], hints: [0; HINTS], oldest: 0 }
    }
}

impl PlaceCache {
    /// The range that an address is in.
    #[inline(always)]
    pub fn find(&mut self, addr: u64) -> Option<&AddressRange> {
        let hint = hint_slot(addr);
        let at = usize::from(self.hints[hint]) % PLACES;
        if self.places[at].has(addr) {
            return Some(&self.places[at]);
        }
        let at = self.places.iter().position(|place| place.has(addr))?;
        self.hints[hint] = at as u8;
        Some(&self.places[at])
    }

    /// Keeps a range, in place of the one that was kept for longest.
    pub fn add(&mut self, place: AddressRange) {
        let at = usize::from(self.oldest) % PLACES;
        self.places[at] = place;
        self.oldest = (at + 1) as u8;
    }

    /// What was known of these addresses does not hold any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        for place in self.places.iter_mut().filter(|p| p.start < end && start < p.end) {
            *place = NOWHERE;
        }
    }

    /// Nothing holds any more.
    pub fn clear(&mut self) {
        self.places = [NOWHERE; PLACES];
    }
}

#[inline]
fn hint_slot(addr: u64) -> usize {
    let page = addr >> 12;
    (page ^ page >> 6 ^ page >> 12) as usize % HINTS
}

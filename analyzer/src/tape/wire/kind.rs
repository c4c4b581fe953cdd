//! Numbers of `enum dms_kind`.
#![allow(missing_docs)]

pub const COPY: u16 = 1;
pub const PACK: u16 = 2;
pub const CROSS: u16 = 3;
pub const CALL: u16 = 4;
pub const DONE: u16 = 5;
pub const ALLOC: u16 = 6;
pub const FREE: u16 = 7;
pub const MAP: u16 = 8;
pub const UNMAP: u16 = 9;
pub const FORK: u16 = 10;
pub const EXEC: u16 = 11;
pub const EXIT: u16 = 12;
pub const VALUES: u16 = 13;
pub const RETURN: u16 = 14;
pub const MADE: u16 = 15;
pub const STREAM: u16 = 16;
pub const WORK: u16 = 17;
pub const COMPLETION: u16 = 18;
pub const QUEUE: u16 = 19;
/// Made from other records, as is the next one.
pub const REMOTE: u16 = 20;
pub const ENDPOINT: u16 = 21;
pub const HELD_UP: u16 = 22;
pub const THREAD: u16 = 23;

/// Whether a record of this kind stands for a hit of its probe; others add to what a hit has told.
#[inline]
pub fn is_hit(kind: u16) -> bool {
    !matches!(kind, VALUES | RETURN | MADE | STREAM | REMOTE | ENDPOINT | HELD_UP)
}

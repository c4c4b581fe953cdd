//! Envelopes of messages, and what else orders the calls of ranks, as bytes.
//!
//! A record is a row of entries. Each begins with a number whose lowest four bits are its kind, and whose rest says how many calls
//! the rank has begun since the last entry. Numbers are of variable length; where something may be missing, they are one more, and 0 is nothing.
//!
//! | kind | what | then |
//! | --- | --- | --- |
//! | 0 to 3 | a send; bit 0: a synchronous one, bit 1: its request takes the next number | communicator, destination, tag |
//! | 4 | a receive | site, communicator, source?, tag?, source that came?, its tag |
//! | 5 | a probe that found a message | the same |
//! | 6 | a receive is posted; its request takes the next number | site, communicator, source?, tag? |
//! | 7 | an operation is complete, by its number back from the next one | source?, tag |
//! | 8 | the same, but only its message is known | the same |
//! | 9 | some of several requests | site, count, for each: index, number back, then count, indices taken |
//! | 10 | a collective call | [`CollectiveOrder`], communicator, root? |
//! | 11 | a communicator; takes the next number | own group: count, ranks; the other group: the same |
//! | 12 | a site; takes the next number | call, module, offset |
//!
//! Ranks of groups are those of MPI_COMM_WORLD; all others are those of the communicator.

use crate::answer::BadRecord;
use crate::varint::{put, take};

/// A message as its receiver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageEnvelope {
    /// In the communicator.
    pub source: u32,
    /// As it was sent.
    pub tag: u32,
}

/// What a receive or probe takes: none stands for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// A number that the rank gives its communicators.
    pub comm: u32,
    /// In the communicator.
    pub source: Option<u32>,
    /// Its tag.
    pub tag: Option<u32>,
}

/// Who waits for whom in a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CollectiveOrder {
    /// Nobody leaves before all have come.
    All = 0,
    /// Nobody leaves before the root has come.
    FromRoot = 1,
    /// The root leaves when all have come.
    ToRoot = 2,
    /// Nobody leaves before those of lower ranks have come.
    Prefix = 3,
    /// It is not known.
    Unknown = 4,
}

impl CollectiveOrder {
    /// By its number.
    pub fn of_number(number: u64) -> Option<Self> {
        [Self::All, Self::FromRoot, Self::ToRoot, Self::Prefix, Self::Unknown]
            .get(usize::try_from(number).ok()?)
            .copied()
    }
}

/// Where a call is made: a file that is mapped, and how far into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// A number of the wrapper's table of calls.
    pub call: u32,
    /// Path of the file.
    pub module: String,
    /// Where the call returns to.
    pub offset_bytes: u64,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageRow {
    /// A send begins.
    Send { comm: u32, dest: u32, tag: u32, is_synchronous: bool, has_request: bool },
    /// A receive or probe ends. What came is not known if it failed.
    Receive { site: u32, pattern: Pattern, is_probe: bool, got: Option<MessageEnvelope> },
    /// A receive is posted.
    Post { site: u32, pattern: Pattern },
    /// An operation with a request is complete; only its message is known, if it is not final.
    Done { back: u64, got: Option<MessageEnvelope>, is_final: bool },
    /// A call took some of several requests.
    Choice { site: u32, offered: Vec<(u32, u64)>, taken: Vec<u32> },
    /// A collective call begins.
    Collective { order: CollectiveOrder, comm: u32, root: Option<u32> },
    /// A communicator is known from here on; its members are not if nobody has seen it made.
    Comm { group: Vec<u32>, remote: Vec<u32> },
    /// A site is known.
    Site(CallSite),
}

const KIND_BITS: u32 = 4;
/// No name of a file is longer.
const MAX_MODULE_BYTES: u64 = 4096;

fn put_optional(out: &mut Vec<u8>, value: Option<u32>) {
    put(out, value.map_or(0, |value| u64::from(value) + 1));
}

fn put_list(out: &mut Vec<u8>, list: &[u32]) {
    put(out, list.len() as u64);
    list.iter().for_each(|value| put(out, u64::from(*value)));
}

fn put_got(out: &mut Vec<u8>, got: Option<MessageEnvelope>) {
    put_optional(out, got.map(|got| got.source));
    if let Some(got) = got {
        put(out, got.tag.into());
    }
}

fn put_pattern(out: &mut Vec<u8>, site: u32, pattern: &Pattern) {
    put(out, site.into());
    put(out, pattern.comm.into());
    put_optional(out, pattern.source);
    put_optional(out, pattern.tag);
}

fn small(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

fn optional(bytes: &mut &[u8]) -> Option<Option<u32>> {
    match take(bytes)?.checked_sub(1) {
        None => Some(None),
        Some(value) => u32::try_from(value).ok().map(Some),
    }
}

/// Each has a byte at least: what is claimed is not believed before it was read.
fn count(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).filter(|count| *count <= bytes.len() as u64)
}

fn list(bytes: &mut &[u8]) -> Option<Vec<u32>> {
    (0..count(bytes)?).map(|_| small(bytes)).collect()
}

fn got(bytes: &mut &[u8]) -> Option<Option<MessageEnvelope>> {
    match optional(bytes)? {
        None => Some(None),
        Some(source) => Some(Some(MessageEnvelope { source, tag: small(bytes)? })),
    }
}

fn pattern(bytes: &mut &[u8]) -> Option<(u32, Pattern)> {
    let site = small(bytes)?;
    Some((site, Pattern { comm: small(bytes)?, source: optional(bytes)?, tag: optional(bytes)? }))
}

impl MessageRow {
    fn kind(&self) -> u64 {
        match self {
            Self::Send { is_synchronous, has_request, .. } => {
                u64::from(*is_synchronous) | u64::from(*has_request) << 1
            }
            Self::Receive { is_probe, .. } => 4 + u64::from(*is_probe),
            Self::Post { .. } => 6,
            Self::Done { is_final, .. } => 8 - u64::from(*is_final),
            Self::Choice { .. } => 9,
            Self::Collective { .. } => 10,
            Self::Comm { .. } => 11,
            Self::Site(_) => 12,
        }
    }

    /// Appends the entry; `calls`: begun since the last one.
    pub(crate) fn write(&self, calls: u64, out: &mut Vec<u8>) {
        put(out, calls << KIND_BITS | self.kind());
        match self {
            Self::Send { comm, dest, tag, .. } => {
                [comm, dest, tag].into_iter().for_each(|value| put(out, u64::from(*value)));
            }
            Self::Receive { site, pattern, got, .. } => {
                put_pattern(out, *site, pattern);
                put_got(out, *got);
            }
            Self::Post { site, pattern } => put_pattern(out, *site, pattern),
            Self::Done { back, got, .. } => {
                put(out, *back);
                put_got(out, *got);
            }
            Self::Choice { site, offered, taken } => {
                put(out, u64::from(*site));
                put(out, offered.len() as u64);
                for (index, back) in offered {
                    put(out, u64::from(*index));
                    put(out, *back);
                }
                put_list(out, taken);
            }
            Self::Collective { order, comm, root } => {
                put(out, *order as u64);
                put(out, u64::from(*comm));
                put_optional(out, *root);
            }
            Self::Comm { group, remote } => [group, remote].iter().for_each(|list| put_list(out, list)),
            Self::Site(site) => {
                put(out, u64::from(site.call));
                put(out, site.module.len() as u64);
                out.extend_from_slice(site.module.as_bytes());
                put(out, site.offset_bytes);
            }
        }
    }

    /// The entry that bytes begin with, which are not empty, and how many calls were begun before it.
    pub(crate) fn take(bytes: &mut &[u8]) -> Result<(u64, Self), BadRecord> {
        Self::read(bytes).ok_or(BadRecord)
    }

    fn read(bytes: &mut &[u8]) -> Option<(u64, Self)> {
        let first = take(bytes)?;
        let kind = first & ((1 << KIND_BITS) - 1);
        let row = match kind {
            0..=3 => Self::Send {
                comm: small(bytes)?,
                dest: small(bytes)?,
                tag: small(bytes)?,
                is_synchronous: kind & 1 != 0,
                has_request: kind & 2 != 0,
            },
            4 | 5 => {
                let (site, pattern) = pattern(bytes)?;
                Self::Receive { site, pattern, is_probe: kind == 5, got: got(bytes)? }
            }
            6 => {
                let (site, pattern) = pattern(bytes)?;
                Self::Post { site, pattern }
            }
            7 | 8 => Self::Done { back: take(bytes)?, got: got(bytes)?, is_final: kind == 7 },
            9 => {
                let site = small(bytes)?;
                let offered =
                    (0..count(bytes)?).map(|_| Some((small(bytes)?, take(bytes)?))).collect::<Option<_>>()?;
                Self::Choice { site, offered, taken: list(bytes)? }
            }
            10 => Self::Collective {
                order: CollectiveOrder::of_number(take(bytes)?)?,
                comm: small(bytes)?,
                root: optional(bytes)?,
            },
            11 => Self::Comm { group: list(bytes)?, remote: list(bytes)? },
            12 => {
                let call = small(bytes)?;
                let len = count(bytes).filter(|len| *len <= MAX_MODULE_BYTES)? as usize;
                let module = String::from_utf8_lossy(bytes.get(..len)?).into_owned();
                *bytes = &bytes[len..];
                Self::Site(CallSite { call, module, offset_bytes: take(bytes)? })
            }
            _ => return None,
        };
        Some((first >> KIND_BITS, row))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows() -> impl Strategy<Value = Vec<(u64, MessageRow)>> {
        let envelope = proptest::option::of((any::<u32>(), any::<u32>()))
            .prop_map(|got| got.map(|(source, tag)| MessageEnvelope { source, tag }));
        let pattern = (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>())
            .prop_map(|(comm, source, tag)| Pattern { comm, source, tag });
        let row =
            prop_oneof![
                (any::<(u32, u32, u32)>(), any::<(bool, bool)>()).prop_map(
                    |((comm, dest, tag), (is_synchronous, has_request))| MessageRow::Send {
                        comm,
                        dest,
                        tag,
                        is_synchronous,
                        has_request
                    }
                ),
                (any::<u32>(), pattern.clone(), any::<bool>(), envelope.clone()).prop_map(
                    |(site, pattern, is_probe, got)| MessageRow::Receive { site, pattern, is_probe, got }
                ),
                (any::<u32>(), pattern).prop_map(|(site, pattern)| MessageRow::Post { site, pattern }),
                (any::<u64>(), envelope, any::<bool>()).prop_map(|(back, got, is_final)| MessageRow::Done {
                    back,
                    got,
                    is_final
                }),
                any::<(u32, Vec<(u32, u64)>, Vec<u32>)>()
                    .prop_map(|(site, offered, taken)| MessageRow::Choice { site, offered, taken }),
                (0..5_u64, any::<u32>(), any::<Option<u32>>()).prop_map(|(order, comm, root)| {
                    MessageRow::Collective {
                        order: CollectiveOrder::of_number(order).expect("one of them"),
                        comm,
                        root,
                    }
                }),
                any::<(Vec<u32>, Vec<u32>)>().prop_map(|(group, remote)| MessageRow::Comm { group, remote }),
                (any::<u32>(), "[a-z/]{0,20}", any::<u64>()).prop_map(|(call, module, offset_bytes)| {
                    MessageRow::Site(CallSite { call, module, offset_bytes })
                }),
            ];
        proptest::collection::vec((0..u64::MAX >> KIND_BITS, row), 0..20)
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in rows()) {
            let mut bytes = Vec::new();
            rows.iter().for_each(|(calls, row)| row.write(*calls, &mut bytes));
            let mut rest = &bytes[..];
            let mut read = Vec::new();
            while !rest.is_empty() {
                read.push(MessageRow::take(&mut rest).expect("it was written"));
            }
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn whatever_the_bytes_are_reading_ends(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while !rest.is_empty() && MessageRow::take(&mut rest).is_ok() {}
        }
    }
}

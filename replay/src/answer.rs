//! What calls answered, as bytes.
//!
//! A record is a row of entries. Each begins with a number of variable length, whose lowest three bits are its kind:
//!
//! | kind | rest of the number | then |
//! | --- | --- | --- |
//! | 0 | how many polls in a row answered no | |
//! | 1 | 0: a poll answered yes | check |
//! | 1 | 1 + twice a thread's number, + 1 if the thread posts something | what follows is of this thread |
//! | 2 | source of a message + 1, 0: unknown | check |
//! | 3 | index of a request + 1, 0: none was active | check |
//! | 4 | number of indices + 1, 0: none was active | indices, check |
//! | 5 | arrival for the receive that has been open longest | |
//! | 6 | arrival | how many receives have been open longer |
//! | 7 | a mark (0, 1), or a clock's number + 2 | of a clock: by how much it went on since it was read last |
//! | 7 | 18: the call's position in the order of all ranks' calls | how far behind the rank's last one |
//! | 7 | 19: a mark: recorded by probes, at the very beginning | |
//! | 7 | 20: another thread, which gets the next number | its name |
//! | 7 | 21: how often thread 0 has posted something while it was alone, before the first other thread | |
//! | 7 | 22: a mark: polls that answer no are in no check from here on | |
//!
//! What comes first is of thread 0, the one that called MPI_Init. Calls that post sends or receives, or take a message, stand there in
//! their order once there are several threads; of one thread it is clear.
//!
//! An arrival is source + 2, or 0: unknown, or 1: cancelled. A check is one byte of a checksum over all calls so far.

use crate::varint::{put, take};

/// What a call answered that asked for something the program does not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A poll: no.
    No,
    /// A poll: yes.
    Yes,
    /// A receive or probe from anybody: this rank's message, in the numbers of the communicator. None: the call failed.
    From(Option<u32>),
    /// One of several requests. None: there was no active one.
    Index(Option<u32>),
    /// Some of several requests, in this order. None: there was no active one.
    Indices(Option<Vec<u32>>),
}

/// How a receive from anybody that was posted earlier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveEnd {
    /// It failed, or was given up before anybody could know.
    Unknown,
    /// It was cancelled.
    Cancelled,
    /// With this rank's message.
    From(u32),
}

/// What else a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The rank has ended well: nothing can follow.
    End,
    /// From here on the rank's calls came from several threads, and were not recorded.
    Threads,
    /// From here on there are several threads, and polls that answer no are in no check: how often one polls beside the others is chance.
    PollsApart,
    /// Recorded by probes, not from within the rank: clocks are not in the record, and checks are over fewer calls. Before all else.
    ByProbes,
}

/// A record that no recorder wrote, or a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord;

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the record contradicts itself")
    }
}

impl std::error::Error for BadRecord {}

/// One entry of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordEntry {
    /// So many polls in a row answered no.
    Polls(u64),
    /// Any other answer, and the check.
    Answer(Answer, u8),
    /// For the receive before which `longer` others are open.
    ReceiveEnd {
        longer: u64,
        arrival: ReceiveEnd,
    },
    Mark(Mark),
    /// A clock was read.
    Clock {
        clock: u8,
        /// Since it was read last, or since 0.
        went_on: i64,
    },
    /// The position of the call that ends in the order of all ranks' calls: how far behind the rank's last one.
    Position(u64),
    /// What follows is of this thread.
    Thread {
        index: u32,
        /// It posts something, or takes a message.
        has_turn: bool,
    },
    /// There is another thread, of this name.
    NewThread(u64),
    /// Before the first other thread, thread 0 had so many turns.
    FirstTurns(u64),
}

/// Clocks that are recorded have numbers below this.
pub const CLOCKS: usize = 16;
/// In an entry their numbers follow those of marks.
const FIRST_CLOCK: u64 = 2;
/// The number of a position follows those of clocks.
const POSITION: u64 = FIRST_CLOCK + CLOCKS as u64;
/// That of the mark which came after them.
const BY_PROBES: u64 = POSITION + 1;
/// Those of several threads.
const NEW_THREAD: u64 = BY_PROBES + 1;
const FIRST_TURNS: u64 = NEW_THREAD + 1;
const POLLS_APART: u64 = FIRST_TURNS + 1;

const KIND_BITS: u32 = 3;

fn head(out: &mut Vec<u8>, kind: u64, value: u64) {
    put(out, value << KIND_BITS | kind);
}

fn number(value: Option<u32>) -> u64 {
    value.map_or(0, |value| u64::from(value) + 1)
}

/// The other way round.
fn optional(number: u64) -> Option<Option<u32>> {
    match number.checked_sub(1) {
        None => Some(None),
        Some(value) => u32::try_from(value).ok().map(Some),
    }
}

impl RecordEntry {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Polls(count) => head(out, 0, *count),
            Self::Answer(answer, check) => {
                match answer {
                    Answer::No => return head(out, 0, 1),
                    Answer::Yes => head(out, 1, 0),
                    Answer::From(source) => head(out, 2, number(*source)),
                    Answer::Index(index) => head(out, 3, number(*index)),
                    Answer::Indices(indices) => {
                        head(out, 4, indices.as_ref().map_or(0, |indices| indices.len() as u64 + 1));
                        indices.iter().flatten().for_each(|index| put(out, u64::from(*index)));
                    }
                }
                out.push(*check);
            }
            Self::ReceiveEnd { longer, arrival } => {
                let value = match arrival {
                    ReceiveEnd::Unknown => 0,
                    ReceiveEnd::Cancelled => 1,
                    ReceiveEnd::From(source) => u64::from(*source) + 2,
                };
                if *longer == 0 {
                    head(out, 5, value);
                } else {
                    head(out, 6, value);
                    put(out, *longer);
                }
            }
            Self::Mark(Mark::End) => head(out, 7, 0),
            Self::Mark(Mark::Threads) => head(out, 7, 1),
            Self::Mark(Mark::ByProbes) => head(out, 7, BY_PROBES),
            Self::Mark(Mark::PollsApart) => head(out, 7, POLLS_APART),
            Self::Clock { clock, went_on } => {
                head(out, 7, FIRST_CLOCK + u64::from(*clock));
                // Small numbers of either sign become small ones.
                put(out, (went_on << 1 ^ went_on >> 63) as u64);
            }
            Self::Position(behind) => {
                head(out, 7, POSITION);
                put(out, *behind);
            }
            Self::Thread { index, has_turn } => {
                head(out, 1, 1 + (u64::from(*index) << 1 | u64::from(*has_turn)));
            }
            Self::NewThread(name) => {
                head(out, 7, NEW_THREAD);
                put(out, *name);
            }
            Self::FirstTurns(turns) => {
                head(out, 7, FIRST_TURNS);
                put(out, *turns);
            }
        }
    }

    /// The entry that bytes begin with, which are not empty.
    pub(crate) fn take(bytes: &mut &[u8]) -> Result<Self, BadRecord> {
        Self::read(bytes).ok_or(BadRecord)
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let first = take(bytes)?;
        let value = first >> KIND_BITS;
        let answer = match first & ((1 << KIND_BITS) - 1) {
            0 => return Some(Self::Polls(value)),
            1 if value == 0 => Answer::Yes,
            1 => {
                let index = u32::try_from((value - 1) >> 1).ok()?;
                return Some(Self::Thread { index, has_turn: (value - 1) & 1 == 1 });
            }
            2 => Answer::From(optional(value)?),
            3 => Answer::Index(optional(value)?),
            4 => Answer::Indices(match value.checked_sub(1) {
                None => None,
                // Each has a byte at least: what is claimed is not believed before it was read.
                Some(count) if count > bytes.len() as u64 => return None,
                Some(count) => {
                    Some((0..count).map(|_| u32::try_from(take(bytes)?).ok()).collect::<Option<_>>()?)
                }
            }),
            kind @ (5 | 6) => {
                let arrival = match value {
                    0 => ReceiveEnd::Unknown,
                    1 => ReceiveEnd::Cancelled,
                    source => ReceiveEnd::From(u32::try_from(source - 2).ok()?),
                };
                let longer = if kind == 6 { take(bytes)? } else { 0 };
                return Some(Self::ReceiveEnd { longer, arrival });
            }
            7 => {
                return Some(Self::Mark(match value {
                    0 => Mark::End,
                    1 => Mark::Threads,
                    BY_PROBES => Mark::ByProbes,
                    POLLS_APART => Mark::PollsApart,
                    POSITION => return Some(Self::Position(take(bytes)?)),
                    NEW_THREAD => return Some(Self::NewThread(take(bytes)?)),
                    FIRST_TURNS => return Some(Self::FirstTurns(take(bytes)?)),
                    clock => {
                        let clock =
                            u8::try_from(clock - FIRST_CLOCK).ok().filter(|c| usize::from(*c) < CLOCKS)?;
                        let folded = take(bytes)?;
                        let went_on = (folded >> 1) as i64 ^ -((folded & 1) as i64);
                        return Some(Self::Clock { clock, went_on });
                    }
                }));
            }
            _ => return None,
        };
        let (check, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(Self::Answer(answer, *check))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<RecordEntry>> {
        let answer = prop_oneof![
            Just(Answer::Yes),
            any::<Option<u32>>().prop_map(Answer::From),
            any::<Option<u32>>().prop_map(Answer::Index),
            any::<Option<Vec<u32>>>().prop_map(Answer::Indices),
        ];
        let arrival = prop_oneof![
            Just(ReceiveEnd::Unknown),
            Just(ReceiveEnd::Cancelled),
            any::<u32>().prop_map(ReceiveEnd::From)
        ];
        let entry = prop_oneof![
            (0..u64::MAX >> KIND_BITS).prop_map(RecordEntry::Polls),
            (answer, any::<u8>()).prop_map(|(answer, check)| RecordEntry::Answer(answer, check)),
            (any::<u64>(), arrival).prop_map(|(longer, arrival)| RecordEntry::ReceiveEnd { longer, arrival }),
            prop_oneof![Just(Mark::End), Just(Mark::Threads), Just(Mark::ByProbes), Just(Mark::PollsApart)]
                .prop_map(RecordEntry::Mark),
            (0..CLOCKS as u8, any::<i64>())
                .prop_map(|(clock, went_on)| RecordEntry::Clock { clock, went_on }),
            any::<u64>().prop_map(RecordEntry::Position),
            (any::<u32>(), any::<bool>())
                .prop_map(|(index, has_turn)| RecordEntry::Thread { index, has_turn }),
            any::<u64>().prop_map(RecordEntry::NewThread),
            any::<u64>().prop_map(RecordEntry::FirstTurns),
        ];
        proptest::collection::vec(entry, 0..40)
    }

    proptest! {
        #[test]
        fn entries_come_back(entries in entries()) {
            let mut bytes = Vec::new();
            entries.iter().for_each(|entry| entry.write(&mut bytes));
            let mut rest = &bytes[..];
            let mut read = Vec::new();
            while !rest.is_empty() {
                read.push(RecordEntry::take(&mut rest).expect("it was written"));
            }
            prop_assert_eq!(read, entries);
        }

        #[test]
        fn whatever_the_bytes_are_reading_ends(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while !rest.is_empty() && RecordEntry::take(&mut rest).is_ok() {}
        }
    }

    #[test]
    fn what_is_frequent_takes_two_bytes_at_most() {
        let check = 7;
        for entry in [
            RecordEntry::Polls(1000),
            RecordEntry::Answer(Answer::Yes, check),
            RecordEntry::Answer(Answer::From(Some(14)), check),
            RecordEntry::Answer(Answer::Index(Some(14)), check),
            RecordEntry::ReceiveEnd { longer: 0, arrival: ReceiveEnd::From(2045) },
            RecordEntry::Thread { index: 1000, has_turn: true },
        ] {
            let mut bytes = Vec::new();
            entry.write(&mut bytes);
            assert!(bytes.len() <= 2, "{entry:?}: {bytes:?}");
        }
    }
}

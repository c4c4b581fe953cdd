//! Where a program does something else than it did when it was recorded.

use crate::answer::Answer;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AskedFor {
    /// Yes or no.
    Poll = 0,
    /// Yes or no, and whose message if yes.
    PollSource = 1,
    /// Yes or no, and which request if yes.
    PollIndex = 2,
    /// Whose message.
    Source = 3,
    /// Which request.
    Index = 4,
    /// Which requests; some at least.
    Indices = 5,
    /// Which requests, perhaps none.
    PollIndices = 6,
}

impl AskedFor {
    /// All, by their numbers.
    const ALL: [Self; 7] = [
        Self::Poll,
        Self::PollSource,
        Self::PollIndex,
        Self::Source,
        Self::Index,
        Self::Indices,
        Self::PollIndices,
    ];

    /// By its number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether no is an answer.
    pub fn is_poll(self) -> bool {
        matches!(self, Self::Poll | Self::PollSource | Self::PollIndex | Self::PollIndices)
    }

    /// Whether this can be an answer.
    pub(crate) fn fits(self, answer: &Answer) -> bool {
        match answer {
            Answer::No => self.is_poll(),
            Answer::Yes => self == Self::Poll,
            Answer::From(_) => matches!(self, Self::Source | Self::PollSource),
            Answer::Index(_) => matches!(self, Self::Index | Self::PollIndex),
            Answer::Indices(_) => matches!(self, Self::Indices | Self::PollIndices),
        }
    }
}

/// A difference between what the program does and what the record has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Divergence {
    /// The call asks for something else than the one that got the next recorded answer.
    AnotherCall {
        /// By the call.
        asked: AskedFor,
        /// In the record.
        recorded: Answer,
    },
    /// The call asks for something where a clock was read.
    NoClockRead {
        /// By the call.
        asked: AskedFor,
    },
    /// A clock is read where none was.
    ClockRead {
        /// What is next in the record.
        recorded: Answer,
    },
    /// Another clock is read than was. By the numbers that the wrapper gives to clocks.
    AnotherClock {
        /// By the program.
        read: u8,
        /// In the record; none: one that there is not.
        recorded: Option<u8>,
    },
    /// The calls up to here, or their arguments, are not those that were recorded.
    OtherCalls,
    /// The rank had ended before.
    BehindTheEnd,
    /// The rank ends, but was recorded to go on.
    EndsEarly,
    /// An index beyond the requests of the call.
    NoSuchRequest {
        /// The index.
        index: u32,
        /// How many there are.
        requests: u32,
    },
}

impl std::fmt::Display for AskedFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Poll => "a call that answers yes or no",
            Self::PollSource => "a call that answers no, or whose message there is",
            Self::PollIndex => "a call that answers no, or which request is complete",
            Self::Source => "a receive or probe from anybody",
            Self::Index => "a wait for any of several requests",
            Self::Indices => "a wait for some of several requests",
            Self::PollIndices => "a test of some of several requests",
        })
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::No => f.write_str("the answer no"),
            Self::Yes => f.write_str("the answer yes"),
            Self::From(Some(source)) => write!(f, "a message from rank {source}"),
            Self::From(None) => f.write_str("a receive that failed"),
            Self::Index(Some(index)) => write!(f, "the completion of request {index} of several"),
            Self::Index(None) => f.write_str("a call without active requests"),
            Self::Indices(Some(indices)) => {
                write!(f, "the completion of {} of several requests", indices.len())
            }
            Self::Indices(None) => f.write_str("a call without active requests"),
        }
    }
}

/// The function that reads a clock, by the number that the wrapper gives to it.
fn clock_name(clock: u8) -> &'static str {
    match clock {
        0 => "MPI_Wtime",
        1 => "time()",
        2 => "gettimeofday()",
        3 => "clock()",
        4..=13 => "clock_gettime()",
        14 | 15 => "getrusage()",
        _ => "an unknown function",
    }
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AnotherCall { asked, recorded } => {
                write!(f, "the program makes {asked}; the record has {recorded} next")
            }
            Self::NoClockRead { asked } => {
                write!(f, "the program makes {asked}; in the record it reads a clock next")
            }
            Self::ClockRead { recorded } => {
                write!(f, "the program reads a clock; the record has {recorded} next")
            }
            Self::AnotherClock { read, recorded: Some(recorded) } => {
                let (read, recorded) = (clock_name(*read), clock_name(*recorded));
                write!(f, "the program reads the clock of {read}; in the record it reads that of {recorded}")
            }
            Self::AnotherClock { read, recorded: None } => {
                write!(f, "the program reads the clock of {}, which no record has", clock_name(*read))
            }
            Self::OtherCalls => {
                f.write_str("since the last recorded answer the program has made other calls, or with other arguments, than when it was recorded")
            }
            Self::BehindTheEnd => {
                f.write_str("the program goes on; in the record it has called MPI_Finalize by now")
            }
            Self::EndsEarly => f.write_str("the program calls MPI_Finalize; in the record it goes on"),
            Self::NoSuchRequest { index, requests } => {
                write!(f, "the call has {requests} requests; in the record request {index} of it was complete")
            }
        }
    }
}

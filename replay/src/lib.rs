//! The pure engine of replay.
//!
//! ```text
//! calls of a rank → Recording → bytes         bytes → Playback → what each call must answer, or a Divergence
//! ```
//!
//! Of a rank's calls only that is recorded which the program does not decide: whose message a wildcard receive got, how often
//! a poll answered no, which request was complete, and what clocks showed that it read. The same program that is given the same answers makes the same calls.
//!
//! If the envelopes of messages are written down as well ([`messages`]), it can be said where the run could have gone another way
//! ([`races`]), and a [`RankCut`] plays it up to there.
//!
//! Nothing here knows MPI, files, threads or clocks. Requests are numbers, calls are what they ask for ([`AskedFor`]) and numbers
//! that must be the same in every run. What makes a message library do it is elsewhere.

mod answer;
mod call_check;
mod clock_track;
pub mod content_ring;
pub mod contents;
mod cut;
mod divergence;
pub mod logical;
pub mod messages;
mod open_receives;
mod playback;
pub mod races;
mod recording;
mod request_table;
pub mod shared_page;
pub mod thread_name;
pub mod total_order;
mod varint;

pub use answer::{Answer, BadRecord, CLOCKS, Mark, ReceiveEnd};
pub use call_check::{CallCheck, FIRST_CALL_UNCHECKED_BY_PROBES};
pub use clock_track::ClockTrack;
pub use cut::{Detour, RankCut};
pub use divergence::{AskedFor, Divergence};
pub use playback::{Due, Playback, TurnDue};
pub use recording::{MOST_THREADS, Recording, polls_behind};

//! The tape: every [`Input`](input::Input) of a session, in the order in which the pipeline saw it.
//!
//! # Format, version 7
//!
//! Version 6 has no records of threads that are created, version 5 none of what dmscope itself takes from ranks and no streams of RDMA
//! operations, version 4 no costs of probes, version 3 no messages and no contents, version 2 no answers, version 1 no digests.
//!
//! Numbers are little endian. A file begins with a [file header](FILE_HEADER_BYTES) (magic,
//! version, CRC-32C of both), then come frames:
//!
//! ```text
//! frame header, 68 bytes                      payload, compressed_len bytes
//! ┌───────┬──────┬────────┬──────────────┬───┬──────┐┌──────────────────────┐
//! │ magic │ kind │ inputs │ lengths, CRC │ … │ CRC  ││ one zstd frame       │
//! └───────┴──────┴────────┴──────────────┴───┴──────┘└──────────────────────┘
//! ```
//!
//! | kind | payload, once decompressed |
//! | --- | --- |
//! | records | `Record`, `LateRecord`, `Tick`, `Loss` (see `codec`) |
//! | facts | JSON array of `Start`, `Process`, `Plan`, `ReplayableRank`, `ProbeCosts`, `End` and the like |
//! | symbols | JSON array of one `Symbols` |
//! | digests | `Digest`, each with its length before it |
//! | answers | `Answers` |
//! | messages | `Messages` |
//! | contents | `Contents` |
//!
//! A frame needs no other frame to be decoded, and its header says how many inputs, and
//! of which weight ([`Weight`]), the session had before it. So a reader that meets damage
//! searches for the next frame header that its CRC confirms, goes on from there, and knows how much
//! is missing. A frame that could not be written (disk full) looks the same: the
//! counts jump. What is missing reaches the pipeline as [`Input::Loss`](input::Input::Loss).
//!
//! The number of an input in its session is its *position*: it is the same live and from tape.

mod answers;
pub(crate) mod bytes;
pub(crate) mod causal_order;
mod codec;
pub mod costs;
mod damage;
mod digest;
mod fact;
mod frame;
mod frames;
pub mod input;
mod nodes;
pub mod plan;
mod reader;
mod scan;
pub mod sequencer;
mod varint;
pub(crate) mod verbs;
mod weight;
pub mod wire;
mod writer;

pub use answers::{RankAnswers, RankMessages, ReplayableRank};
pub use bytes::BadBytes;
pub use damage::{Cause, Damage, TapeError};
pub use digest::Digest;
pub use frame::{FILE_HEADER_BYTES, MAX_FRAME_BYTES, MAX_INPUTS_PER_FRAME, VERSION};
pub use nodes::{Join, LiveJoin, MAX_NODES, Patience, file_on_node, node_of, node_of_file};
pub(crate) use nodes::{absolute_node, file_on_own_node, relative_node};
pub use nodes::{pid_of_node, pid_on_node};
pub use reader::{Feed, Item, ItemRef, Reader};
pub use scan::{content_bytes, facts, symbols};
pub use weight::Weight;
pub use writer::{DEFAULT_BACKLOG_BYTES, FileTape, WriteError, Writer};

//! The last operation into or out of a TCP stream.

use rustc_hash::FxHashMap;

use super::ids::NodeId;
use crate::job::ids::SpaceId;
use crate::job::names::Kind;

/// An operation of which more may come.
#[derive(Clone, Copy)]
pub(super) struct StreamOperation {
    pub(super) node: NodeId,
    /// Its number: the node may be another operation's by now.
    pub(super) op: u64,
    pub(super) parent: NodeId,
    pub(super) next_source: u64,
    pub(super) next_destination: u64,
}

/// By stream and direction.
pub(super) type StreamOperations = FxHashMap<(SpaceId, Kind), StreamOperation>;

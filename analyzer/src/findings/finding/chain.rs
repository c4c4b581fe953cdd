//! Chains, and ranks, that are not like the rest.

use serde::{Deserialize, Serialize};

use super::place::{Place, is_none_left_out};
use crate::job::names::Kind;
use crate::job::process::Who;

/// A chain group that is almost a frequent one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OddChain {
    /// Harmonic mean of similarity and rareness.
    pub abnormality: f64,
    /// Share of what either says that both say.
    pub similarity: f64,
    /// How much rarer the odd chain is.
    pub rareness: f64,
    /// The odd one.
    pub odd: GroupView,
    /// The frequent one.
    pub frequent: GroupView,
    /// Operations that both have: where they begin in each, and how many.
    pub common: CommonView,
    /// What was found around the instances.
    pub context: ContextView,
    /// Other frequent chains that it is almost one of: their number of chains, and how abnormal it is.
    pub others: Vec<OtherView>,
    /// Instances with addresses.
    pub examples: Vec<ExampleView>,
}

impl OddChain {
    /// Who had copied what was not read, where another process then read something else in its memory: of the examples. Nobody where one process
    /// did both.
    pub fn owners_of_unread(&self) -> Vec<Who> {
        let is_read_from_another = self.odd.ops.first().is_some_and(|op| op.kind == Kind::CrossRead);
        let lost = self.context.missing_before.as_ref().filter(|_| self.context.matched_before > 0);
        let Some(lost) = lost.filter(|_| is_read_from_another) else { return Vec::new() };
        let unread = |example: &ExampleView| {
            let is_lost = |op: &&ExampleOp| op.place.is_at(&lost.place);
            example.before.iter().find(is_lost).map(|op| op.who)
        };
        let matching = self.examples.iter().filter(|example| example.context_match);
        let mut owners: Vec<Who> = matching.filter_map(unread).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

/// A further frequent chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherView {
    /// Its operations, in short.
    pub ops: Vec<OpView>,
    /// Chains of it.
    pub chains: u64,
    /// Abnormality of the odd chain against it.
    pub abnormality: f64,
}

/// Where the common part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonView {
    /// First common operation of the odd chain, from 0.
    pub odd_from: u8,
    /// First common operation of the frequent chain, from 0.
    pub frequent_from: u8,
    /// How many operations.
    pub ops: u8,
    /// Their uniqueness.
    pub uniqueness: u32,
}

/// What was found around the instances of an odd chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextView {
    /// Instances where the missing part was found beside them.
    pub matched: u64,
    /// Of these, just before the chain.
    pub matched_before: u64,
    /// Of these, just after it.
    pub matched_after: u64,
    /// Instances whose surroundings are known.
    pub known: u64,
    /// The missing operation that would come before the odd chain.
    pub missing_before: Option<OpView>,
    /// The missing operation that would come after it.
    pub missing_after: Option<OpView>,
}

/// A chain group, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupView {
    /// The same for the same group in every run of the same binaries.
    pub id: String,
    /// Chains.
    pub chains: u64,
    /// Chains in the reference.
    pub reference_chains: u64,
    /// Sum over the operations.
    pub uniqueness: u32,
    /// Its operations, in order.
    pub ops: Vec<OpView>,
    /// Chains by where they begin: of 1,024 ranks or processes at most.
    #[serde(with = "crate::findings::runs")]
    pub by_who: Vec<WhoCount>,
    /// Others that such chains begin in.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub by_who_left_out: u64,
}

/// A count of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoCount {
    /// The rank.
    pub who: Who,
    /// The count.
    pub count: u64,
}

/// An operation, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpView {
    /// How it moves data.
    pub kind: Kind,
    /// Where in code.
    pub place: Place,
    /// From where.
    pub source: BufferView,
    /// To where.
    pub destination: BufferView,
    /// Whether the data goes from one process to another.
    pub crosses: bool,
    /// Largest number of pieces seen (counted up to the largest uniqueness of a pack).
    pub segments: u32,
    /// What it counts.
    pub uniqueness: u32,
    /// Who ran it.
    #[serde(with = "crate::findings::runs")]
    pub who: Vec<Who>,
    /// The MPI calls it ran in.
    pub calls: Vec<CallView>,
}

/// An MPI call of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallView {
    /// MPI function; empty: outside MPI, or not known.
    pub function: String,
    /// Where the program calls it.
    pub place: Place,
    /// How often.
    pub count: u64,
}

/// A buffer, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferView {
    /// What it is.
    pub what: BufferKind,
    /// Name of the segment or path of the file, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it was allocated, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Place>,
}

/// Sorts of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// A heap block with a known allocation.
    Heap,
    /// On the heap, from before the allocations were watched.
    HeapBeforeAttach,
    /// A shared segment.
    Shared,
    /// Static data.
    Static,
    /// A stack.
    Stack,
    /// An anonymous mapping.
    Anonymous,
    /// In a process that is not watched.
    NotWatched,
    /// On its way through a TCP connection.
    TcpStream,
    /// On its way between two queue pairs of RDMA.
    QueuePair,
    /// Not known.
    Unknown,
}

/// One instance of an odd chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleView {
    /// Whether the missing part was found beside it.
    pub context_match: bool,
    /// Its operations.
    pub ops: Vec<ExampleOp>,
    /// Operations of the same thread shortly before it whose data nobody read, the latest first; of one that reads the memory of another process,
    /// those of that process.
    pub before: Vec<ExampleOp>,
}

/// One operation of an [`ExampleView`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleOp {
    /// Where in code.
    pub place: Place,
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Who.
    pub who: Who,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Address in the process that holds the source.
    pub source: u64,
    /// Address in the process that holds the destination.
    pub destination: u64,
    /// What the destination is.
    pub destination_buffer: BufferView,
    /// Bytes.
    pub len_bytes: u64,
}

/// What of chains is compared between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedBy {
    /// Where they begin, and for which MPI call.
    Beginnings,
    /// All their operations and buffers.
    WholeChains,
}

/// A rank with another mix of chains than its peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OddRank {
    /// The rank.
    pub who: Who,
    /// Distance to its k-th nearest neighbour, 0 to 2.
    pub distance: f64,
    /// k.
    pub nearest: u64,
    /// Average over the ranks compared.
    pub average: f64,
    /// Over the last 1/part of the run.
    pub part: u64,
    /// That is from here …
    pub from_ns: u64,
    /// … to here, CLOCK_MONOTONIC.
    pub to_ns: u64,
    /// Chains of the rank there.
    pub chains: u64,
    /// What of the chains was compared.
    pub compared_by: ComparedBy,
    /// What it differs by most; of chains that begin alike, the most frequent one.
    pub group: GroupView,
    /// Share of such chains in the rank's chains.
    pub share: f64,
    /// Average share among the peers.
    pub peers_share: f64,
    /// Peers that have such chains at all.
    pub peers_running: u64,
    /// The peers.
    #[serde(with = "crate::findings::runs")]
    pub peers: Vec<Who>,
}

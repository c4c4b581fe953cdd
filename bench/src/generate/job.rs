//! A made-up job: what it does, on how many ranks, and what is wrong with it.

/// Process id of rank 0; the other ranks follow.
pub const FIRST_PID: u32 = 1_000;

/// How the ranks of a job talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePattern {
    /// On a torus of two dimensions every rank exchanges its edges with its four neighbours; the
    /// edges are gathered into a staging buffer first.
    Halo,
    /// Every rank sends to the next one, straight from the user's buffer.
    Ring,
}

/// What is wrong with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Nothing: its data goes where it should.
    None,
    /// This rank posts the same request again and again.
    Repeats {
        /// The one rank of all that does so.
        rank: u32,
    },
    /// One rank posts the same request again and again, and another one reads what it sends to the rank below it from a wrong
    /// place, every other time.
    Seeded {
        /// The one that repeats itself.
        repeats: u32,
        /// The one that reads from a wrong place.
        misplaced: u32,
    },
    /// What is sent is read from a wrong place.
    Broken {
        /// In one of so many messages, on average.
        one_in: u64,
    },
}

/// A job that is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedJob {
    /// Who sends to whom, and how.
    pub pattern: MessagePattern,
    /// Ranks on all nodes.
    pub ranks: u32,
    /// Nodes; every node has the same number of ranks (the last one may have fewer).
    pub nodes: u32,
    /// What is wrong with it.
    pub fault: InjectedFault,
    /// So many records of a rank come in a row before another rank's: 1 where every rank has a core.
    pub burst_records: u32,
    /// Results of calls are recorded as well, and ranks send, receive and wait with requests.
    pub results: bool,
    /// Ranks in a row of the torus; none: as many as there are rows, about.
    pub width: Option<u32>,
    /// What goes to another node goes over TCP, and is seen.
    pub streams: bool,
    /// All ranks take part in a reduction every so many steps; 0: never.
    pub steps_per_reduction: u64,
    /// A rank writes a record about so often.
    pub gap_of_a_rank_ns: u64,
    /// Records of the stream; it ends behind them.
    pub records: u64,
}

impl GeneratedJob {
    /// A healthy halo exchange on one node, a core for each rank.
    pub fn halo(ranks: u32, records: u64) -> Self {
        Self {
            pattern: MessagePattern::Halo,
            ranks,
            nodes: 1,
            fault: InjectedFault::None,
            burst_records: 1,
            results: false,
            width: None,
            streams: false,
            steps_per_reduction: 0,
            gap_of_a_rank_ns: 50_000,
            records,
        }
    }

    /// Ranks of each node but the last.
    pub fn ranks_per_node(&self) -> u32 {
        self.ranks.div_ceil(self.nodes.max(1)).max(1)
    }

    /// The node that a rank is on.
    pub(super) fn node_of(&self, rank: u32) -> u32 {
        rank / self.ranks_per_node()
    }
}

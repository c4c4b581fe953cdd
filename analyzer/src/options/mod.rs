//! Every threshold, with the published defaults where there are any.

pub mod reference;

use serde::{Deserialize, Serialize};

use reference::Reference;

/// Longest context window that can be asked for.
pub const MAX_CONTEXT_WINDOW: usize = 8;

/// Parameters of the pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Compare chains, and ranks by their chains. Not where copies of memory are not watched: then hardly a chain is whole.
    pub compares_chains: bool,
    /// Uniqueness that a frequent chain must reach. `None`: `uniqueness_usual` where groups
    /// that reach it hold at least `uniqueness_usual_share` of the chains, else `uniqueness_short`.
    pub uniqueness_threshold: Option<u32>,
    /// The published threshold.
    pub uniqueness_usual: u32,
    /// The published minimum: on one node chains are shorter than on a network.
    pub uniqueness_short: u32,
    /// See `uniqueness_threshold`.
    pub uniqueness_usual_share: f64,
    /// A frequent chain is more than this share of the chains that reach the threshold …
    pub frequent_share: f64,
    /// … and at least this many. A tenth of `warm_up_chains`, so that it says nothing new in a
    /// run of its own; it guards a `warm_up_chains` that was set to almost nothing.
    pub min_frequent: u64,
    /// Chains in groups that reach the threshold, before anything is said.
    pub warm_up_chains: u64,
    /// A violation's abnormality is above this.
    pub abnormality: f64,
    /// Uniqueness of an operation that crosses processes (M).
    pub network_uniqueness: u32,
    /// Largest uniqueness of a pack or unpack (N).
    pub pack_uniqueness_max: u32,
    /// Operations of the same thread looked at before and after a chain, at most
    /// [`MAX_CONTEXT_WINDOW`].
    pub context_window: usize,
    /// A violation is a warning when this share of its instances has a context match.
    pub context_share: f64,
    /// A written buffer is forgotten after so many further operations of the job.
    pub max_age_ops: u64,
    /// Longest chain; a longer one goes on as a new chain.
    pub max_chain_ops: u8,
    /// k = ranks / this (k-th nearest neighbour).
    pub neighbour_divisor: usize,
    /// An outlier's distance is above this many averages (K).
    pub outlier_factor: f64,
    /// … and at least this: five times nothing is nothing.
    pub outlier_floor: f64,
    /// Ranks with fewer chains in the range are not compared.
    pub min_chains_per_rank: u64,
    /// Compare these ranks alone.
    pub ranks: Option<Vec<u32>>,
    /// Take the frequent chains from runs that are known to be good.
    pub reference: Option<Reference>,
    /// With a reference: a chain is reported from so many instances on.
    pub min_reference_instances: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            compares_chains: true,
            uniqueness_threshold: None,
            uniqueness_usual: 5,
            uniqueness_short: 3,
            uniqueness_usual_share: 0.1,
            frequent_share: 0.1,
            min_frequent: 20,
            warm_up_chains: 200,
            abnormality: 0.7,
            network_uniqueness: 2,
            pack_uniqueness_max: 10,
            context_window: 4,
            context_share: 0.5,
            max_age_ops: 262_144,
            max_chain_ops: 16,
            neighbour_divisor: 4,
            outlier_factor: 5.0,
            outlier_floor: 0.2,
            min_chains_per_rank: 50,
            ranks: None,
            reference: None,
            min_reference_instances: 2,
        }
    }
}

impl Options {
    /// The context window as it is used.
    pub(crate) fn window(&self) -> usize {
        self.context_window.clamp(1, MAX_CONTEXT_WINDOW)
    }
}

//! Options that several commands have: the bus, the session, thresholds, what is printed.

use std::path::PathBuf;
use std::time::Duration;

use analyzer::options::Options;
use clap::{Args, ValueEnum};

use super::duration::parse_duration;
use super::option_values::{
    BudgetArg, parse_budget, parse_bytes, parse_patience, parse_ring_size, parse_share,
};
use super::rank_list::{RankList, parse_ranks};
use crate::plan::attach::OnlyJob;
use crate::plan::{Engine, Returns};

/// Where the bus is, and who connects.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several nodes")]
pub struct BusArgs {
    /// The bus between nodes: a NATS server (several of one cluster with commas between); with it, a job on all of its
    /// nodes is meant
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub bus: Vec<String>,
    /// A file that proves who connects: USER:PASSWORD, a token, the seed of an nkey, or a .creds file
    #[arg(long, value_name = "FILE", requires = "bus")]
    pub bus_credentials: Option<PathBuf>,
    /// The user as the bus knows you [default: the one in the credentials, else your login name]
    #[arg(long, value_name = "NAME", requires = "bus")]
    pub bus_user: Option<String>,
    /// Certificates of who signed the server's; the connection is encrypted then
    #[arg(long, value_name = "FILE", requires = "bus")]
    pub bus_ca: Option<PathBuf>,
    /// A certificate that proves who connects
    #[arg(long, value_name = "FILE", requires_all = ["bus", "bus_key"])]
    pub bus_certificate: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires_all = ["bus", "bus_certificate"])]
    pub bus_key: Option<PathBuf>,
}

/// Options of live sessions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Session")]
pub struct WatchArgs {
    /// Record a tape, for `dmscope analyze`, `report` and `calls`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// End after this time (90s, 10m, 1h)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Maximum overhead, as a share of the job's time: what costs more is sampled in bursts, and findings are marked as
    /// sampled. 1% for production; none: full coverage, whatever the overhead
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_budget, overrides_with = "budget")]
    pub budget: BudgetArg,
    /// Keep probes out of processes outside the job that run the same libraries. Without that they lose about half a
    /// microsecond at each probe they run into, which the report tells
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub only_job: OnlyJob,
    /// How long a node that is not heard of may still come back, before it is given up; the session ends after half as long
    /// again if there is no other. With more than usual, nodes that are slow are waited for longer too
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30s",
        value_parser = parse_patience,
        requires = "bus",
        help_heading = "Several nodes"
    )]
    pub bus_patience: Duration,
    /// Also watch copies inside libraries whose file name matches (may be repeated)
    #[arg(long, value_name = "GLOB")]
    pub library: Vec<String>,
    /// What is recorded of MPI calls when they return; `all` roughly doubles the overhead of MPI calls, and is what
    /// `dmscope calls` needs to match receives with sends. With it mismatched datatypes, buffers that are used before their
    /// requests are complete, and leaks are told
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub returns: Returns,
    /// Watch MPI calls only, not copies of memory and heap blocks: costs less, and finds hangs, mismatches and failed calls, but nothing
    /// about data
    #[arg(long)]
    pub calls_only: bool,
    /// Who records copies, MPI calls and heap blocks: traps of the kernel, or code that is put into the job's processes, which costs it some 20 ns
    /// in place of 0.6 µs
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub probes: Engine,
    /// Ring buffer size per process; larger ring buffers lose fewer records when the job is bursty
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = parse_ring_size)]
    pub ring_size: u32,
    /// Minimum size of heap blocks that are tracked, whoever allocates them
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = parse_bytes)]
    pub alloc_size: u64,
    /// Disable a kernel feature, to compare
    #[arg(long, value_name = "FEATURE", hide = true)]
    pub without: Vec<Feature>,
}

/// Kernel features that can be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Feature {
    /// Session probes.
    Sessions,
    /// Probes for one process that see all of its threads.
    ProcessFilter,
}

/// What is printed, and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// Print only findings and the report
    #[arg(long, short)]
    pub quiet: bool,
    /// Print statistics as well: per rank, per probe, per MPI call, the most frequent chains
    #[arg(long)]
    pub statistics: bool,
    /// Show rare paths in full that look odd by their score alone (otherwise one line counts them)
    #[arg(long)]
    pub all: bool,
    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Thresholds; the defaults are the published ones.
#[derive(Debug, Args)]
#[command(next_help_heading = "Thresholds")]
pub struct AnalysisArgs {
    /// Compare only these ranks with each other (1-7 leaves out the master of a master/worker program)
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    pub ranks: Option<RankList>,
    /// Tape of a good run that others are compared with (may be repeated)
    #[arg(long, value_name = "TAPE")]
    pub reference: Vec<PathBuf>,
    /// Minimum uniqueness of a frequent chain [default: 5, or 3 where chains are short]
    #[arg(long, value_name = "N")]
    pub uniqueness: Option<u32>,
    /// Minimum share of comparable chains for a chain to be frequent
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share)]
    pub frequency: f64,
    /// Minimum abnormality of a chain to be reported, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.7", value_parser = parse_share)]
    pub abnormality: f64,
    /// Minimum chains before anything is reported
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub warm_up: u64,
    /// Operations of the same thread compared on each side of an abnormal chain, 1 to 8
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub context_window: u8,
    /// Minimum distance of a rank to be reported, as a multiple of the average (K)
    #[arg(long, value_name = "K", default_value_t = 5.0)]
    pub outlier: f64,
    /// Minimum chains before a rank is compared
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub min_chains: u64,
    /// Operations of the job after which a written buffer is forgotten
    #[arg(long, value_name = "N", default_value_t = 262_144)]
    pub max_age: u64,
    /// Uniqueness weight of an operation that crosses processes (M)
    #[arg(long, value_name = "M", default_value_t = 2)]
    pub network_uniqueness: u32,
    /// Maximum uniqueness weight of a pack or unpack (N)
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pack_uniqueness: u32,
}

impl AnalysisArgs {
    /// The pipeline's options, without the reference (its tapes must be read first).
    pub fn options(&self) -> Options {
        Options {
            uniqueness_threshold: self.uniqueness,
            frequent_share: self.frequency,
            abnormality: self.abnormality,
            warm_up_chains: self.warm_up,
            context_window: self.context_window.into(),
            outlier_factor: self.outlier,
            min_chains_per_rank: self.min_chains,
            max_age_ops: self.max_age,
            network_uniqueness: self.network_uniqueness,
            pack_uniqueness_max: self.pack_uniqueness,
            ranks: self.ranks.as_ref().map(|list| list.0.clone()),
            ..Options::default()
        }
    }
}

//! Arguments of the commands that run jobs with the wrapper, and of those that read their tapes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration::parse_duration;
use super::rank_list::{RankList, parse_ranks};
use crate::session::wrapped::Swap;

/// The family of MPI libraries that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MpiFamily {
    /// Open MPI
    Openmpi,
    /// MPICH, and libraries that have its binary interface
    Mpich,
}

/// `dmscope record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The tape to write
    #[arg(value_name = "TAPE", required = true)]
    pub tape: PathBuf,
    /// Record the envelopes of all messages too, for `dmscope races`
    #[arg(long)]
    pub messages: bool,
    /// Record the order in which the calls of all ranks end too, for `dmscope replay --identical`
    #[arg(long)]
    pub order: bool,
    /// Record what messages contain too, so that one rank can run alone (dmscope replay --rank)
    #[arg(long)]
    pub payloads: bool,
    /// Record ranks on other nodes too: they connect to this process over TCP
    #[arg(long, conflicts_with = "order")]
    pub nodes: bool,
    /// With --payloads: only of these ranks (0,4-7) [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_ranks, requires = "payloads")]
    pub rank: Option<RankList>,
    /// The MPI library of the job [default: the one that its program names]
    #[arg(long, value_name = "LIBRARY")]
    pub mpi: Option<MpiFamily>,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// Say nothing if all went well
    #[arg(long, short)]
    pub quiet: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

/// `dmscope replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A tape, as written by `dmscope record`
    #[arg(value_name = "TAPE", required = true)]
    pub tape: PathBuf,
    /// The MPI library of the job [default: the one that its program names]
    #[arg(long, value_name = "LIBRARY")]
    pub mpi: Option<MpiFamily>,
    /// Run these ranks (11 or 0,4-7) alone, without the job around them: what each gets comes from the tape
    /// (dmscope record --payloads)
    #[arg(long, value_name = "LIST", value_parser = parse_ranks, conflicts_with_all = ["swap", "record", "messages", "order"])]
    pub rank: Option<RankList>,
    /// With --rank: go on where one sends other data than it did, and say how often: some programs send what they never wrote
    #[arg(long, requires = "rank")]
    pub ignore_data: bool,
    /// Keep a job that hangs or diverges, to look at it with a debugger
    #[arg(long)]
    pub hold: bool,
    /// How long all ranks wait before it is said that they cannot go on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub patience: Duration,
    /// Go another way at one race, named as `dmscope races` does; the tape needs messages
    #[arg(long, value_name = "RANK:CALL=OTHER")]
    pub swap: Option<Swap>,
    /// Record the replay on another tape, what comes behind the end of the record as well
    #[arg(long, value_name = "TAPE")]
    pub record: Option<PathBuf>,
    /// With --record, record the envelopes of all messages too
    #[arg(long, requires = "record")]
    pub messages: bool,
    /// With --record, record the order in which the calls of all ranks end too
    #[arg(long, requires = "record")]
    pub order: bool,
    /// End calls in the recorded order of all ranks' calls, not of each rank's alone (dmscope record --order, run --replayable)
    #[arg(long, conflicts_with_all = ["swap", "rank"])]
    pub identical: bool,
    /// Replay ranks on other nodes too: they connect to this process over TCP
    #[arg(long, conflicts_with_all = ["order", "identical", "rank"])]
    pub nodes: bool,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// Say nothing if all went well
    #[arg(long, short)]
    pub quiet: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

/// `dmscope races`
#[derive(Debug, Args)]
pub struct RacesArgs {
    /// A tape, as written by `dmscope record --messages` or `dmscope run --replayable`
    #[arg(value_name = "TAPE", required = true)]
    pub tape: PathBuf,
    /// JSON, a line for each race
    #[arg(long)]
    pub json: bool,
    /// Write a page that draws them, one HTML file, instead of listing them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub page: Option<PathBuf>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub most: usize,
}

/// `dmscope explore`
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// A tape, as written by `dmscope record`
    #[arg(value_name = "TAPE", required = true)]
    pub tape: PathBuf,
    /// At most so many replays
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub most: usize,
    /// Where runs are kept [default: TAPE.explore]
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
    /// How long all ranks wait before a replay counts as one that hangs
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5s")]
    pub patience: Duration,
    /// How long a replay may take
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5m")]
    pub limit: Duration,
    /// Replay ranks on other nodes too: they connect to this process over TCP
    #[arg(long)]
    pub nodes: bool,
    /// Other output is no failure; else lines are compared, in any order
    #[arg(long)]
    pub ignore_output: bool,
    /// The MPI library of the job [default: the one that its program names]
    #[arg(long, value_name = "LIBRARY")]
    pub mpi: Option<MpiFamily>,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// Say only what fails
    #[arg(long, short)]
    pub quiet: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

/// Who decides the order in which values of several ranks are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reductions {
    /// The MPI library, by its algorithm and the number of ranks
    Library,
    /// From rank 0 on, one after the other, in one rank: the same sum with each library, and slower
    Ranks,
}

/// `dmscope deterministic`
#[derive(Debug, Args)]
pub struct DeterministicArgs {
    /// The order of reductions (MPI_Reduce, Allreduce, Reduce_scatter, Scan, Exscan)
    #[arg(long, value_name = "ORDER", default_value = "library")]
    pub reductions: Reductions,
    /// The MPI library of the job [default: the one that its program names]
    #[arg(long, value_name = "LIBRARY")]
    pub mpi: Option<MpiFamily>,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// Say nothing if all went well
    #[arg(long, short)]
    pub quiet: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

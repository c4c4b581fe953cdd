//! Options of the commands that read tapes.

use std::path::PathBuf;

use analyzer::timeline::correction::phases::PhaseMark;
use clap::{Args, ValueEnum};

use super::option_values::parse_ratio;
use super::phases::parse_phase_mark;
use super::rank_list::{RankList, parse_ranks};
use super::session_args::{AnalysisArgs, BusArgs, OutputArgs, WatchArgs};

/// `dmscope analyze`
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Tapes, as written with --record
    #[arg(value_name = "TAPE", required = true)]
    pub tapes: Vec<PathBuf>,
    /// Thresholds
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// What is printed
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `dmscope calls`
#[derive(Debug, Args)]
pub struct CallsArgs {
    /// The tape, as written with --record
    #[arg(value_name = "TAPE", required = true)]
    pub tape: PathBuf,
    /// Only calls and messages of these ranks (0,4-7)
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    pub ranks: Option<RankList>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `dmscope times`
#[derive(Debug, Args)]
pub struct TimesArgs {
    /// The tape, as written with --record, or one of each node of a job
    #[arg(value_name = "TAPE", required = true)]
    pub tapes: Vec<PathBuf>,
    /// Gives no times where watching cost a rank more than this part of its own time
    #[arg(long, value_name = "RATIO", default_value = "100%", value_parser = parse_ratio)]
    pub most_cost: f64,
    /// Print each call with its corrected times, as JSON, one object a line
    #[arg(long, conflicts_with = "races")]
    pub calls: bool,
    /// Add times by phase: a phase begins with each collective call of all ranks, or with each call of FUNCTION (as in
    /// --phases=MPI_Barrier), and those that begin at the same line are one
    #[arg(
        long,
        value_name = "FUNCTION",
        num_args = 0..=1,
        require_equals = true,
        value_parser = parse_phase_mark,
        conflicts_with_all = ["races", "calls"]
    )]
    pub phases: Option<Option<PhaseMark>>,
    /// Instead of times, list receives from whoever comes first that would have got another message, or may have
    #[arg(long)]
    pub races: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What a tape is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Perfetto, a viewer of timelines: one file
    Perfetto,
    /// DuckDB, pandas and others: a folder with a table each of calls, messages, movements, findings and gaps
    Parquet,
    /// Vampir, Scalasca, Cube and others: an archive of OTF2, by its own library
    Otf2,
}

/// `dmscope export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The tape, as written with --record; or one of each node of a job
    #[arg(value_name = "TAPE", required = true)]
    pub tapes: Vec<PathBuf>,
    /// The tool that it is for
    #[arg(long, value_name = "TOOL", required = true)]
    pub to: ExportFormat,
    /// Where it goes: a file, of tables and archives a new folder [default: TAPE.pftrace, TAPE.parquet, TAPE.otf2]
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Only calls and movements of these ranks, and messages between them (0,4-7)
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    pub ranks: Option<RankList>,
    /// Leave out movements of data, which are most of a tape
    #[arg(long)]
    pub no_movements: bool,
    /// Give times as they would have been without watching, each with how far it may be off, and no movements of data; needs
    /// --returns all when the tape is recorded
    #[arg(long)]
    pub corrected: bool,
    /// Gives no corrected times where watching cost a rank more than this part of its own time
    #[arg(long, value_name = "RATIO", default_value = "100%", value_parser = parse_ratio, requires = "corrected")]
    pub most_cost: f64,
}

impl ExportArgs {
    /// Whether movements of data are written; archives of OTF2 have no place for them.
    pub fn wants_movements(&self) -> bool {
        !self.no_movements && !self.corrected && self.to != ExportFormat::Otf2
    }
}

/// `dmscope report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A tape, as written with --record, or one of each node of a job; or a job: the process id of its launcher or of any of
    /// its ranks, with --bus its name as `dmscope ps --bus` shows it
    #[arg(value_name = "TAPE|JOB", required = true)]
    pub subjects: Vec<String>,
    /// Where the bus is
    #[command(flatten)]
    pub bus: BusArgs,
    /// Where the page goes
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Write the data of the page to a file as well, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// MPI calls on the page's timeline: the last ones, as many of each thread
    #[arg(long, value_name = "N", default_value_t = analyzer::timeline::DEFAULT_CALLS)]
    pub calls: usize,
    /// Of a tape: show the timeline without what watching took, within bounds, and receives that would have got another
    /// message; needs --returns all when it is recorded
    #[arg(long)]
    pub corrected: bool,
    /// Print only where the page is
    #[arg(long, short)]
    pub quiet: bool,
    /// Print rare paths in full that look odd by their score alone
    #[arg(long)]
    pub all: bool,
    /// How a job is watched
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Thresholds
    #[command(flatten)]
    pub analysis: AnalysisArgs,
}

/// What a page is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A running job, by a process of it.
    Job(u32),
    /// A running job on several nodes, by its name.
    JobOnNodes(String),
    /// Tapes of one job.
    Tapes(Vec<PathBuf>),
}

impl ReportArgs {
    /// A number is a process; a tape with such a name is `./4711`. With a bus it is a job in any case.
    ///
    /// # Errors
    /// That is no process, or several jobs.
    pub fn subject(&self) -> Result<Subject, String> {
        match self.subjects.as_slice() {
            [name] if !self.bus.bus.is_empty() => Ok(Subject::JobOnNodes(name.clone())),
            [text] if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Subject::Job).map_err(|_| format!("{text} is no process id"))
            }
            _ if !self.bus.bus.is_empty() => Err("a page is about one job".into()),
            tapes => Ok(Subject::Tapes(tapes.iter().map(PathBuf::from).collect())),
        }
    }
}

//! The command line: one definition for parsing, help, man page and completions.

use std::path::PathBuf;
use std::time::Duration;

use analyzer::options::Options;
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::duration::parse_duration;
use super::rank_list::{RankList, parse_ranks};
use super::replay_args::{DeterministicArgs, ExploreArgs, RacesArgs, RecordArgs, ReplayArgs};
use crate::budget::Budget;
use crate::plan::attach::OnlyJob;
use crate::plan::{Engine, Returns};

/// Follows the data that moves through a running MPI job, and says which process and which line
/// of code is not like the others.
#[derive(Debug, Parser)]
#[command(
    name = "dmscope",
    version,
    after_help = "Start here:\n  dmscope doctor            does this machine allow it?\n  dmscope ps                \
                  which MPI jobs run here?\n  dmscope attach PID        watch one of them\n\n\
                  Exit status: 0 nothing found, 1 findings, 2 usage or environment, 3 inconclusive (records were lost) or sampled."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this machine allows, what is missing, and how to get it
    Doctor(Plain),
    /// List the MPI jobs on this machine: job, user, library, ranks, since when
    #[command(
        after_help = "Examples:\n  dmscope ps                               the jobs of this machine\n  \
        dmscope ps --bus nats://service:4222     those of all nodes that have an agent"
    )]
    Ps(PsArgs),
    /// Watch a running job, without restarting or changing it
    #[command(
        after_help = "Examples:\n  dmscope attach 4711                      the job that process 4711 belongs to\n  \
        dmscope attach 4711 --record bad.dmt     and keep a tape for later\n  \
        dmscope attach 4711 --library 'libfoo*'  watch the copies in libfoo as well\n  \
        dmscope attach 4711 --budget 1%          at most 1% of the job's time, for production\n  \
        dmscope attach 4711 --json | jq .        for programs\n  \
        dmscope attach 1234.0 --bus nats://service:4222   a job on several nodes, as `dmscope ps --bus` calls it\n\n\
        Ctrl-c detaches and reports; the job goes on. Ctrl-c again, a second later or\n\
        more, ends dmscope at once, without a report."
    )]
    Attach(AttachArgs),
    /// Start a job and watch it from its first instruction
    #[command(after_help = "Examples:\n  dmscope run -- mpirun -n 4 ./app input.txt\n  \
        dmscope run --record app.dmt -- mpirun -n 4 ./app\n  \
        dmscope run --bus nats://service:4222 -- mpirun --hostfile nodes ./app\n\n\
        The job's output stays on standard output; dmscope writes to standard error, or to --output.\n\
        Under sudo the job is started as the user who called sudo; --as-root starts it as root.")]
    Run(RunArgs),
    /// Start a job and record what is needed to replay it: whose message each receive got, how each test went
    #[command(after_help = "Examples:\n  dmscope record app.dmt -- mpirun -n 4 ./app input.txt\n  \
        dmscope replay app.dmt -- mpirun -n 4 ./app input.txt\n  \
        dmscope record --payloads app.dmt -- mpirun -n 4 ./app   and what messages contain: a rank can run alone\n\n\
        Needs no root: a wrapper around the MPI library is preloaded into the ranks. If the job crashes, hangs or is killed, all up to \
        there is on the tape. --messages records the envelopes of all messages as well, for `dmscope races` and `dmscope explore`.\n\
        Exit status: that of the job; 2 also if it cannot be recorded.")]
    Record(RecordArgs),
    /// Run a recorded job again: the same messages to the same receives, the same answers to the same tests
    #[command(after_help = "Examples:\n  dmscope replay app.dmt -- mpirun -n 4 ./app input.txt\n  \
        dmscope replay app.dmt -- mpirun -n 4 xterm -e gdb ./app\n  \
        dmscope replay --hold app.dmt -- mpirun -n 4 ./app   keeps a job that hangs, for gdb -p\n  \
        dmscope replay --messages --record full.dmt app.dmt -- mpirun -n 4 ./app   adds messages, for `dmscope races`\n  \
        dmscope replay --swap 0:17=2 full.dmt -- mpirun -n 4 ./app   at call 17 of rank 0 the message of rank 2 comes first\n  \
        dmscope replay --identical app.dmt -- mpirun -n 4 ./app  calls of all ranks end in the recorded order (record --order)\n  \
        dmscope replay --rank 3 app.dmt -- ./app input.txt       rank 3 alone, fed from the tape (record --payloads)\n  \
        dmscope replay --rank 3 app.dmt -- gdb --args ./app input.txt\n\n\
        With --swap the record is played as far as nothing depends on that message; from there on all ranks run free.\n\
        Ctrl-c ends the job.\nExit status: 0 replayed to the end of the record, 1 the job does something else than it did, 2 usage or \
        environment.")]
    Replay(ReplayArgs),
    /// Say where a recorded job could have gone another way: which receive could have got which other message
    #[command(after_help = "Examples:\n  dmscope record --messages app.dmt -- mpirun -n 4 ./app\n  \
        dmscope races app.dmt\n  \
        dmscope races --page races.html app.dmt                     draws them\n  \
        dmscope replay --swap 0:17=2 app.dmt -- mpirun -n 4 ./app   goes the other way at one of them\n\n\
        A race is named RANK:CALL=OTHER, with the number of the rank's MPI call; OTHER is the rank whose message could have come, or \
        #INDEX, the request that could have been taken.\nExit status: 0, also if there are races; 2 usage or environment.")]
    Races(RacesArgs),
    /// Replay a recorded job with one race after another turned round, and keep the runs that crash, hang or print something else
    #[command(after_help = "Examples:\n  dmscope record --messages app.dmt -- mpirun -n 4 ./app\n  \
        dmscope explore app.dmt -- mpirun -n 4 ./app\n  \
        dmscope explore --most 1000 --limit 30s app.dmt -- mpirun -n 4 ./app   goes on where it was\n\n\
        Each run is recorded, and its own races are turned round in turn: rare places of the program first. What fails is kept in \
        TAPE.explore/ with the command that replays it. Ctrl-c stops; the same command goes on.\n\
        Exit status: 0 nothing fails, 1 something does, 2 usage or environment.")]
    Explore(ExploreArgs),
    /// Run a job in which every run receives the same messages in the same order, without a record
    #[command(after_help = "Examples:\n  dmscope deterministic -- mpirun -n 8 ./app input.txt\n  \
        dmscope deterministic --reductions ranks -- mpirun -n 8 ./app   sums in the order of ranks, with each library the same\n  \
        dmscope deterministic -- mpirun -n 4 xterm -e gdb ./app\n\n\
        Each rank has a logical clock: one more at each MPI call, and later than each message that it has received. A receive from \
        anybody takes the message that was sent first by these clocks; tests and probes answer by them. So two runs of the same \
        program with the same input take the same way. It costs waiting: a receive from anybody waits until nobody can send an \
        earlier message, also for a rank that computes for long.\n\
        Clocks, random numbers and files are the program's own, and are not the same in each run.\n\
        Needs no root: a wrapper around the MPI library is preloaded into the ranks. All ranks must be on this machine, 128 at most.\n\
        Exit status: that of the job; 1 if it is deadlocked (where each rank waits is said, and the job is ended); 2 usage or \
        environment.")]
    Deterministic(DeterministicArgs),
    /// Look at recorded tapes again: the same analysis, any thresholds
    #[command(
        after_help = "Examples:\n  dmscope analyze bad.dmt\n  dmscope analyze bad.dmt --reference good.dmt\n  \
        dmscope analyze bad.dmt --uniqueness 3 --frequency 5% --abnormality 0.5"
    )]
    Analyze(AnalyzeArgs),
    /// List the MPI calls of a tape, with the send that each receive matched
    #[command(
        after_help = "Examples:\n  dmscope run --budget none --returns all --record app.dmt -- mpirun -n 4 ./app\n  \
        dmscope calls app.dmt\n  dmscope calls app.dmt --ranks 0,3 | less\n  dmscope calls app.dmt --json | jq .\n\n\
        Messages are matched for ranks that were watched from MPI_Init on, without a gap, and with --returns all."
    )]
    Calls(CallsArgs),
    /// Say when everything would have been without watching: corrected times beside measured ones, and what watching cost
    #[command(
        after_help = "Examples:\n  dmscope run --budget none --returns all --record app.dmt -- mpirun -n 4 ./app\n  \
        dmscope times app.dmt\n  dmscope times app.dmt --json | jq .times.ranks\n  \
        dmscope times app.dmt --races            what would have been received in another order\n\n\
        Every time has bounds: what is between FROM and TO. What hits of probes cost is measured when a tape is recorded, before the job \
        and after it.\n\
        Exit status: 0; 2 usage or environment; 3 no times can be given, and why."
    )]
    Times(TimesArgs),
    /// Write what is on tapes for another tool: a timeline, tables, or a trace archive
    #[command(
        after_help = "Examples:\n  dmscope export app.dmt --to perfetto            app.dmt.pftrace: open it at https://ui.perfetto.dev\n  \
        dmscope export app.dmt --to perfetto --ranks 0-7 --no-movements -o few.pftrace\n  \
        dmscope export app.dmt --to parquet             app.dmt.parquet/calls.parquet and others, for DuckDB and pandas\n  \
        dmscope export app.dmt --to otf2                app.dmt.otf2/traces.otf2, for Vampir; needs OTF2's library (otf2-tools)\n  \
        dmscope export node1.dmt node2.dmt --to perfetto   the tapes of the nodes of a job\n\n\
        Perfetto: each thread of each rank is a track, each call a slice with its arguments and its place in the program, each message an \
        arrow from the send to the call that completed the receive, each movement of data a mark, each step of a chain an arrow. The page \
        at ui.perfetto.dev reads the file in the browser and sends it nowhere. Ends of calls and messages are on tapes that were recorded \
        with --returns all; other calls are marks without a duration. docs/export.md has the tables' columns and queries to begin with."
    )]
    Export(ExportArgs),
    /// Write a page about a job: the verdict, who waits for whom, and the last events of each rank
    #[command(
        after_help = "Examples:\n  dmscope report bad.dmt                   from a tape: report.html\n  \
        dmscope report 4711 -o hang.html         from a running job, as soon as it hangs or crashes\n  \
        dmscope report 4711 --duration 1m        or after a minute at the latest\n  \
        dmscope report node1.dmt node2.dmt       from the tapes of the nodes of a job\n  \
        dmscope report 1234.0 --bus nats://service:4222   from a job on several nodes\n  \
        dmscope report bad.dmt --json bad.json   the same for programs\n\n\
        The page is one file that needs no network and no other file: mail it, keep it with the tape, open it in any browser.\n\
        A job is watched until ranks are found that do not go on, or that died; until it ends; or until ctrl-c. It goes on after \
        that.\n\nExit status: that of `analyze` and `attach`."
    )]
    Report(ReportArgs),
    /// Take care of this node for sessions over several nodes: answer `ps` and `attach` that come over the bus
    #[command(
        after_help = "Examples:\n  dmscope agent --bus nats://service:4222 --bus-credentials /etc/dmscope/agent.creds\n  \
        srun --overlap -N 4 --ntasks-per-node 1 dmscope agent --bus nats://service:4222 …\n\n\
        It watches nothing until a user asks for it. Users see their own jobs; root and --operator see all. The bus must ask \
        users who they are: docs/nodes.md has a set-up. Ctrl-c ends it and its sessions; jobs go on."
    )]
    Agent(AgentArgs),
    /// Show the probe plan of a job: each probe, where, why there, and what was left out
    Probes(ProbesArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (read it with: dmscope man | man -l -)
    Man,
    /// Read files for a session, without rights
    #[command(hide = true)]
    ParseFiles,
    /// Read stacks for a session, without rights
    #[command(hide = true)]
    ReadStacks,
    /// Read memory for this program, which can be left waiting
    #[command(hide = true)]
    ReadMemory,
    /// Hold the probes of a session
    #[command(hide = true)]
    HoldLinks,
    /// Hold the fast probes of a session
    #[command(hide = true)]
    HoldSlots,
    /// Open RDMA devices for a session
    #[command(hide = true)]
    OpenDevices,
    /// Share a folder with ranks that are recorded or replayed from another node
    #[command(hide = true)]
    ShareRanks {
        /// The folder
        folder: std::path::PathBuf,
    },
    /// Be an agent's session
    #[command(hide = true)]
    NodeSession,
}

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

/// `dmscope ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the bus is
    #[command(flatten)]
    pub bus: BusArgs,
}

/// `dmscope agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Where the bus is
    #[command(flatten)]
    pub bus: BusArgs,
    /// A user of the bus who may watch everybody's jobs (may be repeated); root always may
    #[arg(long, value_name = "USER")]
    pub operator: Vec<String>,
    /// Largest budget that a session may ask for; whoever asks for more, or for none, is refused
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub most_budget: Option<f64>,
    /// Answer also on a bus that does not ask users who they are: whoever reaches it may watch everybody's jobs
    #[arg(long)]
    pub trust_everybody: bool,
}

/// Options of commands that only list.
#[derive(Debug, Args)]
pub struct Plain {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `dmscope attach`
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The job: the process id of its launcher (as `dmscope ps` shows it) or of any of its ranks; with --bus, its name as
    /// `dmscope ps --bus` shows it, or NODE:PID
    #[arg(value_name = "JOB|PID", required = true)]
    pub job: String,
    /// Where the bus is
    #[command(flatten)]
    pub bus: BusArgs,
    /// How the session goes
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Thresholds
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// What is printed
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `dmscope run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Where the bus is
    #[command(flatten)]
    pub bus: BusArgs,
    /// How the session goes
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Thresholds
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// What is printed
    #[command(flatten)]
    pub output: OutputArgs,
    /// Record all that `dmscope replay` needs to run the job again with the same messages: as `--returns all --budget none`. Nothing
    /// is loaded into the job
    #[arg(long, requires = "record", conflicts_with_all = ["budget", "returns", "bus"])]
    pub replayable: bool,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

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
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = parse_share)]
    pub most_cost: f64,
    /// Print each call with its corrected times, as JSON, one object a line
    #[arg(long, conflicts_with = "races")]
    pub calls: bool,
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
}

impl ExportArgs {
    /// Whether movements of data are written; archives of OTF2 have no place for them.
    pub fn wants_movements(&self) -> bool {
        !self.no_movements && self.to != ExportFormat::Otf2
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

/// `dmscope probes`
#[derive(Debug, Args)]
pub struct ProbesArgs {
    /// The job: the process id of its launcher or of any of its ranks
    #[arg(value_name = "JOB|PID")]
    pub pid: u32,
    /// Watch the job for this long first, to count the hits of each probe (10s, 500ms)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub hits: Option<Duration>,
    /// Say who would record which copy if they were recorded so
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t)]
    pub probes: Engine,
    /// List every place that is not probed, not only a summary
    #[arg(long)]
    pub all: bool,
    /// Also watch copies inside libraries whose file name matches (may be repeated)
    #[arg(long, value_name = "GLOB")]
    pub library: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Nodes that were not heard of for less than this may only be slow.
const LEAST_PATIENCE: Duration = Duration::from_secs(6);

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
    /// again if there is no other
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
    /// `dmscope calls` needs to match receives with sends
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub returns: Returns,
    /// Watch MPI calls only, not copies of memory and heap blocks: costs less, and finds hangs, mismatches and failed calls, but nothing
    /// about data
    #[arg(long, conflicts_with = "bus")]
    pub calls_only: bool,
    /// Who records copies: traps of the kernel, or code that is put into the job's processes, which costs it a hundredth
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t, conflicts_with = "bus")]
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

/// What watching may cost; `None`: whatever it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetArg(pub Option<Budget>);

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

/// `10%` or `0.1`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if (0.0..=unit).contains(&value) => Ok(value / unit),
        _ => Err("write a share as 10% or 0.1".into()),
    }
}

fn parse_budget(text: &str) -> Result<BudgetArg, String> {
    if text == "none" {
        return Ok(BudgetArg(None));
    }
    match parse_share(text) {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(BudgetArg(Some(Budget { share }))),
        _ => Err("write a part of the job's time as 1% or 0.01, or none".to_owned()),
    }
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    let patience = parse_duration(text)?;
    let is_long_enough = patience >= LEAST_PATIENCE;
    let too_short =
        || format!("nodes say something every second; give them {} s at least", LEAST_PATIENCE.as_secs());
    is_long_enough.then_some(patience).ok_or_else(too_short)
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a size as 65536, 64K or 4M".to_owned();
    let text = text.trim();
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

/// Rings are a power of two of pages; other sizes are rounded up.
fn parse_ring_size(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?.max(4096).next_power_of_two();
    u32::try_from(bytes).ok().filter(|b| *b <= 1 << 30).ok_or_else(|| "a ring has at most 1G".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_pipeline() {
        let cli = Cli::parse_from(["dmscope", "analyze", "x.dmt"]);
        let Command::Analyze(args) = cli.command else { panic!("analyze was asked for") };
        assert_eq!(args.analysis.options(), Options::default());
    }

    #[test]
    fn a_number_is_a_job_and_anything_else_a_tape() {
        let subject = |words: &[&str]| {
            let cli = Cli::parse_from(["dmscope", "report"].iter().chain(words));
            let Command::Report(args) = cli.command else { panic!("a report was asked for") };
            args.subject()
        };
        let tapes = |names: &[&str]| Ok(Subject::Tapes(names.iter().map(PathBuf::from).collect()));
        assert_eq!(subject(&["4711"]), Ok(Subject::Job(4711)));
        assert_eq!(subject(&["./4711"]), tapes(&["./4711"]));
        assert_eq!(subject(&["a.dmt", "b.dmt"]), tapes(&["a.dmt", "b.dmt"]));
        assert!(subject(&["99999999999"]).is_err());
        let bus = ["--bus", "nats://service:4222"];
        assert_eq!(subject(&["4711.0", bus[0], bus[1]]), Ok(Subject::JobOnNodes("4711.0".into())));
        assert!(subject(&["1", "2", bus[0], bus[1]]).is_err());
    }

    #[test]
    fn sizes_and_shares_have_units() {
        assert_eq!(parse_bytes("4K"), Ok(4096));
        assert_eq!(parse_ring_size("5000"), Ok(8192));
        assert!(parse_ring_size("64G").is_err());
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert!(parse_share("1.5").is_err());
        assert_eq!(parse_patience("6s"), Ok(LEAST_PATIENCE));
        assert!(parse_patience("5s").is_err_and(|why| why.contains("6 s at least")));
    }
}

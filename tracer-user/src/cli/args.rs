//! The command line: one definition for parsing, help, man page and completions.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::duration::parse_duration;
use super::option_values::{parse_pid, parse_share};
use super::replay_args::{DeterministicArgs, ExploreArgs, RacesArgs, RecordArgs, ReplayArgs};
use super::session_args::{AnalysisArgs, BusArgs, OutputArgs, WatchArgs};
use super::tape_args::{AnalyzeArgs, CallsArgs, ExportArgs, ReportArgs, TimesArgs};
use crate::plan::Engine;

/// Of commands that analyse.
const EXIT_STATUS: &str = "Exit status: 0 nothing found, or notices only; 1 at least one warning; 2 usage or environment; \
                           3 warnings that are inconclusive or sampled only, lost records that may hide one, a hang of unknown cause, \
                           or no rank seen.";

/// Follows the data that moves through a running MPI job, and says which process and which line
/// of code is not like the others.
#[derive(Debug, Parser)]
#[command(
    name = "dmscope",
    version,
    after_help = format!(
        "Start here:\n  dmscope doctor            does this machine allow it?\n  dmscope ps                \
                  which MPI jobs run here?\n  dmscope attach PID        watch one of them\n\n\
                  {EXIT_STATUS}"
    )
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
        after_help = format!("Examples:\n  dmscope attach 4711                      the job that process 4711 belongs to\n  \
        dmscope attach 4711 --record bad.dmt     and keep a tape for later\n  \
        dmscope attach 4711 --library 'libfoo*'  watch the copies in libfoo as well\n  \
        dmscope attach 4711 --budget 1%          at most 1% of the job's time, for production\n  \
        dmscope attach 4711 --json | jq .        for programs\n  \
        dmscope attach 1234.0 --bus nats://service:4222   a job on several nodes, as `dmscope ps --bus` calls it\n\n\
        Ctrl-c detaches and reports; the job goes on. Ctrl-c again, a second later or\n\
        more, ends dmscope at once, without a report.\n{EXIT_STATUS}")
    )]
    Attach(AttachArgs),
    /// Start a job and watch it from its first instruction
    #[command(after_help = format!("Examples:\n  dmscope run -- mpirun -n 4 ./app input.txt\n  \
        dmscope run --record app.dmt -- mpirun -n 4 ./app\n  \
        dmscope run --bus nats://service:4222 -- mpirun --hostfile nodes ./app\n\n\
        The job's output stays on standard output; dmscope writes to standard error, or to --output.\n\
        Under sudo the job is started as the user who called sudo; --as-root starts it as root.\n{EXIT_STATUS} The job's own is \
        not passed on."))]
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
        dmscope replay --identical app.dmt -- mpirun -n 4 ./app  calls of all ranks end in the recorded order\n  \
        dmscope replay --rank 3 app.dmt -- ./app input.txt       rank 3 alone, fed from the tape (record --payloads)\n  \
        dmscope replay --rank 3 app.dmt -- gdb --args ./app input.txt\n\n\
        With --swap the record is played as far as nothing depends on that message; from there on all ranks run free.\n\
        Ctrl-c ends the job.\nExit status: 0 replayed to the end of the record, 1 the job does something else than it did, 2 usage or \
        environment.")]
    Replay(ReplayArgs),
    /// Say where a recorded job could have gone another way: which receive could have got which other message
    #[command(
        after_help = "Examples:\n  dmscope record --messages app.dmt -- mpirun -n 4 ./app     or dmscope run --replayable --record app.dmt\n  \
        dmscope races app.dmt\n  \
        dmscope races --page races.html app.dmt                     draws them\n  \
        dmscope replay --swap 0:17=2 app.dmt -- mpirun -n 4 ./app   goes the other way at one of them\n\n\
        A race is named RANK:CALL=OTHER, with the number of the rank's MPI call; OTHER is the rank whose message could have come, or \
        #INDEX, the request that could have been taken.\nExit status: 0, also if there are races; 2 usage or environment."
    )]
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
        after_help = format!("Examples:\n  dmscope analyze bad.dmt\n  dmscope analyze bad.dmt --reference good.dmt\n  \
        dmscope analyze bad.dmt --uniqueness 3 --frequency 5% --abnormality 0.5\n\n\
        {EXIT_STATUS} Of several tapes: what needs attention most.")
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
        with --returns all; other calls are marks without a duration. docs/export.md has the tables' columns and queries to begin with.\n\n\
        Exit status: 0; 2 usage or environment; 3 no corrected times can be given (--corrected), and why."
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
    /// Print the manual page, with the options of all commands (read it with: dmscope man | man -l -)
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
    /// is loaded into the job. With `--bus`, nodes send all that they record
    #[arg(long, requires = "record", conflicts_with_all = ["budget", "returns"])]
    pub replayable: bool,
    /// Under sudo, start the job as root instead of the user who called sudo
    #[arg(long)]
    pub as_root: bool,
    /// The command that starts the job
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub job: Vec<String>,
}

/// `dmscope probes`
#[derive(Debug, Args)]
pub struct ProbesArgs {
    /// The job: the process id of its launcher (as `dmscope ps` shows it) or of any of its ranks
    #[arg(value_name = "PID", value_parser = parse_pid)]
    pub pid: u32,
    /// Watch the job for this long first, to count the hits of each probe (10s, 500ms)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub hits: Option<Duration>,
    /// Say who would record which copy and call if they were recorded so
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use analyzer::options::Options;
    use clap::CommandFactory;

    use super::super::tape_args::Subject;
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn probes_are_of_a_process() {
        let pid = |word: &str| match Cli::try_parse_from(["dmscope", "probes", word]).map(|cli| cli.command) {
            Ok(Command::Probes(args)) => Ok(args.pid),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(pid("4711"), Ok(4711));
        let said = pid("abc").expect_err("it is no number");
        assert!(
            said.contains("<PID>") && said.contains("abc is no process id: `dmscope ps` lists"),
            "{said}"
        );
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
}

//! Jobs that are recorded for replay, and replayed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use analyzer::input::Input;
use analyzer::tape::{Item, Reader};
use anyhow::{Context, Result, bail, ensure};
use replay::total_order::{end_of, positions_of};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::job::{JobSpec, MpiImplementation};
use crate::session::{Cluster, binary};
use crate::system::Nodes;
use crate::system::deadline;
use crate::system::number_from_environment;
use crate::system::processes::{descendants, environment_variable, signal, stuck_launcher};

/// Nothing that is recorded or replayed here takes as long.
const LIMIT: Duration = Duration::from_secs(100);
/// A launcher that has not ended so long after its job does not. `record` and `replay` end it sooner themselves.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(20);

/// A program, and a folder for its tapes and logs.
pub struct ReplayCase {
    folder: TempDir,
    program: ReplayedProgram,
    ranks: usize,
    place: RanksPlace,
}

/// Where ranks run.
enum RanksPlace {
    /// All of them here.
    Here,
    /// On nodes that nobody watches.
    Nodes(Nodes),
    /// On nodes with agents, over whose bus `run` watches them.
    Cluster(Box<Cluster>),
}

impl RanksPlace {
    fn nodes(&self) -> Option<&Nodes> {
        match self {
            Self::Here => None,
            Self::Nodes(nodes) => Some(nodes),
            Self::Cluster(cluster) => Some(&cluster.nodes),
        }
    }

    /// Options of a command that watches them.
    fn options(&self, verb: &str) -> Vec<String> {
        match self {
            Self::Cluster(cluster) if verb == "run" => {
                [cluster.bus.options("root"), Cluster::patience()].concat()
            }
            _ => Vec::new(),
        }
    }
}

enum ReplayedProgram {
    /// One of the project's own jobs.
    Own {
        library: MpiImplementation,
        name: String,
        /// The folder for logs takes the place of `LOG`.
        arguments: Vec<String>,
    },
    /// Any other, which runs where its logs are to be, and has none.
    Installed(Box<JobSpec>),
}

/// How a run went.
#[derive(Debug)]
pub struct ReplayRun {
    /// Exit status of dmscope.
    pub status: Option<i32>,
    /// What the job wrote on standard output.
    pub output: String,
    /// What it and dmscope wrote on standard error.
    pub said: String,
    /// What each rank has logged.
    pub logs: Vec<Vec<u8>>,
}

/// Every other replay has one core for all ranks.
pub fn every_other_cpu(number: usize) -> Option<&'static str> {
    number.is_multiple_of(2).then_some("0")
}

/// `$DMSCOPE_TEST_REPLAYS`, or this many: how often each program is recorded; each record is replayed a quarter as often.
pub fn times(usual: usize) -> Result<(usize, usize)> {
    let records = number_from_environment("DMSCOPE_TEST_REPLAYS", usual)?;
    Ok((records, (records / 4).max(1)))
}

impl ReplayCase {
    /// One of the project's own jobs. Three ranks: MPICH gives no core away while it waits.
    pub fn own(library: MpiImplementation, program: &str, arguments: &[&str]) -> Result<Self> {
        let program = own(library, program, arguments);
        Ok(Self { folder: TempDir::new()?, program, ranks: 3, place: RanksPlace::Here })
    }

    /// Any other program.
    pub fn installed(spec: JobSpec) -> Result<Self> {
        Ok(Self {
            folder: TempDir::new()?,
            program: ReplayedProgram::Installed(Box::new(spec)),
            ranks: 0,
            place: RanksPlace::Here,
        })
    }

    /// So many ranks.
    pub fn ranks(self, ranks: usize) -> Self {
        Self { ranks, ..self }
    }

    /// The ranks of an own job, on so many nodes. Needs root.
    pub fn on_nodes(self, count: usize) -> Result<Self> {
        Ok(Self { place: RanksPlace::Nodes(Nodes::new(count)?), ..self })
    }

    /// The same, with a bus between the nodes, and an agent on each. Needs root.
    pub fn on_watched_nodes(self, count: usize) -> Result<Self> {
        Ok(Self { place: RanksPlace::Cluster(Box::new(Cluster::start(count)?)), ..self })
    }

    /// All ranks here from now on.
    pub fn on_this_node(&mut self) {
        self.place = RanksPlace::Here;
    }

    /// Another program or other arguments for the same tapes.
    pub fn other(&mut self, library: MpiImplementation, program: &str, arguments: &[&str]) {
        self.program = own(library, program, arguments);
    }

    /// Records it several times, and replays each record under other conditions: every other time, all ranks have one core. Gives how many
    /// records differ from the first one.
    ///
    /// # Errors
    /// A replay differs from its record.
    pub fn record_and_replay(&self) -> Result<usize> {
        let (records, replays) = times(2)?;
        let mut first: Option<Vec<Vec<u8>>> = None;
        let mut others = 0;
        for _ in 0..records {
            let recorded = self.run("record", &[], "x", None)?;
            recorded.check(0, &["ranks, "])?;
            for number in 0..replays {
                let replayed = self.run("replay", &[], "x", every_other_cpu(number))?;
                replayed.check(0, &["replayed to the end of the record"])?;
                replayed.check_same(&recorded)?;
            }
            others += usize::from(first.get_or_insert_with(|| recorded.logs.clone()) != &recorded.logs);
        }
        Ok(others)
    }

    /// Where a tape is.
    pub fn tape(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.dmt"))
    }

    /// The command of dmscope, which logs into a new folder.
    fn command(
        &self,
        verb: &str,
        options: &[&str],
        tape: Option<&Path>,
        logs: &Path,
        cpus: Option<&str>,
    ) -> Result<Command> {
        let _ = fs::remove_dir_all(logs);
        fs::create_dir_all(logs)?;
        let words = match &self.program {
            ReplayedProgram::Own { library, name, arguments } => {
                let folder = logs.to_string_lossy().into_owned();
                let arguments =
                    arguments.iter().map(|word| if word == "LOG" { folder.clone() } else { word.clone() });
                let job = JobSpec::own(*library, name)?.ranks(self.ranks).args(arguments);
                let job = match self.place.nodes() {
                    Some(nodes) => job.on_nodes(nodes)?,
                    None => job,
                };
                match cpus {
                    Some(cpus) => job.on_cpus(cpus).words(),
                    None => job.words(),
                }
            }
            ReplayedProgram::Installed(spec) => {
                spec.put_files(logs)?;
                spec.words()
            }
        };
        let mut command = Command::new(binary()?);
        command.current_dir(logs);
        command.arg(verb).args(self.place.options(verb)).args(options).args(tape).arg("--").args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// What it has written into a file of this name.
    pub fn file(&self, verb: &str, tape: &str, name: &str) -> Result<String> {
        let path = self.folder.path().join(format!("{verb}-{tape}")).join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Runs it under dmscope to its end.
    pub fn run(&self, verb: &str, options: &[&str], tape: &str, cpus: Option<&str>) -> Result<ReplayRun> {
        let logs = self.folder.path().join(format!("{verb}-{tape}"));
        let mut command = self.command(verb, options, Some(&self.tape(tape)), &logs, cpus)?;
        self.finished(command.spawn().context("cannot start dmscope")?, &logs)
    }

    /// Runs it deterministically, without a tape.
    pub fn run_deterministic(&self, cpus: Option<&str>) -> Result<ReplayRun> {
        self.run_deterministic_with(&[], cpus)
    }

    /// The same with options.
    pub fn run_deterministic_with(&self, options: &[&str], cpus: Option<&str>) -> Result<ReplayRun> {
        let logs = self.folder.path().join("deterministic");
        let mut command = self.command("deterministic", options, None, &logs, cpus)?;
        self.finished(command.spawn().context("cannot start dmscope")?, &logs)
    }

    /// Runs one rank of it alone, or several (`0,2`), with these words before its program.
    pub fn run_alone(
        &self,
        rank: impl ToString,
        options: &[&str],
        tape: &str,
        before: &[&str],
    ) -> Result<ReplayRun> {
        let logs = self.folder.path().join(format!("alone-{tape}"));
        let _ = fs::remove_dir_all(&logs);
        fs::create_dir_all(&logs)?;
        let ReplayedProgram::Own { library, name, arguments } = &self.program else {
            bail!("only the project's own jobs run alone here");
        };
        let folder = logs.to_string_lossy();
        let arguments = arguments.iter().map(|word| if word == "LOG" { &*folder } else { word });
        let job = JobSpec::own(*library, name)?.args(arguments);
        let mut command = Command::new(binary()?);
        command.current_dir(&logs).args(["replay", "--rank", &rank.to_string()]).args(options);
        command.arg(self.tape(tape)).arg("--").args(before).args(job.program_words());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.finished(command.spawn().context("cannot start dmscope")?, &logs)
    }

    /// Where a command runs, and the job with it.
    pub fn folder_of(&self, verb: &str, tape: &str) -> PathBuf {
        self.folder.path().join(format!("{verb}-{tape}"))
    }

    /// Runs a command on a tape that starts no job.
    pub fn list(&self, verb: &str, options: &[&str], tape: &str) -> Result<ReplayRun> {
        let mut command = Command::new(binary()?);
        command.arg(verb).args(options).arg(self.tape(tape));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.finished(command.spawn().context("cannot start dmscope")?, self.folder.path())
    }

    /// Records it, and does something to it meanwhile: with dmscope's process id, and the file that rank 0 logs to.
    pub fn record_and(&self, tape: &str, act: impl FnOnce(u32, &Path) -> Result<()>) -> Result<ReplayRun> {
        self.record_with(&[], tape, act)
    }

    /// The same with options.
    pub fn record_with(
        &self,
        options: &[&str],
        tape: &str,
        act: impl FnOnce(u32, &Path) -> Result<()>,
    ) -> Result<ReplayRun> {
        self.run_and("record", options, tape, act)
    }

    /// Runs it under a command of dmscope, and does something to it meanwhile: see [`ReplayCase::record_and`].
    pub fn run_and(
        &self,
        verb: &str,
        options: &[&str],
        tape: &str,
        act: impl FnOnce(u32, &Path) -> Result<()>,
    ) -> Result<ReplayRun> {
        let logs = self.folder.path().join(format!("{verb}-{tape}"));
        let child = self.command(verb, options, Some(&self.tape(tape)), &logs, None)?.spawn()?;
        act(child.id(), &logs.join("rank0.log"))?;
        self.finished(child, &logs)
    }

    fn finished(&self, child: std::process::Child, logs: &Path) -> Result<ReplayRun> {
        let pid = child.id();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let deadline = deadline(LIMIT);
        let mut stuck = None;
        let finished = loop {
            let finished = receiver.recv_timeout(LAUNCHER_LIMIT.min(deadline - Instant::now()));
            let is_late = Instant::now() + LAUNCHER_LIMIT >= deadline;
            if finished.is_ok() || is_late {
                break finished;
            }
            // One that is still so after a while.
            let now = stuck_launcher(&descendants(pid));
            if let Some(launcher) = now.filter(|_| now == stuck) {
                eprintln!("the launcher has not ended with its job, and is killed");
                signal(launcher, Signal::KILL);
            }
            stuck = now;
        };
        let Output { status, stdout, stderr } = match finished {
            Ok(output) => output?,
            Err(_) => {
                // All that dmscope has started: whoever lives on holds its outputs open.
                let started = descendants(pid);
                let left: Vec<_> = started.iter().map(|pid| state_line(*pid)).collect();
                started.iter().chain([&pid]).for_each(|pid| signal(*pid, Signal::KILL));
                let said = receiver.recv_timeout(Duration::from_secs(10));
                bail!("it took more than {LIMIT:?}: {said:?}\nRunning then:\n{}", left.join("\n"));
            }
        };
        let log = |rank: usize| fs::read(logs.join(format!("rank{rank}.log"))).unwrap_or_default();
        Ok(ReplayRun {
            status: status.code(),
            output: String::from_utf8_lossy(&stdout).into_owned(),
            said: String::from_utf8_lossy(&stderr).into_owned(),
            logs: (0..self.ranks).map(log).collect(),
        })
    }
}

fn own(library: MpiImplementation, name: &str, arguments: &[&str]) -> ReplayedProgram {
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    ReplayedProgram::Own { library, name: name.to_owned(), arguments }
}

impl ReplayRun {
    /// Fails unless everything was the same in both runs.
    pub fn check_same(&self, recorded: &Self) -> Result<()> {
        for (rank, (own, other)) in self.logs.iter().zip(&recorded.logs).enumerate() {
            ensure!(!other.is_empty(), "rank {rank} has logged nothing");
            if let Some(line) = first_difference(own, other) {
                let text = |log: &[u8]| String::from_utf8_lossy(log).lines().nth(line - 1).map(str::to_owned);
                let (own, other) = (text(own), text(other));
                bail!(
                    "rank {rank} differs from line {line} of its log on: {own:?}, not {other:?}\n{}",
                    self.said
                );
            }
        }
        ensure!(self.output == recorded.output, "output differs:\n{}\n{}", self.output, recorded.output);
        Ok(())
    }

    /// Fails unless it ended with this status and said these words.
    pub fn check(&self, status: i32, words: &[&str]) -> Result<()> {
        ensure!(self.status == Some(status), "status {:?}, not {status}:\n{}", self.status, self.said);
        for word in words {
            ensure!(self.said.contains(word), "it did not say {word:?}:\n{}", self.said);
        }
        Ok(())
    }
}

/// What a process is and what it does, for whoever asks why it did not end.
fn state_line(pid: u32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (status, wchan) = (read("status"), read("wchan"));
    let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
    format!("{pid} {} {state} {wchan}", read("cmdline").replace('\0', " "))
}

/// Kills all ranks that dmscope has started. Their launcher cleans up behind them, and ends.
pub fn kill_job(dmscope: u32) {
    let is_rank = |pid: &u32| {
        let has = |library: &MpiImplementation| environment_variable(*pid, library.rank_variable()).is_some();
        MpiImplementation::ALL.iter().any(has)
    };
    let ranks = descendants(dmscope).into_iter().filter(is_rank);
    ranks.for_each(|pid| signal(pid, Signal::KILL));
}

/// The line, from 1, from which on two logs differ.
pub fn first_difference(own: &[u8], other: &[u8]) -> Option<usize> {
    let (mut a, mut b) = (own.split(|byte| *byte == b'\n'), other.split(|byte| *byte == b'\n'));
    (1..).find_map(|line| match (a.next(), b.next()) {
        (None, None) => Some(None),
        (a, b) if a != b => Some(Some(line)),
        _ => None,
    })?
}

/// Waits until a file has so many bytes.
pub fn wait_for_bytes(path: &Path, bytes: u64) -> Result<()> {
    let deadline = deadline(LIMIT);
    while fs::metadata(path).map_or(0, |metadata| metadata.len()) < bytes {
        ensure!(Instant::now() < deadline, "{} stays short", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Positions that the calls of each rank have on a tape; all are there.
pub fn order_on(tape: &Path) -> Result<Vec<Vec<u64>>> {
    let mut records: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for item in Reader::new(File::open(tape)?)? {
        if let Item::Input(Input::Answers(answers)) = item? {
            records.entry(answers.rank).or_default().extend_from_slice(&answers.bytes);
        }
    }
    let order = records.values().map(|record| positions_of(record)).collect::<Result<Vec<_>, _>>()?;
    let count: usize = order.iter().map(Vec::len).sum();
    ensure!(end_of(&order)? == count as u64, "positions are missing");
    Ok(order)
}

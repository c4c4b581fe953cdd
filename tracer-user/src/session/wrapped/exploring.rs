//! Replays a job with one race after another turned round, and keeps what fails.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::frontier::{Frontier, Turn};
use super::recorded_job::RecordedJob;
use super::replaying::{ReplayEnd, ReplaySettings, Replayed, replay};
use super::swap::Swap;
use crate::host::output_file::OutputFile;

/// How a job is explored.
#[derive(Clone, Debug)]
pub struct ExploreSettings {
    /// How each replay is made.
    pub replay: ReplaySettings,
    /// The tape that is explored.
    pub tape: PathBuf,
    /// Where runs are kept; what is there already is not done again.
    pub folder: PathBuf,
    /// How many replays are made at most.
    pub most: usize,
    /// Other output is no failure.
    pub ignores_output: bool,
}

/// How a run with a race turned round ended, beside the run as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunVerdict {
    /// The same.
    Same,
    /// It printed other lines.
    OtherOutput,
    /// With another exit status.
    OtherStatus,
    /// All ranks wait.
    Hang,
    /// It was ended after its time.
    TooLong,
    /// The message that was to come first did not come.
    Impossible,
    /// The program went another way before it came there.
    Diverged,
}

impl RunVerdict {
    /// Whether it is worth to be kept.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::OtherOutput | Self::OtherStatus | Self::Hang | Self::TooLong)
    }
}

/// One run, as it is noted in the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExploredRun {
    /// Its number: that of its tape.
    pub run: usize,
    /// The run of which a race was turned round.
    pub of: usize,
    /// How many races were turned round from the recorded run on.
    pub depth: usize,
    /// Which race, and what came in it.
    pub swap: String,
    /// See [`replay::races::with_choice`].
    signature: u64,
    /// How it ended.
    pub verdict: RunVerdict,
    /// In words.
    pub ended: String,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Explored {
    /// All runs: those of earlier sessions too.
    pub runs: Vec<ExploredRun>,
    /// How many of them were made now.
    pub made: usize,
    /// Races that are left to be turned round.
    pub left: usize,
    /// Why nobody knows of more.
    pub unknown: Vec<String>,
}

const NOTES: &str = "runs.jsonl";
/// Is there once nothing is left to be tried.
const COMPLETE: &str = "complete";

/// Reads a tape.
pub type ReadTape<'a> = &'a dyn Fn(&Path) -> Result<RecordedJob>;

struct Exploring<'a> {
    command: &'a [String],
    settings: &'a ExploreSettings,
    read: ReadTape<'a>,
    frontier: Frontier,
    /// Of the recorded run.
    output: Vec<String>,
    status: Option<ExitStatus>,
    explored: Explored,
}

/// Explores a job; `found`: hears of each run that fails.
///
/// # Errors
/// The record cannot be replayed as it is; the folder cannot be used.
pub fn explore(
    command: &[String],
    recorded: &RecordedJob,
    settings: &ExploreSettings,
    read: ReadTape<'_>,
    found: &mut dyn FnMut(&ExploredRun),
) -> Result<Explored> {
    let folder = || settings.folder.display().to_string();
    DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder).with_context(folder)?;
    claim(settings)?;
    let mut exploring = Exploring {
        command,
        settings,
        read,
        frontier: Frontier::default(),
        output: Vec::new(),
        status: None,
        explored: Explored { runs: notes(&settings.folder)?, ..Explored::default() },
    };
    if !settings.folder.join(COMPLETE).exists() && exploring.begin(recorded)? {
        exploring.go_on(found)?;
    }
    Ok(exploring.explored)
}

impl Exploring<'_> {
    fn tape(&self, run: usize) -> PathBuf {
        self.settings.folder.join(format!("{run}.dmt"))
    }

    /// The record as it is, with messages; says whether it was played.
    fn begin(&mut self, recorded: &RecordedJob) -> Result<bool> {
        let mut said = Vec::new();
        let replayed = self.replay(recorded, Vec::new(), 0, &mut said)?;
        match replayed.end {
            ReplayEnd::Ended(status) => self.status = Some(status),
            ReplayEnd::Hangs => {}
            ReplayEnd::Stopped => return Ok(false),
            ReplayEnd::TooLong => bail!("a replay of the record as it is takes longer than --limit"),
            ReplayEnd::Diverged | ReplayEnd::Impossible => {
                bail!("the record cannot be replayed as it is: {}", said.join("; "))
            }
        }
        self.output = lines(&replayed.output);
        put(&self.settings.folder.join("0.out"), &replayed.output).context("cannot keep the job's output")?;
        for run in 0..self.explored.runs.len() {
            let signature = self.explored.runs[run].signature;
            self.frontier.was_tried(signature);
        }
        self.learn(0, 0);
        for run in self.explored.runs.clone() {
            if self.tape(run.run).exists() {
                self.learn(run.run, run.depth);
            }
        }
        Ok(true)
    }

    /// Looks for races in a run.
    fn learn(&mut self, run: usize, depth: usize) {
        let path = self.tape(run);
        let races = (self.read)(&path).map_err(|error| error.to_string()).and_then(|job| job.races());
        match races {
            Ok(races) => self.frontier.take(run, depth, &races),
            Err(why) => self.explored.unknown.push(format!("{}: {why}", path.display())),
        }
    }

    fn go_on(&mut self, found: &mut dyn FnMut(&ExploredRun)) -> Result<()> {
        while self.explored.made < self.settings.most {
            let Some(turn) = self.frontier.next() else { break };
            let Some(run) = self.turn_round(&turn)? else {
                self.explored.left = 1;
                break;
            };
            note(&self.settings.folder, &run)?;
            if run.verdict.is_failure() {
                found(&run);
            }
            self.learn(run.run, run.depth);
            self.explored.runs.push(run);
            self.explored.made += 1;
        }
        self.explored.left += self.frontier.len() + self.frontier.dropped;
        if self.explored.left == 0 && self.explored.unknown.is_empty() {
            self.complete()?;
        }
        Ok(())
    }

    /// Tapes of runs that did not fail were needed as long as their races were to be turned round.
    fn complete(&self) -> Result<()> {
        let path = self.settings.folder.join(COMPLETE);
        put(&path, b"").with_context(|| path.display().to_string())?;
        for run in self.explored.runs.iter().filter(|run| !run.verdict.is_failure()) {
            // It may be gone.
            let _ = fs::remove_file(self.tape(run.run));
        }
        Ok(())
    }

    /// Makes a run; none: the user wants no more.
    fn turn_round(&mut self, turn: &Turn) -> Result<Option<ExploredRun>> {
        let job = (self.read)(&self.tape(turn.run))?;
        let cuts = job.races().and_then(|races| turn.swap.cuts(&races));
        let cuts = cuts.map_err(|why| anyhow::anyhow!("{}: {why}", self.tape(turn.run).display()))?;
        let number = self.explored.runs.iter().map(|run| run.run).max().unwrap_or(0) + 1;
        let mut said = Vec::new();
        let replayed = self.replay(&job, cuts, number, &mut said)?;
        let Some(verdict) = self.verdict(&replayed) else { return Ok(None) };
        let ended = match replayed.end {
            ReplayEnd::Ended(status) => status.to_string(),
            _ => in_one_line(&said),
        };
        if verdict.is_failure() {
            let out = self.settings.folder.join(format!("{number}.out"));
            let errors = self.settings.folder.join(format!("{number}.err"));
            put(&out, &replayed.output).context("cannot keep the job's output")?;
            put(&errors, &replayed.errors).context("cannot keep the job's output")?;
        }
        let of = turn.run;
        let depth = 1 + self.explored.runs.iter().find(|run| run.run == of).map_or(0, |run| run.depth);
        let (swap, signature) = (turn.swap.to_string(), turn.signature);
        Ok(Some(ExploredRun { run: number, of, depth, swap, signature, verdict, ended }))
    }

    fn replay(
        &self,
        job: &RecordedJob,
        cuts: Vec<replay::RankCut>,
        run: usize,
        said: &mut Vec<String>,
    ) -> Result<Replayed> {
        let settings = ReplaySettings {
            cuts,
            record: Some(self.tape(run)),
            messages: true,
            captures: true,
            holds: false,
            ..self.settings.replay.clone()
        };
        replay(self.command, job.clone(), &settings, &mut |line| said.push(line.trim().to_owned()))
    }

    fn verdict(&self, replayed: &Replayed) -> Option<RunVerdict> {
        Some(match replayed.end {
            ReplayEnd::Stopped => return None,
            ReplayEnd::Diverged => RunVerdict::Diverged,
            ReplayEnd::Impossible => RunVerdict::Impossible,
            ReplayEnd::TooLong => RunVerdict::TooLong,
            ReplayEnd::Hangs if self.status.is_none() => RunVerdict::Same,
            ReplayEnd::Hangs => RunVerdict::Hang,
            ReplayEnd::Ended(status) if Some(status) != self.status => RunVerdict::OtherStatus,
            ReplayEnd::Ended(_) if self.settings.ignores_output => RunVerdict::Same,
            ReplayEnd::Ended(_) if lines(&replayed.output) != self.output => RunVerdict::OtherOutput,
            ReplayEnd::Ended(_) => RunVerdict::Same,
        })
    }
}

/// Says in the folder which tape its runs are of; fails if they are of another one.
fn claim(settings: &ExploreSettings) -> Result<()> {
    let bytes = fs::read(&settings.tape).with_context(|| settings.tape.display().to_string())?;
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let own = format!("{} bytes, checksum {sum:016x}\n", bytes.len());
    let path = settings.folder.join("tape");
    match fs::read_to_string(&path) {
        Ok(other) if other != own => bail!(
            "{} has runs of another record: remove it, or name another folder with --keep",
            settings.folder.display()
        ),
        Ok(_) => Ok(()),
        Err(_) => put(&path, own.as_bytes()).with_context(|| path.display().to_string()),
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OutputFile::find(path)?.write_whole(bytes)
}

/// What was said. After a colon comes what belongs to it.
fn in_one_line(said: &[String]) -> String {
    said.join("; ").replace(":; ", ": ")
}

/// Ranks print in any order.
fn lines(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// What was noted before. A line that was cut off is none.
fn notes(folder: &Path) -> Result<Vec<ExploredRun>> {
    let path = folder.join(NOTES);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let runs = text.lines().filter_map(|line| serde_json::from_str::<ExploredRun>(line).ok());
    // Only what can be told again is taken.
    Ok(runs.filter(|run| run.swap.parse::<Swap>().is_ok()).collect())
}

fn note(folder: &Path, run: &ExploredRun) -> Result<()> {
    let path = folder.join(NOTES);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let line = serde_json::to_string(run).context("a run as JSON")?;
    writeln!(file, "{line}").with_context(|| path.display().to_string())
}

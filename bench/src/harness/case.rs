//! One case in a process of its own: its peak of memory is nobody else's.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use analyzer::input::{End, Input};
use analyzer::options::Options;
use analyzer::pipeline::{Depth, Pipeline};
use analyzer::sequencer::{Sequenced, Sequencer};
use analyzer::tape::{self, ItemRef, Reader, Writer};
use analyzer::wire::RawRecord;
use anyhow::{Context, Result, bail};
use clap::Parser;
use dmscope::cli::args::Cli;
use serde::{Deserialize, Serialize};

use crate::generate::{GeneratedJob, MessagePattern};

/// What marks a process that runs a case; the case follows.
const ARGUMENT: &str = "--case";

/// What a process of its own is to do, and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MeasuredCase {
    /// Makes the inputs of a job's first node and nothing more.
    Generate(CaseJob),
    /// … and writes them to a tape.
    Write(CaseJob, PathBuf),
    /// Reads a tape so far.
    Read(PathBuf, ReadDepth),
    /// Makes the inputs, and gives their records to the sequencer, a ring for each rank.
    Sequence(CaseJob),
    /// A command of dmscope, by its words.
    Dmscope(Vec<String>),
}

/// A job that is made up, by what differs between cases.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CaseJob {
    /// A ring instead of a halo exchange.
    pub ring: bool,
    /// Ranks on all nodes together.
    pub ranks: u32,
    /// Nodes that the ranks are spread over.
    pub nodes: u32,
    /// With results of calls.
    pub results: bool,
    /// Records of the first node.
    pub records: u64,
}

/// How far a tape is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadDepth {
    /// Frames found and their sums checked.
    Frames,
    /// Contents of frames decompressed.
    Content,
    /// Contents decoded to inputs.
    Inputs,
    /// See [`Depth::Resolve`].
    Resolve,
    /// See [`Depth::Link`].
    Link,
    /// See [`Depth::Group`].
    Group,
    /// All the way to the report.
    Findings,
}

/// What a case took of the machine, and what it came by.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CaseCost {
    /// Records made or read; 0 where they are not told apart.
    pub records: u64,
    /// Processor time of the thread that did it.
    pub cpu_ns: u64,
    /// Most memory that was resident at once.
    pub peak_bytes: u64,
    /// Pairs of a chain group and a rank, of the largest groups; 0 where there is no report.
    pub pairs: u64,
}

impl CaseJob {
    fn job(self) -> GeneratedJob {
        let Self { ring, ranks, nodes, results, records } = self;
        let pattern = if ring { MessagePattern::Ring } else { MessagePattern::Halo };
        GeneratedJob { pattern, nodes, results, ..GeneratedJob::halo(ranks, records) }
    }
}

impl MeasuredCase {
    /// Runs in a process of its own.
    ///
    /// # Errors
    /// It could not be started, or failed.
    pub fn measure(&self) -> Result<CaseCost> {
        self.measure_by(&std::env::current_exe().context("this program has no file")?)
    }

    /// The same by another version of this program.
    ///
    /// # Errors
    /// It could not be started, or failed.
    pub fn measure_by(&self, program: &Path) -> Result<CaseCost> {
        let case = serde_json::to_string(self)?;
        let output = Command::new(program).args([ARGUMENT, &case]).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("the case {case} ended with {}", output.status);
        }
        // A command may have said something before.
        let last = output.stdout.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(last).with_context(|| format!("output of the case {case}"))
    }

    fn run(&self) -> Result<(u64, u64)> {
        match self {
            Self::Generate(job) => {
                Ok((job.job().node(0).map(|i| u64::from(std::hint::black_box(is_record(&i)))).sum(), 0))
            }
            Self::Write(job, path) => write(*job, path),
            Self::Sequence(job) => Ok((sequence(*job), 0)),
            Self::Read(path, until) => read(path, *until),
            Self::Dmscope(words) => dmscope(words),
        }
    }
}

/// If this process is to run a case: runs it and says on standard output what it took.
///
/// # Errors
/// The case failed.
pub fn answer() -> Option<Result<()>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == ARGUMENT).then(|| {
        let case: MeasuredCase = serde_json::from_str(&arguments.next().context("no case is named")?)?;
        let begin_ns = processor_ns()?;
        let (records, pairs) = case.run()?;
        let cpu_ns = processor_ns()? - begin_ns;
        let taken = CaseCost { records, cpu_ns, peak_bytes: peak_bytes()?, pairs };
        println!("{}", serde_json::to_string(&taken)?);
        Ok(())
    })
}

fn is_record(input: &Input) -> bool {
    matches!(input, Input::Record(_))
}

fn write(job: CaseJob, path: &Path) -> Result<(u64, u64)> {
    let mut writer = Writer::new(File::create(path)?);
    let mut records = 0;
    for input in job.job().node(0) {
        records += u64::from(is_record(&input));
        writer.push(&input)?;
    }
    writer.finish()?;
    Ok((records, 0))
}

fn sequence(job: CaseJob) -> u64 {
    /// Records between two looks at the rings.
    const BATCH: u64 = 8192;
    let (mut sequencer, mut pushed, mut given) = (Sequencer::default(), 0, 0);
    let first_pid = 1000;
    let mut rings: Vec<Vec<RawRecord>> = Vec::new();
    let push_all = |sequencer: &mut Sequencer, rings: &mut Vec<Vec<RawRecord>>| {
        for (ring, records) in rings.iter_mut().enumerate().filter(|(_, records)| !records.is_empty()) {
            let room = sequencer.take_spare().unwrap_or_default();
            sequencer.push(ring as u16, std::mem::replace(records, room));
        }
    };
    for input in job.job().node(0) {
        let Input::Record(record) = input else { continue };
        let ring = (record.pid() - first_pid) as usize;
        rings.resize_with(rings.len().max(ring + 1), Vec::new);
        rings[ring].push(record);
        pushed += 1;
        if pushed % BATCH == 0 {
            push_all(&mut sequencer, &mut rings);
            sequencer.advance(record.time_ns(), |next| given += count(&next));
        }
    }
    push_all(&mut sequencer, &mut rings);
    sequencer.finish(|next| given += count(&next));
    given
}

/// One, of what is given out.
fn count(next: &Sequenced<'_>) -> u64 {
    std::hint::black_box(next);
    1
}

/// As the program does it, in this process.
fn dmscope(words: &[String]) -> Result<(u64, u64)> {
    let words = ["dmscope"].into_iter().chain(words.iter().map(String::as_str));
    dmscope::cli::main(&Cli::try_parse_from(words)?)?;
    Ok((0, 0))
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

fn count_names(path: &Path) -> Result<u64> {
    let mut count = 0;
    tape::symbols(open(path)?, |names| {
        count += names.len() as u64;
        true
    })?;
    Ok(count)
}

fn read(path: &Path, until: ReadDepth) -> Result<(u64, u64)> {
    let depth = match until {
        ReadDepth::Frames => return Ok((count_names(path)?, 0)),
        ReadDepth::Content => return Ok((tape::content_bytes(open(path)?).map(|_| 0)?, 0)),
        ReadDepth::Inputs => None,
        ReadDepth::Resolve => Some(Depth::Resolve),
        ReadDepth::Link => Some(Depth::Link),
        ReadDepth::Group => Some(Depth::Group),
        ReadDepth::Findings => Some(Depth::Findings),
    };
    let mut pipeline = depth.map(|depth| Pipeline::with_depth(Options::default(), depth));
    let mut reader = Reader::new(open(path)?)?;
    let (mut records, mut ended) = (0, false);
    while let Some(item) = reader.next_ref() {
        match item? {
            ItemRef::Record(record) => {
                records += 1;
                match &mut pipeline {
                    Some(pipeline) => pipeline.push_record(record),
                    None => _ = std::hint::black_box(record),
                }
            }
            ItemRef::Input(input) => {
                ended |= matches!(*input, Input::End(_));
                if let Some(pipeline) = &mut pipeline {
                    pipeline.push(&input);
                    pipeline.take_alerts();
                }
            }
            ItemRef::Damage(damage) => bail!("{}: {damage}", path.display()),
        }
    }
    let Some(mut pipeline) = pipeline else { return Ok((records, 0)) };
    if !ended {
        pipeline.push(&Input::End(End::default()));
    }
    if until != ReadDepth::Findings {
        return Ok((records, 0));
    }
    let report = std::hint::black_box(pipeline.report());
    let pairs = report.statistics.top_groups.iter().map(|group| group.by_who.len() as u64).sum();
    Ok((records, pairs))
}

/// Processor time that this thread has had: unlike the clock, it does not count other programs.
fn processor_ns() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").context("a kernel without schedstat")?;
    text.split(' ').next().and_then(|first| first.parse().ok()).context("schedstat is not as expected")
}

fn peak_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib = line.trim().trim_end_matches(" kB").parse::<u64>().context("VmHWM is no number")?;
    Ok(kib * 1024)
}

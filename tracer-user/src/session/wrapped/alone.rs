//! One rank of a recorded job, run alone: what its calls get comes from the tape.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::Duration;

use analyzer::tape::{RankAnswers, ReplayableRank};
use anyhow::{Context, Result, bail};
use replay::contents::{FrameSplitter, SENDS_OTHER_DATA};
use replay::shared_page::{PageState, PageText, SharedPage};
use tempfile::NamedTempFile;

use super::job::{JobStart, WrappedJob};
use super::pages::{Pages, program_of, refusal_in};
use super::replaying::{FIXED_ADDRESSES_MAY_HELP, ReplaySettings};
use super::shared_folder::SharedFolder;
use super::wrapper_file::{WrapperKind, contents_wrapper, wrapper_for};
use crate::host::sudo::Account;

const PERIOD: Duration = Duration::from_millis(50);

/// So that a library finds neither a launcher nor a network: the rank is a job of its own, of one process.
const NO_TRANSPORT: [&str; 8] = [
    "OMPI_MCA_ess_singleton_isolated=1",
    "OMPI_MCA_pml=ob1",
    "OMPI_MCA_btl=self",
    "OMPI_MCA_coll=^hcoll,ucc",
    "OMPI_MCA_osc=^ucx",
    "HWLOC_COMPONENTS=-gl",
    "UCX_TLS=self",
    "MPIR_CVAR_ENABLE_GPU=0",
];

/// A rank as a tape has it. Its contents go to a file, since they may be larger than memory.
pub struct AloneJob {
    rank: u32,
    facts: Option<ReplayableRank>,
    answers: Vec<u8>,
    /// Of threads that called at the same time, one each; else one for all.
    files: Vec<BufWriter<NamedTempFile>>,
    threads: FrameSplitter,
    contents_bytes: u64,
    /// Where something is missing in the contents.
    has_gap: bool,
}

/// How it ended.
#[derive(Debug)]
pub enum AloneEnd {
    /// The program has ended, as it did.
    Ended(ExitStatus),
    /// The record ends: where, and why if that is known.
    RecordEnds,
    /// It does something else than it did.
    Diverged,
    /// The user wanted it to end.
    Stopped,
}

impl AloneJob {
    /// Nothing yet of this rank.
    pub fn of_rank(rank: u32) -> Self {
        Self {
            rank,
            facts: None,
            answers: Vec::new(),
            files: Vec::new(),
            threads: FrameSplitter::default(),
            contents_bytes: 0,
            has_gap: false,
        }
    }

    /// Rank in MPI_COMM_WORLD.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Takes what is said of a rank.
    pub fn learn(&mut self, facts: &ReplayableRank) {
        if facts.rank == self.rank {
            self.facts = Some(facts.clone());
        }
    }

    /// Takes answers, for the clocks among them.
    pub fn take_answers(&mut self, answers: &RankAnswers) {
        if answers.rank == self.rank && answers.offset_bytes == self.answers.len() as u64 {
            self.answers.extend_from_slice(&answers.bytes);
        }
    }

    /// Takes contents.
    ///
    /// # Errors
    /// A temporary file cannot be made, or is full.
    pub fn take_contents(&mut self, contents: &RankAnswers) -> Result<()> {
        if contents.rank != self.rank || self.has_gap {
            return Ok(());
        }
        self.has_gap = contents.offset_bytes != self.contents_bytes;
        if self.has_gap {
            return Ok(());
        }
        let files = &mut self.files;
        self.threads.take(&contents.bytes, |place, bytes| {
            while files.len() <= place {
                files.push(temporary_file()?);
            }
            files[place].write_all(bytes).context("cannot write contents to a temporary file")
        })?;
        self.has_gap = self.threads.is_damaged();
        self.contents_bytes += contents.bytes.len() as u64;
        Ok(())
    }

    /// Where the wrapper finds contents: a line for each file.
    fn places(&self) -> String {
        let names = self.threads.names().unwrap_or_default();
        let line = |(place, file): (usize, &BufWriter<NamedTempFile>)| {
            format!("record {} {}\n", names.get(place).unwrap_or(&0), file.get_ref().path().display())
        };
        self.files.iter().enumerate().map(line).collect()
    }
}

fn temporary_file() -> Result<BufWriter<NamedTempFile>> {
    let file = NamedTempFile::with_prefix("dmscope-contents-").context("cannot make a temporary file")?;
    Ok(BufWriter::new(file))
}

/// How it is run.
#[derive(Clone, Debug)]
pub struct AloneSettings {
    /// As other replays are.
    pub replay: ReplaySettings,
    /// It may send other data than it did.
    pub ignores_data: bool,
}

/// What is preloaded into the rank, and what it finds in its environment.
struct AloneSurroundings {
    objects: Vec<PathBuf>,
    environment: Vec<String>,
}

/// Runs the rank; `say`: what people hear, a line at a time.
///
/// # Errors
/// The tape does not have what is needed; the command cannot be run.
pub fn run_alone(
    command: &[String],
    mut job: AloneJob,
    settings: &AloneSettings,
    say: &mut dyn FnMut(&str),
) -> Result<AloneEnd> {
    let rank = job.rank;
    let Some(facts) = job.facts.take() else { bail!("rank {rank} is not on this tape") };
    if job.contents_bytes == 0 {
        bail!(
            "the contents of rank {rank}'s messages are not on this tape: record the job with `dmscope record --payloads`"
        );
    }
    if job.has_gap {
        say(&format!(
            "the tape is damaged: what rank {rank} got after the first {} bytes is missing",
            job.contents_bytes
        ));
    }
    for file in &mut job.files {
        file.flush().context("cannot write contents to a temporary file")?;
    }
    // A debugger does not name the library; the tape does.
    let kind = settings.replay.named.or_else(|| WrapperKind::of_version(&facts.library));
    let wrapper = wrapper_for(command, kind)?;
    let account = settings.replay.account.as_ref();
    let folder = SharedFolder::create(account)?;
    let surroundings = surround(&job, &facts, &folder, &wrapper, settings)?;
    for file in &job.files {
        give(file.get_ref().as_file(), account)?;
    }
    let AloneSurroundings { objects, environment } = &surroundings;
    let child = WrappedJob::start(&JobStart {
        command,
        account,
        objects,
        environment,
        fixes_addresses: false,
        output: None,
    })?;
    let has_threads = job.threads.names().is_some_and(|names| names.len() > 1);
    watch(child, &folder, &AloneRun { facts, has_threads }, settings, say)
}

/// Puts down what the wrapper looks for.
fn surround(
    job: &AloneJob,
    facts: &ReplayableRank,
    folder: &SharedFolder,
    wrapper: &Path,
    settings: &AloneSettings,
) -> Result<AloneSurroundings> {
    folder.put("clocks", &[&[0; 8][..], &job.answers].concat())?;
    let mut text = format!("rank {}\n{}", job.rank, job.places());
    if job.threads.names().is_some() {
        folder.put("order", &job.threads.order_bytes())?;
        text += &format!("order {}\n", folder.path().join("order").display());
    }
    let switches = [("hold", settings.replay.holds), ("ignore-data", settings.ignores_data)];
    switches.iter().filter(|(_, is_set)| *is_set).for_each(|(name, _)| text += &format!("{name} 1\n"));
    folder.put("alone", text.as_bytes())?;
    let mut environment: Vec<String> = NO_TRANSPORT.iter().map(|setting| (*setting).to_owned()).collect();
    environment.extend(of_launcher(facts));
    environment.push(format!("DMSCOPE_REPLAY=clocks:{}", folder.path().join("clocks").display()));
    environment.push(format!("DMSCOPE_CONTENTS=alone:{}", folder.path().display()));
    Ok(AloneSurroundings { objects: vec![contents_wrapper(wrapper)?, wrapper.to_owned()], environment })
}

/// What launchers tell a rank of a job on one node. Programs look at it, and so do modules that they load, to know whether they run under MPI.
fn of_launcher(facts: &ReplayableRank) -> Vec<String> {
    let ReplayableRank { rank, size, .. } = facts;
    let names = match WrapperKind::of_version(&facts.library) {
        Some(WrapperKind::OpenMpi) => [
            ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
            ["OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"],
        ],
        Some(WrapperKind::Mpich) => [["PMI_RANK", "PMI_SIZE"], ["MPI_LOCALRANKID", "MPI_LOCALNRANKS"]],
        None => return Vec::new(),
    };
    names.iter().flat_map(|[own, all]| [format!("{own}={rank}"), format!("{all}={size}")]).collect()
}

/// The user's program reads it.
fn give(record: &File, account: Option<&Account>) -> Result<()> {
    let Some(account) = account else { return Ok(()) };
    fchown(record, Some(account.uid), Some(account.gid)).context("cannot give a file to the user")
}

/// The rank that runs.
struct AloneRun {
    facts: ReplayableRank,
    /// Several of its threads called.
    has_threads: bool,
}

fn watch(
    mut child: WrappedJob,
    folder: &SharedFolder,
    run: &AloneRun,
    settings: &AloneSettings,
    say: &mut dyn FnMut(&str),
) -> Result<AloneEnd> {
    let mut is_told = false;
    loop {
        // First whether it has ended: what it wrote before is there.
        let status = child.status()?;
        if let Some(why) = refusal_in(&folder.pinned().join("refused-alone")) {
            child.end(&[])?;
            bail!(why);
        }
        // A debugger runs it several times, each with a page of its own.
        let mut pages = Pages::of_ranks();
        pages.look(&folder.pinned())?;
        let page = pages.iter_mut().next().map(|(_, _, page)| page);
        if let Some(page) = page.as_ref().filter(|_| !std::mem::replace(&mut is_told, true)) {
            tell_differences(page, &run.facts, say);
        }
        if let Some(status) = status {
            return ended(page.as_ref(), run, status, say);
        }
        if settings.replay.stop.load(Ordering::Relaxed) {
            child.end(&[])?;
            return Ok(AloneEnd::Stopped);
        }
        child.pause(PERIOD);
        // Its page comes with MPI_Init.
        is_told &= page.is_some();
    }
}

fn tell_differences(page: &SharedPage, facts: &ReplayableRank, say: &mut dyn FnMut(&str)) {
    if program_of(page) != (facts.program_bytes, facts.program_checksum) {
        say("the program is not the one that was recorded: it runs as long as its calls are the same");
    }
    let library = page.text(PageText::Library);
    if library != facts.library {
        say(&format!("recorded with {}, run with {library}", facts.library));
    }
}

fn ended(
    page: Option<&SharedPage>,
    AloneRun { facts, has_threads }: &AloneRun,
    status: ExitStatus,
    say: &mut dyn FnMut(&str),
) -> Result<AloneEnd> {
    let rank = facts.rank;
    let Some(page) = page else {
        bail!("nothing was run: the command has ended ({status}) without an MPI_Init that the wrapper saw");
    };
    let other_data = page.other_data.load(Ordering::Relaxed);
    if other_data > 0 {
        say(&format!("rank {rank}: {other_data} calls sent other data than they did"));
    }
    let (calls, why) = (page.calls.load(Ordering::Relaxed), page.text(PageText::Message));
    if page.state() == PageState::Diverged {
        say(&format!("rank {rank} diverges at its call {calls}, {why}"));
        if why.contains(SENDS_OTHER_DATA) {
            say(
                "some programs send bytes that they never wrote, or times that they read from the processor (rdtsc): --ignore-data goes on, and counts such calls",
            );
        } else if !has_threads && program_of(page) == (facts.program_bytes, facts.program_checksum) {
            say(FIXED_ADDRESSES_MAY_HELP);
        }
        return Ok(AloneEnd::Diverged);
    }
    if page.ended_at_call.load(Ordering::Relaxed) > 0 {
        say(&format!("rank {rank}: the record ends {why}"));
        return Ok(AloneEnd::RecordEnds);
    }
    Ok(AloneEnd::Ended(status))
}

//! The session's side of the child that reads stacks: it opens what the child may read, and catches threads that run.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use analyzer::input::{Mapping, ThreadFacts};
use analyzer::pipeline::LastCall;

use super::messages::{ReaderMessage, SessionMessage};
use super::reader::MOST_SAMPLES;
use super::thread::{SampleRunning, SampledProcess, ThreadView};
use crate::host::capabilities::{Capabilities, Capability, remedy};
use crate::host::files::open_mapped;
use crate::host::gather::read_maps;
use crate::host::mappings::code_files;
use crate::host::memory::open_memory;
use crate::host::processes::ProcessView;
use crate::host::sandbox::{Conversation, SandboxedProcess};

/// The word that makes this program the child.
const COMMAND: &str = "read-stacks";
/// The threads of one process may take so long, besides what they are waited for.
const LIMIT: Duration = Duration::from_secs(10);
/// How long to wait for a thread that can run to do so.
const PATIENCE: Duration = Duration::from_millis(40);

/// Reads stacks through a child without rights.
pub struct StackChild {
    process: SandboxedProcess,
    sample_running: SampleRunning,
    limit: Duration,
}

impl StackChild {
    /// This program itself is the child. `sample_running`: how a thread that runs is caught.
    pub fn new(sample_running: SampleRunning) -> Self {
        Self { process: SandboxedProcess::of_this_program(COMMAND), sample_running, limit: LIMIT }
    }

    /// Some other program is, with its own limit of time.
    pub fn of(program: impl Into<PathBuf>, sample_running: SampleRunning, limit: Duration) -> Self {
        Self { process: SandboxedProcess::of(program.into(), COMMAND), sample_running, limit }
    }

    /// What threads of one process are doing. `last_calls`: their last MPI calls, as they were recorded when they began.
    ///
    /// # Errors
    /// Nothing can be said of this process: why.
    pub fn read(
        &mut self,
        pid: u32,
        threads: &[ThreadView],
        last_calls: &[LastCall],
    ) -> Result<Vec<ThreadFacts>, String> {
        let memory = open_memory(pid).map_err(|error| told(&error, Capabilities::in_effect()))?;
        let mappings = read_maps(pid).map_err(|error| error.to_string())?;
        let rank = ProcessView::read(pid).ok().and_then(|view| view.rank.zip(view.size));
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let process = SampledProcess {
            mappings,
            program: program.to_string_lossy().into_owned(),
            rank,
            threads: threads.to_vec(),
            last_calls: last_calls.to_vec(),
        };
        let mut answers = Answers {
            pid,
            tids: threads.iter().map(|thread| thread.tid).collect(),
            sample_running: self.sample_running,
            left: threads.len() * MOST_SAMPLES + process.mappings.len(),
            mappings: process.mappings.clone(),
        };
        let found = self.process.talk(self.limit, |child| {
            child.send(&SessionMessage::Read(process))?;
            child.send_file(&memory)?;
            loop {
                match child.receive()? {
                    ReaderMessage::Threads(found) => return Ok(found),
                    ReaderMessage::Sample { tid } => answers.send_sample(tid, child)?,
                    ReaderMessage::File { start } => answers.send_file(start, child)?,
                }
            }
        })?;
        let is_asked = |thread: &ThreadFacts| thread.pid == pid && answers.tids.contains(&thread.tid);
        let is_sound = found.len() <= threads.len() && found.iter().all(is_asked);
        is_sound.then_some(found).ok_or_else(|| "what was read is of other threads".into())
    }
}

/// Why memory cannot be opened, and which capability would help. Pure.
fn told(error: &io::Error, capabilities: Capabilities) -> String {
    let wanted = [Capability::SysPtrace, Capability::DacReadSearch];
    let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
    let missing = is_refused.then(|| capabilities.names_of_missing(&wanted)).flatten();
    let remedy = missing.map_or_else(String::new, |missing| format!("; {missing}: {}", remedy()));
    format!("its memory cannot be opened: {error}{remedy}")
}

/// What the child may ask about one process. One that was taken over may ask anything.
struct Answers {
    pid: u32,
    tids: BTreeSet<u32>,
    mappings: Vec<Mapping>,
    sample_running: SampleRunning,
    /// Questions that are still answered.
    left: usize,
}

impl Answers {
    fn send_sample(&mut self, tid: u32, child: &mut Conversation<'_>) -> io::Result<()> {
        self.count()?;
        let begin = Instant::now();
        let mut sample = self.tids.contains(&tid).then(|| (self.sample_running)(tid, PATIENCE)).flatten();
        child.forgive(begin.elapsed());
        let stack = sample.as_mut().map(|sample| std::mem::take(&mut sample.stack));
        child.send(&SessionMessage::Sample(sample))?;
        stack.map_or(Ok(()), |stack| child.send_bytes(&stack))
    }

    fn send_file(&mut self, start: u64, child: &mut Conversation<'_>) -> io::Result<()> {
        self.count()?;
        let begin = Instant::now();
        let file = self.file(start);
        child.forgive(begin.elapsed());
        child.send(&SessionMessage::File { is_open: file.is_some() })?;
        file.map_or(Ok(()), |file| child.send_file(&file))
    }

    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("it asks without end"))?;
        Ok(())
    }

    fn file(&self, start: u64) -> Option<File> {
        let mapping = self.mappings.iter().find(|mapping| mapping.start == start)?;
        let mapped = code_files(std::slice::from_ref(mapping)).pop()?;
        open_mapped(self.pid, &mapped).ok()?.file().try_clone().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_opened_is_told_with_the_capabilities_that_would_help() {
        let told = |code, capabilities| told(&io::Error::from_raw_os_error(code), capabilities);
        let both = told(libc::EACCES, Capabilities::default());
        assert!(both.contains("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are missing: run"), "{both}");
        for other in [told(libc::ESRCH, Capabilities::default()), told(libc::EPERM, Capabilities::ALL)] {
            assert!(!other.contains("missing"), "{other}");
        }
    }
}

//! The session's side of the child that reads files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use super::messages::{NamedFile, ParseAnswer, ParseRequest};
use super::{FileParser, FileSummary, FoundFile, PlaceNames, PlanRequest, PlannedCode};
use crate::host::files::OpenedFile;
use crate::host::sandbox::SandboxedProcess;

/// The word that makes this program the child.
const COMMAND: &str = "parse-files";
/// One file may take so long, and all files of a job.
const LIMITS: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(45)];

/// Reads files through a child without rights.
pub struct ParsingChild {
    process: SandboxedProcess,
    limits: [Duration; 2],
}

impl Default for ParsingChild {
    /// This program itself is the child.
    fn default() -> Self {
        Self { process: SandboxedProcess::of_this_program(COMMAND), limits: LIMITS }
    }
}

impl ParsingChild {
    /// Some other program is.
    pub fn of(program: impl Into<PathBuf>) -> Self {
        Self { process: SandboxedProcess::of(program.into(), COMMAND), limits: LIMITS }
    }

    /// The same, with other limits of one file and of all files of a plan.
    #[must_use]
    pub fn with_limits(self, one: Duration, all: Duration) -> Self {
        Self { limits: [one, all], ..self }
    }

    /// Starts the child before it is asked, by the thread that it is to live as long as.
    pub fn start(&mut self) {
        // Else it is tried again, and said, when it is asked.
        let _ = self.process.start();
    }

    /// Asks the child.
    fn ask(
        &mut self,
        request: &ParseRequest,
        files: &[&File],
        limit: Duration,
    ) -> Result<ParseAnswer, String> {
        self.process.talk(limit, |child| {
            child.send(request)?;
            files.iter().try_for_each(|file| child.send_file(file))?;
            child.receive()
        })
    }

    fn plan_at_once(
        &mut self,
        files: &[FoundFile],
        request: PlanRequest,
        limit: Duration,
    ) -> Result<Result<PlannedCode, String>, String> {
        let named = files.iter().map(|found| NamedFile {
            id: found.id,
            path: found.path.clone(),
            is_program: found.is_program,
        });
        let opened: Vec<&File> = files.iter().map(|found| found.file.file()).collect();
        match self.ask(&ParseRequest::Plan { files: named.collect(), request }, &opened, limit)? {
            ParseAnswer::Plan(plan) => Ok(plan.and_then(|plan| checked(plan, files))),
            _ => Err("the process that reads files answered something else".into()),
        }
    }
}

/// What tells one state of a file from others, and from other files.
fn file_key(file: &File) -> io::Result<[i64; 4]> {
    let stat = file.metadata()?;
    Ok([stat.dev().cast_signed(), stat.ino().cast_signed(), stat.ctime(), stat.ctime_nsec()])
}

/// A child that was taken over may answer anything; but only of what it was asked.
fn checked(planned: PlannedCode, files: &[FoundFile]) -> Result<PlannedCode, String> {
    let plan = &planned.plan;
    let mut named = plan.probes.iter().map(|probe| probe.file).chain(plan.files.iter().map(|file| file.id));
    let is_sound = named.all(|id| files.iter().any(|found| found.id == id));
    is_sound.then_some(planned).ok_or_else(|| "the plan has files that are not the job's".into())
}

impl FileParser for ParsingChild {
    fn summary(&mut self, file: &OpenedFile) -> Result<FileSummary, String> {
        match self.ask(&ParseRequest::Summary, &[file.file()], self.limits[0])? {
            ParseAnswer::Summary(summary) => summary,
            _ => Err("the process that reads files answered something else".into()),
        }
    }

    fn names(
        &mut self,
        file: &OpenedFile,
        debug: Option<&OpenedFile>,
        offsets: &[u64],
    ) -> Result<PlaceNames, String> {
        let files: Vec<&File> = std::iter::once(file).chain(debug).map(OpenedFile::file).collect();
        let key = files.iter().map(|file| file_key(file)).collect::<io::Result<Vec<_>>>();
        let key = key.map_err(|error| error.to_string())?.concat();
        let has_debug_file = debug.is_some();
        let request = ParseRequest::Names { key, offsets: offsets.to_vec(), has_debug_file };
        match self.ask(&request, &files, self.limits[1])? {
            ParseAnswer::Names(names) => names.and_then(|names| match names.frames.len() == offsets.len() {
                true => Ok(names),
                false => Err("not as many names as places".into()),
            }),
            _ => Err("the process that reads files answered something else".into()),
        }
    }

    fn plan(&mut self, files: &[FoundFile], mut request: PlanRequest) -> Result<PlannedCode, String> {
        let [one, all] = self.limits;
        if let Ok(plan) = self.plan_at_once(files, request.clone(), all) {
            return plan;
        }
        // One of them does harm: which, each tells alone.
        let mut harmless = Vec::new();
        for found in files {
            let alone = PlanRequest { options: request.options.clone(), ..PlanRequest::default() };
            match self.plan_at_once(std::slice::from_ref(found), alone, one) {
                Ok(_) => harmless.push(found.clone()),
                Err(reason) => request.unreadable.push((found.path.clone(), reason)),
            }
        }
        self.plan_at_once(&harmless, request, all)?
    }
}
